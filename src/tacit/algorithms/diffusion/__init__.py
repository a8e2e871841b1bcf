"""Diffusion: combinations of neighbours' models around a gradient step."""
