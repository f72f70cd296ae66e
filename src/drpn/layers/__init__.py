"""Blocks used by two or more models; tensors only."""
