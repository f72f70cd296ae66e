"""What runs the queries over logs."""
