"""One run of a comparison: train or resume a model, measure it on the test split, write the result."""

import gc
import json
from contextlib import nullcontext
from typing import Any

import torch

from drpn.batches.tables import Tables
from drpn.bundle.files import pick_device
from drpn.dataset.folder import Dataset
from drpn.evaluation.diversity import Diversity, DiversityMeter
from drpn.evaluation.metrics import Metrics
from drpn.experiments.results import Task, write_result
from drpn.layers.precision import Precision
from drpn.models.base import ClickModel
from drpn.models.drpn import Drpn
from drpn.progress import Progress, Silent
from drpn.provenance import machine
from drpn.recipes.evaluate import measure_model
from drpn.recipes.noise import measure_noise
from drpn.recipes.train import train
from drpn.training.devices import explain_out_of_memory
from drpn.training.loop import CURVE
from drpn.training.threads import use_threads


def run_task(task: Task, progress: Progress) -> None:
    """Train the model, or resume its training, and write its metrics on the test split."""
    on_gpu = torch.cuda.is_available()
    if on_gpu:
        torch.cuda.reset_peak_memory_stats()
    run = train(
        task.folder,
        task.out,
        model=task.model,
        settings=task.settings,
        training=task.training,
        resume=True,
        picture=task.keep,
        progress=progress,
    )
    bundle = run.bundle()
    points = (task.out / CURVE).read_text(encoding="utf-8").splitlines()
    curve: list[dict[str, Any]] = [json.loads(line) for line in points]
    clicks = bundle.manifest["training"]["clicks"]
    threads = bundle.manifest["training"].get("threads", 0)  # older bundles do not have it
    on_cpu = use_threads(threads) if threads else nullcontext()
    with explain_out_of_memory("model.size", task.settings.size), on_cpu:
        dataset = Dataset.open(task.folder, verify=False)
        metrics, diversity, measured = _measure(bundle.model, dataset, task.training.precision)
    facts = {
        "content": bundle.model.content,
        "parameters": sum(parameter.numel() for parameter in bundle.model.parameters()),
        "clicks": clicks,
        "curve": curve,
        "best_epoch": bundle.manifest["metrics"]["best_epoch"],
        "validation_auc": bundle.manifest["metrics"]["validation_auc"],
        "training_seconds": curve[-1]["seconds"],
        "samples_per_second": _samples_per_second(curve, clicks),
        **measured,
        "peak_gpu_mb": torch.cuda.max_memory_allocated() >> 20 if on_gpu else None,
        "jobs": task.jobs,
        "threads": threads,
        "machine": machine(),
    }
    write_result(task, facts, metrics, diversity)
    auc = metrics.mean()["auc"]
    progress.note(f"test AUC {auc:.4f}, trained in {facts['training_seconds']:.0f} s")


def free_gpu_memory() -> None:
    """Free GPU memory and compiled steps after a run; PyTorch keeps only a few compiled versions."""
    gc.collect()
    if torch.cuda.is_available():
        torch.compiler.reset()
        torch.cuda.empty_cache()


def _measure(model: ClickModel, dataset: Dataset, precision: Precision) -> tuple[Metrics, Diversity, dict[str, Any]]:
    """Return metrics and diversity on the test split, and facts: speed, means and, for a DRPN, gamma and noise AUC."""
    device = pick_device()
    meter = DiversityMeter(dataset, dataset.impressions("test"), device)
    model, dataset = model.to(device), model.limit(dataset)
    tables = Tables.from_dataset(dataset, device, reads=model.reads, needs=model.requirements)
    impressions = dataset.impressions("test")
    scores, metrics, seconds = measure_model(model, tables, impressions, Silent(), precision=precision, warm_up=True)
    diversity = meter.measure(scores)
    facts: dict[str, Any] = {"impressions_per_second": round(len(impressions) / seconds, 1)}
    facts["test"] = {name: round(value, 6) for name, value in (metrics.mean() | diversity.mean()).items()}
    if isinstance(model, Drpn):
        parameters = model.named_parameters()
        facts["gamma"] = {name: round(value.item(), 4) for name, value in parameters if name.endswith("gamma")}
        facts["noise"] = measure_noise(model, Tables.from_dataset(dataset, device, moving=False), dataset)
    return metrics, diversity, facts


def _samples_per_second(curve: list[dict[str, Any]], clicks: int) -> float:
    """Return the speed without the first epoch, in which a GPU compiles its steps, unless there is only one epoch."""
    epochs, seconds = len(curve), float(curve[-1]["seconds"])
    if epochs > 1:
        epochs, seconds = epochs - 1, seconds - float(curve[0]["seconds"])
    return round(epochs * clicks / max(seconds, 1e-9), 1)
