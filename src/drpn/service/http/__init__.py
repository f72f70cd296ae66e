"""The HTTP edge: limits, keys, errors, logging and metrics, the same for every route."""
