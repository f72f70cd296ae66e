"""Scores of candidates for users whose encoded profiles are kept from request to request."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from drpn.batches.batch import Context
from drpn.batches.tables import Tables
from drpn.bundle.catalogue import StoryCatalogue
from drpn.bundle.fast_fusion import (
    FastFusion,
    FastUser,
    constants,
    fast_user,
    fusion_table,
    parts,
    stories_within_limit,
)
from drpn.bundle.fast_reading import FastReader
from drpn.bundle.profiles import read_profiles
from drpn.layers.tables import map_tables
from drpn.models.base import ClickModel
from drpn.models.drpn import Drpn
from drpn.state.threads import run_together

_FEW = 256
"""Up to this many candidates are scored at once."""
_MANY = 4096
"""From this many candidates on, two threads score."""
_DENSE = 0.5
"""A stretch of the tables is scored as a whole if this share of it is asked for."""


class ProfileStories(NamedTuple):
    """A user as a model reads one: the row in the bundle (0 if unknown) and the known stories, oldest first."""

    row: int
    clicked: Sequence[str]
    skipped: Sequence[str]


class ReadProfile(NamedTuple):
    """A user as encoded by a model."""

    profile: ProfileStories
    fast: FastUser | None
    """For `FastFusion`; None if it cannot score for this user."""
    readers: Any
    """What `ClickModel.read` returned, for this user alone; None if `fast` is there."""


class Scorer:
    """Reads users and scores candidates with one model. Not for use by several threads at once."""

    def __init__(self, model: ClickModel, tables: Tables, stories: StoryCatalogue) -> None:
        self._model, self._tables, self._stories = model, tables, stories
        self._device = next(model.parameters()).device
        self._fast: FastReader | None = None
        if isinstance(model, Drpn) and model.reads and self._device.type == "cpu":
            with torch.no_grad():
                self._fast, self._constants = FastReader(model), constants(model)

    @torch.no_grad()
    def read(self, users: Sequence[ProfileStories]) -> list[ReadProfile]:
        """Encode users."""
        if self._fast is not None and self._stories.derived is not None:
            return self._read_each(users, self._fast)
        return self._read_together(users)

    def _read_together(self, users: Sequence[ProfileStories]) -> list[ReadProfile]:
        """Encode users by the model, all in one call."""
        if not users:
            return []
        profiles = read_profiles(users, self._tables, self._stories).to(self._device)
        readers = self._model.read(self._stories.encoded, profiles)
        if isinstance(self._model, Drpn):
            readers = {view: reader._replace(weights={}) for view, reader in readers.items()}  # only scores are needed
        # each is copied, so that one user does not keep the others of the batch in memory
        return [
            ReadProfile(user, None, map_tables(lambda table, place=place: table[place : place + 1].clone(), readers))
            for place, user in enumerate(users)
        ]

    def _read_each(self, users: Sequence[ProfileStories], reader: FastReader) -> list[ReadProfile]:
        """Encode users one at a time."""
        names = self._model.reads
        sequences = [getattr(user, name) for user in users for name in names]
        # encodes the stories of all profiles together; after that, tables do not change
        at = torch.tensor(self._stories.positions([story for ids in sequences for story in ids]), dtype=torch.int64)
        positions = iter(torch.split(at, [len(ids) for ids in sequences]))
        result = []
        for user in users:
            readers = reader.read(self._stories.encoded, {name: next(positions) for name in names})
            fast = fast_user(self._constants, readers)
            result.append(ReadProfile(user, fast, readers if fast is None else None))
        return result

    @torch.no_grad()
    def scores(self, user: ReadProfile, positions: Tensor, context: Context) -> Tensor:
        """(candidates): the scores of the stories at these positions; `context` is that of the one user."""
        if not len(positions):
            return torch.zeros(0)
        model = self._model
        if user.fast is None or self._stories.derived is None:
            readers = self._read_together([user.profile])[0].readers if user.readers is None else user.readers
            candidates = positions[None].to(self._device)
            return model.rank(self._stories.encoded, readers, candidates, context.to(self._device))[0].float().cpu()
        scores = _match(FastFusion(self._constants, self._stories.derived, user.fast), positions)
        if model.context is None:
            return scores
        counts: Tensor = model.context(context.story, context.page, context.user, (positions != 0)[None])[0]
        return getattr(model, "scale", 1.0) * scores + counts

    @torch.no_grad()
    def weights(self, user: ProfileStories) -> tuple[dict[str, dict[str, list[float]]], str | None]:
        """The weights of a user's stories by side and aggregator, and the aggregator whose weights count as trust.

        No weights for models that have none.
        """
        weights: dict[str, dict[str, list[float]]] = {"clicked": {}, "skipped": {}}
        model = self._model
        if not isinstance(model, Drpn) or not model.reads:
            return weights, None
        profiles = read_profiles([user], self._tables, self._stories).to(self._device)
        for view, reader in model.read(self._stories.encoded, profiles).items():
            for interest, values in reader.weights.items():
                side, kind = interest.split(" ")
                weights[side][f"{view} {kind}"] = values[0, : len(getattr(user, side))].tolist()
        main = f"{'semantic' if 'semantic' in self._stories.encoded else 'collaborative'} "
        return weights, main + ("denoise" if model.denoises else "content")


def _match(fusion: FastFusion, positions: Tensor) -> Tensor:
    """The scores at some positions; two threads share many. Where most of a stretch is asked for, it is read as one."""
    if len(positions) < _FEW:
        return fusion.scores(positions)
    low, high = int(positions.min()), int(positions.max()) + 1
    dense = len(positions) >= _DENSE * (high - low)
    pieces = parts(high - low if dense else len(positions))

    def score(which: list[slice]) -> Tensor:
        with torch.no_grad():
            at = [slice(low + part.start, low + part.stop) if dense else positions[part] for part in which]
            return torch.cat([fusion.scores(where) for where in at])

    if len(positions) < _MANY:
        scores = score(pieces)
    else:
        half = len(pieces) // 2
        scores = torch.cat(run_together(lambda: score(pieces[:half]), lambda: score(pieces[half:]), threads=True))
    return scores[positions - low] if dense else scores


def derived_tables(model: ClickModel, encoded: Any) -> Any:
    """The tables that a `Scorer` reads besides those of the model, for models that are faster with them; else None."""
    if not isinstance(model, Drpn) or not encoded or next(model.parameters()).is_cuda:
        return None
    return fusion_table(encoded) if stories_within_limit(encoded) else None
