"""Metrics, their intervals, comparisons and tables."""
