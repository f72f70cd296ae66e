"""Logs as they are on disk become two tables, `news` and `impressions`, in one schema."""
