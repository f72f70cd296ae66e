"""One training step: from samples to updated weights.

On a CPU every step runs eagerly. On a GPU the step is compiled, captured once as a CUDA graph and then replayed: its
shapes never change (a fixed number of distinct stories, sequences never trimmed), and nothing in it waits for the host.
If the data do not fit into the GPU's memory they stay in the host's: a thread looks up batches two steps ahead, and the
captured step starts from them.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.utils import clip_grad_norm_

from drpn.batches.batch import count_distinct_stories
from drpn.batches.samples import Plan
from drpn.batches.tables import Tables
from drpn.models.base import ClickModel
from drpn.training.batch_loss import BatchLoss, Inputs, Samples
from drpn.training.loss import dropped_samples
from drpn.training.optimiser import one_cycle, set_rate
from drpn.training.prefetch import prefetch
from drpn.training.settings import TrainingSettings

T = TypeVar("T")
_ROUND = 1024
"""Capacities are multiples of this, so that epochs with nearly the same need share one captured graph."""
_PREFETCH = 2
"""Batches that are looked up in advance if the data are in the host's memory."""
_COMPILE_SECONDS, _SAVED_BY_STEP, _SAVED_BY_SAMPLE = 60, 5e-3, 4e-6
"""Seconds that compiling takes, and that it saves with each step and with each sample of it: DRPN on an H200."""
_WARM_UP = 3
"""Steps before the capture, in which compilers and allocators do their first work."""


@dataclass(kw_only=True)
class Stepper(BatchLoss):
    """Runs every step eagerly."""

    optimiser: torch.optim.Optimizer
    done: int = 0
    """Steps taken before, in earlier epochs too."""
    total: int = 0
    """Steps of the whole training, if it takes all its epochs."""

    def prepare(self, plan: Plan) -> None:
        """Called before each epoch with its samples."""

    def own(self, samples: Samples) -> Samples:
        """Those samples of a step that this process takes: all of them."""
        return samples

    def batches(self, plan: Plan, start: int = 0) -> Iterator[Samples]:
        """The samples of each step of an epoch, from step number `start` on."""
        for part in plan.batches(self.settings.batch, start):
            yield Samples(*part)

    def __call__(self, samples: Samples) -> Float[Tensor, ""]:
        """Take one optimiser step; return the loss."""
        self._begin(samples.size)
        news, batch = samples.inputs or self.look_up(samples)
        news, batch = news.to(self.device), batch.to(self.device)
        return self.learn(self.loss(news, batch, self.plant(news, batch)))

    def learn(self, loss: Float[Tensor, ""]) -> Float[Tensor, ""]:
        """Back-propagate the loss and update the weights."""
        self.optimiser.zero_grad(set_to_none=True)
        self.gradients(loss)
        self.update()
        return loss.detach()

    def gradients(self, loss: Float[Tensor, ""]) -> None:
        """Back-propagate the loss."""
        loss.backward()  # type: ignore[no-untyped-call]

    def update(self) -> None:
        """Update the weights by their gradients."""
        if self.settings.clip:
            clip_grad_norm_(self.model.parameters(), self.settings.clip)
        self.optimiser.step()

    def _begin(self, samples: int) -> None:
        """Count the step, set its learning rate, and how many of its samples TCE drops."""
        if self.settings.schedule == "one-cycle" and self.clicks:
            factor = one_cycle(self.done, self.total, self.settings.warm_up)
            set_rate(self.optimiser, self.settings.rate * factor)
        if self.settings.loss == "tce":
            rate, steps = self.settings.tce_rate, self.settings.tce_steps
            self._dropped.fill_(dropped_samples(self.done, samples, rate=rate, steps=steps))
        self.done += 1


