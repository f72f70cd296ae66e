"""Store the events and profiles of a running service."""
