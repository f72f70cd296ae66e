"""Knowledge about users and stories as of a moment; each rule is an expression over logs and an update by one event."""
