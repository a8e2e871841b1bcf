"""Decentralised stochastic gradients with momentum."""
