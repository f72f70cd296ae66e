"""Statistics of batches with padding."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor


def masked_moments(
    values: Float[Tensor, "... D"], mask: Bool[Tensor, "..."]
) -> tuple[Float[Tensor, "D"], Float[Tensor, "D"]]:
    """Mean and variance of each column over the rows where `mask` is True, in float32 at least; zeros without any."""
    count, present, axes = mask.sum().clamp(min=1), mask.unsqueeze(-1), tuple(range(mask.dim()))
    wide = torch.promote_types(values.dtype, torch.float32)
    mean = torch.where(present, values, 0).sum(axes, dtype=wide) / count
    return mean, torch.where(present, values - mean, 0).square().sum(axes) / count
