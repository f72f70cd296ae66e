"""Events and profiles of a running service."""
