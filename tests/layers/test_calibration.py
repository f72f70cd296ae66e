"""Trust as a probability."""

import pytest
import torch
from torch.nn.functional import binary_cross_entropy_with_logits

from drpn.layers.calibration import Calibration


def test_the_click_loss_reaches_trust_and_not_the_calibration() -> None:
    calibration, trust = Calibration(), torch.randn(2, 3, requires_grad=True)
    calibration.log_probability(trust).sum().backward()
    assert trust.grad is not None
    assert trust.grad.all()
    assert calibration.slope.grad is None
    assert calibration.offset.grad is None


def test_the_calibration_loss_reaches_the_calibration_and_not_trust() -> None:
    calibration, trust = Calibration(), torch.randn(2, 3, requires_grad=True)
    calibration(trust).square().sum().backward()
    assert trust.grad is None
    assert calibration.slope.grad is not None
    assert calibration.offset.grad is not None


def test_probabilities_become_true() -> None:
    """Of stories that are called real with 80 %, about 80 % are real, whatever the scale of trust."""
    torch.manual_seed(0)
    calibration, logit = Calibration(), 2 * torch.randn(20_000)
    real = (torch.rand(20_000) < logit.sigmoid()).float()
    trust = 5 * logit - 3
    optimiser = torch.optim.Adam(calibration.parameters(), lr=1e-3)
    for _ in range(600):
        optimiser.zero_grad()
        binary_cross_entropy_with_logits(calibration(trust[None])[0], real).backward()
        optimiser.step()
    probability = calibration.log_probability(trust[None])[0].exp()
    assert real[(probability > 0.75) & (probability < 0.85)].mean().item() == pytest.approx(0.8, abs=0.04)
    assert real[(probability > 0.15) & (probability < 0.25)].mean().item() == pytest.approx(0.2, abs=0.04)
