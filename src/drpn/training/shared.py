"""Training steps that several processes take together.

Every process has the whole model, takes its part of each batch, and computes the gradients of that part. PyTorch's
DistributedDataParallel averages them while they are computed. Tables of words and ids are left out of that: of these
only the rows that a batch used are exchanged.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from drpn.errors import SettingsError
from drpn.layers.news import IdVectors
from drpn.models.base import ClickModel
from drpn.ranks import Ranks
from drpn.training.batch_loss import Samples
from drpn.training.optimiser import weights_by_kind
from drpn.training.steps import Stepper


class _Model(nn.Module):
    """A model whose forward pass is a loss: what DistributedDataParallel wraps."""

    def __init__(self, model: ClickModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, loss: Callable[..., Tensor], *inputs: object) -> Tensor:
        return loss(*inputs)


class SharedModel:
    """A model that all processes train, with the exchange of its gradients."""

    def __init__(self, model: ClickModel, ranks: Ranks) -> None:
        ranks.join()
        self.ranks = ranks
        self.tables = [table for table in weights_by_kind(model)["tables"] if table.requires_grad]
        self._met = [module.met for module in model.modules() if isinstance(module, IdVectors)]
        inner, left_out = _Model(model), {id(table) for table in self.tables}
        names = [name for name, value in inner.named_parameters() if id(value) in left_out]
        names += [name for name, _ in inner.named_buffers()]
        DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(inner, names)  # type: ignore[no-untyped-call]
        # the parts that learn differ: without planted feedback, without clicks, with data that some stories lack
        self._engine = DistributedDataParallel(inner, find_unused_parameters=True)

    def loss(self, compute: Callable[..., Tensor], *inputs: object) -> Float[Tensor, ""]:
        """The loss; its backward pass averages the gradients of all processes."""
        result: Tensor = self._engine(compute, *inputs)
        return result

    def exchange_tables(self) -> None:
        """Average the gradients of the tables: the rows that were used in any process."""
        for table in self.tables:
            gradient = table.grad
            if gradient is None:
                gradient = torch.zeros_like(table)
            if gradient.is_sparse:
                gradient = gradient.coalesce()
                own, values = gradient.indices()[0], gradient.values()
            else:
                own = gradient.any(1).nonzero().flatten()
                values = gradient[own]
            rows, parts = torch.cat(self.ranks.rows(own)), torch.cat(self.ranks.rows(values)) / self.ranks.size
            if gradient.is_sparse:
                table.grad = torch.sparse_coo_tensor(rows[None], parts, table.shape).coalesce()
            else:
                table.grad = torch.zeros_like(table).index_add_(0, rows, parts)

    def share_met(self) -> None:
        """Tell every process which ids some process met in its batches."""
        for met in self._met:
            met.copy_(self.ranks.add(met.to(torch.int32)) > 0)


@dataclass(kw_only=True)
class SharedStepper(Stepper):
    """Takes this process's part of every batch; all processes end a step with the same weights."""

    shared: SharedModel | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.settings.loss == "tce":
            raise SettingsError(
                "training.loss is 'tce', which compares all samples of a batch; train it in one process"
            )

    def __call__(self, samples: Samples) -> Float[Tensor, ""]:
        """Take one optimiser step; return this process's part of the loss: their sum is that of the whole batch."""
        assert self.shared is not None
        self._seed()
        self._begin(samples.size)
        own, share = self._own(samples)
        news, batch = self.look_up(own)
        news, batch = news.to(self.device), batch.to(self.device)
        loss = share * self.shared.ranks.size * self.shared.loss(self.loss, news, batch, self.plant(news, batch))
        return self.learn(loss) / self.shared.ranks.size

    def gradients(self, loss: Float[Tensor, ""]) -> None:
        """Back-propagate the loss, and average the gradients of all processes."""
        assert self.shared is not None
        super().gradients(loss)
        self.shared.exchange_tables()

    def _seed(self) -> None:
        """Seed dropout and planting by process and step, so that a training can be resumed at any step."""
        assert self.shared is not None
        numbers = (self.settings.seed, self.shared.ranks.rank, self.done, int(self.clicks))
        torch.manual_seed(int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> 1))

    def _own(self, samples: Samples) -> tuple[Samples, float]:
        """This process's samples, and their share of the loss; a process without samples takes one that counts 0."""
        assert self.shared is not None
        own = samples.part(self.shared.ranks.part(samples.size))
        if not own.size:
            return samples.part(slice(1)), 0.0
        if self.settings.loss == "log":  # a mean over candidates, not over samples
            return own, float((own.candidates != 0).sum() / (samples.candidates != 0).sum())
        return own, own.size / samples.size
