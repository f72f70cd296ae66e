"""The training loop of every model."""

import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from drpn.batches.planted import profile_plan
from drpn.batches.samples import Plan, Sampler
from drpn.batches.tables import Tables
from drpn.errors import DivergedError, TrainingError
from drpn.layers.labels import trust_labels_alone
from drpn.layers.news import forget_met
from drpn.models.base import ClickModel
from drpn.output import atomic_file
from drpn.progress import Progress
from drpn.ranks import ALONE, Ranks
from drpn.training.batch_loss import BatchLoss
from drpn.training.calibrate import calibrate
from drpn.training.checkpoint import Checkpoints, TrainingState, copy_tensors, load_checkpoint
from drpn.training.loss import dropped_samples
from drpn.training.optimiser import build_optimiser
from drpn.training.planted import trained_part
from drpn.training.settings import TrainingSettings
from drpn.training.shared import SharedModel
from drpn.training.shared_captured import choose_shared_stepper
from drpn.training.steps import Stepper, choose_stepper
from drpn.training.stopping import Stopped, defer_interrupts

CHECKPOINT, CURVE = "checkpoint.safetensors", "curve.jsonl"

_LOSS_CHECK_SECONDS = 1.0
"""Seconds between two reads of the loss; each read waits for the GPU."""

Validate = Callable[[ClickModel], float]
"""Returns the validation AUC of a model."""

OnPoint = Callable[[dict[str, Any]], None]
"""Called with each point of the learning curve once it is saved; a resumed run starts with its earlier points."""


@dataclass(frozen=True)
class Trained:
    """The result of a training; the model itself holds the weights of the best epoch."""

    best_auc: float
    best_epoch: int
    """From 0."""
    seconds: float
    curve: list[dict[str, Any]]


