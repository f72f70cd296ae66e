"""The HTTP edge: ranking, feedback, pages."""
