"""Measure how well trained models rank a split, compared with scorers that need no training."""

import time
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from drpn.batches.tables import Tables
from drpn.bundle.files import pick_device
from drpn.dataset.arrays import Array
from drpn.dataset.folder import Dataset, Impressions, SplitName
from drpn.evaluation.baselines import chance, click_rate, popularity
from drpn.evaluation.bootstrap import interval, paired
from drpn.evaluation.diversity import Diversity, DiversityMeter
from drpn.evaluation.groups import rows
from drpn.evaluation.metrics import Metrics, measure
from drpn.evaluation.scoring import score_on_device
from drpn.evaluation.submission import ScoresFormat, write_scores
from drpn.explanation.faithful import faithfulness
from drpn.layers.precision import Precision
from drpn.models.base import ClickModel
from drpn.models.drpn import Drpn
from drpn.models.encode import encode_all
from drpn.progress import Progress, Silent
from drpn.ranks import current
from drpn.recipes.diversity import diversity_curve as curve_points
from drpn.recipes.diversity import write_curve
from drpn.recipes.explain import check_picture_format
from drpn.recipes.noise import measure_noise, measure_read_times, require_evidence
from drpn.recipes.runs import Run
from drpn.training.threads import choose_threads, use_threads


@dataclass(frozen=True)
class Evaluation:
    """The rows of the results table, paired comparisons, noise and faithfulness; ready for JSON."""

    split: str
    rows: list[dict[str, Any]]
    """One row per system and user group: metrics with 95 % intervals."""
    comparisons: list[dict[str, Any]]
    """Paired differences in AUC: the first model minus each other system."""
    noise: dict[str, Any] | None
    """Noise AUC of the first model; None without ground truth or for models other than DRPN."""
    faithful: dict[str, Any] | None
    """Mean score change of the first model when one story of the profile is left out; None for other models."""
    diversity_curve: list[dict[str, Any]] | None = None
    """The first model with each method and value of `diversity`; None unless asked for."""
    read_times: dict[str, Any] | None = None
    """How well the first model's weights predict that clicks were read; None unless requested, or without read times.
    """

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as a JSON-ready dictionary."""
        return asdict(self)


def evaluate(
    path: Path,
    *,
    split: SplitName = "test",
    scores: Path | None = None,
    scores_format: ScoresFormat = "mind",
    diversity_curve: Path | None = None,
    noise: bool = False,
    seed: int = 0,
    progress: Progress | None = None,
) -> Evaluation:
    """Evaluate a run on a split of its dataset; write its scores to the file `scores` if given.

    `diversity_curve` gets a picture of accuracy against diversity, and a JSON file of the same name its points.
    `noise` requires evidence of noise, and adds that of read times; noise of simulated logs is measured without it.
    """
    check_picture_format(diversity_curve)
    run = Run.open(path)
    models = {run.facts["model"]: run.bundle().model}
    training = run.facts["settings"]["training"]
    on_cpu = pick_device().type == "cpu"
    with use_threads(choose_threads(training.get("threads", 0))) if on_cpu else nullcontext():
        return measure_models(
            models,
            run.dataset(),
            split,
            precision=training["precision"],
            scores=scores,
            scores_format=scores_format,
            diversity_curve=diversity_curve,
            noise=noise,
            seed=seed,
            progress=progress,
        )


def measure_models(
    models: Mapping[str, ClickModel],
    dataset: Dataset,
    split: SplitName = "test",
    *,
    precision: Precision = "auto",
    scores: Path | None = None,
    scores_format: ScoresFormat = "mind",
    diversity_curve: Path | None = None,
    noise: bool = False,
    weights: bool = True,
    seed: int = 0,
    progress: Progress | None = None,
) -> Evaluation:
    """Evaluate models on one split, next to chance, popularity and, on simulated logs, the oracle.

    The first model is compared with every other system; noise, faithfulness and the files `scores` and
    `diversity_curve` are about it alone. `noise` requires evidence of noise, and adds that of read times.
    Without `weights`, noise and faithfulness are not measured.
    """
    progress = progress or Silent()
    impressions = dataset.impressions(split)
    current().join()
    device = pick_device()
    first = next(iter(models))
    if noise:
        require_evidence(models[first], dataset)
    limited = {name: model.limit(dataset) for name, model in models.items()}
    tables = Tables.from_dataset(limited[first], device)
    measured = {
        name: measure_model(
            model.to(device),
            tables if limited[name] is limited[first] else Tables.from_dataset(limited[name], device),
            impressions,
            progress,
            precision=precision,
        )
        for name, model in models.items()
    }
    if scores is not None:
        first_scores = measured[first].scores.cpu().numpy()
        write_scores(scores, scores_format, impressions, first_scores, dataset.user_ids, dataset.news_ids)
    references = reference_scores(dataset, impressions)
    metrics = {name: model.metrics for name, model in measured.items()} | {
        name: measure(values, impressions.clicked, impressions.offsets) for name, values in references.items()
    }
    with progress.stage("diversity"):
        meter = DiversityMeter(dataset, impressions, device)
        ranked = {name: model.scores for name, model in measured.items()} | references
        diversity = {name: meter.measure(values) for name, values in ranked.items()}
    with progress.stage("confidence intervals"):
        table, comparisons = compare(metrics, diversity, dataset, impressions, seed=seed)
    curve = None
    if diversity_curve is not None:
        with progress.stage("diversity curve"):
            curve = curve_points(measured[first].scores.cpu().numpy(), dataset, impressions, seed=seed)
            write_curve(diversity_curve, curve, model=first, split=split)
    if not weights:
        return Evaluation(split, table, comparisons, None, None, curve)
    tables = Tables.from_dataset(limited[first], device, moving=False) if dataset.live else tables
    noise_auc, faithful, read_times = measure_explanations(
        models[first], tables, limited[first], impressions, read_times=noise, seed=seed, progress=progress
    )
    return Evaluation(split, table, comparisons, noise_auc, faithful, curve, read_times)


class Measured(NamedTuple):
    """One model on one split."""

    scores: Tensor
    """One per candidate, on the device of the model."""
    metrics: Metrics
    seconds: float
    """Time taken to score and to compute the metrics."""


def measure_model(
    model: ClickModel,
    tables: Tables,
    impressions: Impressions,
    progress: Progress,
    *,
    precision: Precision = "auto",
    warm_up: bool = False,
) -> Measured:
    """Score the impressions and compute their metrics.

    With `warm_up`, a GPU scores once before the timed pass, because the first pass also compiles kernels.
    """
    if warm_up and next(model.parameters()).is_cuda:
        score_on_device(model, tables, impressions, Silent(), precision=precision)
        torch.cuda.synchronize()
    start = time.perf_counter()
    scores = score_on_device(model, tables, impressions, progress, precision=precision)
    with progress.stage("metrics"):
        metrics = measure(scores, impressions.clicked, impressions.offsets)
    return Measured(scores, metrics, time.perf_counter() - start)


def reference_scores(dataset: Dataset, impressions: Impressions) -> dict[str, Array]:
    """Return the scores of chance, of popularity, with the live protocol of the running click rate, and of the oracle.

    The oracle exists where the true appeal is known.
    """
    arrays = dataset.arrays
    shown, clicked, category = (arrays.array(f"news/{name}") for name in ("times_shown", "times_clicked", "category"))
    scores = {
        "chance": chance(impressions.candidates),
        "popularity": popularity(shown, clicked, category, impressions.candidates),
    }
    if dataset.live:
        last = impressions.first_pair + len(impressions.candidates)
        scores["click rate"] = click_rate(np.asarray(arrays.array("pairs/counts")[impressions.first_pair : last]))
    if "appeal" in impressions.extras:
        scores["oracle"] = np.nan_to_num(np.asarray(impressions.extras["appeal"]))
    return scores


def compare(
    measured: Mapping[str, Metrics],
    diversity: Mapping[str, Diversity],
    dataset: Dataset,
    impressions: Impressions,
    *,
    seed: int,
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the table rows of all systems, and the paired AUC difference of the first to each of the others."""
    users = np.asarray(impressions.users)
    profiled = has_profile(dataset, users)
    table = [
        row
        for name, metrics in measured.items()
        for row in rows(name, metrics, users, profiled, np.random.default_rng(seed), diversity=diversity[name])
    ]
    (first, first_metrics), *others = measured.items()
    comparisons = [
        {"model": first, "against": name, "metric": "auc"}
        | paired(first_metrics.auc, metrics.auc, users, np.random.default_rng(seed))._asdict()
        for name, metrics in others
    ]
    return table, comparisons


