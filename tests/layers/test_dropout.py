"""Dropout by random bytes: the share, the scale, and when it is left to torch."""

import pytest
import torch
from torch import nn

from drpn.layers.news import Dropout


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
def test_dropout_keeps_the_mean(share: float) -> None:
    torch.manual_seed(0)
    values = Dropout(share)(torch.ones(1_000, 1_001))  # not a multiple of eight
    rounded = round(share * 256) / 256
    assert values.unique().tolist() == pytest.approx([0.0, 1 / (1 - rounded)])
    # one standard deviation of the share is below 0.0005
    assert float((values == 0).double().mean()) == pytest.approx(rounded, abs=0.003)


@pytest.mark.parametrize("share", [0.0, 0.001, 0.999])
def test_shares_too_small_or_large_for_bytes_are_left_to_torch(share: float) -> None:
    values = torch.ones(200, 300)
    torch.manual_seed(1)
    actual = Dropout(share)(values)
    torch.manual_seed(1)
    assert torch.equal(actual, nn.Dropout(share)(values))


def test_nothing_is_dropped_in_evaluation() -> None:
    values = torch.rand(7, 9)
    assert torch.equal(Dropout(0.5).eval()(values), values)


def test_the_same_seed_drops_the_same() -> None:
    values = torch.rand(7, 9)
    torch.manual_seed(5)
    first = Dropout(0.5)(values)
    torch.manual_seed(5)
    assert torch.equal(first, Dropout(0.5)(values))


def test_every_call_drops_other_values() -> None:
    values = torch.rand(7, 9)
    assert not torch.equal(Dropout(0.5)(values), Dropout(0.5)(values))
