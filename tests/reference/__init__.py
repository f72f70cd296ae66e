"""What the paper and the design define, as plain loops, written without a look at `src/`."""
