"""Turn dataset rows into tensors: samples, impressions to rank, and the distinct stories of a batch."""
