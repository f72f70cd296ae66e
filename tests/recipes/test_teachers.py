"""A model that learns from the mean of several context views."""

import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import live_site
from drpn.batches.samples import Clicks
from drpn.batches.tables import Tables
from drpn.bundle.files import data_shape
from drpn.dataset.folder import Dataset
from drpn.evaluation.scoring import score_impressions
from drpn.models.catalogue import CATALOGUE
from drpn.models.drpn_live import DrpnLive, DrpnLiveSettings
from drpn.progress import Silent
from drpn.recipes.teachers import TEACHERS, Teaching
from drpn.training.batch_loss import BatchLoss, Samples
from drpn.training.checkpoint import load_checkpoint
from drpn.training.loop import CHECKPOINT
from drpn.training.loss import click_loss, taught_loss
from drpn.training.optimiser import build_optimiser
from drpn.training.settings import TrainingSettings
from drpn.training.steps import Stepper
from drpn.training.stopping import Stopped
from small_training import CPU, curve, small, toy, train_small, weights

TRAINING: dict[str, Any] = {"epochs": 2, "patience": 2, "batch": 8, "device": "cpu", "threads": 1, "negatives": 3}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return live_site.prepared(tmp_path_factory.mktemp("live"), live_site.impressions(), live_site.LIVE).path


def teach(data: Path, out: Path, **training: Any) -> tuple[Dataset, Tables]:
    """Train the teachers of a small drpn-live."""
    dataset, settings = Dataset.open(data), small("drpn-live")
    model = CATALOGUE["drpn-live"].model(settings, data_shape(dataset))
    tables = Tables.from_dataset(dataset, CPU, reads=model.reads, needs=model.requirements)
    clicks = Clicks.from_impressions(dataset.impressions("train"), CPU)
    chosen = TrainingSettings(**{**TRAINING, **training})
    teaching = Teaching(dataset, settings, chosen, CPU, None, Silent(), resume=False)
    return dataset, teaching.add_scores(tables, clicks, ("train",), out)


def test_the_scores_are_the_mean_of_the_teachers(data: Path, tmp_path: Path) -> None:
    """Each teacher is a context view of its own, the second reads lists; pairs of other splits have no scores."""
    dataset, tables = teach(data, tmp_path, teachers=3)
    assert tables.counts is not None
    assert tables.counts.taught is not None
    split, scores = dataset.impressions("train"), []
    for number in (1, 2, 3):
        view = DrpnLiveSettings(text=False, context_size=16, list_attention=number == 2)
        teacher = DrpnLive(view, data_shape(dataset))
        teacher.add_context(data_shape(dataset))
        optimiser = build_optimiser(teacher, TrainingSettings(**TRAINING))
        _, best = load_checkpoint(tmp_path / TEACHERS / str(number) / CHECKPOINT, teacher, optimiser, run=None)
        teacher.load_state_dict(best)
        scores.append(score_impressions(teacher, tables, split, Silent()))
    assert all(np.abs(scores[0] - other).max() > 1e-3 for other in scores[1:])
    own = slice(split.first_pair, split.first_pair + len(split.candidates))
    np.testing.assert_allclose(tables.counts.taught[own].numpy(), sum(scores) / 3, atol=1e-6)
    assert int((tables.counts.taught != 0).sum()) == len(split.candidates)


def test_a_step_learns_from_clicks_and_more_from_teachers(tmp_path: Path) -> None:
    """Two tenths of the loss are those of clicks."""
    loop = toy("drpn-live", teachers=1)(tmp_path)
    model, own = loop.model.eval(), BatchLoss(loop.model, loop.tables, loop.settings)
    news, batch = own.look_up(Samples(*next(loop.sampler.plan(0).batches(16))))
    scores, mask, taught = model.score(model.encode_news(news), batch), batch.candidate_mask, batch.context.taught
    assert taught.shape == scores.shape
    expected = 0.2 * click_loss(scores, mask) + 0.8 * taught_loss(scores, taught, mask)
    assert own.loss(news, batch).item() == pytest.approx(expected.item(), rel=1e-5)


def test_no_teachers_leave_everything_as_it_was(data: Path, tmp_path: Path) -> None:
    _, tables = teach(data, tmp_path, teachers=0)
    assert tables.counts is not None
    assert tables.counts.taught is None
    assert not (tmp_path / TEACHERS).exists()


def test_teachers_draw_nothing_from_the_models_own_numbers(data: Path, tmp_path: Path) -> None:
    """Random draws go on after teaching as if there had been none."""
    draws = []
    for teachers in (0, 1):
        torch.manual_seed(5)
        teach(data, tmp_path, teachers=teachers)
        draws.append(torch.rand(3))
    assert torch.equal(*draws)


def test_a_taught_model_differs_and_its_refit_is_taught_too(data: Path, tmp_path: Path) -> None:
    chosen = {**TRAINING, "refit": True}
    plain = train_small(data, tmp_path / "plain", "drpn-live", **chosen, teachers=0)
    taught = train_small(data, tmp_path / "taught", "drpn-live", **chosen, teachers=2)
    assert weights(plain) != weights(taught)
    assert curve(plain)[0]["loss"] != curve(taught)[0]["loss"]
    for folder in (taught, taught / "refit"):
        assert sorted(path.name for path in (folder / TEACHERS).iterdir()) == ["1", "2"]


def test_a_model_without_counts_has_no_teachers(data: Path, tmp_path: Path) -> None:
    run = train_small(data, tmp_path / "run", "drpn-live-no-counts", **TRAINING, teachers=2)
    assert not (run / TEACHERS).exists()


@pytest.mark.parametrize("teacher", [1, 2])
def test_a_run_that_was_stopped_while_teachers_learned_is_resumed(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, teacher: int
) -> None:
    """In the first or the second teacher; the weights are those of a run that was never stopped."""
    chosen = {**TRAINING, "teachers": 2}
    expected = train_small(data, tmp_path / "whole", "drpn-live", **chosen)
    step, steppers = Stepper.__call__, list[Stepper]()

    def stopping(stepper: Stepper, *arguments: Any) -> Tensor:
        if not any(stepper is one for one in steppers):
            steppers.append(stepper)
        if len(steppers) == teacher and stepper.done == 2:
            signal.raise_signal(signal.SIGINT)
        return step(stepper, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Stepper, "__call__", stopping)
        with pytest.raises(Stopped):
            train_small(data, tmp_path / "run", "drpn-live", **chosen)
    assert not (tmp_path / "run" / CHECKPOINT).exists()
    resumed = train_small(data, tmp_path / "run", "drpn-live", resume=True, **chosen)
    assert weights(resumed) == weights(expected)


def test_teachers_need_the_softmax() -> None:
    with pytest.raises(ValueError, match="loss is 'log', but teachers need softmax; set teachers to 0"):
        TrainingSettings(teachers=2, loss="log")
