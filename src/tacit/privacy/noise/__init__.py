"""Samplers: noise for simulations, noise on a grid for peers, masks."""
