"""The board: runs and federations in a browser, from what stands in directories and what peers say of themselves.

It reads and never writes, but for what an operator asks of a peer. `serve` listens, `guard` lets in, `app` answers;
`tree` finds directories, `runs` says what is in them, and the others make one view each.
"""
