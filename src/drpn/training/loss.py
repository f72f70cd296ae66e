"""What training makes small."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


def click_losses(scores: Float[Tensor, "B C"], mask: Bool[Tensor, "B C"]) -> Float[Tensor, "B"]:
    """Eq. 12 of each sample: -log(exp(y+) / (exp(y+) + sum of exp(y-))), the click first.

    Slots that no skip could fill stay out of the softmax.
    """
    logits = scores.float().masked_fill(~mask, -torch.inf)
    return torch.logsumexp(logits, dim=-1) - logits[:, 0]


def click_loss(scores: Float[Tensor, "B C"], mask: Bool[Tensor, "B C"]) -> Float[Tensor, ""]:
    """Eq. 12, the mean over the batch in place of the sum."""
    return click_losses(scores, mask).mean()


def truncated_loss(
    scores: Float[Tensor, "B C"], mask: Bool[Tensor, "B C"], dropped: Int[Tensor, ""]
) -> Float[Tensor, ""]:
    """TCE: the mean over all samples but the `dropped` ones of the largest loss; of equal ones the first are dropped.

    Wang, Feng, He, Nie and Chua, "Denoising Implicit Feedback for Recommendation", WSDM 2021.
    """
    losses, _ = torch.sort(click_losses(scores, mask), descending=True, stable=True)  # (B)
    kept = torch.arange(len(losses), device=losses.device) >= dropped  # (B)
    # a product, so that a loss that is not finite shows even where it is dropped
    return (losses * kept).sum() / kept.sum()


def dropped_samples(step: int, samples: int, *, rate: float, steps: int) -> int:
    """How many of so many samples TCE drops after `step` steps: epsilon(T) = min(alpha T, epsilon_max) of them.

    `rate` is epsilon_max, and `steps` those in which it is reached: alpha is `rate` / `steps`. Rounded down, so that
    a batch is never left empty.
    """
    return int(rate * min(step / steps, 1.0) * samples)
