"""Losses compared with loops, extreme scores, and the samples that a truncated loss drops."""

import math
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from drpn.progress import Silent
from drpn.training.loop import CHECKPOINT
from drpn.training.loss import click_loss, dropped_samples, log_loss, taught_loss, truncated_loss
from drpn.training.settings import TrainingSettings
from drpn.training.steps import Stepper
from drpn.training.stopping import Stopped
from small_training import reached, toy, train_small, weights


def losses_by_loop(scores: list[list[float]], mask: list[list[bool]]) -> list[float]:
    losses = []
    for row, real in zip(scores, mask, strict=True):
        others = [math.exp(score) for score, is_real in zip(row[1:], real[1:], strict=True) if is_real]
        losses.append(-math.log(math.exp(row[0]) / (math.exp(row[0]) + sum(others))))
    return losses


def random_scores() -> tuple[Tensor, Tensor]:
    """Scores and mask of 40 samples, some with fewer negatives than slots."""
    random = torch.Generator().manual_seed(2)
    scores = 3 * torch.randn(40, 5, generator=random)
    mask = torch.rand(40, 5, generator=random) < 0.6
    mask[:, 0] = True
    mask[:, 1] |= ~mask[:, 1:].any(1)
    assert not mask.all()
    return scores, mask


def test_loss_against_a_loop() -> None:
    scores, mask = random_scores()
    losses = losses_by_loop(scores.tolist(), mask.tolist())
    assert float(click_loss(scores, mask)) == pytest.approx(sum(losses) / 40, rel=1e-5)


def test_taught_loss_against_a_loop() -> None:
    """The cross-entropy of the probabilities by the teacher's scores; masked slots do not count."""
    scores, mask = random_scores()
    taught = scores.flip(0) + 1
    losses = []
    for row, given, real in zip(scores.tolist(), taught.tolist(), mask.tolist(), strict=True):
        places = [place for place, is_real in enumerate(real) if is_real]
        own, other = (
            [math.exp(values[place]) / sum(math.exp(values[one]) for one in places) for place in places]
            for values in (row, given)
        )
        losses.append(-sum(q * math.log(p) for p, q in zip(own, other, strict=True)))
    assert float(taught_loss(scores, taught, mask)) == pytest.approx(sum(losses) / 40, rel=1e-5)


def test_who_scores_like_the_teacher_has_nothing_to_learn() -> None:
    """Up to a constant for each sample."""
    scores, mask = random_scores()
    own = scores.clone().requires_grad_()
    taught_loss(own, scores + torch.arange(40.0)[:, None], mask).backward()
    assert own.grad is not None
    assert own.grad.abs().max() < 1e-6
    taught_loss(own, -scores, mask).backward()
    assert own.grad.abs().max() > 1e-3


def test_log_loss_against_a_loop() -> None:
    """The first candidate of a sample is the click."""
    scores, mask = random_scores()
    losses = []
    for row, real in zip(scores.tolist(), mask.tolist(), strict=True):
        for place, (score, is_real) in enumerate(zip(row, real, strict=True)):
            probability = 1 / (1 + math.exp(-score))
            if is_real:
                losses.append(-math.log(probability if place == 0 else 1 - probability))
    assert float(log_loss(scores, mask)) == pytest.approx(sum(losses) / len(losses), rel=1e-5)
    assert len(losses) < scores.numel()


def test_log_loss_of_extreme_scores_and_masked_slots() -> None:
    mask = torch.tensor([[True, True, False]])
    for filler in (0.0, 1e4, math.inf, math.nan):
        scores = torch.tensor([[0.3, -0.2, filler]], requires_grad=True)
        log_loss(scores, mask).backward()
        assert scores.grad is not None
        assert scores.grad[0].tolist() == pytest.approx([-0.5 / (1 + math.exp(0.3)), 0.5 / (1 + math.exp(0.2)), 0])
    large = log_loss(torch.tensor([[-1e4, 1e4, 0.0]]), mask)
    assert float(large) == pytest.approx(1e4)


def test_equal_scores_have_the_loss_log_of_their_count() -> None:
    """One click among five equal scores has the probability 1/5."""
    assert float(click_loss(torch.zeros(3, 5), torch.ones(3, 5, dtype=torch.bool))) == pytest.approx(math.log(5))


def test_a_masked_slot_changes_neither_loss_nor_gradient() -> None:
    mask = torch.tensor([[True, True, False]])
    scores = [torch.tensor([[0.3, -0.2, filler]], requires_grad=True) for filler in (0.0, 1e4)]
    losses = [click_loss(values, mask) for values in scores]
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


