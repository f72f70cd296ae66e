"""Rows of a dataset folder become tensors: distinct news of a batch, positions into them, sampling."""
