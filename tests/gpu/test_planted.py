"""Planted feedback on a GPU: kernels, captured steps, and data in host memory."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from drpn.batches import planted
from drpn.batches.planted import click_odds, half_of_each, plant_clicks_of_others, swap_clicks_and_skips
from drpn.batches.samples import Plan
from drpn.batches.tables import Tables
from drpn.training.loop import Loop
from drpn.training.optimiser import build_optimiser
from drpn.training.planted import planted_loss
from drpn.training.steps import CapturedStepper, HostStepper, Stepper
from small_training import CPU, toy

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning"),  # of the compiler
]
GPU = torch.device("cuda")
RULES = ["skips", "others", "both"]


def loop_on_gpu(rule: str, model: str = "drpn", **training: Any) -> Loop:
    chosen = {"planted": 0.5, "planted_from": rule, "planted_passes": 0, "precision": "fp32", "rate": 1e-3} | training
    return toy(model, device=GPU, **chosen)(Path())


def fixed_numbers(shape: tuple[int, ...], device: torch.device) -> Tensor:
    """Numbers between 0 and 1 that look random and are always the same."""
    count = torch.Size(shape).numel()
    return (torch.arange(1, count + 1, device=device) * 0.6180339887).frac().view(shape)


@pytest.fixture
def fixed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planted, "_uniform", fixed_numbers)


def losses(kind: type[Stepper], loop: Loop, *, clicks: bool = True, host: bool = False) -> list[float]:
    """The losses of three epochs, also of a last batch that is smaller."""
    tables, model = loop.tables, loop.model.eval()  # without dropout: nothing else is random
    plans = [loop.sampler.plan(epoch) for epoch in range(3)]
    if host:
        tables = Tables(tables.news.to(CPU), tables.clicked.cpu(), tables.skipped.cpu())
        plans = [Plan(*(column.cpu() for column in plan)) for plan in plans]
    step = kind(model, tables, loop.settings, clicks, optimiser=build_optimiser(model, loop.settings))
    measured = []
    for plan in plans:
        step.prepare(plan)
        measured += [float(step(part)) for part in step.batches(plan)]
    return measured


@pytest.mark.usefixtures("fixed")
@pytest.mark.parametrize("clicks", [True, False])
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(
    ("model", "rule", "trains"),
    [
        *((model, rule, "weights") for model in ("drpn", "drpn-planted") for rule in RULES),
        *((model, "others", "vectors") for model in ("drpn", "drpn-planted")),
        *(("drpn-planted", rule, "labels") for rule in RULES[:2]),
    ],
)
def test_captured_steps_give_the_losses_of_plain_steps(
    model: str, rule: str, trains: str, compiled: bool, clicks: bool
) -> None:
    options: dict[str, Any] = {"model": model, "batch": 12, "compile": compiled}  # five batches of 12, one of 4
    options["planted_trains"] = trains
    expected = losses(Stepper, loop_on_gpu(rule, **options), clicks=clicks)
    assert expected[-1] != expected[0]
    measured = losses(CapturedStepper, loop_on_gpu(rule, **options), clicks=clicks)
    assert measured == pytest.approx(expected, rel=2e-3)
    if clicks:
        assert losses(Stepper, loop_on_gpu(rule, **options, planted=0.0)) != pytest.approx(expected, rel=2e-2)


@pytest.mark.usefixtures("fixed")
@pytest.mark.parametrize("rule", RULES)
def test_data_in_host_memory_give_the_same_losses(rule: str) -> None:
    options = {"batch": 12, "compile": False}
    expected = losses(CapturedStepper, loop_on_gpu(rule, **options))
    assert losses(HostStepper, loop_on_gpu(rule, **options), host=True) == pytest.approx(expected, rel=2e-3)
    assert losses(Stepper, loop_on_gpu(rule, **options), host=True) == pytest.approx(expected, rel=2e-3)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("rule", RULES)
def test_every_replay_plants_other_stories(rule: str, compiled: bool) -> None:
    """The same samples and weights at each step: only the planted stories can change the loss."""
    loop = loop_on_gpu(rule, batch=16, compile=compiled, rate=1e-12)
    model = loop.model.eval()
    step = CapturedStepper(model, loop.tables, loop.settings, optimiser=build_optimiser(model, loop.settings))
    plan = Plan(*(column[:16] for column in loop.sampler.plan(0)))
    step.prepare(plan)
    (samples,) = step.batches(plan)
    measured = [round(float(step(samples)), 6) for _ in range(16)]
    assert len(set(measured[4:])) > 8


@pytest.mark.usefixtures("fixed")
@pytest.mark.parametrize("vectors", [False, True])
@pytest.mark.parametrize("name", ["drpn", "drpn-planted"])
@pytest.mark.parametrize("rule", RULES)
def test_loss_and_gradient_against_a_cpu_in_float64(rule: str, name: str, vectors: bool) -> None:
    results = []
    for device, kind in ((CPU, torch.float64), (GPU, torch.float32)):
        loop = toy(name, device=device, planted=1.0)(Path())
        model, tables = loop.model.to(kind).eval(), loop.tables
        profiles = tables.batch(torch.arange(1, 30, device=device), tables.clicked[1:30], trim=False).of_all_stories()
        by_rule = {
            "others": plant_clicks_of_others(profiles.profiles, share=0.2, skips=3),
            "skips": swap_clicks_and_skips(profiles.profiles, click_odds(tables), share=0.2, skips=3),
        }
        mixed = half_of_each(by_rule["skips"], by_rule["others"]) if rule == "both" else by_rule[rule]
        trust = model.trust(model.encode_news(tables.news), mixed.profiles, vectors=vectors)
        loss = planted_loss(trust, mixed)
        loss.backward()
        gradient = torch.cat([one.grad.flatten().double().cpu() for one in model.parameters() if one.grad is not None])
        results.append((mixed.profiles.clicked.cpu(), loss.double().cpu(), gradient))
    (expected_clicks, expected, expected_gradient), (clicks, loss, gradient) = results
    assert torch.equal(clicks, expected_clicks)
    assert float(loss) == pytest.approx(float(expected), rel=1e-4)
    assert float((gradient - expected_gradient).norm() / expected_gradient.norm()) < 1e-3


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("trains", ["labels", "weights", "vectors"])
def test_planted_passes_before_captured_epochs(trains: str, compiled: bool, tmp_path: Path) -> None:
    chosen = {"planted_passes": 3, "planted_trains": trains, "compile": compiled, "batch": 16, "epochs": 2}
    loop = toy("drpn-planted", device=GPU, **chosen)(tmp_path)
    notes: list[str] = []
    loop.progress.note = notes.append  # type: ignore[method-assign]
    trained = loop.run(lambda _: 0.5, resume=False)
    assert len([note for note in notes if "planted loss" in note]) == 3
    assert all(torch.isfinite(one).all() for one in loop.model.parameters())
    assert len(trained.curve) == 2
