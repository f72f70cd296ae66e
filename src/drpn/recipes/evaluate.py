"""How good a trained model is, beside what needs no learning."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from drpn.batches.tables import Tables
from drpn.bundle.files import pick_device
from drpn.dataset.arrays import Array
from drpn.dataset.folder import Dataset, Impressions, SplitName
from drpn.evaluation.baselines import chance, popularity
from drpn.evaluation.bootstrap import interval, paired
from drpn.evaluation.groups import rows
from drpn.evaluation.metrics import Metrics, measure
from drpn.evaluation.scoring import score_impressions
from drpn.evaluation.submission import ScoresFormat, write_scores
from drpn.explain.faithful import faithfulness
from drpn.models.base import ClickModel
from drpn.models.drpn import Drpn
from drpn.models.encode import encode_all
from drpn.progress import Progress, Silent
from drpn.recipes.noise import measure_noise
from drpn.recipes.runs import Run


@dataclass(frozen=True)
class Evaluation:
    """The rows of the table, and what else was measured; ready for JSON."""

    split: str
    rows: list[dict[str, Any]]
    comparisons: list[dict[str, Any]]
    """Paired differences of AUC, the model minus each of the others."""
    noise: dict[str, Any] | None
    """Where the truth is known: how well the weights tell real interest from accidents."""
    faithful: dict[str, Any] | None
    """How far the scores move when one clicked news is left out."""

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def evaluate(
    path: Path,
    *,
    split: SplitName = "test",
    scores: Path | None = None,
    scores_format: ScoresFormat = "mind",
    seed: int = 0,
    progress: Progress | None = None,
) -> Evaluation:
    """Measure a run on a split of its dataset, and write its scores to a file if one is named."""
    progress = progress or Silent()
    run = Run.open(path)
    bundle, dataset = run.bundle(), run.dataset()
    impressions = dataset.impressions(split)
    device = pick_device()
    model, tables = bundle.model.to(device), Tables.from_dataset(dataset, device)
    found = score_impressions(model, tables, impressions, progress)
    if scores is not None:
        write_scores(scores, scores_format, impressions, found, dataset.user_ids, dataset.news_ids)
    with progress.stage("metrics and intervals"):
        systems = {run.facts["model"]: found} | reference_scores(dataset, impressions)
        measured = {name: measure(each, impressions.clicked, impressions.offsets) for name, each in systems.items()}
        table, comparisons = compare(measured, dataset, impressions, seed=seed)
    noise, faithful = measure_explanations(model, tables, dataset, impressions, seed=seed, progress=progress)
    return Evaluation(split, table, comparisons, noise, faithful)


def reference_scores(dataset: Dataset, impressions: Impressions) -> dict[str, Array]:
    """What every model stands beside: chance, popularity, and where the truth is known the oracle."""
    arrays = dataset.arrays
    shown, clicked, category = (arrays.array(f"news/{name}") for name in ("times_shown", "times_clicked", "category"))
    found = {
        "chance": chance(impressions.candidates),
        "popularity": popularity(shown, clicked, category, impressions.candidates),
    }
    if "appeal" in impressions.extras:
        found["oracle"] = np.nan_to_num(np.asarray(impressions.extras["appeal"]))
    return found


def compare(
    measured: dict[str, Metrics], dataset: Dataset, impressions: Impressions, *, seed: int
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The rows of all systems, and the first one's paired AUC against each of the others."""
    users = np.asarray(impressions.users)
    table = [
        row
        for name, metrics in measured.items()
        for row in rows(name, metrics, users, has_profile(dataset, users), np.random.default_rng(seed))
    ]
    (first, of_first), *others = measured.items()
    comparisons = [
        {"model": first, "against": name, "metric": "auc"}
        | paired(of_first.auc, metrics.auc, users, np.random.default_rng(seed))._asdict()
        for name, metrics in others
    ]
    return table, comparisons


def has_profile(dataset: Dataset, users: Array) -> Array:
    """Whether each of the users has clicked or skipped anything in the profile window."""
    known: Array = ((dataset.clicked[:, 0] > 0) | (dataset.skipped[:, 0] > 0))[users]
    return known


@torch.no_grad()
def measure_explanations(
    model: ClickModel, tables: Tables, dataset: Dataset, impressions: Impressions, *, seed: int, progress: Progress
) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """Noise AUC and faithfulness, of models that have such weights."""
    if not isinstance(model, Drpn):
        return None, None
    encoded = encode_all(model, tables.news)
    noise = measure_noise(model, tables, dataset, seed=seed, encoded=encoded, progress=progress)
    rng = np.random.default_rng(seed)
    moved = faithfulness(model, tables, impressions, rng, encoded=encoded, progress=progress)
    if not moved.users:
        return noise, None
    more = interval(moved.most_less_random, np.arange(moved.users), rng)
    numbers = {name: getattr(moved, name) for name in ("users", "side", "most", "random", "least", "spread")}
    return noise, numbers | {"most_less_random": more.mean, "most_less_random_interval": [more.low, more.high]}
