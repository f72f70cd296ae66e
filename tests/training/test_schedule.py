"""The one-cycle learning rate, and training again with the validation days."""

import json
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from drpn.batches.samples import Clicks, Sampler
from drpn.dataset.folder import Dataset
from drpn.training.checkpoint import Checkpoints, TrainingState, load_checkpoint
from drpn.training.loop import CHECKPOINT, Loop
from drpn.training.optimiser import one_cycle, set_rate
from drpn.training.settings import TrainingSettings
from drpn.training.steps import Stepper
from drpn.training.stopping import Stopped
from small_training import curve, toy, train_small, weights

CPU = torch.device("cpu")


@pytest.mark.parametrize(("steps", "warm_up"), [(steps, 0.3) for steps in (1, 2, 3, 7, 10, 100, 1_001)] + [(90, 0.1)])
def test_rates_of_the_cycle_are_those_of_torch(steps: int, warm_up: float) -> None:
    optimiser = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, max_lr=1.0, total_steps=steps, pct_start=warm_up)
    expected = []
    for step in range(steps):
        expected.append(optimiser.param_groups[0]["lr"])
        optimiser.step()
        if step < steps - 1:
            schedule.step()
    assert [one_cycle(step, steps, warm_up) for step in range(steps)] == pytest.approx(expected)


def test_a_warm_up_of_one_step_begins_at_the_full_rate() -> None:
    assert one_cycle(0, 10, 0.1) == 1
    assert one_cycle(1, 10, 0.1) < 1


