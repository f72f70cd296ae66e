"""Several worker processes that answer as one service: a supervisor, the workers, and what they say to each other."""
