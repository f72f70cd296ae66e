"""Training steps of every model on random stories, profiles and counts, on any device."""

from dataclasses import replace

import torch
from torch import Tensor

from batch_cases import leave_out_of_training, make_batch
from drpn.batches.batch import Batch, NewsRows
from drpn.batches.samples import Plan
from drpn.batches.tables import Counts, Tables
from drpn.models.base import ClickModel, DataShape
from drpn.models.catalogue import CATALOGUE
from drpn.state.count_columns import PAGE, PAIR
from drpn.training.optimiser import build_optimiser
from drpn.training.settings import TrainingSettings
from drpn.training.steps import Stepper

NEWS, WORDS = 300, 80
SMALL = {"size": 36, "hidden": 20, "heads": 6, "head_size": 6, "graph_heads": 2, "filters": 16, "attention": 8,
         "category_size": 6, "user_size": 6}  # fmt: skip
_COUNTED_PAIRS = 50


def random_news(device: str = "cuda") -> NewsRows:
    """Stories with words, neighbours and categories."""
    rows = torch.arange(NEWS, device=device)
    words = torch.randint(0, WORDS, (NEWS, 9), device=device)
    neighbours = torch.randint(0, NEWS, (NEWS, 5), device=device)
    labels = torch.randint(0, 2, (2, NEWS), device=device)
    return NewsRows(rows, words, neighbours, *labels, neighbour_positions=neighbours)


def random_batch(users: int = 12, device: str = "cuda") -> Batch:
    """Profiles and candidates of different lengths, padded at the end."""

    def positions(width: int) -> Tensor:
        rows = torch.randint(1, NEWS, (users, width), device=device)
        lengths = torch.randint(0, width + 1, (users, 1), device=device)
        return rows * (torch.arange(width, device=device) < lengths)

    neighbours = torch.randint(0, 20, (users, 4), device=device)
    return make_batch(torch.arange(users, device=device) % 20, positions(7), positions(11), positions(6), neighbours)


def random_tables(batch: Batch, device: str = "cuda") -> Tables:
    """Tables of the profiles of a batch, with counts of its readers."""
    profiles = batch.profiles
    readers = len(profiles.clicked)
    counts = Counts(
        torch.rand(_COUNTED_PAIRS, len(PAIR), device=device).half(),
        torch.rand(readers, len(PAGE), device=device),
        torch.zeros(readers, 0, dtype=torch.int32, device=device),
    )
    return Tables(
        random_news(device), profiles.clicked, profiles.skipped, neighbours=profiles.neighbours, counts=counts
    )


def on_host(tables: Tables) -> Tables:
    """The stories and profiles of the tables in host memory."""
    return Tables(tables.news.to(torch.device("cpu")), tables.clicked.cpu(), tables.skipped.cpu())


def build(name: str, shape: DataShape | None = None) -> ClickModel:
    """A small model of the catalogue with random weights, which has not met every third story."""
    entry = CATALOGUE[name]
    known = {key: value for key, value in SMALL.items() if hasattr(entry.settings, key)}
    shape = shape or DataShape(news=NEWS, words=WORDS, users=20, categories=2, subcategories=2)
    model = entry.model(replace(entry.settings, **known), shape).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    leave_out_of_training(model, range(0, NEWS, 3))
    return model


def train_losses(
    kind: type[Stepper],
    name: str,
    settings: TrainingSettings,
    samples: int = 128,
    *,
    host: bool = False,
    device: str = "cuda",
) -> list[float]:
    """The losses of two epochs, with the same samples and initial weights on every call.

    The second epoch has more distinct stories in a batch, so its step has to be captured again.
    """
    torch.manual_seed(3)
    shape = DataShape(news=NEWS, words=WORDS, users=64, categories=2, subcategories=2)
    # without dropout, nothing is random
    model, batch = build(name, shape).to(device).eval(), random_batch(users=64, device=device)
    tables = random_tables(batch, device)
    users = torch.randint(0, 64, (2, samples), device=device)
    candidates = torch.randint(1, NEWS, (2, samples, 5), device=device)
    candidates[0] = candidates[0] % 20 + 1  # few distinct stories in the first epoch
    pairs = torch.randint(0, _COUNTED_PAIRS, candidates.shape, device=device)
    if host:
        users, candidates, pairs, tables = users.cpu(), candidates.cpu(), pairs.cpu(), on_host(tables)
    step = kind(model, tables, settings, optimiser=build_optimiser(model, settings))
    losses = []
    for plan in map(Plan, users, candidates, torch.zeros_like(users), pairs):
        step.prepare(plan)
        losses += [float(step(part)) for part in step.batches(plan)]
    return losses
