"""One training step: from samples to updated weights.

On a CPU every step runs eagerly. On a GPU the step is compiled, captured once as a CUDA graph and then replayed: its
shapes never change (a fixed number of distinct stories, sequences never trimmed), and nothing in it waits for the host.
If the data do not fit into the GPU's memory they stay in the host's: a thread looks up batches two steps ahead, and the
captured step starts from them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from drpn.batches.batch import Batch, NewsRows, count_distinct_stories, distinct_stories
from drpn.batches.planted import Planted, click_odds, plant_clicks_of_others, swap_clicks_and_skips
from drpn.batches.samples import Plan
from drpn.batches.tables import Tables
from drpn.layers.precision import matrix_precision
from drpn.models.base import ClickModel
from drpn.training.loss import click_loss, dropped_samples, log_loss, truncated_loss
from drpn.training.optimiser import one_cycle, set_rate
from drpn.training.planted import planted_loss
from drpn.training.prefetch import prefetch
from drpn.training.settings import TrainingSettings

_ROUND = 1024
"""Capacities are multiples of this, so that epochs with nearly the same need share one captured graph."""
_PREFETCH = 2
"""Batches that are looked up in advance if the data are in the host's memory."""
_WARM_UP = 3
"""Steps before the capture, in which compilers and allocators do their first work."""


Inputs = tuple[NewsRows, Batch]
"""The distinct stories of a batch, and the batch with positions into them."""


class Samples(NamedTuple):
    """The samples of one step, and the model's inputs if they have been looked up in advance."""

    readers: Int[Tensor, "B"]
    candidates: Int[Tensor, "B C"]
    moments: Int[Tensor, "B"]
    pairs: Int[Tensor, "B C"]
    inputs: Inputs | None = None

    @property
    def size(self) -> int:
        """The number of samples."""
        return len(self.readers)

    def part(self, which: slice) -> "Samples":
        """Some of the samples, without inputs."""
        return Samples(self.readers[which], self.candidates[which], self.moments[which], self.pairs[which])


@dataclass
class Stepper:
    """Runs every step eagerly."""

    model: ClickModel
    tables: Tables
    optimiser: torch.optim.Optimizer
    settings: TrainingSettings
    done: int = 0
    """Steps taken before, in earlier epochs too."""
    total: int = 0
    """Steps of the whole training, if it takes all its epochs."""
    clicks: bool = True
    """Learn to predict clicks; without, only from planted feedback."""

    def __post_init__(self) -> None:
        # on the device, in one place: a captured step reads it there
        self._dropped = torch.zeros((), dtype=torch.int64, device=self.device)
        swaps = self.settings.plants and self.settings.planted_from == "skips"
        self._odds = click_odds(self.tables).to(self.device) if swaps else None

    @property
    def device(self) -> torch.device:
        """The device of the model."""
        return next(self.model.parameters()).device

    def prepare(self, plan: Plan) -> None:
        """Called before each epoch with its samples."""

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

    def look_up(self, samples: Samples, capacity: int | None = None) -> Inputs:
        """The model's inputs for some samples; with a capacity, nothing waits for a count."""
        all_news = self.tables.news
        batch = self.tables.batch(*samples[:4], trim=capacity is None)
        rows, local = distinct_stories(batch, news=len(all_news), capacity=capacity, reach=all_news.neighbour_positions)
        return all_news.select(rows), local

    def plant(self, news: NewsRows, batch: Batch) -> Planted | None:
        """The profiles of a batch with planted stories, all of them stories of the batch; None if that is off."""
        settings = self.settings
        if self.clicks and not settings.planted:
            return None
        share, skips = settings.planted_share, settings.planted_skips
        if settings.planted_from == "others":
            return plant_clicks_of_others(batch.profiles, share=share, skips=skips)
        assert self._odds is not None
        return swap_clicks_and_skips(batch.profiles, self._odds[news.rows], share=share, skips=skips)

    def loss(self, news: NewsRows, batch: Batch, planted: Planted | None = None) -> Float[Tensor, ""]:
        """The loss of a batch with positions into the stories, which are encoded once."""
        with matrix_precision(self.settings.precision, batch.candidates.device):
            encoded = self.model.encode_news(news)
            scores = self.model.score(encoded, batch) if self.clicks else None
            trust = {} if planted is None else self.model.trust(encoded, planted.profiles)
        losses = [] if scores is None else [self._click_loss(scores, batch.candidate_mask)]
        if planted is not None:
            losses.append((self.settings.planted if self.clicks else 1.0) * planted_loss(trust, planted))
        return losses[0] if len(losses) == 1 else losses[0] + losses[1]

    def _click_loss(self, scores: Float[Tensor, "B C"], mask: Bool[Tensor, "B C"]) -> Float[Tensor, ""]:
        if self.settings.loss == "tce":
            return truncated_loss(scores, mask, self._dropped)
        return (log_loss if self.settings.loss == "log" else click_loss)(scores, mask)

    def learn(self, loss: Float[Tensor, ""]) -> Float[Tensor, ""]:
        """Back-propagate the loss and update the weights."""
        self.optimiser.zero_grad(set_to_none=True)
        self.gradients(loss)
        self.optimiser.step()
        return loss.detach()

    def gradients(self, loss: Float[Tensor, ""]) -> None:
        """Back-propagate the loss."""
        loss.backward()  # type: ignore[no-untyped-call]

    def _begin(self, samples: int) -> None:
        """Count the step, set its learning rate, and how many of its samples TCE drops."""
        if self.settings.schedule == "one-cycle" and self.clicks:
            set_rate(self.optimiser, self.settings.rate * one_cycle(self.done, self.total))
        if self.settings.loss == "tce":
            rate, steps = self.settings.tce_rate, self.settings.tce_steps
            self._dropped.fill_(dropped_samples(self.done, samples, rate=rate, steps=steps))
        self.done += 1


@dataclass
class CapturedStepper(Stepper):
    """Replays a captured step; batches of another size than the usual one run eagerly."""

    capacity: int = 0
    _graph: torch.cuda.CUDAGraph | None = None
    _warm: int = 0
    _inputs: list[Tensor] | None = None
    _output: Tensor | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self._compiled = torch.compile(self.loss, dynamic=False) if self.settings.compile else self.loss

    def prepare(self, plan: Plan) -> None:
        """Count the distinct stories of the largest batch of the epoch; if the graph is too small, capture again."""
        all_news = self.tables.news
        counts = [
            count_distinct_stories(
                self.tables.batch(part.readers, part.candidates, trim=False),
                news=len(all_news),
                reach=all_news.neighbour_positions,
            )
            for part in plan.batches(self.settings.batch)
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
        assert self._graph is not None
        assert self._output is not None
        self._graph.replay()
        return self._output

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
        graph = torch.cuda.CUDAGraph()
        # thread_local: other threads, which look up batches, may use the GPU meanwhile
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            self._output = self._run()
        self._graph = graph


@dataclass
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
    return kind(model, tables, optimiser, settings, done, total, clicks)
