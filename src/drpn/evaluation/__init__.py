"""Metrics, confidence intervals, comparisons and tables."""
