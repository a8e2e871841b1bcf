"""Samples of a peer: a queue, a followed file, and batches made of them."""
