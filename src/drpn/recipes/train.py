"""Train a model on a dataset folder."""

import dataclasses
import math
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from drpn.batches.samples import Clicks, Sampler
from drpn.batches.tables import Tables
from drpn.bundle.files import data_shape, write_bundle
from drpn.dataset.folder import Dataset, SplitName
from drpn.errors import DivergedError, TrainingError
from drpn.evaluation.metrics import measure
from drpn.evaluation.scoring import score_on_device
from drpn.layers.precision import Precision
from drpn.models.base import ClickModel
from drpn.models.catalogue import Entry
from drpn.output import one_writer
from drpn.progress import Progress, Silent
from drpn.ranks import current
from drpn.recipes.needs import check_requirements, other_neighbours, outdated_parts
from drpn.recipes.planted import check_planted, planted_note, planted_reads
from drpn.recipes.runs import BUNDLE, CURVE_PICTURE, TENSORBOARD, Run, former_settings, run_facts
from drpn.recipes.settings import entry, training_defaults
from drpn.recipes.teachers import TEACHERS, Teaching
from drpn.training.ahead import compile_kernels, import_ahead
from drpn.training.batch_loss import BatchLoss
from drpn.training.devices import check_precision, choose_device, data_device, explain_out_of_memory
from drpn.training.loop import CHECKPOINT, Loop, OnPoint, Trained
from drpn.training.memory import keep_freed_memory
from drpn.training.quantiles import fit_counts
from drpn.training.settings import TrainingSettings
from drpn.training.tensorboard import check_tensorboard, event_files
from drpn.training.threads import choose_threads, usable_cores, use_threads

REFIT = "refit"
"""The folder in a run with the checkpoint of the second training."""
REFIT_SPLITS: tuple[SplitName, ...] = ("train", "validation")


def train(
    folder: Path,
    out: Path,
    *,
    model: str = "drpn",
    settings: Any = None,
    training: TrainingSettings | None = None,
    resume: bool = False,
    tensorboard: bool = False,
    picture: bool = True,
    progress: Progress | None = None,
) -> Run:
    """Train a model of the catalogue; write its learning curve and its bundle to the run folder `out`.

    Processes that torchrun started train together: `training.batch` is the size of a batch of all of them, and the
    first one writes. A job that torchrun starts again goes on from its last checkpoint.
    """
    ranks = current()
    job = one_writer(_train) if ranks.first else _train
    run = job(
        folder,
        out,
        model=model,
        settings=settings,
        training=training or training_defaults(model),
        resume=resume or ranks.restarts > 0,
        tensorboard=tensorboard and ranks.first,
        picture=picture and ranks.first,
        progress=progress if progress is not None and ranks.first else Silent(),
    )
    ranks.leave()
    return run


