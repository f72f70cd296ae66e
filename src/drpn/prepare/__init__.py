"""Logs become a dataset folder: splits, profiles, graph, words. Needs Ibis."""
