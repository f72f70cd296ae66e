"""What training makes small."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor


def click_loss(scores: Float[Tensor, "B C"], mask: Bool[Tensor, "B C"]) -> Float[Tensor, ""]:
    """Eq. 12: -log(exp(y+) / (exp(y+) + sum of exp(y-))), the click first; the mean over the batch in place of the sum.

    Slots that no skip could fill stay out of the softmax.
    """
    logits = scores.float().masked_fill(~mask, -torch.inf)
    return (torch.logsumexp(logits, dim=-1) - logits[:, 0]).mean()