@pytest.mark.parametrize("dropped", [0, 1, 13, 39])
def test_samples_with_the_largest_loss_are_dropped(dropped: int) -> None:
    """The loss is the mean over the kept samples; dropped samples get no gradient, kept ones that of the mean."""
    scores, mask = random_scores()
    scores.requires_grad_()
    loss = truncated_loss(scores, mask, torch.tensor(dropped))
    loss.backward()
    losses = losses_by_loop(scores.tolist(), mask.tolist())
    kept = sorted(range(40), key=lambda sample: losses[sample])[: 40 - dropped]
    assert loss.item() == pytest.approx(sum(losses[sample] for sample in kept) / len(kept), rel=1e-5, abs=1e-6)
    kept_scores = scores.detach()[sorted(kept)].requires_grad_()
    click_loss(kept_scores, mask[sorted(kept)]).backward()
    expected = torch.zeros(40, 5)
    assert kept_scores.grad is not None
    expected[sorted(kept)] = kept_scores.grad
    torch.testing.assert_close(scores.grad, expected)
    assert scores.grad is not None
    assert scores.grad.any(1).nonzero().flatten().tolist() == sorted(kept)


def test_ties_drop_the_first_samples() -> None:
    scores = torch.zeros(6, 3, requires_grad=True)
    truncated_loss(scores, torch.ones(6, 3, dtype=torch.bool), torch.tensor(2)).backward()
    assert scores.grad is not None
    assert scores.grad.any(1).tolist() == [False, False, True, True, True, True]


def test_a_dropped_loss_that_is_not_finite_still_shows() -> None:
    scores = torch.tensor([[0.0, 1.0], [0.0, torch.inf]])
    assert not truncated_loss(scores, torch.ones(2, 2, dtype=torch.bool), torch.tensor(1)).isfinite()


@pytest.mark.parametrize(
    ("step", "expected"), [(0, 0), (1, 0), (49, 0), (50, 1), (500, 10), (749, 14), (999, 19), (1_000, 20), (10**9, 20)]
)
def test_the_dropped_count_rises_linearly_to_its_maximum(step: int, expected: int) -> None:
    """A fifth of 100 samples after 1,000 steps: one more every 50 steps."""
    assert dropped_samples(step, 100, rate=0.2, steps=1_000) == expected


@pytest.mark.parametrize("samples", [1, 2, 3, 127])
def test_at_least_one_sample_is_kept(samples: int) -> None:
    assert dropped_samples(10**9, samples, rate=0.999, steps=1) < samples


def test_a_step_has_the_loss_of_the_settings(tmp_path: Path) -> None:
    for name, function in (("softmax", click_loss), ("log", log_loss)):
        loop = toy("nrms", loss=name)(tmp_path)
        model = loop.model.eval()
        step = Stepper(model, loop.tables, loop.settings, optimiser=torch.optim.SGD(model.parameters(), lr=0.0))
        samples = next(step.batches(loop.sampler.plan(0)))
        news, batch = step.look_up(samples)
        expected = function(model.score(model.encode_news(news), batch), batch.candidate_mask).detach()
        assert float(step(samples)) == pytest.approx(float(expected), rel=1e-6)


def test_tce_counts_clicks_and_not_clicks_with_negatives() -> None:
    """0.2 of 10 samples are 2 clicks with their negatives, however many negatives there are."""
    assert dropped_samples(50, 10, rate=0.2, steps=50) == 2
    for negatives in (1, 4):
        scores = torch.zeros(10, 1 + negatives, requires_grad=True)
        truncated_loss(scores, torch.ones(scores.shape, dtype=torch.bool), torch.tensor(2)).backward()
        assert scores.grad is not None
        assert int((scores.grad == 0).all(1).sum()) == 2  # these samples do not train at all
        assert int((scores.grad != 0).all(1).sum()) == 8


