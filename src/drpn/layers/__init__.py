"""Neural network blocks used by two or more models; they know tensors only."""
