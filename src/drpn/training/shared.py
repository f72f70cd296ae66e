"""Training steps that several processes take together.

Every process has the whole model, takes its part of each batch, and computes the gradients of that part. Then the
gradients are averaged over all processes, and each one updates its weights in the same way.
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from drpn.layers.news import IdVectors
from drpn.models.base import ClickModel
from drpn.ranks import Ranks
from drpn.training.batch_loss import Samples
from drpn.training.exchange import FlatGradients, average_rows
from drpn.training.loss import click_losses, kept_samples
from drpn.training.optimiser import weights_by_kind
from drpn.training.steps import Stepper


class SharedModel:
    """A model that all processes train, with the exchange of its gradients."""

    def __init__(self, model: ClickModel, ranks: Ranks) -> None:
        ranks.join()
        self.model, self.ranks = model, ranks
        kinds = weights_by_kind(model)
        self.tables = [table for table in kinds.pop("tables") if table.requires_grad]
        # all others
        self.weights = [weight for kind in kinds.values() for weight in kind if weight.requires_grad]
        for weight in (*self.tables, *self.weights):  # the random numbers of other machines may differ in a last bit
            ranks.copy_first(weight.detach())
        self._met = [module.met for module in model.modules() if isinstance(module, IdVectors)]

    def average_gradients(self) -> None:
        """Average the gradients of all processes; weights that no process used have none."""
        self._complete_gradients([*self.weights, *self.tables])
        flat = FlatGradients(gradients_of(self.weights))
        flat.pack()
        flat.average(self.ranks)
        flat.unpack()
        tables = [table for table in self.tables if table.grad is not None]
        for table, mean in zip(tables, average_rows(gradients_of(tables), self.ranks), strict=True):
            table.grad = mean

    def _complete_gradients(self, weights: list[nn.Parameter]) -> None:
        """Give a gradient of zeros to weights that only other processes used, so that all exchange the same shapes."""
        # the parts that learn may differ, for example where some stories lack data
        used = self.ranks.any(*(weight.grad is not None for weight in weights))
        for weight, is_used in zip(weights, used, strict=True):
            if is_used and weight.grad is None:
                weight.grad = torch.zeros_like(weight)

    def share_met(self) -> None:
        """Tell every process which ids some process met in its batches."""
        for met in self._met:
            met.copy_(self.ranks.add(met.to(torch.int32)) > 0)

    def share_calibrations(self) -> None:
        """Give every process the calibrations of the first: those of other machines may differ in a last bit."""
        for by_sequence in self.model.calibrations().values():
            for calibration in by_sequence.values():
                for value in calibration.buffers():
                    self.ranks.copy_first(value)


def gradients_of(weights: list[nn.Parameter]) -> list[Tensor]:
    """The gradients of those weights that have one."""
    return [weight.grad for weight in weights if weight.grad is not None]


@dataclass(kw_only=True)
class SharedStepper(Stepper):
    """Takes this process's part of every batch; all processes end a step with the same weights."""

    shared: SharedModel
    _size: int = 0
    """The samples of the current step, of all processes together."""

    @property
    def ranks(self) -> Ranks:
        """The processes that take the steps together."""
        return self.shared.ranks

    def __call__(self, samples: Samples) -> Float[Tensor, ""]:
        """Take one optimiser step; return this process's part of the loss: their sum is that of the whole batch."""
        self._begin(samples.size)
        news, batch = self.look_up(self.own(samples))
        news, batch = news.to(self.device), batch.to(self.device)
        weight = self.share(samples) * self.ranks.size
        return self.learn(weight * self.loss(news, batch, self.plant(news, batch))) / self.ranks.size

    def gradients(self, loss: Float[Tensor, ""]) -> None:
        """Back-propagate the loss, and average the gradients of all processes."""
        super().gradients(loss)
        self.shared.average_gradients()

    def own(self, samples: Samples) -> Samples:
        """The samples of this process; one that counts 0 if there are fewer samples than processes."""
        own = samples.part(self.ranks.part(samples.size))
        return own if own.size else samples.part(slice(1))

    def share(self, samples: Samples) -> Float[Tensor, ""] | float:
        """How much this process's samples count in the loss of all samples."""
        if self.settings.loss == "log":  # a mean over candidates, not over samples
            real = samples.candidates != 0
            own: Tensor = real[self.ranks.part(samples.size)].sum()
            return own / real.sum()
        return self.ranks.counts(samples.size)[self.ranks.rank] / samples.size

    def _begin(self, samples: int) -> None:
        self._seed()
        self._size = samples
        super()._begin(samples)

    def _seed(self) -> None:
        """Seed dropout and planting by process and step, so that a training can be resumed at any step."""
        numbers = (self.settings.seed, self.ranks.rank, self.done, int(self.clicks))
        torch.manual_seed(int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> 1))

    def _truncated_loss(self, scores: Float[Tensor, "b C"], mask: Bool[Tensor, "b C"]) -> Float[Tensor, ""]:
        """A loss of this process's samples; its sum over all processes, by share, is the loss of all samples.

        The samples of largest loss are those of all processes together.
        """
        counts = self.ranks.counts(self._size)
        losses = click_losses(scores, mask)[: counts[self.ranks.rank]]  # (b), empty if the only sample counts 0
        kept = kept_samples(torch.cat(self.ranks.rows(losses.detach(), counts)), self._dropped)  # (B)
        own = kept[self.ranks.part(self._size)]  # (b)
        share = max(len(losses), 1) / self._size
        # multiplied rather than selected, so that a dropped loss that is not finite still shows in the result
        return (losses * own).sum() / kept.sum() / share
