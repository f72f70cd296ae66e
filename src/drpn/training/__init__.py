"""One loop for every model: loss, devices, checkpoints."""
