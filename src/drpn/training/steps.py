"""One step of training: from samples to changed weights.

On a CPU each step runs as it comes. On a GPU the step is compiled, recorded once as a CUDA graph and then played again
and again: its shapes never change (a fixed number of distinct news, sequences never cut), and nothing in it waits for
the host. Where the data are too large for the GPU's memory they stay in the host's: a thread looks the batches up, two
ahead, and the recorded step begins with what it found.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import NamedTuple, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from drpn.batches.batch import Batch, NewsRows, count_distinct_stories, distinct
from drpn.batches.samples import Plan
from drpn.batches.tables import Tables
from drpn.models.base import ClickModel
from drpn.training.devices import precision
from drpn.training.loss import click_loss, dropped_samples, truncated_loss
from drpn.training.prefetch import prefetch
from drpn.training.settings import TrainingSettings

_ROUND = 1024
"""Capacities are multiples of this, so that passes of nearly the same need share one recording."""
_AHEAD = 2
"""Batches that wait, looked up, where the data are in the host's memory."""
_WARM_UP = 3
"""Steps before the recording: compilers and allocators do their first work in them."""


Part = TypeVar("Part", NewsRows, Batch)
Found = tuple[NewsRows, Batch]
"""The distinct news of a batch, and the batch pointing into them."""


@dataclass
class Stepper:
    """Runs each step as it comes."""

    model: ClickModel
    tables: Tables
    optimiser: torch.optim.Optimizer
    settings: TrainingSettings
    done: int = 0
    """Steps that came before, of earlier passes too."""

    def __post_init__(self) -> None:
        # on the device, in one place: a recorded step reads it there
        self._dropped = torch.zeros((), dtype=torch.int64, device=self.device)

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return next(self.model.parameters()).device

    def prepare(self, plan: Plan) -> None:
        """Called before each pass with its samples."""

    def batches(self, plan: Plan, start: int = 0) -> "Iterator[Samples]":
        """The samples of each step of a pass, from the `start`-th on."""
        for users, candidates in plan.batches(self.settings.batch, start):
            yield Samples(users, candidates)

    def __call__(self, samples: "Samples") -> Float[Tensor, ""]:
        """Change the weights by some samples; gives the loss."""
        self._begin(samples.size)
        news, batch = samples.found or self.look_up(samples)
        return self.learn(self.loss(news.to(self.device), batch.to(self.device)))

    def look_up(self, samples: "Samples", capacity: int | None = None) -> Found:
        """What a model is given for some samples; with a capacity nothing waits for a count."""
        known = self.tables.news
        batch = self.tables.batch(samples.users, samples.candidates, cut=capacity is None)
        news, local = distinct(batch, news=len(known), capacity=capacity, reach=known.places)
        return known[news], local

    def loss(self, news: NewsRows, batch: Batch) -> Float[Tensor, ""]:
        """The loss of a batch whose positions point into the news."""
        with precision(self.settings, batch.users.device):
            scores = self.model.score(self.model.encode_news(news), batch)
        if self.settings.loss == "tce":
            return truncated_loss(scores, batch.candidate_mask, self._dropped)
        return click_loss(scores, batch.candidate_mask)

    def learn(self, loss: Float[Tensor, ""]) -> Float[Tensor, ""]:
        """One step of the optimiser."""
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimiser.step()
        return loss.detach()

    def _begin(self, samples: int) -> None:
        """Count the step, and how many of its samples are dropped."""
        if self.settings.loss == "tce":
            rate, steps = self.settings.tce_rate, self.settings.tce_steps
            self._dropped.fill_(dropped_samples(self.done, samples, rate=rate, steps=steps))
        self.done += 1


class Samples(NamedTuple):
    """The samples of one step, and what was found for them if somebody looked it up already."""

    users: Int[Tensor, "B"]
    candidates: Int[Tensor, "B C"]
    found: Found | None = None

    @property
    def size(self) -> int:
        """How many."""
        return len(self.users)