@dataclass
class Loop:
    """One training, which can be stopped after any step and resumed."""

    model: ClickModel
    tables: Tables
    sampler: Sampler
    settings: TrainingSettings
    folder: Path
    progress: Progress
    on_point: OnPoint = lambda _point: None
    fingerprint: str | None = None
    """That of the run, stored in its checkpoints; a checkpoint with another one is refused."""
    ranks: Ranks = ALONE
    """The processes that train together; the first one writes."""

    def __post_init__(self) -> None:
        self._shared: SharedModel | None = None

    def run(self, validate: Validate | None, *, resume: bool) -> Trained:
        """Train until the epochs or the patience run out; leave the best weights in the model.

        Without `validate` all epochs are trained, and the last is the best.
        """
        optimiser = build_optimiser(self.model, self.settings)
        forget_met(self.model)
        part = trained_part(self.settings, self.tables, self.model) if self.settings.plants else None
        trust_labels_alone(self.model, part == "labels")
        state, best = TrainingState(), dict[str, Tensor]()
        file = self.folder / CHECKPOINT
        if resume and self.ranks.from_first(file.exists):
            state, best = load_checkpoint(file, self.model, optimiser, run=self.fingerprint, ranks=self.ranks)
            self.progress.note(f"resumed in {self._place(state)}")
        self._warn_if_tce_is_idle()
        in_epoch = state.planted_passes == self.settings.planted_passes
        completed_steps = state.epoch * len(self.sampler) + (state.step if in_epoch else 0)
        all_steps = self.settings.epochs * len(self.sampler)
        self._shared = SharedModel(self.model, self.ranks) if self.ranks.together else None
        step = self._stepper(optimiser, completed_steps, all_steps)
        curve = self.ranks.from_first(lambda: _read_curve(self.folder / CURVE, state.epoch))
        for point in curve:
            self.on_point(point)
        with Checkpoints(file if self.ranks.first else None, run=self.fingerprint) as checkpoints:
            self._planted_passes(optimiser, state, best, checkpoints)
            while not state.finished:
                plan = self.sampler.plan(state.epoch)
                self._train(step, plan, optimiser, state, best, checkpoints)
                if self._shared is not None:
                    self._shared.share_met()
                self._calibrate()
                auc = math.nan if validate is None else validate(self.model)
                curve.append(self._curve_point(state, auc))
                if auc > state.best_auc or validate is None:
                    state.best_auc, state.best_epoch = auc, state.epoch
                    best = copy_tensors(self.model.state_dict())
                state.epoch, state.step, state.loss = state.epoch + 1, 0, 0.0
                epochs_since_best = state.epoch - 1 - state.best_epoch
                state.finished = state.epoch >= self.settings.epochs or epochs_since_best >= self.settings.patience
                if self.ranks.first:
                    _write_curve(self.folder / CURVE, curve)
                checkpoints.save(self.model, optimiser, state, best)
                self._report(curve[-1])
                self.on_point(curve[-1])
        self.model.load_state_dict(best)
        return Trained(state.best_auc, state.best_epoch, state.seconds, curve)

    def _planted_passes(
        self,
        optimiser: torch.optim.Optimizer,
        state: TrainingState,
        best: dict[str, Tensor],
        checkpoints: Checkpoints,
    ) -> None:
        """Train on planted feedback alone, in the profiles of `profile_plan`, before the first epoch."""
        if state.planted_passes == self.settings.planted_passes:
            return
        step = self._stepper(optimiser, clicks=False)
        while state.planted_passes < self.settings.planted_passes:
            plan = profile_plan(self.tables, self.settings.seed, state.planted_passes)
            if not len(plan.readers):
                raise TrainingError(
                    "no profile has two or more clicks to plant among; set training.planted_passes to 0"
                )
            step.done = state.planted_passes * self._steps(plan) + state.step
            self._train(step, plan, optimiser, state, best, checkpoints)
            self.progress.note(f"  planted loss {state.loss / self._steps(plan):.4f}")
            state.planted_passes, state.step, state.loss = state.planted_passes + 1, 0, 0.0
        optimiser.zero_grad(set_to_none=True)  # the gradients of a captured step live in its own memory
        if self._shared is not None:
            self._shared.share_met()
        self._calibrate()
        if trained_part(self.settings, self.tables, self.model) != "vectors":
            forget_met(self.model)  # the vectors of the stories are still random
        checkpoints.save(self.model, optimiser, state, best)

    def _calibrate(self) -> None:
        """Fit the probabilities of denoising weights to planted feedback."""
        if not (self.settings.plants and self.model.calibrations()):
            return
        calibrate(BatchLoss(self.model, self.tables, self.settings, clicks=False))
        if self._shared is not None:
            self._shared.share_calibrations()

    def _train(
        self,
        step: Stepper,
        plan: Plan,
        optimiser: torch.optim.Optimizer,
        state: TrainingState,
        best: dict[str, Tensor],
        checkpoints: Checkpoints,
    ) -> None:
        """Take the steps of one epoch or of one planted pass."""
        total, loss_checked = self._steps(plan), 0.0
        device, before = next(self.model.parameters()).device, state.loss if self.ranks.first else 0.0
        loss_sum = torch.tensor(before, dtype=torch.float64, device=device)  # of all processes together
        with self.progress.stage(self._stage(state), len(plan.readers)) as advance:
            advance(state.step * self.settings.batch)
            saved = start = time.monotonic()
            self.model.train()
            step.prepare(plan)
            with defer_interrupts() as stop_requested:
                for samples in step.batches(plan, state.step):
                    loss_sum += step(samples)
                    state.step += 1
                    advance(samples.size)
                    now = time.monotonic()
                    late = self.ranks.first and now - saved > self.settings.save_seconds
                    stop, due = self.ranks.any(stop_requested(), late and state.step < total)
                    if due or stop or state.step == total:
                        state.loss = self._finite_loss(self.ranks.add(loss_sum.clone()), state)
                    elif now - loss_checked > _LOSS_CHECK_SECONDS:
                        loss_checked = now
                        self._finite_loss(loss_sum, state)
                    if due or stop:
                        if self._shared is not None:
                            self._shared.share_met()
                        state.seconds += time.monotonic() - start
                        checkpoints.save(self.model, optimiser, state, best)
                        saved = start = time.monotonic()
                    if stop:
                        checkpoints.wait()
                        message = f"stopped in {self._place(state)}"
                        self.progress.note(message)
                        raise Stopped(message)
            state.seconds += time.monotonic() - start

    def _stepper(
        self, optimiser: torch.optim.Optimizer, done: int = 0, total: int = 0, *, clicks: bool = True
    ) -> Stepper:
        if self._shared is None:
            return choose_stepper(self.model, self.tables, optimiser, self.settings, done, total, clicks=clicks)
        return choose_shared_stepper(self._shared, self.tables, optimiser, self.settings, done, total, clicks=clicks)

    def _steps(self, plan: Plan) -> int:
        return -(-len(plan.readers) // self.settings.batch)

    def _stage(self, state: TrainingState) -> str:
        """The name of the current epoch or planted pass."""
        if state.planted_passes < self.settings.planted_passes:
            return f"planted pass {state.planted_passes + 1} of {self.settings.planted_passes}"
        return f"epoch {state.epoch + 1} of {self.settings.epochs}"

    def _place(self, state: TrainingState) -> str:
        """Where a training stopped."""
        if state.planted_passes < self.settings.planted_passes:
            return f"planted pass {state.planted_passes + 1} at step {state.step}"
        return f"epoch {state.epoch + 1} at step {state.step} of {len(self.sampler)}"

    def _warn_if_tce_is_idle(self) -> None:
        """Note that the training is too short for truncated cross-entropy to drop any sample."""
        steps, settings = self.settings.epochs * len(self.sampler), self.settings
        most_dropped = dropped_samples(steps - 1, settings.batch, rate=settings.tce_rate, steps=settings.tce_steps)
        if settings.loss == "tce" and not most_dropped:
            self.progress.note(
                f"tce drops no sample in {steps:,} steps; lower training.tce_steps, which is {settings.tce_steps}"
            )

    def _finite_loss(self, loss_sum: Tensor, state: TrainingState) -> float:
        loss = float(loss_sum)
        if not math.isfinite(loss):
            raise DivergedError(
                f"the loss is {loss} in {self._stage(state).partition(' of ')[0]} by step {state.step}; "
                f"lower training.rate, which is {self.settings.rate}"
            )
        return loss

    def _curve_point(self, state: TrainingState, auc: float) -> dict[str, Any]:
        loss = state.loss / len(self.sampler)
        return {
            "epoch": state.epoch + 1,
            "loss": round(loss, 6),
            **({} if math.isnan(auc) else {"validation_auc": round(auc, 6)}),
            "seconds": round(state.seconds, 2),
        }

    def _report(self, point: dict[str, Any]) -> None:
        rate = point["epoch"] * len(self.sampler.clicks) / max(point["seconds"], 1e-9)
        auc = f", validation AUC {point['validation_auc']:.4f}" if "validation_auc" in point else ""
        self.progress.note(f"  loss {point['loss']:.4f}{auc}, {rate:,.0f} samples/s")


def _read_curve(file: Path, epochs: int) -> list[dict[str, Any]]:
    if not file.exists():
        return []
    lines = file.read_text().splitlines()[:epochs]  # epochs after the checkpoint are trained again
    return [json.loads(line) for line in lines]


def _write_curve(file: Path, curve: list[dict[str, Any]]) -> None:
    with atomic_file(file) as scratch:
        scratch.write_text("".join(json.dumps(point) + "\n" for point in curve))
