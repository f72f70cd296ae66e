"""Batches written by hand."""

from collections.abc import Sequence
from dataclasses import fields, replace

import torch
from torch import Tensor, nn

from drpn.batches.batch import Batch, Context, ProfileRows, Profiles, RowBatch
from drpn.layers.news import IdVectors, UserVectors
from drpn.state.count_columns import PAGE, PAIR

_PROFILE = {field.name for field in fields(Profiles)}


def make_batch(
    users: Tensor, clicked: Tensor, skipped: Tensor, candidates: Tensor, neighbours: Tensor | None = None
) -> Batch:
    """Impressions at moment 0 whose stories are positions."""
    optional = () if neighbours is None else (neighbours,)
    return Batch(Profiles(users, clicked, skipped, *optional), candidates, _context(users, candidates))


def make_row_batch(
    users: Tensor, clicked: Tensor, skipped: Tensor, candidates: Tensor, neighbours: Tensor | None = None
) -> RowBatch:
    """Impressions at moment 0 whose stories are rows of the dataset."""
    optional = () if neighbours is None else (neighbours,)
    return RowBatch(ProfileRows(users, clicked, skipped, *optional), candidates, _context(users, candidates))


def as_rows(batch: Batch) -> RowBatch:
    """The same impressions, with positions taken as rows."""
    profiles = ProfileRows(*(getattr(batch.profiles, field.name) for field in fields(batch.profiles)))
    return RowBatch(profiles, batch.candidates, batch.context)


def part_of(batch: Batch, name: str) -> Tensor:
    """A tensor of the profiles, or the candidates."""
    return getattr(batch.profiles if name in _PROFILE else batch, name)


def with_parts(batch: Batch, **parts: Tensor) -> Batch:
    """The batch with some tensors replaced: users, clicked, skipped, neighbours or candidates."""
    profile = {name: tensor for name, tensor in parts.items() if name in _PROFILE}
    rest = {name: tensor for name, tensor in parts.items() if name not in _PROFILE}
    changed = replace(batch, profiles=replace(batch.profiles, **profile), **rest)
    return replace(changed, context=_context(changed.profiles.users, changed.candidates))


def rows_of(batch: Batch, which: slice) -> Batch:
    """Some of the impressions."""
    return batch.map_tensors(lambda tensor: tensor[which])


def leave_out_of_training(model: nn.Module, rows: Sequence[int]) -> None:
    """Mark stories as never met by training, in all id vectors of stories."""
    of_users = [module.ids for module in model.modules() if isinstance(module, UserVectors)]
    for module in model.modules():
        if isinstance(module, IdVectors) and all(module is not users for users in of_users):
            module.met[list(rows)] = False


def _context(users: Tensor, candidates: Tensor) -> Context:
    """Moment 0, and counts that depend on the user and the candidate alone."""
    return Context(
        moment=torch.zeros(len(users), dtype=torch.int64, device=users.device),
        story=_some_counts(candidates, len(PAIR)),
        page=_some_counts(users, len(PAGE)),
    )


def _some_counts(rows: Tensor, columns: int) -> Tensor:
    return 3 * ((rows.unsqueeze(-1) + 1) * torch.arange(1, columns + 1, device=rows.device)).sin().abs()
