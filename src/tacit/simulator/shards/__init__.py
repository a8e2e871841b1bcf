"""The simulator on several devices: agents, their states, data and links in shards of one form, one per device.

Every device runs the same round on its own shard. What a shard reads of another one, a *halo* of fixed size, is sent
before messages are taken in; sums over all agents are added up over the devices.
"""
