"""DRPN's scores without a tanh for each user and candidate, for serving on a CPU.

Eq. 9 needs tanh(u + c) for each interest, with u from the user and c from the candidate. As

    tanh(u + c) = 1 - 2 / (1 + exp(2u) exp(2c)),

both exponentials can be computed once, that of a story when it is encoded and that of a user when it is read. With o,
the vector that Eq. 9 multiplies with, each interest has the weight

    beta = sum(o) + b - 2 sum(1 / (1/o + exp(2u)/o exp(2c))),

which takes a product, a reciprocal and a sum: a fifth of the time. Products overflow if |u| or |c| is larger than
`LIMIT`, which trained models do not reach; then the plain formula is used.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from drpn.models.drpn import Drpn, Encoded, Readers

LIMIT = 20.0
_AT_ONCE = 128
"""Candidates scored together: their rows stay in the processor's cache."""


def fusion_table(encoded: Encoded) -> Tensor:
    """A row for each story: exp(2c) of all views, then the vectors of all views that the score compares with."""
    rows = encoded.values()
    return torch.cat([*(torch.exp(2 * _table(view.candidate)) for view in rows), *(view.plain for view in rows)], dim=1)


def stories_within_limit(encoded: Encoded) -> bool:
    """Whether `FastFusion` can score these stories."""
    return all(bool(_table(rows.candidate).abs().max() <= LIMIT) for rows in encoded.values())


def view_names(model: Drpn) -> list[str]:
    """The views that a model has."""
    return [name for name in ("semantic", "collaborative") if hasattr(model, name)]


class Constants(NamedTuple):
    """What does not depend on users and stories, of all views."""

    out: Tensor
    """o"""
    start: Tensor
    """1/o"""
    constant: Tensor
    """(1, views, interests): sum(o) + b"""


def constants(model: Drpn) -> Constants:
    """The constants of a model."""
    nets = [model.view(name).fusion for name in view_names(model)]
    out = torch.cat([net.out.flatten() for net in nets])
    return Constants(out, 1 / out, torch.stack([net.out.sum(-1) + net.bias for net in nets])[None])


class FastUser(NamedTuple):
    """A user as `FastFusion` reads one."""

    growth: Tensor
    """exp(2u)/o, of all views."""
    interests: Tensor
    """(views, interests, size)"""


def fast_user(known: Constants, readers: Readers) -> FastUser | None:
    """The one user of `readers`; None if `FastFusion` cannot score for this user."""
    user = torch.cat([reader.user.flatten() for reader in readers.values()])
    if not bool(user.abs().max() <= LIMIT):
        return None
    # an o of 0 gives 1 / (inf + inf) = 0
    return FastUser(torch.exp(2 * user) / known.out, torch.cat([reader.interests for reader in readers.values()]))


class FastFusion:
    """Scores of candidates for one user, from the table of stories."""

    def __init__(self, known: Constants, table: Tensor, user: FastUser) -> None:
        """`table` is that of `fusion_table`."""
        self._known, self._table, self._user = known, table, user

    def scores(self, where: Tensor | slice) -> Tensor:
        """(candidates): the sum of the views' scores of some stories.

        A slice of positions is read in place; at a tensor of positions, rows are gathered.
        """
        _, start, constant = self._known
        growth, interests = self._user
        rows = self._table[where] if isinstance(where, slice) else self._table.index_select(0, where)
        count, (views, number, size) = len(rows), interests.shape
        ratio = torch.addcmul(start, rows[:, : len(start)], growth).reciprocal_()
        sums = ratio.view(count, views, number, size).sum(-1)  # (C views F)
        beta = torch.add(constant, sums, alpha=-2)
        stories = rows[:, len(start) :].view(count, views, size)
        products = torch.bmm(stories.transpose(0, 1), interests.transpose(1, 2))  # (views C F)
        return beta.mul_(products.transpose(0, 1)).sum((1, 2))


def parts(count: int) -> list[slice]:
    """Slices of a list of candidates, each small enough for the cache."""
    return [slice(start, min(start + _AT_ONCE, count)) for start in range(0, count, _AT_ONCE)]


def _table(rows: object) -> Tensor:
    assert isinstance(rows, Tensor)  # projections are lazy in training alone
    return rows
