"""Captured steps of processes that train together: with NCCL and one process, and with two processes on one GPU."""

import json
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from drpn.batches import planted
from drpn.batches.samples import Plan
from drpn.layers.news import IdVectors
from drpn.models.base import DataShape
from drpn.ranks import Ranks
from drpn.training.loop import CHECKPOINT, Loop
from drpn.training.optimiser import build_optimiser
from drpn.training.settings import TrainingSettings
from drpn.training.shared import SharedModel, SharedStepper
from drpn.training.shared_captured import SharedCapturedStepper
from drpn.training.steps import CapturedStepper, Stepper
from drpn.training.stopping import Stopped
from random_steps import NEWS, WORDS, build, random_batch, random_tables, train_losses
from shape import ShapeSettings, kept_shape
from small_training import toy
from torchrun_jobs import EVEN, SMALL, TESTS, curve, run, torchrun

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning"),  # of the compiler and of NCCL
]
GPU = torch.device("cuda")
WARM_UP = 3
"""Steps before the capture."""


@pytest.fixture(scope="module")
def ranks() -> Iterator[Ranks]:
    """The only process of a job; it exchanges its tensors with itself, by NCCL."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    alone = Ranks(together=True)
    with pytest.MonkeyPatch.context() as patch:
        address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "RANK": 0, "WORLD_SIZE": 1}
        for name, value in address.items():
            patch.setenv(name, str(value))
        alone.join()
    yield alone
    alone.leave()


@pytest.fixture
def replays(monkeypatch: pytest.MonkeyPatch) -> list[torch.cuda.CUDAGraph]:
    """The CUDA graphs that are replayed from here on, in order."""
    graphs: list[torch.cuda.CUDAGraph] = []
    replay = torch.cuda.CUDAGraph.replay

    def counted(graph: torch.cuda.CUDAGraph) -> None:
        graphs.append(graph)
        replay(graph)

    monkeypatch.setattr(torch.cuda.CUDAGraph, "replay", counted)
    return graphs


def shared(kind: type[SharedStepper], ranks: Ranks) -> Callable[..., Stepper]:
    """A class of steppers with the processes filled in."""
    return lambda model, *rest, **named: kind(model, *rest, shared=SharedModel(model, ranks), **named)


@pytest.mark.parametrize(
    ("name", "compiled"),
    [
        ("drpn", False),
        ("drpn", True),
        ("nrms", False),
        ("nrms", True),
        ("naml", False),
        ("lstur", False),
        ("gerl", False),
    ],
)
def test_captured_steps_together_give_the_losses_of_one_process(
    name: str, compiled: bool, ranks: Ranks, replays: list[torch.cuda.CUDAGraph]
) -> None:
    settings = TrainingSettings(batch=16, precision="fp32", rate=1e-3, compile=compiled)
    expected = train_losses(CapturedStepper, name, settings)
    alone = len(replays)
    losses = train_losses(shared(SharedCapturedStepper, ranks), name, settings)
    assert losses == pytest.approx(expected, rel=1e-4)
    assert expected[-1] != pytest.approx(expected[0], rel=2e-3)
    assert alone >= len(expected) - 2 * WARM_UP  # captured once, or again in the second epoch
    assert len(replays) - alone == 2 * alone  # gradients, then the update


@pytest.mark.parametrize(
    "training",
    [
        {"optimiser": "lazy-adam"},
        {"clip": 0.1},
        {"loss": "log"},
        {"decay": 0.1, "matrix_rate": 0.25},
    ],
)
def test_settings_of_captured_steps_together(training: dict[str, Any], ranks: Ranks) -> None:
    """The last batch of an epoch is smaller and runs eagerly, between replays."""
    settings = TrainingSettings(batch=24, precision="fp32", rate=1e-3, compile=False, **training)
    expected = train_losses(CapturedStepper, "nrms", settings)
    assert len(expected) == 2 * 6  # five batches of 24, one of 8
    for kind in (SharedCapturedStepper, SharedStepper):
        tolerance = 1e-4 if kind is SharedCapturedStepper else 2e-3  # eager steps trim padding
        assert train_losses(shared(kind, ranks), "nrms", settings) == pytest.approx(expected, rel=tolerance)


def test_bf16_steps_together_give_the_losses_of_one_process(ranks: Ranks) -> None:
    settings = TrainingSettings(batch=16, precision="bf16", rate=1e-3, compile=False)
    expected = train_losses(CapturedStepper, "drpn", settings)
    assert train_losses(shared(SharedCapturedStepper, ranks), "drpn", settings) == pytest.approx(expected, rel=1e-2)


def test_tce_together_gives_the_losses_of_one_process(ranks: Ranks) -> None:
    """It is not captured; here the samples travel by NCCL."""
    settings = TrainingSettings(
        batch=16, precision="fp32", rate=1e-3, compile=False, loss="tce", tce_rate=0.5, tce_steps=8
    )
    expected = train_losses(Stepper, "nrms", settings)
    assert train_losses(shared(SharedStepper, ranks), "nrms", settings) == pytest.approx(expected, rel=1e-4)


def fixed_numbers(shape: tuple[int, ...], device: torch.device) -> Tensor:
    """Numbers between 0 and 1 that look random and are always the same."""
    count = torch.Size(shape).numel()
    return (torch.arange(1, count + 1, device=device) * 0.6180339887).frac().view(shape)


@pytest.mark.parametrize("clicks", [True, False])
@pytest.mark.parametrize("rule", ["skips", "others"])
def test_planted_feedback_in_captured_steps_together(
    rule: str, clicks: bool, ranks: Ranks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planted, "_uniform", fixed_numbers)
    results = []
    for kind in (CapturedStepper, shared(SharedCapturedStepper, ranks)):
        settings = {"planted": 0.5, "planted_from": rule, "precision": "fp32", "compile": False, "batch": 12}
        loop = toy("drpn", device=GPU, **settings)(Path())
        optimiser = build_optimiser(loop.model, loop.settings)
        step, losses = kind(loop.model, loop.tables, loop.settings, clicks, optimiser=optimiser), []
        for plan in map(loop.sampler.plan, range(3)):
            step.prepare(plan)
            losses += [float(step(samples)) for samples in step.batches(plan)]
        results.append(losses)
    assert results[1] == pytest.approx(results[0], rel=1e-4)
    assert results[0][-1] != pytest.approx(results[0][0], rel=1e-3)


@pytest.mark.parametrize("compiled", [False, True])
def test_dropout_depends_on_the_number_of_the_step_alone(
    compiled: bool, ranks: Ranks, replays: list[torch.cuda.CUDAGraph]
) -> None:
    """The weights do not change. The same step draws the same before the capture and in each replay of it."""
    torch.manual_seed(3)
    model = build("drpn", DataShape(news=NEWS, words=WORDS, users=64, categories=2, subcategories=2)).cuda().train()
    settings = TrainingSettings(batch=16, precision="fp32", rate=1e-12, compile=compiled)
    batch = random_batch(users=64)
    step = SharedCapturedStepper(
        model, random_tables(batch), settings, optimiser=build_optimiser(model, settings),
        shared=SharedModel(model, ranks),
    )  # fmt: skip
    users = torch.arange(16, device="cuda")
    candidates = torch.randint(1, NEWS, (16, 5), device="cuda")
    plan = Plan(users, candidates, torch.zeros_like(users), torch.zeros_like(candidates))
    step.prepare(plan)
    (samples,) = step.batches(plan)

    def losses(*numbers: int) -> list[float]:
        measured = []
        for number in numbers:
            step.done = number
            measured.append(float(step(samples)))
        return measured

    numbers = (5, 6, 7)
    before = losses(*numbers)
    assert not replays
    assert len({round(loss, 4) for loss in before}) == 3
    assert losses(*numbers) == pytest.approx(before, rel=1e-5)
    torch.rand(1000, device="cuda")  # other random numbers in between change nothing
    assert losses(7, 5) == pytest.approx([before[2], before[0]], rel=1e-5)
    assert len(replays) == 2 * 5


def with_dropout(loop: Loop, share: float) -> Loop:
    for module in loop.model.modules():
        if isinstance(module, nn.Dropout):
            module.p = share
        if isinstance(module, IdVectors):
            module.dropped = share
    return loop


def distance(one: Loop, other: Loop) -> float:
    """How far the weights of two models are apart, as a share of their length."""
    first, second = (nn.utils.parameters_to_vector(loop.model.parameters()).detach() for loop in (one, other))
    return float((first - second).norm() / second.norm())


@pytest.mark.parametrize("stop_at", [2, 7, 11])
def test_a_stopped_and_resumed_training_has_the_same_weights(
    stop_at: int, ranks: Ranks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped before the capture, among replays, or in the third epoch; an epoch has four steps of 15 and one of 4."""

    def loop(share: float = 0.3) -> Loop:
        made = toy("drpn", device=GPU, batch=15, epochs=4, patience=4, precision="fp32", compile=False)(tmp_path)
        made.ranks = ranks
        return with_dropout(made, share)

    whole, plain, stopped, resumed = loop(), loop(0.0), loop(), loop()
    curves = []
    for one in (plain, whole):
        curves.append([point["loss"] for point in one.run(lambda _: 0.5, resume=False).curve])
        (tmp_path / CHECKPOINT).unlink()
    call, taken = SharedCapturedStepper.__call__, []

    def stopping(step: SharedCapturedStepper, *arguments: Any) -> Tensor:
        taken.append(1)
        if len(taken) == stop_at:
            signal.raise_signal(signal.SIGINT)
        return call(step, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(SharedCapturedStepper, "__call__", stopping)
        with pytest.raises(Stopped):
            stopped.run(lambda _: 0.5, resume=False)
    assert len(taken) == stop_at
    curves.append([point["loss"] for point in resumed.run(lambda _: 0.5, resume=True).curve])
    assert curves[2] == pytest.approx(curves[1], abs=1e-4)
    assert distance(resumed, whole) < 2e-3
    # dropout changes both much more
    assert curves[0] != pytest.approx(curves[1], abs=1e-3)
    assert distance(plain, whole) > 5e-3


@pytest.fixture(scope="module")
def folder() -> Path:
    """A dataset of some thousand clicks."""
    return kept_shape(ShapeSettings().scaled(0.01)).path


ON_GPU = (*SMALL, *EVEN, "training.device=cuda", "training.compile=false", "training.batch=255")


def test_torchrun_trains_as_one_process(folder: Path, tmp_path: Path) -> None:
    sets = (*ON_GPU, "training.epochs=2")
    arguments = {name: map(str, (TESTS / "train_worker.py", folder, tmp_path / name, *sets)) for name in ("one", "job")}
    one = json.loads(run([sys.executable, *arguments["one"]]).stdout.splitlines()[-1])
    job = json.loads(run(torchrun(1, *arguments["job"])).stdout.splitlines()[-1])
    losses = [[point["loss"] for point in curve(tmp_path / name)] for name in ("one", "job")]
    assert len(losses[0]) == 2
    assert losses[1] == pytest.approx(losses[0], abs=1e-4)
    assert one["replays"] > 10
    assert job["replays"] == 2 * one["replays"]


@pytest.mark.parametrize("loss", ["softmax", "log", "tce"])
def test_two_processes_on_one_gpu_have_the_losses_of_one(
    folder: Path, loss: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their parts have 127 and 128 samples. NCCL takes one process per GPU, so these exchange by gloo."""
    monkeypatch.setenv("ONE_GPU", "1")
    sets = (*ON_GPU, f"training.loss={loss}", "training.tce_rate=0.5", "training.tce_steps=20")
    arguments = [str(one) for one in (TESTS / "ranks_worker.py", folder, "drpn", 50, *sets)]
    one = json.loads(run([sys.executable, *arguments]).stdout.splitlines()[-1])
    two = json.loads(run(torchrun(2, *arguments)).stdout.splitlines()[-1])
    assert two["losses"] == pytest.approx(one["losses"], rel=2e-3)
    assert one["losses"][0] != pytest.approx(one["losses"][-1], rel=2e-2)
    assert 10 < one["usual"] < len(one["losses"])  # the last batch is smaller
    assert one["replays"] == one["usual"] - WARM_UP
    captured = loss != "tce"
    assert two["stepper"] == ("SharedCapturedStepper" if captured else "SharedStepper")
    assert two["replays"] == (2 * one["replays"] if captured else 0)
    met = [{name: total for name, total in job["sums"].items() if name.endswith("met")} for job in (one, two)]
    assert met[0]
    assert met[1] == pytest.approx(met[0], abs=1)  # the row of padding may differ
