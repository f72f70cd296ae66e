"""Trust as a probability."""

import pytest
import torch
from torch import Tensor

from drpn.layers.calibration import Calibration

NUMBERS = 20_000


def labelled_trust(scale: float, shift: float) -> tuple[Tensor, Tensor]:
    """Trust whose logit is known up to scale and shift, and whether each story is real."""
    random = torch.Generator().manual_seed(0)
    logit = 2 * torch.randn(NUMBERS, generator=random)
    return scale * logit + shift, torch.rand(NUMBERS, generator=random) < logit.sigmoid()


@pytest.mark.parametrize(("scale", "shift"), [(5.0, -3.0), (0.01, 400.0), (1.0, 0.0)])
def test_probabilities_become_true(scale: float, shift: float) -> None:
    """Of stories that are called real with 80 %, about 80 % are real, whatever the scale of trust."""
    calibration = Calibration().double()
    trust, real = labelled_trust(scale, shift)
    trust = trust.double()
    calibration.fit(trust, real, torch.ones(NUMBERS))
    # the logit is (trust - shift) / scale
    assert float(calibration.slope) == pytest.approx(1 / scale, rel=0.05)
    assert float(calibration.offset) == pytest.approx(-shift / scale, rel=0.05, abs=0.05)
    probability = calibration.log_probability(trust[None])[0].exp()
    for expected in (0.2, 0.8):
        near = (probability - expected).abs() < 0.05
        assert real[near].double().mean().item() == pytest.approx(expected, abs=0.04)


def test_stories_count_as_much_as_their_weight() -> None:
    """Twice the weight is as good as twice the stories."""
    trust, real = labelled_trust(1.0, 0.0)
    twice = torch.arange(NUMBERS) % 3 == 0
    weighted, repeated = Calibration().double(), Calibration().double()
    weighted.fit(trust, real, 1 + twice.double())
    both = torch.cat([torch.arange(NUMBERS), torch.arange(NUMBERS)[twice]])
    repeated.fit(trust[both], real[both], torch.ones(len(both)))
    assert float(weighted.slope) == pytest.approx(float(repeated.slope), rel=1e-3)
    assert float(weighted.offset) == pytest.approx(float(repeated.offset), rel=1e-3)


def test_separated_stories_give_finite_numbers() -> None:
    calibration = Calibration().double()
    trust = torch.tensor([-5.0, -4.0, 4.0, 5.0])
    calibration.fit(trust, trust > 0, torch.ones(4))
    assert 0 < float(calibration.slope) < 10
    # Platt's targets of two real and two planted stories
    assert calibration.log_probability(trust[None]).exp()[0].tolist() == pytest.approx(
        [1 / 4, 1 / 4, 3 / 4, 3 / 4], abs=0.1
    )


def test_noise_that_is_trusted_more_makes_all_probabilities_equal() -> None:
    calibration = Calibration().double()
    trust, real = labelled_trust(1.0, 0.0)
    calibration.fit(trust, ~real, torch.ones(NUMBERS))
    assert float(calibration.slope) == 0
    probability = calibration.log_probability(trust[None]).exp()
    assert probability[0].tolist() == pytest.approx([(~real).double().mean().item()] * NUMBERS, abs=1e-3)


@pytest.mark.parametrize(
    ("trust", "real"),
    [([1.0, 2.0], [True, True]), ([1.0, 2.0], [False, False]), ([1.0, 1.0], [True, False]), ([], [])],
)
def test_without_both_kinds_nothing_is_fitted(trust: list[float], real: list[bool]) -> None:
    calibration = Calibration()
    calibration.fit(torch.tensor(trust), torch.tensor(real, dtype=torch.bool), torch.ones(len(trust)))
    assert (float(calibration.slope), float(calibration.offset)) == (1, 0)


def test_gradients_reach_trust_alone() -> None:
    calibration, trust = Calibration(), torch.randn(2, 3, requires_grad=True)
    calibration.log_probability(trust).sum().backward()
    assert trust.grad is not None
    assert trust.grad.all()
    assert not list(calibration.parameters())
    assert set(calibration.state_dict()) == {"slope", "offset"}


def test_trust_that_differs_by_rounding_alone_is_not_fitted() -> None:
    calibration, chance = Calibration(), torch.Generator().manual_seed(0)
    trust = 3 + 1e-6 * torch.randn(100, generator=chance)
    calibration.fit(trust, torch.rand(100, generator=chance) < 0.5, torch.ones(100))
    assert (float(calibration.slope), float(calibration.offset)) == (1.0, 0.0)
