"""Training: the loss, the same weights whatever happens on the way, and what is learnt."""

import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from drpn.batches.batch import NewsRows
from drpn.batches.samples import Clicks, Sampler
from drpn.batches.tables import Tables
from drpn.dataset.folder import Dataset
from drpn.errors import MemoryShortError, SettingsError
from drpn.models.base import DataShape
from drpn.models.catalogue import CATALOGUE
from drpn.progress import Silent
from drpn.training.checkpoint import Progress, load_checkpoint, save_checkpoint
from drpn.training.devices import choose_device, naming_what_to_lower
from drpn.training.loop import CHECKPOINT, CURVE, Loop
from drpn.training.loss import click_loss
from drpn.training.settings import TrainingSettings
from drpn.training.stopping import Stopped
from writing import MindLine, write_mind

SMALL: dict[str, Any] = {"size": 16, "heads": 2, "hidden": 8, "graph_heads": 2}
AS_COMMAND: dict[str, Any] = {"epochs": 4, "patience": 4, "batch": 8, "device": "cpu", "save_seconds": 0.0}
SETS = [f"model.{name}={value}" for name, value in SMALL.items()]
SETS += [f"training.{name}={value}" for name, value in AS_COMMAND.items()]
COMMAND = ["train", "data", "--out", "run", *(word for one in SETS for word in ("--set", one))]
CPU = torch.device("cpu")
TOPICS = {
    "A": ["goal", "match", "league", "coach", "striker", "referee", "stadium", "penalty"],
    "B": ["market", "shares", "profit", "bank", "invest", "inflation", "tariff", "budget"],
    "C": ["rain", "storm", "sunny", "forecast", "snow", "cloud", "thunder", "heatwave"],
}


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """As in the processes that these tests start, so that sums come in the same order."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def newsroom(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset folder of 80 readers: the even ones never want topic A, the odd ones never topic B.

    For five days they are shown the topic they do not want, which they skip, and the weather, which they click. On the
    sixth they choose between A and B, and on the seventh again, between stories that are all new.
    """
    from drpn.recipes.prepare import prepare

    random = np.random.default_rng(0)
    stories: list[str] = []

    def story(topic: str) -> str:
        words = " ".join(random.choice(TOPICS[topic], 5, replace=False))
        stories.append(f"N{len(stories) + 1}\t{topic}\t\t{words}")
        return f"N{len(stories)}"

    old = {topic: [story(topic) for _ in range(25)] for topic in TOPICS}
    new = {topic: [story(topic) for _ in range(15)] for topic in TOPICS}
    lines = []

    def page(day: int, user: int, *shown: str) -> None:
        time = f"11/{day}/2019 {len(lines) % 11 + 1}:00:00 AM"
        lines.append(MindLine(str(len(lines) + 1), f"U{user}", time, " ".join(shown)))

    for user in range(80):
        wanted, unwanted = "BA" if user % 2 == 0 else "AB"
        for day in range(10, 15):
            page(day, user, f"{random.choice(old[unwanted])}-0", f"{random.choice(old['C'])}-1")
        for _ in range(3):
            page(15, user, f"{random.choice(old[wanted])}-1", f"{random.choice(old[unwanted])}-0")
        page(16, user, f"{random.choice(new[unwanted])}-0", f"{random.choice(new[wanted])}-1")
    folder = tmp_path_factory.mktemp("newsroom")
    write_mind(folder / "logs", lines, stories)
    prepare(folder / "logs", folder / "data")
    return folder / "data"


@pytest.fixture
def data(newsroom: Path, tmp_path: Path) -> Path:
    """The newsroom as `data` in the folder of the test."""
    (tmp_path / "data").symlink_to(newsroom)
    return tmp_path / "data"


def small(name: str, **settings: Any) -> Any:
    defaults = CATALOGUE[name].settings
    known = {field.name for field in fields(defaults)}
    return replace(defaults, **{key: value for key, value in {**SMALL, **settings}.items() if key in known})


