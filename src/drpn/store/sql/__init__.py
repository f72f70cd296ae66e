"""Code that the stores in SQL databases share: statements, rules and the thread that writes."""