@dataclass
class CapturedStepper(Stepper):
    """Plays a recorded step; batches of another size than the usual one run as they come."""

    capacity: int = 0
    _graph: torch.cuda.CUDAGraph | None = None
    _warm: int = 0
    _inputs: list[Tensor] | None = None
    _output: Tensor | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self._compiled = torch.compile(self.loss, dynamic=False) if self.settings.compile else self.loss

    def prepare(self, plan: Plan) -> None:
        """Find how many distinct news the largest batch of the pass holds; more than were recorded: record anew."""
        known = self.tables.news
        counts = [
            count_distinct_stories(self.tables.batch(users, candidates, cut=False), news=len(known), reach=known.places)
            for users, candidates in plan.batches(self.settings.batch)
        ]
        needed = -(-int(torch.stack(counts).max()) // _ROUND) * _ROUND
        if needed > self.capacity:
            self.capacity, self._graph, self._warm, self._inputs = needed, None, 0, None

    def __call__(self, samples: Samples) -> Float[Tensor, ""]:
        """Change the weights by some samples; gives the loss, which the next call overwrites."""
        if samples.size != self.settings.batch:
            return super().__call__(samples)
        self._begin(samples.size)
        self._take(self.given(samples))
        if self._graph is None and self._warm < _WARM_UP:
            self._warm += 1
            return self._in_other_stream()
        if self._graph is None:
            self._record()
        assert self._graph is not None
        assert self._output is not None
        self._graph.replay()
        return self._output

    def given(self, samples: Samples) -> list[Tensor]:
        """What the recorded step begins with."""
        return [samples.users, samples.candidates]

    def found(self, given: list[Tensor]) -> Found:
        """What the model is given, within the recorded step."""
        users, candidates = given
        return self.look_up(Samples(users, candidates), self.capacity)

    def _take(self, given: list[Tensor]) -> None:
        if self._inputs is None:
            self._inputs = [torch.empty(one.shape, dtype=one.dtype, device=self.device) for one in given]
        for kept, new in zip(self._inputs, given, strict=True):
            kept.copy_(new, non_blocking=True)

    def _fixed(self) -> Tensor:
        assert self._inputs is not None
        return self.learn(self._compiled(*self.found(self._inputs)))

    def _in_other_stream(self) -> Tensor:
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            loss = self._fixed()
        torch.cuda.current_stream().wait_stream(stream)
        return loss

    def _record(self) -> None:
        torch.cuda.synchronize()
        self.optimiser.zero_grad(set_to_none=True)  # gradients live in the graph's own memory
        graph = torch.cuda.CUDAGraph()
        # what other threads do meanwhile, such as laying out batches, is theirs alone
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            self._output = self._fixed()
        self._graph = graph


@dataclass
class HostStepper(CapturedStepper):
    """Plays a recorded step on batches that were looked up in the host's memory."""

    def batches(self, plan: Plan, start: int = 0) -> Iterator[Samples]:
        """The samples of each step with what was found for them, in memory that the GPU can copy from by itself."""

        def looked_up() -> Iterator[Samples]:
            for users, candidates in plan.batches(self.settings.batch, start):
                samples = Samples(users, candidates)
                whole = samples.size == self.settings.batch
                news, batch = self.look_up(samples, self.capacity if whole else None)
                yield samples._replace(found=(_pinned(news), _pinned(batch)))

        return prefetch(looked_up(), _AHEAD)

    def given(self, samples: Samples) -> list[Tensor]:
        """News and batch, all their tensors."""
        assert samples.found is not None
        return [tensor for part in samples.found for tensor in _tensors(part)]

    def found(self, given: list[Tensor]) -> Found:
        """The same, put together again."""
        news = len(fields(NewsRows))
        return NewsRows(*given[:news]), Batch(*given[news:])


def choose_stepper(
    model: ClickModel, tables: Tables, optimiser: torch.optim.Optimizer, settings: TrainingSettings, done: int = 0
) -> Stepper:
    """The quickest way for the device that the model is on, and for where its data are; `done` steps came before."""
    if next(model.parameters()).device.type == "cpu" or not settings.record:
        return Stepper(model, tables, optimiser, settings, done)
    kind = CapturedStepper if tables.clicked.is_cuda else HostStepper
    return kind(model, tables, optimiser, settings, done)


def _tensors(part: NewsRows | Batch) -> list[Tensor]:
    return [getattr(part, one.name) for one in fields(part)]


def _pinned(part: Part) -> Part:
    return type(part)(*(tensor.pin_memory() for tensor in _tensors(part)))
