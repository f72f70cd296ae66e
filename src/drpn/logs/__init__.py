"""Read log files into two tables with one schema, `news` and `impressions`."""
