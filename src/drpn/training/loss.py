"""The training losses."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import softplus


def click_losses(scores: Float[Tensor, "B C"], mask: Bool[Tensor, "B C"]) -> Float[Tensor, "B"]:
    """Return Eq. 12 per sample: -log(exp(y+) / (exp(y+) + sum of exp(y-))), where candidate 0 is the click.

    Masked slots (impressions with fewer skips than l_k) are excluded from the softmax.
    """
    logits = scores.float().masked_fill(~mask, -torch.inf)
    return torch.logsumexp(logits, dim=-1) - logits[:, 0]


def click_loss(scores: Float[Tensor, "B C"], mask: Bool[Tensor, "B C"]) -> Float[Tensor, ""]:
    """Return Eq. 12 as a mean over the batch, where the paper has the sum."""
    return click_losses(scores, mask).mean()


def taught_loss(
    scores: Float[Tensor, "B C"], taught: Float[Tensor, "B C"], mask: Bool[Tensor, "B C"]
) -> Float[Tensor, ""]:
    """Return the mean cross-entropy between the probabilities of clicks by a teacher's scores and by the scores.

    Hinton, Vinyals and Dean, "Distilling the Knowledge in a Neural Network", 2015.
    """
    given = taught.float().masked_fill(~mask, -torch.inf).softmax(-1)  # (B C)
    logs = scores.float().masked_fill(~mask, -torch.inf).log_softmax(-1).masked_fill(~mask, 0.0)
    return -(given * logs).sum(-1).mean()


def log_loss(scores: Float[Tensor, "B C"], mask: Bool[Tensor, "B C"]) -> Float[Tensor, ""]:
    """Return the mean of -log s(y+) of clicks and -log(1 - s(y-)) of negatives, where s is the sigmoid.

    Masked slots do not count.
    """
    logits = scores.float().masked_fill(~mask, 0.0)
    # -log s(y) = softplus(-y) and -log(1 - s(y)) = softplus(y)
    losses = torch.cat([softplus(-logits[:, :1]), softplus(logits[:, 1:])], dim=1)
    return (losses * mask).sum() / mask.sum()


def truncated_loss(
    scores: Float[Tensor, "B C"], mask: Bool[Tensor, "B C"], dropped: Int[Tensor, ""]
) -> Float[Tensor, ""]:
    """Truncated cross-entropy: the mean loss without the `dropped` samples of largest loss; ties drop the first.

    A sample is one click with its negatives, so this drops that many clicks, each with its negatives.

    Wang, Feng, He, Nie and Chua, "Denoising Implicit Feedback for Recommendation", WSDM 2021.
    """
    losses, _ = torch.sort(click_losses(scores, mask), descending=True, stable=True)  # (B)
    kept = torch.arange(len(losses), device=losses.device) >= dropped  # (B)
    # multiplied rather than selected, so that a dropped loss that is not finite still shows in the result
    return (losses * kept).sum() / kept.sum()


def kept_samples(losses: Float[Tensor, "B"], dropped: Int[Tensor, ""]) -> Bool[Tensor, "B"]:
    """Which samples `truncated_loss` keeps: all but the `dropped` samples of largest loss; ties drop the first."""
    order = torch.argsort(losses, descending=True, stable=True)  # (B)
    places = torch.arange(len(losses), device=losses.device)
    return torch.empty_like(losses, dtype=torch.bool).scatter_(0, order, places >= dropped)


def dropped_samples(step: int, samples: int, *, rate: float, steps: int) -> int:
    """Return how many of `samples` TCE drops after `step` steps: the share epsilon(T) = min(alpha T, epsilon_max).

    The share counts samples, which have one click each; it is a share of clicks, not of clicks and negatives.

    `rate` is epsilon_max, which is reached after `steps` steps, so alpha is `rate` / `steps`. Rounded down, so that a
    batch never becomes empty.
    """
    return int(rate * min(step / steps, 1.0) * samples)
