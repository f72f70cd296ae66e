"""One step of training: from samples to changed weights.

On a CPU each step runs as it comes. On a GPU the step is compiled, recorded once as a CUDA graph and then played again
and again: its shapes never change (a fixed number of distinct news, sequences never cut), and nothing in it waits for
the host.
"""

from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Int
from torch import Tensor

from drpn.batches.batch import Batch, NewsRows, count_distinct, distinct
from drpn.batches.samples import Plan
from drpn.batches.tables import Tables
from drpn.models.base import ClickModel
from drpn.training.devices import precision
from drpn.training.loss import click_loss
from drpn.training.settings import TrainingSettings

_ROUND = 1024
"""Capacities are multiples of this, so that passes of nearly the same need share one recording."""
_WARM_UP = 3
"""Steps before the recording: compilers and allocators do their first work in them."""


@dataclass
class Stepper:
    """Runs each step as it comes."""

    model: ClickModel
    tables: Tables
    optimiser: torch.optim.Optimizer
    settings: TrainingSettings

    def prepare(self, plan: Plan) -> None:
        """Called before each pass with its samples."""

    def __call__(self, users: Int[Tensor, "B"], candidates: Int[Tensor, "B C"]) -> Float[Tensor, ""]:
        """Change the weights by some samples; gives the loss."""
        news, local = distinct(self.tables.batch(users, candidates), news=len(self.tables.news))
        return self.learn(self.loss(self.tables.news[news], local))

    def loss(self, news: NewsRows, batch: Batch) -> Float[Tensor, ""]:
        """The loss of a batch whose positions point into the news."""
        with precision(self.settings, batch.users.device):
            scores = self.model.score(self.model.encode_news(news), batch)
        return click_loss(scores, batch.candidate_mask)

    def learn(self, loss: Float[Tensor, ""]) -> Float[Tensor, ""]:
        """One step of the optimiser."""
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimiser.step()
        return loss.detach()


@dataclass
class RecordedStepper(Stepper):
    """Plays a recorded step; batches of another size than the usual one run as they come."""

    capacity: int = 0
    _graph: torch.cuda.CUDAGraph | None = None
    _warm: int = 0
    _inputs: tuple[Tensor, Tensor] | None = None
    _output: Tensor | None = None
    _stream: torch.cuda.Stream = field(default_factory=torch.cuda.Stream)

    def __post_init__(self) -> None:
        self._compiled = torch.compile(self.loss, dynamic=False) if self.settings.compile else self.loss

    def prepare(self, plan: Plan) -> None:
        """Find how many distinct news the largest batch of the pass holds; more than were recorded: record anew."""
        news = len(self.tables.news)
        counts = [
            count_distinct(self.tables.batch(users, candidates, cut=False), news=news)
            for users, candidates in plan.batches(self.settings.batch)
        ]
        needed = -(-int(torch.stack(counts).max()) // _ROUND) * _ROUND
        if needed > self.capacity:
            self.capacity, self._graph, self._warm = needed, None, 0

    def __call__(self, users: Int[Tensor, "B"], candidates: Int[Tensor, "B C"]) -> Float[Tensor, ""]:
        """Change the weights by some samples; gives the loss, which the next call overwrites."""
        if len(users) != self.settings.batch:
            return super().__call__(users, candidates)
        if self._inputs is None:
            self._inputs = users.clone(), candidates.clone()
        for kept, given in zip(self._inputs, (users, candidates), strict=True):
            kept.copy_(given)
        if self._graph is None and self._warm < _WARM_UP:
            self._warm += 1
            return self._in_other_stream()
        if self._graph is None:
            self._record()
        assert self._graph is not None
        assert self._output is not None
        self._graph.replay()
        return self._output

    def _fixed(self) -> Tensor:
        assert self._inputs is not None
        batch = self.tables.batch(*self._inputs, cut=False)
        news, local = distinct(batch, news=len(self.tables.news), capacity=self.capacity)
        return self.learn(self._compiled(self.tables.news[news], local))

    def _in_other_stream(self) -> Tensor:
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            loss = self._fixed()
        torch.cuda.current_stream().wait_stream(self._stream)
        return loss

    def _record(self) -> None:
        torch.cuda.synchronize()
        self.optimiser.zero_grad(set_to_none=True)  # gradients live in the graph's own memory
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._output = self._fixed()
        self._graph = graph


def stepper(model: ClickModel, tables: Tables, optimiser: torch.optim.Optimizer, settings: TrainingSettings) -> Stepper:
    """The quickest way for the device that the tables are on."""
    kind = RecordedStepper if tables.clicked.is_cuda and settings.record else Stepper
    return kind(model, tables, optimiser, settings)
