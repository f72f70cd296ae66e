"""Turn rows of a dataset folder into tensors: batches of distinct stories, positions into them, and sampling."""
