"""Prepare logs: write splits, profiles, graph and words as a dataset folder. Needs Ibis."""
