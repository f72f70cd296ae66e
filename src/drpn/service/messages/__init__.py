"""Bodies and answers of the routes, with their limits and examples."""
