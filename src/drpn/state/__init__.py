"""Profiles and counts as of a moment; each rule exists as a query over logs and as an update by one event."""
