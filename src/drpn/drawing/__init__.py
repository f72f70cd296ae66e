"""Figures, drawn with matplotlib from plain data."""
