"""Batches prepared in host memory equal those of the plain step."""

import dataclasses
import math
from typing import Any

import pytest
import torch

from batch_cases import part_of
from drpn.batches.batch import NewsRows
from drpn.batches.samples import Plan
from drpn.batches.tables import Tables
from drpn.models.catalogue import CATALOGUE
from drpn.training.settings import TrainingSettings
from drpn.training.steps import CapturedStepper, HostStepper, Stepper
from random_steps import train_losses

NEWS, USERS = 60, 12


@pytest.fixture
def tables() -> Tables:
    torch.manual_seed(0)
    rows = torch.arange(NEWS)
    news = NewsRows(rows, torch.randint(0, 9, (NEWS, 4)), torch.randint(0, NEWS, (NEWS, 3)), rows, rows)
    return Tables(news, torch.randint(0, NEWS, (USERS, 5)), torch.randint(0, NEWS, (USERS, 7)))


def same(one: NewsRows, other: NewsRows) -> bool:
    names = [field.name for field in dataclasses.fields(one)]
    return all(torch.equal(getattr(one, name), getattr(other, name)) for name in names)


def test_batches_from_host_memory(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    """They equal those of the plain step; every batch of the usual size has the same number of stories."""
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: tensor)  # pinning needs a GPU
    settings = TrainingSettings(batch=4, compile=False)
    arguments = (torch.nn.Linear(1, 1), tables, settings)
    host, plain = HostStepper(*arguments, optimiser=None), Stepper(*arguments, optimiser=None)
    plan = Plan(torch.randint(0, USERS, (10,)), torch.randint(1, NEWS, (10, 3)), torch.arange(10), torch.zeros(10, 3))
    host.prepare(plan)
    taken = list(host.batches(plan, start=1))
    assert [samples.size for samples in taken] == [4, 2]
    for samples, expected in zip(taken, plain.batches(plan, start=1), strict=True):
        news, batch = host.model_inputs(host.graph_inputs(samples))
        rows, local = plain.look_up(expected)
        assert len(news) == (host.capacity if samples.size == 4 else len(rows))
        assert same(news.select(torch.arange(len(rows))), rows)
        for side in ("clicked", "skipped", "candidates"):
            width = part_of(local, side).shape[1]
            assert torch.equal(part_of(batch, side)[:, :width], part_of(local, side))
        assert torch.equal(batch.context.moment, local.context.moment)


@pytest.mark.parametrize("name", CATALOGUE)
def test_the_steps_of_every_model_change_it(name: str) -> None:
    """The same steps that are compared with captured ones where there is a GPU."""
    settings = TrainingSettings(batch=16, precision="fp32", rate=1e-3)
    quick = train_losses(Stepper, name, settings, device="cpu")
    slow = train_losses(Stepper, name, dataclasses.replace(settings, rate=1e-4), device="cpu")
    assert len(quick) == 16
    assert all(map(math.isfinite, quick))
    assert quick[0] == slow[0]
    assert quick[-1] != slow[-1]


@pytest.mark.parametrize(
    ("batch", "steps", "compiled"),
    [(128, 19_500, True), (128, 1_000, False), (8_192, 305, False), (8_192, 3_000, True), (128, 0, True)],
)
def test_a_model_is_compiled_if_the_training_is_long_enough(
    batch: int, steps: int, compiled: bool, tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five passes over half a million clicks are long enough at batch 128; 0 stands for an unknown number of steps."""
    asked: list[Any] = []
    monkeypatch.setattr(torch, "compile", lambda loss, **_: asked.append(loss))
    for wanted in (True, False):
        settings = TrainingSettings(batch=batch, compile=wanted)
        CapturedStepper(torch.nn.Linear(1, 1), tables, settings, optimiser=None, total=steps)
    assert len(asked) == compiled


@pytest.mark.parametrize("clip", [0.0, 0.5, 1e6])
def test_a_long_gradient_is_scaled_down(clip: float, tables: Tables) -> None:
    """The step of plain gradient descent is as long as the gradient of all weights together."""
    model = torch.nn.Linear(2, 1, bias=False)
    before = model.weight.detach().clone()
    settings = TrainingSettings(batch=4, clip=clip)
    step = Stepper(model, tables, settings, optimiser=torch.optim.SGD(model.parameters(), lr=1.0))
    step.learn(model(torch.tensor([3.0, 4.0])).sum())
    assert float((model.weight.detach() - before).norm()) == pytest.approx(0.5 if clip == 0.5 else 5.0, rel=1e-4)