def _train(
    folder: Path,
    out: Path,
    /,
    *,
    model: str,
    settings: Any,
    training: TrainingSettings,
    resume: bool,
    tensorboard: bool,
    picture: bool,
    progress: Progress,
) -> Run:
    ranks = current()
    chosen = entry(model)
    settings = settings or chosen.settings
    dataset = Dataset.open(folder)
    check_requirements(model, settings, dataset)
    check_planted(model, settings, training)
    ranks.join()
    device = choose_device(training)
    check_precision(training, device)
    import_ahead(device)
    if tensorboard:
        check_tensorboard()
    data_place = data_device(training, device, dataset.bytes_to_train)
    clicks = Clicks.from_impressions(dataset.impressions("train"), data_place)
    if not len(clicks):
        raise TrainingError(f"{folder} has nothing to train on: no impression has a click and a skip")
    facts = run_facts(dataset, model, settings, training)
    run = ranks.from_first(lambda: Run.start(out, facts, former_settings(type(settings)), resume=resume))
    if resume and ranks.from_first((out / BUNDLE).exists):
        if ranks.first:
            run.check_bundle()
        progress.note(f"{out} is already fully trained")
        return run
    on_cpu = device.type == "cpu"
    asked = training.threads or (usable_cores() // ranks.local_size or 1 if ranks.size > 1 else 0)
    threads = ranks.from_first(lambda: asked or run.facts.get("threads") or choose_threads()) if on_cpu else 0
    if threads != run.facts.get("threads", 0) and ranks.first:
        run = run.with_threads(threads)
    try:
        with explain_out_of_memory("training.batch", training.batch), ExitStack() as stack:
            where = device.type if data_place == device else f"{device.type}, data in host memory"
            if on_cpu:
                stack.enter_context(keep_freed_memory())
                stack.enter_context(use_threads(threads))
                where = f"cpu, {threads} thread{'s' if threads > 1 else ''}"
            network = _new_model(chosen, settings, dataset, training, device)
            reads = planted_reads(network.reads, training)
            tables = Tables.from_dataset(network.limit(dataset), data_place, reads=reads, needs=network.requirements)
            fit_counts(network, tables, clicks, seed=training.seed)
            teaching = Teaching(dataset, settings, training, device, run.fingerprint, progress, resume)
            other = other_neighbours(model, settings, dataset)
            for note in [*outdated_parts(model, dataset), *([other] if other else [])]:
                progress.note(note)
            progress.note(f"{model}: {_parameter_count(network):,} parameters, {len(clicks):,} clicks, on {where}")
            if training.plants:
                progress.note(planted_note(training, tables, network))
            taught = teaching.add_scores(tables, clicks, ("train",), out)
            sampler = Sampler(clicks, taught, training.batch, training.negatives, training.seed)
            compile_kernels(
                BatchLoss(network, taught, training),
                sampler,
                lambda: validation_scores(network, tables, dataset, settings.size, training.precision),
            )
            with _point_writer(out, len(clicks), tensorboard=tensorboard) as on_point:
                loop = Loop(network, taught, sampler, training, out, progress, on_point, run.fingerprint, ranks)
                trained = loop.run(
                    lambda current: validation_auc(current, tables, dataset, settings.size, training.precision),
                    resume=resume,
                )
            if training.refit:
                both = [Clicks.from_impressions(dataset.impressions(split), data_place) for split in REFIT_SPLITS]
                network = _new_model(chosen, settings, dataset, training, device)
                _refit(network, tables, Clicks.join(both), teaching, trained, run)
    except BaseException:
        if ranks.first and not ((out / CHECKPOINT).exists() or (out / TEACHERS).exists()):
            run.forget()
        raise
    if not ranks.first:
        return run
    facts = {
        "metrics": {"validation_auc": round(trained.best_auc, 6), "best_epoch": trained.best_epoch + 1},
        "training": dataclasses.asdict(training)
        | {"threads": threads, "clicks": len(clicks), "seconds": round(trained.seconds, 1)},
        "trained": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": run.facts["commit"],
        **({"run": run.fingerprint} if run.fingerprint else {}),
    }
    with ThreadPoolExecutor(1) as pool:  # loading the plotting library takes as long as writing the bundle
        title = f"{model} on {dataset.path.name}"
        drawn = pool.submit(_draw_curve, trained, out / CURVE_PICTURE, title=title) if picture else None
        write_bundle(out / BUNDLE, network, name=model, settings=settings, dataset=dataset, facts=facts)
        if drawn is not None:
            drawn.result()
    return run


def validation_auc(
    model: ClickModel, tables: Tables, dataset: Dataset, size: int, precision: Precision = "auto"
) -> float:
    """Return the mean AUC on the validation split."""
    impressions = dataset.impressions("validation")
    scores = validation_scores(model, tables, dataset, size, precision)
    if not torch.isfinite(scores).all():
        raise DivergedError("the model's scores are no longer finite: the training has diverged; lower training.rate")
    auc = measure(scores, impressions.clicked, impressions.offsets).mean()["auc"]
    if math.isnan(auc):
        raise TrainingError(f"{dataset.path} has nothing to validate on: no impression there has a click and a skip")
    return auc


def validation_scores(
    model: ClickModel, tables: Tables, dataset: Dataset, size: int, precision: Precision = "auto"
) -> Tensor:
    """The scores of the validation split; `size` is model.size, named in the error if memory runs out."""
    with explain_out_of_memory("model.size", size):
        return score_on_device(model, tables, dataset.impressions("validation"), Silent(), precision=precision)


def _refit(
    fresh: ClickModel,
    tables: Tables,
    clicks: Clicks,
    teaching: Teaching,
    trained: Trained,
    run: Run,
) -> None:
    """Train a fresh model on more clicks, for as many epochs as were best."""
    epochs, progress = trained.best_epoch + 1, teaching.progress
    again = dataclasses.replace(teaching.training, epochs=epochs)
    progress.note(f"training again with the validation days: {len(clicks):,} clicks, {epochs} epochs")
    fit_counts(fresh, tables, clicks, seed=again.seed)
    folder, ranks = run.path / REFIT, current()
    if ranks.first:
        folder.mkdir(exist_ok=True)
    tables = dataclasses.replace(teaching, training=again).add_scores(tables, clicks, REFIT_SPLITS, folder)
    sampler = Sampler(clicks, tables, again.batch, again.negatives, again.seed)
    loop = Loop(fresh, tables, sampler, again, folder, progress, fingerprint=run.fingerprint, ranks=ranks)
    loop.run(None, resume=teaching.resume)


def _new_model(
    chosen: Entry, settings: Any, dataset: Dataset, training: TrainingSettings, device: torch.device
) -> ClickModel:
    """The model before training."""
    torch.manual_seed(training.seed)
    network = chosen.model(settings, data_shape(dataset)).to(device)
    if training.first_scores != 1:
        network.scale_scores(training.first_scores)
    return network


def _point_writer(out: Path, samples: int, *, tensorboard: bool) -> AbstractContextManager[OnPoint]:
    return event_files(out / TENSORBOARD, samples) if tensorboard else nullcontext(lambda _point: None)


def _draw_curve(trained: Trained, file: Path, *, title: str) -> None:
    try:
        from drpn.drawing.curve import draw_curve
    except ImportError:  # matplotlib is optional on a machine that only trains
        return
    draw_curve(trained.curve, file, title=title)


def _parameter_count(model: ClickModel) -> int:
    return sum(parameter.numel() for parameter in model.parameters())
