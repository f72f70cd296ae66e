"""Teachers: context views that are trained first, so that a model can learn from the mean of their scores.

The mean of several trainings ranks better than each of them, but costs several times as much to serve. A model that
learns from that mean keeps most of the gain and costs nothing more to serve. Every second teacher reads whole lists:
what it knows of clicks on a page helps a model that must score each story alone.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from drpn.batches.samples import Clicks, Sampler
from drpn.batches.tables import Tables
from drpn.bundle.files import data_shape
from drpn.dataset.folder import Dataset, SplitName
from drpn.evaluation.scoring import score_on_device
from drpn.models.base import ModelSettings
from drpn.models.drpn_live import DrpnLive, DrpnLiveSettings
from drpn.progress import Advance, Progress, Silent
from drpn.ranks import current
from drpn.training.loop import Loop
from drpn.training.quantiles import fit_counts
from drpn.training.settings import TrainingSettings

TEACHERS = "teachers"
"""The folder in a run with the checkpoints of the teachers."""
_SEEDS = 1_000
"""Distance between the seeds of a model and of its teachers."""


@dataclass(frozen=True)
class _OneStage:
    """Counts the epochs of a whole training as one stage, without notes."""

    advance: Advance

    @contextmanager
    def stage(self, title: str, total: int | None = None) -> Iterator[Advance]:  # noqa: ARG002
        yield self.advance

    def note(self, text: str) -> None:
        pass


@dataclass(frozen=True)
class Teaching:
    """Trains the teachers of a model, if the settings ask for them."""

    dataset: Dataset
    settings: ModelSettings
    training: TrainingSettings
    device: torch.device
    fingerprint: str | None
    """That of the run, stored in the checkpoints of the teachers."""
    progress: Progress
    resume: bool

    def add_scores(self, tables: Tables, clicks: Clicks, splits: Sequence[SplitName], folder: Path) -> Tables:
        """The tables with the mean of the teachers' scores; as they are if there are no teachers.

        clicks: those of `splits`, which the teachers learn from and score
        folder: where they keep their checkpoints, in a folder of their own
        """
        counts, count = tables.counts, self.training.teachers
        if not count or not self.settings.context or counts is None:
            return tables
        total = torch.zeros(len(counts.pairs), device=counts.pairs.device)
        # the draws of the model's own training do not depend on its teachers
        with torch.random.fork_rng(devices=[self.device] if self.device.type == "cuda" else []):
            for number in range(1, count + 1):
                with self.progress.stage(f"teacher {number} of {count}", self.training.epochs * len(clicks)) as advance:
                    teacher = self._train(number, tables, clicks, folder / TEACHERS / str(number), advance)
                for split in splits:
                    part = self.dataset.impressions(split)
                    scores = score_on_device(teacher, tables, part, Silent(), precision=self.training.precision)
                    total[part.first_pair : part.first_pair + len(scores)] += scores.to(total.device)
        return dataclasses.replace(tables, counts=dataclasses.replace(counts, taught=total / count))

    def _train(self, number: int, tables: Tables, clicks: Clicks, folder: Path, advance: Advance) -> DrpnLive:
        """Train one teacher, all epochs."""
        seed, ranks = self.training.seed + number * _SEEDS, current()
        training = dataclasses.replace(self.training, seed=seed, planted=0.0, planted_passes=0, teachers=0)
        torch.manual_seed(seed)
        shape = data_shape(self.dataset)
        reads_lists = self.settings.list_attention or number % 2 == 0
        teacher = DrpnLive(_context_alone(self.settings, list_attention=reads_lists), shape)
        teacher.add_context(shape)
        teacher.to(self.device)
        fit_counts(teacher, tables, clicks, seed=seed)
        if ranks.first:
            folder.mkdir(parents=True, exist_ok=True)
        sampler = Sampler(clicks, tables, training.batch, training.negatives, seed)
        progress = _OneStage(advance)
        Loop(teacher, tables, sampler, training, folder, progress, fingerprint=self.fingerprint, ranks=ranks).run(
            None, resume=self.resume
        )
        return teacher


def _context_alone(settings: ModelSettings, *, list_attention: bool) -> DrpnLiveSettings:
    """The context view of a model, without its other views."""
    same = {field.name: getattr(settings, field.name) for field in dataclasses.fields(ModelSettings)}
    return DrpnLiveSettings(text=False, graph=False, **same | {"list_attention": list_attention})
