"""Li et al.: private distributed online learning on synthetic data and RCV1, and with mini-batches."""
