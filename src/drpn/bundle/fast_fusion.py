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


def exponentials(encoded: Encoded) -> dict[str, Tensor]:
    """exp(2c) of each story, by view."""
    return {view: torch.exp(2 * _table(rows.candidate)) for view, rows in encoded.items()}


def stories_within_limit(encoded: Encoded) -> bool:
    """Whether `FastFusion` can score these stories."""
    return all(bool(_table(rows.candidate).abs().max() <= LIMIT) for rows in encoded.values())


class ViewConstants(NamedTuple):
    """What does not depend on users and stories, by view."""

    out: Tensor
    """o, of all interests."""
    start: Tensor
    """1/o"""
    constant: Tensor
    """sum(o) + b of each interest."""


def constants(model: Drpn) -> dict[str, ViewConstants]:
    """The constants of the views that a model has."""
    views = {name: getattr(model, name, None) for name in ("semantic", "collaborative")}
    return {
        name: ViewConstants(out := view.fusion.out.flatten(), 1 / out, view.fusion.out.sum(-1) + view.fusion.bias)
        for name, view in views.items()
        if view is not None
    }


class FastUser(NamedTuple):
    """A user as `FastFusion` reads one, by view."""

    growth: dict[str, Tensor]
    """exp(2u)/o, of all interests."""
    interests: dict[str, Tensor]


def fast_user(known: dict[str, ViewConstants], readers: Readers) -> FastUser | None:
    """The one user of `readers`; None if `FastFusion` cannot score for this user."""
    if not all(bool(reader.user.abs().max() <= LIMIT) for reader in readers.values()):
        return None
    # an o of 0 gives 1 / (inf + inf) = 0
    return FastUser(
        {name: torch.exp(2 * reader.user.flatten()) / known[name].out for name, reader in readers.items()},
        {name: reader.interests[0].clone() for name, reader in readers.items()},
    )


class FastFusion:
    """Scores of candidates for one user, from the exponentials of stories."""

    def __init__(
        self, known: dict[str, ViewConstants], encoded: Encoded, tables: dict[str, Tensor], user: FastUser
    ) -> None:
        """`tables` are those of `exponentials`."""
        self._views = [
            (
                tables[name],
                encoded[name].plain,
                known[name].start,
                growth,
                known[name].constant,
                user.interests[name],
            )
            for name, growth in user.growth.items()
        ]

    def scores(self, where: Tensor | slice) -> Tensor:
        """(candidates): the sum of the views' scores of some stories.

        A slice of positions is read in place; at a tensor of positions, rows are gathered.
        """
        scores = []
        for table, plain, start, growth, constant, interests in self._views:
            if isinstance(where, slice):
                exponential, story = table[where], plain[where]
            else:
                exponential, story = table.index_select(0, where), plain.index_select(0, where)
            ratio = torch.addcmul(start, exponential, growth).reciprocal_()
            beta = torch.add(constant, ratio.view(len(ratio), len(interests), -1).sum(-1), alpha=-2)
            scores.append(beta.mul_(story @ interests.T).sum(-1))
        return scores[0] if len(scores) == 1 else torch.add(*scores)


def parts(count: int) -> list[slice]:
    """Slices of a list of candidates, each small enough for the cache."""
    return [slice(start, min(start + _AT_ONCE, count)) for start in range(0, count, _AT_ONCE)]


def _table(rows: object) -> Tensor:
    assert isinstance(rows, Tensor)  # projections are lazy in training alone
    return rows
