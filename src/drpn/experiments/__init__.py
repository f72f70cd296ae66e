"""Jobs that run many models: compare, tune, reproduce the paper, judge its claims."""
