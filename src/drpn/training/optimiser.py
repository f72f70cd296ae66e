"""What changes the weights."""

import torch

from drpn.models.base import ClickModel
from drpn.training.settings import TrainingSettings


def optimiser_of(model: ClickModel, settings: TrainingSettings) -> torch.optim.Optimizer:
    """Adam, or AdamW where weights decay."""
    on_gpu = next(model.parameters()).is_cuda
    return torch.optim.AdamW(
        model.parameters(), lr=settings.rate, weight_decay=settings.decay, fused=True, capturable=on_gpu
    )
