"""Trainings that take seconds: settings, command line and readers of their results."""

import json
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from drpn.batches.batch import NewsRows
from drpn.batches.samples import Clicks, Sampler
from drpn.batches.tables import Counts, Tables
from drpn.models.base import DataShape
from drpn.models.catalogue import CATALOGUE
from drpn.progress import Silent
from drpn.state.count_columns import PAGE, PAIR
from drpn.training.loop import CURVE, Loop
from drpn.training.settings import TrainingSettings

SMALL: dict[str, Any] = {"size": 16, "heads": 2, "hidden": 8, "graph_heads": 2}
OTHERS: dict[str, Any] = {"filters": 16, "attention": 16, "category_size": 8, "user_size": 8}
"""Settings that make the baselines small."""
AS_COMMAND: dict[str, Any] = {"epochs": 4, "patience": 4, "batch": 16, "device": "cpu", "save_seconds": 0.0}
SETS = [f"model.{name}={value}" for name, value in SMALL.items()]
SETS += [f"training.{name}={value}" for name, value in AS_COMMAND.items()]
COMMAND = ["train", "data", "--out", "run", *(word for setting in SETS for word in ("--set", setting))]
CPU = torch.device("cpu")
_SHAPE = DataShape(news=60, words=50, users=30, categories=4, subcategories=4)


def small(name: str, **settings: Any) -> Any:
    """Return small settings for a model of the catalogue."""
    defaults = CATALOGUE[name].settings
    known = {field.name for field in fields(defaults)}
    settings = ({"context_size": 16} if defaults.context else {}) | settings
    return replace(defaults, **{key: value for key, value in {**SMALL, **OTHERS, **settings}.items() if key in known})


def train_small(data: Path, out: Path, name: str = "drpn", *, resume: bool = False, **training: Any) -> Path:
    """Train a small model and return its run folder."""
    from drpn.recipes.train import train

    chosen = {"epochs": 2, "batch": 16, "device": "cpu", **CATALOGUE[name].training, "teachers": 0} | training
    settings = TrainingSettings(**chosen)
    return train(data, out, model=name, settings=small(name), training=settings, resume=resume).path


def toy(name: str = "drpn", *, device: torch.device = CPU, **training: Any) -> Callable[[Path], Loop]:
    """Return a function that makes a training loop over random profiles and clicks, without any log.

    With `teachers` there are random scores to learn from.
    """
    from drpn.training.quantiles import fit_counts

    random = torch.Generator().manual_seed(1)
    settings = TrainingSettings(**({"epochs": 1, "batch": 16, **CATALOGUE[name].training, "teachers": 0} | training))

    def draw(high: int, *shape: int) -> Tensor:
        return torch.randint(1, high, shape, generator=random, dtype=torch.int32)

    rows = torch.arange(60, dtype=torch.int32)
    category = draw(4, 60)
    news = NewsRows(rows, draw(50, 60, 8), draw(60, 60, 5), category, category)
    tables = Tables(news.to(device), draw(60, 30, 6).to(device), draw(60, 30, 9).to(device))
    first = torch.arange(64) * 3
    columns = [draw(30, 64), draw(60, 64), first, torch.full_like(first, 3), draw(60, 192), torch.zeros_like(first)]
    columns += [first // 3, torch.arange(64, 256), columns[0].repeat_interleave(3)]
    if "counts" in CATALOGUE[name].model(small(name), _SHAPE).requirements:
        pairs, page = torch.rand(256, len(PAIR), generator=random), torch.rand(30, len(PAGE), generator=random)
        taught = torch.randn(256, generator=random).to(device) if settings.teachers else None
        parts = pairs.half(), page, torch.zeros(30, 0, dtype=torch.int32)
        tables = replace(tables, counts=Counts(*(part.to(device) for part in parts), taught))
    clicks = Clicks(*(column.to(device) for column in columns))
    torch.manual_seed(0)
    without = {"dropout": 0.0, "id_dropout": 0.0, "context_dropout": 0.0}
    model = CATALOGUE[name].model(small(name, **without), _SHAPE).to(device)
    fit_counts(model, tables, clicks, seed=0)
    sampler = Sampler(clicks, tables, settings.batch, settings.negatives, settings.seed)
    return lambda folder: Loop(model, tables, sampler, settings, folder, Silent())


def give_two_tastes(tables: Tables) -> None:
    """Change the tables of a toy: every reader clicks one half of the stories and skips the other half.

    Stories of different halves share no words, and stories have no neighbours.
    """
    random = torch.Generator().manual_seed(3)
    for reader in range(1, 30):
        own = 1 + reader % 2 * 29 + torch.randperm(29, generator=random)
        other = 1 + (reader + 1) % 2 * 29 + torch.randperm(29, generator=random)
        tables.clicked[reader], tables.skipped[reader] = own[:6], other[:9]
    tables.news.words[1:30] %= 25
    tables.news.words[30:] = 25 + tables.news.words[30:] % 25
    tables.news.neighbours.zero_()


def weights(run: Path) -> bytes:
    """Return the final weights of a run."""
    return (run / "bundle" / "model.safetensors").read_bytes()


def curve(run: Path) -> list[dict[str, float]]:
    """Return the points of the learning curve of a run."""
    return [json.loads(line) for line in (run / CURVE).read_text().splitlines()]


def reached(checkpoint: Path) -> tuple[int, int]:
    """Return the epoch and the step of a checkpoint, both from 0; (-1, 0) if there is none yet."""
    if not checkpoint.exists():
        return (-1, 0)
    with checkpoint.open("rb") as stream:  # not safe_open, which opens the file twice: it may be replaced in between
        header = json.loads(stream.read(int.from_bytes(stream.read(8), "little")))
    progress = json.loads(header["__metadata__"]["drpn"])["progress"]
    return progress["epoch"], progress["step"]


def refused(drpn, *arguments: object) -> str:
    """Run a command that must be refused and return its one-line error."""
    done = drpn(*arguments)
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stdout == ""
    last = done.stderr.splitlines()[-1]
    assert last.startswith("drpn: ")
    return str(last.removeprefix("drpn: "))
