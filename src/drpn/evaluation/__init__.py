"""Evaluate models: metrics, confidence intervals, comparisons and tables."""
