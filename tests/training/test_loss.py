"""The loss against a loop, and where exponents would overflow."""

import math

import pytest
import torch

from drpn.training.loss import click_loss


def loss_by_loop(scores: list[list[float]], mask: list[list[bool]]) -> float:
    total = 0.0
    for row, real in zip(scores, mask, strict=True):
        others = [math.exp(score) for score, is_real in zip(row[1:], real[1:], strict=True) if is_real]
        total += -math.log(math.exp(row[0]) / (math.exp(row[0]) + sum(others)))
    return total / len(scores)


def test_loss_against_a_loop() -> None:
    random = torch.Generator().manual_seed(2)
    scores = 3 * torch.randn(40, 5, generator=random)
    mask = torch.rand(40, 5, generator=random) < 0.6
    mask[:, 0] = True
    mask[:, 1] |= ~mask[:, 1:].any(1)
    assert not mask.all()
    assert float(click_loss(scores, mask)) == pytest.approx(loss_by_loop(scores.tolist(), mask.tolist()), rel=1e-5)


def test_equal_scores_cost_the_log_of_their_number() -> None:
    """One click among five equal scores has the probability 1/5."""
    assert float(click_loss(torch.zeros(3, 5), torch.ones(3, 5, dtype=torch.bool))) == pytest.approx(math.log(5))


def test_a_masked_slot_changes_neither_loss_nor_slope() -> None:
    mask = torch.tensor([[True, True, False]])
    scores = [torch.tensor([[0.3, -0.2, filler]], requires_grad=True) for filler in (0.0, 1e4)]
    losses = [click_loss(one, mask) for one in scores]
    for loss in losses:
        loss.backward()
    assert losses[0] == losses[1]
    assert scores[0].grad is not None
    assert torch.equal(scores[0].grad, scores[1].grad)
    assert scores[0].grad[0, 2] == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("extreme", [1e4, -1e4, 1e30])
def test_extreme_scores_stay_finite(extreme: float, dtype: torch.dtype) -> None:
    scores = torch.tensor([[0.0, extreme, 0.0], [extreme, 0.0, -extreme]], dtype=dtype, requires_grad=True)
    loss = click_loss(scores, torch.tensor([[True, True, False], [True, True, True]]))
    loss.backward()
    assert loss.dtype == torch.float32
    assert loss.isfinite()
    assert scores.grad is not None
    assert scores.grad.isfinite().all()