def rates_of(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The learning rate of each step of a training."""
    rates: list[float] = []
    learn = Stepper.learn

    def noted(self: Stepper, loss: Tensor) -> Tensor:
        rates.append(float(self.optimiser.param_groups[0]["lr"]))
        return learn(self, loss)

    with monkeypatch.context() as patch:
        patch.setattr(Stepper, "learn", noted)
        loop.run(lambda _: 0.5, resume=False)
    return rates


@pytest.mark.parametrize("optimiser", ["adam", "lazy-adam"])
def test_every_step_of_a_training_has_its_rate(optimiser: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three epochs of four steps, whatever the patience; other schedules leave the rate alone."""
    options = {"epochs": 3, "patience": 3, "rate": 0.01, "optimiser": optimiser}
    cycle = toy(schedule="one-cycle", **options)(tmp_path / "cycle")
    (tmp_path / "cycle").mkdir()
    assert rates_of(cycle, monkeypatch) == pytest.approx([0.01 * one_cycle(step, 12) for step in range(12)])
    (tmp_path / "short").mkdir()
    short = toy(schedule="one-cycle", warm_up=0.5, **options)(tmp_path / "short")
    assert rates_of(short, monkeypatch) == pytest.approx([0.01 * one_cycle(step, 12, 0.5) for step in range(12)])
    (tmp_path / "constant").mkdir()
    assert rates_of(toy(**options)(tmp_path / "constant"), monkeypatch) == [0.01] * 12


def test_planted_passes_have_the_full_rate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They come before the cycle."""
    loop = toy("drpn-planted", schedule="one-cycle", epochs=2, patience=2, rate=0.01, planted_passes=1)(tmp_path)
    rates = rates_of(loop, monkeypatch)
    assert rates[:-8] == [0.01] * len(rates[:-8]) != []
    assert rates[-8:] == pytest.approx([0.01 * one_cycle(step, 8) for step in range(8)])


def interrupt_after(steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Press Ctrl-C during a step."""
    taken, step = 0, Stepper.__call__

    def interrupted(self: Stepper, samples: Any) -> Tensor:
        nonlocal taken
        taken += 1
        if taken == steps:
            signal.raise_signal(signal.SIGINT)
        return step(self, samples)

    monkeypatch.setattr(Stepper, "__call__", interrupted)


@pytest.mark.parametrize("steps", [3, 4, 6])
def test_a_resumed_cycle_ends_with_the_same_weights(
    steps: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make: Callable[[Path], Loop]
    states = []
    for name in ("whole", "stopped"):
        make = toy(schedule="one-cycle", epochs=2, patience=2, rate=0.01)
        (tmp_path / name).mkdir()
        loop = make(tmp_path / name)
        if name == "stopped":
            with monkeypatch.context() as patch:
                interrupt_after(steps, patch)
                with pytest.raises(Stopped):
                    loop.run(lambda _: 0.5, resume=False)
            loop = toy(schedule="one-cycle", epochs=2, patience=2, rate=0.01)(tmp_path / name)
            loop.run(lambda _: 0.5, resume=True)
        else:
            loop.run(lambda _: 0.5, resume=False)
        states.append(load_file(tmp_path / name / CHECKPOINT))
    whole, stopped = ({key: value for key, value in state.items() if key.startswith("model/")} for state in states)
    assert whole.keys() == stopped.keys()
    assert all(torch.equal(whole[key], stopped[key]) for key in whole)


def test_a_rate_in_a_tensor_is_saved_and_restored_in_place(tmp_path: Path) -> None:
    """A captured step on a GPU reads the rate from a tensor, which must stay the same one."""

    def make(rate: float) -> tuple[torch.nn.Linear, torch.optim.AdamW]:
        model = torch.nn.Linear(2, 1)
        optimiser = torch.optim.AdamW(model.parameters(), lr=torch.tensor(rate), fused=True)
        model(torch.ones(1, 2)).sum().backward()
        optimiser.step()
        return model, optimiser

    with Checkpoints(tmp_path / "one") as checkpoints:
        checkpoints.save(*make(0.25), TrainingState(), {})
    model, optimiser = make(0.5)
    rate = optimiser.param_groups[0]["lr"]
    load_checkpoint(tmp_path / "one", model, optimiser)
    assert optimiser.param_groups[0]["lr"] is rate
    assert float(rate) == 0.25
    set_rate(optimiser, 0.125)
    assert float(rate) == 0.125


def test_joined_clicks_are_those_of_both_splits(newsroom: Path) -> None:
    dataset = Dataset.open(newsroom)
    parts = [Clicks.from_impressions(dataset.impressions(name), CPU) for name in ("train", "validation")]
    joined = Clicks.join(parts)
    assert len(joined) == sum(map(len, parts))

    def skips(clicks: Clicks, number: int) -> list[int]:
        first = int(clicks.first_skip[number])
        return clicks.skipped[first : first + int(clicks.skips[number])].tolist()

    expected = [
        (int(part.readers[number]), int(part.news[number]), skips(part, number))
        for part in parts
        for number in range(len(part))
    ]
    actual = [
        (int(joined.readers[number]), int(joined.news[number]), skips(joined, number)) for number in range(len(joined))
    ]
    assert actual == expected


@pytest.fixture
def loops(monkeypatch: pytest.MonkeyPatch) -> list[Loop]:
    """The loops of the trainings that a test runs."""
    noted: list[Loop] = []
    run = Loop.run

    def noting(self: Loop, *arguments: Any, **options: Any) -> Any:
        noted.append(self)
        return run(self, *arguments, **options)

    monkeypatch.setattr(Loop, "run", noting)
    return noted


def test_refit_trains_again_on_both_splits_for_the_best_number_of_epochs(
    newsroom: Path, tmp_path: Path, loops: list[Loop], monkeypatch: pytest.MonkeyPatch
) -> None:
    aucs = iter([0.5, 0.7, 0.6])
    monkeypatch.setattr("drpn.recipes.train.validation_auc", lambda *_: next(aucs))
    run = train_small(newsroom, tmp_path / "run", epochs=3, patience=3, refit=True)
    first, second = loops
    dataset = Dataset.open(newsroom)
    counts = [len(Clicks.from_impressions(dataset.impressions(name), CPU)) for name in ("train", "validation")]
    assert (len(first.sampler.clicks), len(second.sampler.clicks)) == (counts[0], sum(counts))
    assert second.settings == replace(first.settings, epochs=2)
    assert len(curve(run)) == 3
    assert [set(point) for point in curve(run / "refit")] == [{"epoch", "loss", "seconds"}] * 2
    trained = load_file(run / "bundle" / "model.safetensors")
    last = load_file(run / "refit" / CHECKPOINT)
    assert all(torch.equal(trained[name], last[f"best/{name}"]) for name in trained)
    manifest = json.loads((run / "bundle" / "manifest.json").read_text())
    assert manifest["metrics"] == {"validation_auc": 0.7, "best_epoch": 2}


def test_refit_is_a_training_from_the_start(newsroom: Path, tmp_path: Path, loops: list[Loop]) -> None:
    """The same weights as those of a fresh model that learns the clicks of both splits."""
    run = train_small(newsroom, tmp_path / "run", epochs=1, refit=True)
    assert weights(run) != weights(train_small(newsroom, tmp_path / "plain", epochs=1))
    again = loops[1]
    torch.manual_seed(0)
    fresh = type(again.model)(again.model.settings, _shape(newsroom))
    sampler = Sampler(again.sampler.clicks, again.tables, 16, again.settings.negatives, 0)
    (tmp_path / "own").mkdir()
    settings = TrainingSettings(epochs=1, batch=16, device="cpu")
    Loop(fresh, again.tables, sampler, settings, tmp_path / "own", again.progress).run(None, resume=False)
    trained = load_file(run / "bundle" / "model.safetensors")
    assert all(torch.equal(value, trained[name]) for name, value in fresh.state_dict().items() if name in trained)


def _shape(data: Path) -> Any:
    from drpn.bundle.files import data_shape

    return data_shape(Dataset.open(data))


def test_a_refit_that_is_stopped_resumes(newsroom: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options: dict[str, Any] = {"epochs": 1, "refit": True, "schedule": "one-cycle"}
    whole = train_small(newsroom, tmp_path / "whole", **options)
    with monkeypatch.context() as patch:
        interrupt_after(18, patch)  # the first training has 15 steps
        with pytest.raises(Stopped):
            train_small(newsroom, tmp_path / "stopped", **options)
    assert (tmp_path / "stopped" / "refit" / CHECKPOINT).exists()
    assert weights(train_small(newsroom, tmp_path / "stopped", resume=True, **options)) == weights(whole)