def has_profile(dataset: Dataset, users: Array) -> Array:
    """Return for each user whether the profile window holds a click or a skip of theirs."""
    known: Array = ((dataset.clicked[:, 0] > 0) | (dataset.skipped[:, 0] > 0))[users]
    return known


@torch.no_grad()
def measure_explanations(
    model: ClickModel,
    tables: Tables,
    dataset: Dataset,
    impressions: Impressions,
    *,
    read_times: bool = False,
    seed: int,
    progress: Progress,
) -> tuple[dict[str, Any] | None, dict[str, Any] | None, dict[str, Any] | None]:
    """Return noise AUC, faithfulness and, if requested, read times; None for models without such weights."""
    if not isinstance(model, Drpn) or not getattr(model.settings, "text", True):
        return None, None, None
    encoded = encode_all(model, tables.news)
    noise = measure_noise(model, tables, dataset, seed=seed, encoded=encoded, progress=progress)
    reading = None
    if read_times:
        reading = measure_read_times(model, tables, dataset, seed=seed, encoded=encoded, progress=progress)
    rng = np.random.default_rng(seed)
    changes = faithfulness(model, tables, impressions, rng, encoded=encoded, progress=progress)
    if not changes.users:
        return noise, None, reading
    excess = interval(changes.most_less_random, np.arange(changes.users), rng)
    numbers = {name: getattr(changes, name) for name in ("users", "side", "most", "random", "least", "spread")}
    numbers |= {"most_less_random": excess.mean, "most_less_random_interval": [excess.low, excess.high]}
    return noise, numbers, reading
