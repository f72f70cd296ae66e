"""Trust as a probability: Platt scaling.

Platt, "Probabilistic Outputs for Support Vector Machines", Advances in Large Margin Classifiers, 1999.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.functional import logsigmoid, softplus

from drpn.layers.linear import at_least_float32

_SAME = 1e-5
"""Trust whose standard deviation is a smaller share of its mean differs by rounding alone."""


class Calibration(nn.Module):
    """The probability sigmoid(a trust + b) that a story is real, with a >= 0; a = 1 and b = 0 until `fit` is called.

    Real means not planted: noise is as frequent as planted stories are. No gradient reaches a and b.
    """

    slope: Tensor
    offset: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("slope", torch.ones(()))  # a
        self.register_buffer("offset", torch.zeros(()))  # b

    def log_probability(self, trust: Float[Tensor, "B S"]) -> Float[Tensor, "B S"]:
        """The logarithm of the probability that each story is real."""
        return logsigmoid(self.slope * at_least_float32(trust) + self.offset)

    @torch.no_grad()
    def fit(self, trust: Float[Tensor, "N"], real: Bool[Tensor, "N"], weight: Float[Tensor, "N"]) -> None:
        """Choose a and b with the smallest log loss on stories that are known to be real or noise.

        With Platt's targets, a little below 1 and above 0, a and b are finite even if trust separates both kinds. If
        noise is trusted more than real stories, a is 0 and all probabilities are equal. Without stories of both kinds,
        or if all have the same trust up to rounding, a and b stay as they are.
        """
        trust, real, weight = trust.double().cpu(), real.cpu(), weight.double().cpu()
        if real.all() or not real.any() or not weight.any():
            return
        spread, middle = trust.std(correction=0), trust.mean()
        if spread < _SAME * middle.abs().clamp(min=1):
            return
        weight = weight / weight.mean()
        true, false = (weight * real).sum(), (weight * ~real).sum()
        target = torch.where(real, (true + 1) / (true + 2), 1 / (false + 2))
        a, b = _logistic_regression((trust - middle) / spread, target, weight)
        if a <= 0:
            a, share = torch.zeros_like(a), (weight * target).sum() / weight.sum()
            b = torch.logit(share)
        self.slope.copy_(a / spread)
        self.offset.copy_(b - a * middle / spread)


def _logistic_regression(
    values: Float[Tensor, "N"], target: Float[Tensor, "N"], weight: Float[Tensor, "N"]
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Slope and offset of the logit of `target` as a function of standardised values."""
    line = torch.zeros(2, dtype=values.dtype, requires_grad=True)
    search = torch.optim.LBFGS([line], max_iter=100, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        search.zero_grad()
        with torch.enable_grad():
            logit = line[0] * values + line[1]
            total = (weight * (softplus(logit) - target * logit)).mean()
        total.backward()  # type: ignore[no-untyped-call]
        return total

    search.step(loss)  # type: ignore[no-untyped-call]
    slope, offset = line.detach()
    return slope, offset