def train_small(data: Path, out: Path, name: str = "drpn", **training: Any) -> Path:
    from drpn.recipes.train import train

    chosen = {"epochs": 2, "batch": 16, "device": "cpu"} | training
    return train(data, out, model=name, settings=small(name), training=TrainingSettings(**chosen)).path


def weights(run: Path) -> bytes:
    return (run / "bundle" / "model.safetensors").read_bytes()


def curve(run: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (run / CURVE).read_text().splitlines()]


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


def test_one_seed_gives_identical_weights_and_another_gives_others(data: Path, tmp_path: Path) -> None:
    first = train_small(data, tmp_path / "first", seed=3, epochs=1)
    torch.rand(7)  # what was drawn in this process before does not matter
    again = train_small(data, tmp_path / "again", seed=3, epochs=1)
    other = train_small(data, tmp_path / "other", seed=4, epochs=1)
    assert weights(first) == weights(again)
    assert weights(first) != weights(other)


@pytest.fixture(scope="module")
def uninterrupted(newsroom: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run that no one stopped, of the same settings as COMMAND."""
    torch.set_num_threads(1)
    run = train_small(newsroom, tmp_path_factory.mktemp("uninterrupted") / "run", **AS_COMMAND)
    assert small("drpn").dropout > 0
    assert len(curve(run)) == 4
    return run


@pytest.fixture
def start(data: Path, tmp_path: Path) -> Iterator[Callable[[], subprocess.Popen[str]]]:
    """Start COMMAND as a process of its own; gives it back in the middle of its second pass."""
    started: list[subprocess.Popen[str]] = []

    def run() -> subprocess.Popen[str]:
        assert data.exists()
        process = subprocess.Popen(
            [sys.executable, "-m", "drpn.cli", *COMMAND],
            cwd=tmp_path,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        deadline = time.monotonic() + 120
        while not (1, 5) <= reached(tmp_path / "run" / CHECKPOINT) < (3, 0):
            assert process.poll() is None, process.communicate()[1]
            assert time.monotonic() < deadline
            time.sleep(0.005)
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()


def reached(checkpoint: Path) -> tuple[int, int]:
    """The pass and the step of a checkpoint, both from 0; (-1, 0) where there is none yet."""
    if not checkpoint.exists():
        return (-1, 0)
    with checkpoint.open("rb") as stream:  # safe_open opens a file twice, and between the two it may be replaced
        header = json.loads(stream.read(int.from_bytes(stream.read(8), "little")))
    progress = json.loads(header["__metadata__"]["drpn"])["progress"]
    return progress["epoch"], progress["step"]


def test_a_killed_run_is_taken_up_to_the_very_same_weights(start, drpn, tmp_path: Path, uninterrupted: Path) -> None:
    process = start()
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert not (tmp_path / "run" / "bundle").exists()
    assert len(curve(tmp_path / "run")) < 4
    done = drpn(*COMMAND, "--resume")
    assert done.returncode == 0, done.stderr
    assert "taken up in pass" in done.stderr
    assert weights(tmp_path / "run") == weights(uninterrupted)
    found, expected = curve(tmp_path / "run"), curve(uninterrupted)
    seconds = [point["seconds"] for point in found]
    assert [point | {"seconds": 0} for point in found] == [point | {"seconds": 0} for point in expected]
    assert seconds == sorted(seconds)


def test_ctrl_c_stops_with_a_checkpoint_and_the_run_goes_on_from_it(
    start, drpn, tmp_path: Path, uninterrupted: Path
) -> None:
    process = start()
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in error
    run = tmp_path / "run"
    assert sorted(path.name for path in run.iterdir()) == [CHECKPOINT, CURVE, "run.json"]
    epoch, _ = reached(run / CHECKPOINT)
    assert len(curve(run)) == epoch
    # as if it had been killed between the curve's line and the checkpoint of a pass
    with (run / CURVE).open("a") as stream:
        stream.write('{"epoch": 99, "loss": 0, "validation_auc": 0, "seconds": 0}\n')
    assert drpn(*COMMAND, "--resume").returncode == 0
    assert weights(run) == weights(uninterrupted)
    assert [point["epoch"] for point in curve(run)] == [1, 2, 3, 4]


def test_ctrl_c_says_that_the_run_has_stopped(data: Path, drpn, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object) -> float:
        raise KeyboardInterrupt

    assert data.exists()
    monkeypatch.setattr(Loop, "_step", stop)
    done = drpn(*COMMAND)
    assert done.returncode == 130
    assert done.stderr.splitlines()[-1].startswith("drpn: stopped")


def test_a_finished_run_is_left_as_it_is(data: Path, drpn, tmp_path: Path) -> None:
    sets = [word for one in [*SETS, "training.epochs=1"] for word in ("--set", one)]
    assert drpn("train", data, "--out", "run", *sets).returncode == 0
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "run").rglob("*")}
    done = drpn("train", data, "--out", "run", *sets, "--resume")
    assert done.returncode == 0, done.stderr
    assert "run is trained to its end already" in done.stderr
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "run").rglob("*")} == before


def test_a_checkpoint_gives_back_everything(tmp_path: Path) -> None:
    def trained_a_little(seed: int) -> tuple[torch.nn.Module, torch.optim.Optimizer]:
        torch.manual_seed(seed)
        model = torch.nn.Linear(3, 2)
        optimiser = torch.optim.Adam(model.parameters(), lr=0.1 * seed)
        for _ in range(seed):
            optimiser.zero_grad()
            model(torch.rand(4, 3)).sum().backward()
            optimiser.step()
        return model, optimiser

    model, optimiser = trained_a_little(3)
    progress = Progress(epoch=2, step=7, best_auc=0.6, best_epoch=1, seconds=3.5, losses=[4.25, 7.0])
    best = {"weight": torch.ones(2, 3), "bias": torch.zeros(2)}
    save_checkpoint(tmp_path / "one.safetensors", model, optimiser, progress, best)
    drawn = torch.rand(3)
    other, other_optimiser = trained_a_little(1)
    found, found_best = load_checkpoint(tmp_path / "one.safetensors", other, other_optimiser)
    assert found == progress
    assert all(torch.equal(found_best[name], value) for name, value in best.items())
    assert torch.equal(torch.rand(3), drawn)
    assert all(torch.equal(one, two) for one, two in zip(model.parameters(), other.parameters(), strict=True))
    expected, restored = optimiser.state_dict(), other_optimiser.state_dict()
    assert json.dumps(restored["param_groups"]) == json.dumps(expected["param_groups"])
    for index, slots in expected["state"].items():
        assert all(torch.equal(restored["state"][index][name], value) for name, value in slots.items())


@pytest.fixture(scope="module")
def stopped_once(newsroom: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the same settings as COMMAND that was stopped before its first validation."""

    def stop(*_: object) -> float:
        raise KeyboardInterrupt

    run = tmp_path_factory.mktemp("stopped") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("drpn.recipes.train.validation_auc", stop)
        with pytest.raises(KeyboardInterrupt):
            train_small(newsroom, run, **AS_COMMAND)
    assert reached(run / CHECKPOINT) == (0, 29)
    return run


@pytest.fixture
def stopped(stopped_once: Path, data: Path, tmp_path: Path) -> Path:
    """That run as `run` in the folder of the test."""
    assert data.exists()
    return shutil.copytree(stopped_once, tmp_path / "run")


def refused(drpn, *arguments: object) -> str:
    done = drpn(*arguments)
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stdout == ""
    last = done.stderr.splitlines()[-1]
    assert last.startswith("drpn: ")
    return str(last.removeprefix("drpn: "))


@pytest.mark.parametrize("share", [0.0, 0.001, 0.5, 0.999])
def test_a_checkpoint_that_is_cut_short(drpn, stopped: Path, share: float) -> None:
    whole = (stopped / CHECKPOINT).read_bytes()
    (stopped / CHECKPOINT).write_bytes(whole[: int(share * len(whole))])
    assert refused(drpn, *COMMAND, "--resume") == (
        f"run/{CHECKPOINT} is not a whole checkpoint; remove it and train again"
    )


@pytest.mark.parametrize(
    "metadata",
    [
        None,
        {"drpn": "{"},
        {"other": "{}"},
        {"drpn": "[]"},
        {"drpn": "{}"},
    ],
)
def test_a_checkpoint_that_is_something_else(drpn, stopped: Path, metadata: dict[str, str] | None) -> None:
    save_file({"model/weight": torch.zeros(2)}, stopped / CHECKPOINT, metadata=metadata)
    assert refused(drpn, *COMMAND, "--resume") == (
        f"run/{CHECKPOINT} is not a whole checkpoint; remove it and train again"
    )


def test_a_checkpoint_of_another_format(drpn, stopped: Path) -> None:
    save_file({"model/weight": torch.zeros(2)}, stopped / CHECKPOINT, metadata={"drpn": '{"format": 99}'})
    assert refused(drpn, *COMMAND, "--resume") == (
        f"run/{CHECKPOINT} has format 99, this drpn reads format 1; train again"
    )


def test_a_curve_that_is_cut_short_is_no_hindrance(drpn, stopped: Path) -> None:
    """What a kill in the middle of writing the curve's first line leaves."""
    (stopped / CURVE).write_text('{"epoch": 1, "lo')
    done = drpn(*COMMAND, "--resume")
    assert done.returncode == 0, done.stderr
    assert [point["epoch"] for point in curve(stopped)] == [1, 2, 3, 4]


@pytest.mark.parametrize("change", ["training.rate=0.5", "training.seed=9", "model.dropout=0.1"])
def test_a_run_is_not_taken_up_with_other_settings(drpn, stopped: Path, change: str) -> None:
    before = (stopped / CHECKPOINT).read_bytes()
    assert refused(drpn, *COMMAND, "--resume", "--set", change) == (
        "run was started with other settings; choose another folder"
    )
    assert (stopped / CHECKPOINT).read_bytes() == before


def test_a_run_is_not_taken_up_with_another_model_or_dataset(drpn, stopped: Path, mind: Path) -> None:
    assert stopped.exists()
    message = refused(drpn, *COMMAND, "--resume", "--model", "drpn-d")
    assert message == "run was started with other model; choose another folder"
    assert drpn("prepare", mind, "--out", "other").returncode == 0
    message = refused(drpn, "train", "other", *COMMAND[2:], "--resume")
    assert message == "run was started with other data; choose another folder"


def test_the_run_is_not_begun_anew_without_being_asked(drpn, stopped: Path) -> None:
    assert stopped.exists()
    assert refused(drpn, *COMMAND) == "run is a run already; pass --resume to take it up, or choose another folder"


def test_out_of_memory_on_a_gpu_names_the_setting_to_lower(data: Path, drpn, monkeypatch) -> None:
    def full(*_: object) -> float:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB")

    assert data.exists()
    monkeypatch.setattr(Loop, "_step", full)
    assert refused(drpn, *COMMAND) == "the GPU is out of memory; lower training.batch, which is 8"


def test_out_of_memory_on_a_cpu_names_the_setting_to_lower(data: Path, drpn, monkeypatch) -> None:
    def full(*_: object) -> float:
        torch.empty(1 << 60, dtype=torch.uint8)
        raise AssertionError("this machine has an exbibyte of memory")

    assert data.exists()
    monkeypatch.setattr(Loop, "_step", full)
    assert refused(drpn, *COMMAND) == "out of memory; lower training.batch, which is 8"


def test_other_errors_are_not_taken_for_a_lack_of_memory() -> None:
    with pytest.raises(MemoryShortError), naming_what_to_lower("training.batch", 8):
        raise MemoryError
    with pytest.raises(RuntimeError, match="shapes"), naming_what_to_lower("training.batch", 8):
        raise RuntimeError("shapes do not fit")


def test_after_out_of_memory_the_same_folder_takes_a_smaller_batch(data: Path, drpn, monkeypatch) -> None:
    def full(*_: object) -> float:
        raise MemoryError

    assert data.exists()
    with monkeypatch.context() as patch:
        patch.setattr(Loop, "_step", full)
        refused(drpn, *COMMAND)
    done = drpn(*COMMAND, "--set", "training.batch=80", "--set", "training.epochs=1")
    assert done.returncode == 0, done.stderr


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.mark.usefixtures("no_gpu")
def test_a_gpu_that_is_not_there() -> None:
    with pytest.raises(SettingsError) as raised:
        choose_device(TrainingSettings(device="cuda"))
    assert str(raised.value) == "training.device is 'cuda', but there is no GPU here; choose 'cpu' or 'auto'"
    assert choose_device(TrainingSettings(device="auto")) == CPU


@pytest.mark.usefixtures("no_gpu")
def test_a_gpu_that_is_not_there_leaves_no_run(data: Path, drpn, tmp_path: Path) -> None:
    assert data.exists()
    message = refused(drpn, *COMMAND, "--set", "training.device=cuda")
    assert message.startswith("training.device is 'cuda'")
    assert not (tmp_path / "run").exists()


def toy(name: str = "drpn", *, device: torch.device = CPU, **training: Any) -> Callable[[Path], Loop]:
    """A loop over random profiles and clicks, made without any log."""
    random = torch.Generator().manual_seed(1)

    def draw(high: int, *shape: int) -> Tensor:
        return torch.randint(1, high, shape, generator=random, dtype=torch.int32)

    rows = torch.arange(60, dtype=torch.int32)
    category = draw(4, 60)
    news = NewsRows(rows, draw(50, 60, 8), draw(60, 60, 5), category, category, rows < 50)
    tables = Tables(news.to(device), draw(60, 30, 6).to(device), draw(60, 30, 9).to(device))
    first = torch.arange(64) * 3
    columns = (draw(30, 64), draw(60, 64), first, torch.full_like(first, 3), draw(60, 192))
    settings = TrainingSettings(**({"epochs": 1, "batch": 16} | training))
    clicks = Clicks(*(column.to(device) for column in columns))
    torch.manual_seed(0)
    shape = DataShape(news=60, words=50, users=30, categories=4, subcategories=4)
    model = CATALOGUE[name].model(small(name, dropout=0.0, id_dropout=0.0), shape).to(device)
    sampler = Sampler(clicks, tables, settings.batch, settings.negatives, settings.seed)
    return lambda folder: Loop(model, tables, sampler, settings, folder, Silent())


def test_training_stops_when_patience_is_used_up(tmp_path: Path) -> None:
    """The second of 0.5 0.7 0.6 0.7 is the best; the two after it are no better, and two is all the patience."""
    loop = toy(epochs=10, patience=2)(tmp_path)
    aucs = iter([0.5, 0.7, 0.6, 0.7, 0.9])
    states: list[dict[str, Tensor]] = []

    def validate(model: torch.nn.Module) -> float:
        states.append({name: value.clone() for name, value in model.state_dict().items()})
        return next(aucs)

    trained = loop.run(validate, resume=False)
    assert (len(states), trained.best_epoch, trained.best_auc) == (4, 1, 0.7)
    assert [point["validation_auc"] for point in trained.curve] == [0.5, 0.7, 0.6, 0.7]
    kept = loop.model.state_dict()
    assert all(torch.equal(kept[name], value) for name, value in states[1].items())
    assert any(not torch.equal(kept[name], value) for name, value in states[3].items())


@pytest.mark.parametrize("last", [False, True])
def test_ctrl_c_waits_for_the_end_of_the_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, last: bool) -> None:
    """Ctrl-C within the third step: its weights are in the checkpoint, and going on gives what would have come."""
    batch = 24 if last else 8  # three steps in a pass, or eight
    expected = toy(epochs=2, batch=batch)(tmp_path)
    expected.run(lambda _: 0.5, resume=False)
    (tmp_path / CHECKPOINT).unlink()
    before = signal.getsignal(signal.SIGINT)
    step, steps = Loop._step, []

    def third_is_interrupted(loop: Loop, *arguments: Any) -> float:
        steps.append(0)
        if len(steps) == 3:
            signal.raise_signal(signal.SIGINT)
        return step(loop, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Loop, "_step", third_is_interrupted)
        with pytest.raises(Stopped, match=f"^stopped in pass 1 at step 3 of {3 if last else 8}$"):
            toy(epochs=2, batch=batch)(tmp_path).run(lambda _: 0.5, resume=False)
    assert reached(tmp_path / CHECKPOINT) == (0, 3)
    assert signal.getsignal(signal.SIGINT) is before
    found = toy(epochs=2, batch=batch)(tmp_path)
    found.run(lambda _: 0.5, resume=True)
    kept = found.model.state_dict()
    assert all(torch.equal(kept[name], value) for name, value in expected.model.state_dict().items())


