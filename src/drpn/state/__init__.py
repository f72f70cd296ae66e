"""What is known of users and stories as of a moment: each rule as a query over logs and as an update by one event."""
