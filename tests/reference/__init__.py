"""The definitions of the paper and the design as plain loops, written without looking at `src/`."""
