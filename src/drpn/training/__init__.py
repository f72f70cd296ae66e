"""Train any model: one loop, its loss, optimiser, devices and checkpoints."""