def test_a_second_ctrl_c_does_not_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted_twice(*_: Any) -> float:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        raise AssertionError("the step went on")

    monkeypatch.setattr(Loop, "_step", interrupted_twice)
    with pytest.raises(KeyboardInterrupt) as raised:
        toy()(tmp_path).run(lambda _: 0.5, resume=False)
    assert not isinstance(raised.value, Stopped)
    assert not (tmp_path / CHECKPOINT).exists()


def test_training_ends_with_its_passes(tmp_path: Path) -> None:
    aucs = iter([0.5, 0.6, 0.7])
    trained = toy(epochs=3, patience=1)(tmp_path).run(lambda _: next(aucs), resume=False)
    assert trained.best_epoch == 2
    assert len(trained.curve) == 3


@pytest.mark.parametrize("name", CATALOGUE)
def test_the_loss_falls(name: str, tmp_path: Path) -> None:
    """64 clicks can be learnt by heart; chance would cost log 4 = 1.39."""
    trained = toy(name, epochs=12, patience=12, rate=5e-3)(tmp_path).run(lambda _: 0.5, resume=False)
    losses = [point["loss"] for point in trained.curve]
    assert losses[0] < 1.6
    assert losses[-1] < 0.7 * losses[0], losses


def right_order(data: Path, run: Path) -> float:
    """Share of the last day's pages, all of new stories, on which the wanted topic has the higher score."""
    from drpn.evaluation.scoring import score_impressions
    from drpn.recipes.runs import Run

    dataset = Dataset.open(data)
    shown = dataset.impressions("test")
    model = Run.open(run).bundle().model
    unwanted, wanted = score_impressions(model, Tables.of(dataset, CPU), shown, Silent()).reshape(-1, 2).T
    assert shown.clicked.reshape(-1, 2).tolist() == [[False, True]] * len(shown)
    assert all(not Tables.of(dataset, CPU).news.seen[row] for row in shown.candidates.tolist())
    return float((wanted > unwanted).mean())