@dataclass(kw_only=True)
class CapturedStepper(Stepper):
    """Replays a captured step; batches of another size than the usual one run eagerly."""

    capacity: int = 0
    _graph: torch.cuda.CUDAGraph | None = None
    _warm: int = 0
    _inputs: list[Tensor] | None = None
    _output: Tensor | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        compiles = self.settings.compile and self._pays_off()
        self._compiled = torch.compile(self.loss, dynamic=False) if compiles else self.loss

    def _pays_off(self) -> bool:
        """Whether the steps to come save the minute of compiling; with an unknown number of steps, they do."""
        saved = (self.total - self.done) * (_SAVED_BY_STEP + _SAVED_BY_SAMPLE * self._samples_of_a_step())
        return not self.total or saved > _COMPILE_SECONDS

    def _samples_of_a_step(self) -> int:
        return self.settings.batch

    def prepare(self, plan: Plan) -> None:
        """Count the distinct stories of the largest batch of the epoch; if the graph is too small, capture again."""
        all_news, own = self.tables.news, [self.own(Samples(*part)) for part in plan.batches(self.settings.batch)]
        counts = [
            count_distinct_stories(
                self.tables.batch(samples.readers, samples.candidates, trim=False),
                news=len(all_news),
                reach=all_news.neighbour_positions,
            )
            for samples in own
        ]
        needed = -(-int(torch.stack(counts).max()) // _ROUND) * _ROUND
        if needed > self.capacity:
            self.capacity, self._graph, self._warm, self._inputs = needed, None, 0, None

    def __call__(self, samples: Samples) -> Float[Tensor, ""]:
        """Take one optimiser step; return the loss, which the next call overwrites."""
        if samples.size != self.settings.batch:
            return super().__call__(samples)
        self._begin(samples.size)
        self._copy_inputs(self.graph_inputs(samples))
        if self._graph is None and self._warm < _WARM_UP:
            self._warm += 1
            return self._run_in_side_stream()
        if self._graph is None:
            self._capture()
        return self._replay()

    def graph_inputs(self, samples: Samples) -> list[Tensor]:
        """The tensors that the captured step starts from."""
        return list(samples[:4])

    def model_inputs(self, inputs: list[Tensor]) -> Inputs:
        """The model's inputs, computed within the captured step."""
        readers, candidates, moments, pairs = inputs
        return self.look_up(Samples(readers, candidates, moments, pairs), self.capacity)

    def _copy_inputs(self, inputs: list[Tensor]) -> None:
        if self._inputs is None:
            self._inputs = [torch.empty(one.shape, dtype=one.dtype, device=self.device) for one in inputs]
        for fixed, new in zip(self._inputs, inputs, strict=True):
            fixed.copy_(new, non_blocking=True)

    def _run(self) -> Tensor:
        assert self._inputs is not None
        news, batch = self.model_inputs(self._inputs)
        return self.learn(self._compiled(news, batch, self.plant(news, batch)))

    def _run_in_side_stream(self) -> Tensor:
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            loss = self._run()
        torch.cuda.current_stream().wait_stream(stream)
        return loss

    def _capture(self) -> None:
        torch.cuda.synchronize()
        self.optimiser.zero_grad(set_to_none=True)  # gradients live in the graph's own memory
        self._graph, self._output = capture(self._run)

    def _replay(self) -> Tensor:
        assert self._graph is not None
        assert self._output is not None
        self._graph.replay()
        return self._output


def capture(run: Callable[[], T]) -> tuple[torch.cuda.CUDAGraph, T]:
    """Capture a function as a CUDA graph; return the graph and what the function returned."""
    graph = torch.cuda.CUDAGraph()
    # thread_local: other threads, which look up batches or exchange tensors, may use the GPU meanwhile
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        result = run()
    return graph, result


@dataclass(kw_only=True)
class HostStepper(CapturedStepper):
    """Replays a captured step on batches that were looked up in the host's memory."""

    _layout: Inputs | None = None

    def batches(self, plan: Plan, start: int = 0) -> Iterator[Samples]:
        """The samples of each step with the model's inputs, in pinned memory."""

        def look_up() -> Iterator[Samples]:
            for part in plan.batches(self.settings.batch, start):
                samples = Samples(*part)
                whole = samples.size == self.settings.batch
                news, batch = self.look_up(samples, self.capacity if whole else None)
                yield samples._replace(
                    inputs=(news.map_tensors(Tensor.pin_memory), batch.map_tensors(Tensor.pin_memory))
                )

        return prefetch(look_up(), _PREFETCH)

    def graph_inputs(self, samples: Samples) -> list[Tensor]:
        """All tensors of the stories and of the batch."""
        assert samples.inputs is not None
        self._layout = samples.inputs
        tensors: list[Tensor] = []
        for part in samples.inputs:
            part.map_tensors(lambda tensor: tensors.append(tensor) or tensor)  # type: ignore[func-returns-value]
        return tensors

    def model_inputs(self, inputs: list[Tensor]) -> Inputs:
        """The same tensors as stories and batch."""
        assert self._layout is not None
        news, batch = self._layout
        tensors = iter(inputs)
        return news.map_tensors(lambda _: next(tensors)), batch.map_tensors(lambda _: next(tensors))


def choose_stepper(
    model: ClickModel,
    tables: Tables,
    optimiser: torch.optim.Optimizer,
    settings: TrainingSettings,
    done: int = 0,
    total: int = 0,
    *,
    clicks: bool = True,
) -> Stepper:
    """The fastest stepper for the device of the model and the place of its data; `done` of `total` steps were taken.

    Without `clicks` its steps learn from planted feedback alone.
    """
    kind: type[Stepper] = CapturedStepper if tables.clicked.is_cuda else HostStepper
    if next(model.parameters()).device.type == "cpu" or not settings.record:
        kind = Stepper
    return kind(model, tables, settings, clicks, optimiser=optimiser, done=done, total=total)
