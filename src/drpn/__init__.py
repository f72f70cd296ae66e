"""News recommendation that learns from what readers clicked and from what they were shown and skipped."""

__version__ = "0.1.0"