def test_tce_defaults_are_those_of_its_authors_code() -> None:
    """And truncation is off by default."""
    settings = TrainingSettings()
    assert (settings.loss, settings.tce_rate, settings.tce_steps) == ("softmax", 0.2, 30_000)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"tce_rate": 0.0}, r"^tce_rate is 0\.0; it takes a share above 0 and below 1$"),
        ({"tce_rate": 1.0}, r"^tce_rate is 1\.0; it takes a share above 0 and below 1$"),
        ({"tce_rate": math.nan}, r"^tce_rate is nan; it takes a share above 0 and below 1$"),
        ({"tce_steps": 0}, r"^tce_steps is 0; it takes 1 or more$"),
    ],
)
def test_invalid_truncation_settings_are_refused(setting: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TrainingSettings(**setting)


TCE: dict[str, Any] = {"loss": "tce", "tce_rate": 0.5, "tce_steps": 10, "epochs": 3, "patience": 3, "batch": 12}
"""An epoch over 64 clicks has six steps: five with 12 samples, the last with 4."""


@dataclass
class RecordingLoss:
    """Truncated loss that records the dropped count of each step, and raises Ctrl-C at step `stop_at`."""

    counts: list[int]
    stop_at: int | None = None

    def __call__(self, scores: Tensor, mask: Tensor, dropped: Tensor) -> Tensor:
        self.counts.append(int(dropped))
        if len(self.counts) == self.stop_at:
            signal.raise_signal(signal.SIGINT)
        return truncated_loss(scores, mask, dropped)


class Notes(Silent):
    """Collects the notes of a training."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def test_tce_counts_the_steps_of_all_epochs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """epsilon rises by 0.05 per step to 0.5, which is 0.6 more of 12 samples; the sixth step of an epoch has 4."""
    recorded = RecordingLoss([])
    monkeypatch.setattr("drpn.training.batch_loss.truncated_loss", recorded)
    toy("nrms", **TCE)(tmp_path).run(lambda _: 0.5, resume=False)
    assert recorded.counts == [0, 0, 1, 1, 2, 1, 3, 4, 4, 5, 6, 2, 6, 6, 6, 6, 6, 2]


@pytest.mark.parametrize(
    ("settings", "notes"),
    [
        ({"loss": "softmax"}, []),
        ({"tce_steps": 40}, []),
        ({"tce_steps": 41}, ["tce drops no sample in 18 steps; lower training.tce_steps, which is 41"]),
        ({}, ["tce drops no sample in 18 steps; lower training.tce_steps, which is 30000"]),
    ],
)
def test_a_training_too_short_to_drop_a_sample_is_noted(
    tmp_path: Path, settings: dict[str, Any], notes: list[str]
) -> None:
    loop = toy("nrms", **{"loss": "tce", "epochs": 3, "patience": 3, "batch": 12, **settings})(tmp_path)
    loop.progress = progress = Notes()
    loop.run(lambda _: 0.5, resume=False)
    assert [note for note in progress.notes if "tce" in note] == notes


@pytest.mark.parametrize("stop_at", [3, 6, 8])
def test_a_resumed_run_drops_the_same_samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop_at: int) -> None:
    """Stopped within the first epoch, at its end, or within the second: same counts, same weights."""
    whole, expected = RecordingLoss([]), toy("nrms", **TCE)(tmp_path)
    monkeypatch.setattr("drpn.training.batch_loss.truncated_loss", whole)
    expected.run(lambda _: 0.5, resume=False)
    (tmp_path / CHECKPOINT).unlink()
    recorded = RecordingLoss([], stop_at)
    monkeypatch.setattr("drpn.training.batch_loss.truncated_loss", recorded)
    with pytest.raises(Stopped):
        toy("nrms", **TCE)(tmp_path).run(lambda _: 0.5, resume=False)
    assert reached(tmp_path / CHECKPOINT) == ((0, stop_at) if stop_at <= 6 else (1, stop_at - 6))
    resumed = toy("nrms", **TCE)(tmp_path)
    resumed.run(lambda _: 0.5, resume=True)
    assert recorded.counts == whole.counts
    weights_after = resumed.model.state_dict()
    assert all(torch.equal(weights_after[name], value) for name, value in expected.model.state_dict().items())


def test_a_stopped_and_resumed_run_writes_the_same_bytes(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With dropout. Without dropping samples the bytes differ."""
    settings = TCE | {"batch": 16, "epochs": 2}
    expected = train_small(data, tmp_path / "whole", "nrms-tce", **settings)
    step, steps = Stepper.__call__, []

    def stopped_in_the_second_epoch(stepper: Stepper, *arguments: Any) -> Tensor:
        steps.append(0)
        if len(steps) == 20:
            signal.raise_signal(signal.SIGINT)
        return step(stepper, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Stepper, "__call__", stopped_in_the_second_epoch)
        with pytest.raises(Stopped):
            train_small(data, tmp_path / "run", "nrms-tce", **settings)
    resumed = train_small(data, tmp_path / "run", "nrms-tce", resume=True, **settings)
    assert weights(resumed) == weights(expected)
    plain = train_small(data, tmp_path / "plain", "nrms-tce", **settings | {"loss": "softmax"})
    assert weights(plain) != weights(expected)
