"""The one loop that trains every model."""

import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from drpn.batches.samples import Sampler
from drpn.batches.tables import Tables
from drpn.errors import DivergedError
from drpn.models.base import ClickModel
from drpn.output import atomic_file
from drpn.progress import Progress as Reporter
from drpn.training.checkpoint import Checkpoints, Progress, load_checkpoint
from drpn.training.loss import dropped_samples
from drpn.training.optimiser import build_optimiser
from drpn.training.settings import TrainingSettings
from drpn.training.steps import Stepper, choose_stepper
from drpn.training.stopping import Stopped, defer_interrupts

CHECKPOINT, CURVE = "checkpoint.safetensors", "curve.jsonl"

_LOOK = 1.0
"""Seconds between two looks at the loss; a GPU has to be waited for."""

Validate = Callable[[ClickModel], float]
"""The validation AUC of a model."""

OnPoint = Callable[[dict[str, Any]], None]
"""Told each point of the curve once it is kept; of a run taken up, first those from before."""


@dataclass(frozen=True)
class Trained:
    """How a training ended; the model holds the weights of its best pass."""

    best_auc: float
    best_epoch: int
    seconds: float
    curve: list[dict[str, Any]]


@dataclass
class Loop:
    """One training, which can be stopped at any step and taken up again."""

    model: ClickModel
    tables: Tables
    sampler: Sampler
    settings: TrainingSettings
    folder: Path
    reporter: Reporter
    on_point: OnPoint = lambda _point: None

    def run(self, validate: Validate, *, resume: bool) -> Trained:
        """Train until the passes or the patience are used up; leaves the best weights in the model."""
        optimiser = build_optimiser(self.model, self.settings)
        progress, best = Progress(), dict[str, Tensor]()
        if resume and (self.folder / CHECKPOINT).exists():
            progress, best = load_checkpoint(self.folder / CHECKPOINT, self.model, optimiser)
            self.reporter.note(f"taken up in pass {progress.epoch + 1} at step {progress.step} of {len(self.sampler)}")
        self._note_idle_truncation()
        done = progress.epoch * len(self.sampler) + progress.step
        step = choose_stepper(self.model, self.tables, optimiser, self.settings, done)
        curve = _read_curve(self.folder / CURVE, progress.epoch)
        for point in curve:
            self.on_point(point)
        with Checkpoints(self.folder / CHECKPOINT) as checkpoints:
            while not progress.finished:
                self._one_pass(step, optimiser, progress, best, checkpoints)
                auc = validate(self.model)
                curve.append(self._point(progress, auc))
                if auc > progress.best_auc:
                    progress.best_auc, progress.best_epoch = auc, progress.epoch
                    best = {name: value.detach().cpu().clone() for name, value in self.model.state_dict().items()}
                progress.epoch, progress.step, progress.loss = progress.epoch + 1, 0, 0.0
                stale = progress.epoch - 1 - progress.best_epoch
                progress.finished = progress.epoch >= self.settings.epochs or stale >= self.settings.patience
                _write_curve(self.folder / CURVE, curve)
                checkpoints.save(self.model, optimiser, progress, best)
                self._note(curve[-1])
                self.on_point(curve[-1])
        self.model.load_state_dict(best)
        return Trained(progress.best_auc, progress.best_epoch, progress.seconds, curve)

    def _one_pass(
        self,
        step: Stepper,
        optimiser: torch.optim.Optimizer,
        progress: Progress,
        best: dict[str, Tensor],
        checkpoints: Checkpoints,
    ) -> None:
        total, looked = len(self.sampler), 0.0
        summed = torch.tensor(progress.loss, dtype=torch.float64, device=next(self.model.parameters()).device)
        title = f"pass {progress.epoch + 1} of {self.settings.epochs}"
        with self.reporter.stage(title, len(self.sampler.clicks)) as advance:
            advance(progress.step * self.settings.batch)
            saved = start = time.monotonic()
            self.model.train()
            plan = self.sampler.plan(progress.epoch)
            step.prepare(plan)
            with defer_interrupts() as asked_to_stop:
                for samples in step.batches(plan, progress.step):
                    summed += step(samples)
                    progress.step += 1
                    advance(samples.size)
                    now, stop = time.monotonic(), asked_to_stop()
                    due = now - saved > self.settings.save_seconds and progress.step < total
                    if due or stop or progress.step == total or now - looked > _LOOK:
                        progress.loss, looked = self._finite(summed, progress), now
                    if due or stop:
                        progress.seconds += time.monotonic() - start
                        checkpoints.save(self.model, optimiser, progress, best)
                        saved = start = time.monotonic()
                    if stop:
                        checkpoints.wait()
                        place = f"stopped in pass {progress.epoch + 1} at step {progress.step} of {total}"
                        self.reporter.note(place)
                        raise Stopped(place)
            progress.seconds += time.monotonic() - start

    def _note_idle_truncation(self) -> None:
        steps, chosen = self.settings.epochs * len(self.sampler), self.settings
        most = dropped_samples(steps - 1, chosen.batch, rate=chosen.tce_rate, steps=chosen.tce_steps)
        if chosen.loss == "tce" and not most:
            self.reporter.note(
                f"tce drops no sample in {steps:,} steps; lower training.tce_steps, which is {chosen.tce_steps}"
            )

    def _finite(self, summed: Tensor, progress: Progress) -> float:
        loss = float(summed)
        if not math.isfinite(loss):
            raise DivergedError(
                f"the loss is {loss} in pass {progress.epoch + 1} by step {progress.step}; "
                f"lower training.rate, which is {self.settings.rate}"
            )
        return loss

    def _point(self, progress: Progress, auc: float) -> dict[str, Any]:
        loss = progress.loss / len(self.sampler)
        return {
            "epoch": progress.epoch + 1,
            "loss": round(loss, 6),
            "validation_auc": round(auc, 6),
            "seconds": round(progress.seconds, 2),
        }

    def _note(self, point: dict[str, Any]) -> None:
        rate = point["epoch"] * len(self.sampler.clicks) / max(point["seconds"], 1e-9)
        self.reporter.note(
            f"  loss {point['loss']:.4f}, validation AUC {point['validation_auc']:.4f}, {rate:,.0f} samples/s"
        )


def _read_curve(file: Path, epochs: int) -> list[dict[str, Any]]:
    if not file.exists():
        return []
    lines = file.read_text().splitlines()[:epochs]  # what came after the checkpoint will come again
    return [json.loads(line) for line in lines]


def _write_curve(file: Path, curve: list[dict[str, Any]]) -> None:
    with atomic_file(file) as scratch:
        scratch.write_text("".join(json.dumps(point) + "\n" for point in curve))
