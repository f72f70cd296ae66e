"""Captured training steps that several processes take together, each on its own GPU.

A step is two CUDA graphs. The first one computes the gradients of this process's part of the batch, the second one
updates the weights. Between them the gradients are averaged over all processes; this is not captured, because the
number of table rows that a batch uses changes from step to step.

Parts of batches of another size than the usual one run eagerly. All processes know the size of a batch, so that they
always agree on the way a step is taken.
"""

from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor

from drpn.batches.tables import Tables
from drpn.training.batch_loss import Inputs, Samples
from drpn.training.exchange import FlatGradients, average_rows
from drpn.training.settings import TrainingSettings
from drpn.training.shared import SharedModel, SharedStepper, gradients_of
from drpn.training.steps import CapturedStepper, capture


@dataclass(kw_only=True)
class SharedCapturedStepper(CapturedStepper, SharedStepper):
    """Replays the captured step of this process's part of a batch; all processes end a step with the same weights.

    Every process captures the same program, so the weights that have a gradient are the same in all of them.
    """

    _update_graph: torch.cuda.CUDAGraph | None = None
    _flat: FlatGradients = field(default_factory=lambda: FlatGradients([]))
    _table_gradients: list[Tensor] = field(default_factory=list)

    def graph_inputs(self, samples: Samples) -> list[Tensor]:
        """This process's samples, and how much they count."""
        share = self.share(samples)
        if not isinstance(share, Tensor):
            share = torch.full((), share, device=self.device)
        return [*self.own(samples)[:4], share]

    def model_inputs(self, inputs: list[Tensor]) -> Inputs:
        """The model's inputs, computed within the captured step."""
        return super().model_inputs(inputs[:4])

    def _samples_of_a_step(self) -> int:
        return max(self.ranks.counts(self.settings.batch))

    def _run(self) -> Float[Tensor, ""]:
        """Take a step as it will be captured."""
        loss = self._own_gradients()
        self._exchange()
        self._update()
        return loss

    def _own_gradients(self) -> Float[Tensor, ""]:
        """Compute the gradients of this process's samples, ready for the exchange; return its part of the loss."""
        assert self._inputs is not None
        news, batch = self.model_inputs(self._inputs)
        part = self._inputs[-1] * self._compiled(news, batch, self.plant(news, batch))
        self.optimiser.zero_grad(set_to_none=True)
        (self.ranks.size * part).backward()  # type: ignore[no-untyped-call] # the exchange divides by their number
        # a replay writes to these tensors; an eager step in between gives other gradients to the weights
        self._flat = FlatGradients(gradients_of(self.shared.weights))
        self._table_gradients = gradients_of(self.shared.tables)
        assert not any(gradient.is_sparse for gradient in self._table_gradients)  # as on every GPU
        self._flat.pack()
        return part.detach()

    def _exchange(self) -> None:
        self._flat.average(self.ranks)
        average_rows(self._table_gradients, self.ranks)

    def _update(self) -> None:
        """Update the weights by the averaged gradients."""
        self._flat.unpack()
        self.update()

    def _capture(self) -> None:
        torch.cuda.synchronize()
        self.optimiser.zero_grad(set_to_none=True)  # gradients live in the first graph's own memory
        self._graph, self._output = capture(self._own_gradients)
        self._update_graph, _ = capture(self._update)

    def _replay(self) -> Float[Tensor, ""]:
        assert self._graph is not None
        assert self._update_graph is not None
        assert self._output is not None
        self._graph.replay()
        self._exchange()
        self._update_graph.replay()
        return self._output


def choose_shared_stepper(
    shared: SharedModel,
    tables: Tables,
    optimiser: torch.optim.Optimizer,
    settings: TrainingSettings,
    done: int = 0,
    total: int = 0,
    *,
    clicks: bool = True,
) -> SharedStepper:
    """The fastest stepper for processes that train together; `done` of `total` steps were taken.

    Steps are captured if model and data are on GPUs. TCE is not: its samples are compared while the loss is computed.
    Without `clicks` the steps learn from planted feedback alone.
    """
    captured = settings.record and settings.loss != "tce" and tables.clicked.is_cuda
    (some_cannot,) = shared.ranks.any(not captured)  # where the data are may differ, but all must exchange the same
    kind = SharedStepper if some_cannot else SharedCapturedStepper
    return kind(shared.model, tables, settings, clicks, optimiser=optimiser, done=done, total=total, shared=shared)
