"""The HTTP service: rank candidates, accept feedback, show pages."""