def test_a_model_that_reads_skips_ranks_the_skipped_topic_last(data: Path, tmp_path: Path) -> None:
    """What readers clicked tells nothing here; a model that reads clicks alone can only guess."""
    run = train_small(data, tmp_path / "drpn", "drpn", epochs=8, patience=8, rate=5e-3)
    assert right_order(data, run) > 0.9


def test_a_model_that_reads_clicks_alone_can_only_guess_there(data: Path, tmp_path: Path) -> None:
    run = train_small(data, tmp_path / "drpn-n", "drpn-n", epochs=8, patience=8, rate=5e-3)
    assert 0.25 < right_order(data, run) < 0.75


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
def test_bf16_on_a_gpu_trains_as_fp32_does(tmp_path: Path) -> None:
    losses = {}
    for precision in ("fp32", "bf16"):
        (tmp_path / precision).mkdir()
        loop = toy(device=torch.device("cuda"), precision=precision)(tmp_path / precision)
        losses[precision] = loop.run(lambda _: 0.5, resume=False).curve[0]["loss"]
        kept = load_file(tmp_path / precision / CHECKPOINT)
        assert all(value.isfinite().all() for name, value in kept.items() if name.startswith("model/"))
        assert all(value.dtype == torch.float32 for name, value in kept.items() if name.startswith("model/"))
    assert math.isfinite(losses["bf16"])
    assert losses["bf16"] == pytest.approx(losses["fp32"], abs=0.05)
    assert losses["bf16"] != losses["fp32"]
