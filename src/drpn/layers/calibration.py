"""Trust as a probability: Platt scaling.

Platt, "Probabilistic Outputs for Support Vector Machines", Advances in Large Margin Classifiers, 1999.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from drpn.layers.linear import at_least_float32

_PACE = 10.0
"""Adam changes a weight by about the learning rate in each step. These two must go far in a few hundred steps."""


class Calibration(nn.Module):
    """The logit a trust + b that a story is real, with a > 0.

    Real means not planted: noise is as frequent as planted stories are. a and b learn from planted feedback alone; the
    click loss does not change them.
    """

    def __init__(self) -> None:
        super().__init__()
        self.slope = nn.Parameter(torch.zeros(()))  # log(a) / pace
        self.offset = nn.Parameter(torch.zeros(()))  # b / pace

    def forward(self, trust: Float[Tensor, "B S"]) -> Float[Tensor, "B S"]:
        """The logit of each story, for the loss that fits a and b; the gradient does not reach `trust`."""
        return _logit(at_least_float32(trust).detach(), self.slope, self.offset)

    def log_probability(self, trust: Float[Tensor, "B S"]) -> Float[Tensor, "B S"]:
        """The logarithm of the probability that each story is real; the gradient does not reach a and b."""
        return logsigmoid(_logit(at_least_float32(trust), self.slope.detach(), self.offset.detach()))


def _logit(trust: Tensor, slope: Tensor, offset: Tensor) -> Tensor:
    return torch.exp(_PACE * slope) * trust + _PACE * offset
