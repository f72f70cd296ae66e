"""Ranks stories for users with a bundle."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
import torch
from torch import Tensor

from drpn.batches.batch import Context, Profiles
from drpn.batches.tables import Tables
from drpn.bundle.catalogue import StoryCatalogue
from drpn.bundle.files import Bundle, pick_device
from drpn.bundle.stories import NewStory, StoryReader
from drpn.errors import SettingsError
from drpn.layers.tables import map_tables
from drpn.state.profile import Profile

_SCORES_AT_ONCE = {"cpu": 1 << 16, "cuda": 1 << 20}
_USERS_AT_ONCE = 256

UserId = str | int


@dataclass(frozen=True)
class RankedStory:
    """One story of a ranking."""

    rank: int
    news_id: str
    title: str
    score: float


@dataclass(frozen=True)
class Ranking:
    """Stories for a user, best first."""

    user_id: str
    """Empty if only a history was given."""
    known: bool
    """Whether the profile holds any story that the model knows."""
    rows: tuple[RankedStory, ...]
    notes: tuple[str, ...] = ()
    """One line for each ignored input: unknown labels of new stories, unknown stories of a history."""


@dataclass(frozen=True)
class _Request:
    """One user to rank for."""

    user_id: str
    row: int
    clicked: list[str]
    skipped: list[str]
    notes: tuple[str, ...]

    @property
    def profile(self) -> set[str]:
        return {*self.clicked, *self.skipped}


class Recommender:
    """A bundle that answers: ranks for a user id or a history, over given candidates or the live stories.

    Live stories are those shown in the last 24 hours of the log and those added since, without those removed.
    """

    def __init__(self, bundle: Bundle, device: torch.device | None = None) -> None:
        self.bundle = bundle
        self.model = bundle.model.to(device or pick_device())
        self._tables = Tables.from_dataset(bundle.data, torch.device("cpu"), needs=self.model.needs)
        self._reader = StoryReader(
            bundle.data, self._tables.news, bundle.manifest["data"]["settings"]["category_words"]
        )
        self.stories = StoryCatalogue(self.model, self._tables.news, bundle.data.news_ids)
        self._users = {name: row for row, name in enumerate(bundle.data.user_ids) if row}
        recent = np.flatnonzero(bundle.data.arrays.array("news/recent"))
        self._live = dict.fromkeys(bundle.data.news_ids[int(row)] for row in recent)
        self._added: dict[str, NewStory] = {}

    @property
    def live(self) -> list[str]:
        """The ids of the live stories."""
        return list(self._live)

    def add(self, stories: Sequence[NewStory]) -> None:
        """Add stories to the catalogue and to the live ones; a story of the same id is replaced."""
        unnamed = [story.title for story in stories if story.news_id == NewStory.news_id]
        if unnamed:
            raise SettingsError(f"the story '{unnamed[0]}' has no news_id; give it one")
        self.stories.add([story.news_id for story in stories], self._reader.rows(stories))
        for story in stories:
            self._live[story.news_id], self._added[story.news_id] = None, story

    def remove(self, news_ids: Iterable[str]) -> None:
        """Remove stories: they are not ranked any more, and profiles that hold them are read without them."""
        for news_id in news_ids:
            self.stories.remove([news_id])
            self._live.pop(news_id, None)
            self._added.pop(news_id, None)

    def profile(self, user_id: UserId) -> Profile:
        """The profile that the bundle has of a user; empty for a user that it does not know."""
        row = self._users.get(str(user_id), 0)
        return Profile(*(self._ids(side[row]) for side in (self._tables.clicked, self._tables.skipped)))

    def recommend(
        self,
        user_id: UserId | None = None,
        *,
        history: Profile | None = None,
        candidates: Iterable[str | int] | None = None,
        new: Sequence[NewStory] = (),
        exclude: Iterable[str | int] = (),
        max_age_hours: float | None = None,
        moment: datetime | None = None,
        top: int = 10,
    ) -> Ranking:
        """Rank for one user.

        `history` replaces the profile that the bundle has of the user. Without `candidates`, the live stories are
        ranked that are not in the profile. Stories in `new` are ranked too, without being added to the catalogue.
        `moment` is the time of the request, by default the end of the log.
        """
        if user_id is None and history is None:
            raise SettingsError("there is nobody to rank for; give a user id or a history")
        return self.recommend_many(
            ["" if user_id is None else user_id],
            histories=None if history is None else [history],
            candidates=candidates,
            new=new,
            exclude=exclude,
            max_age_hours=max_age_hours,
            moment=moment,
            top=top,
        )[0]

    def recommend_many(
        self,
        users: Iterable[UserId | Profile],
        *,
        histories: Sequence[Profile] | None = None,
        candidates: Iterable[str | int] | None = None,
        new: Sequence[NewStory] = (),
        exclude: Iterable[str | int] = (),
        max_age_hours: float | None = None,
        moment: datetime | None = None,
        top: int = 10,
    ) -> list[Ranking]:
        """Rank for many users at once; each is a user id or a history, or an id with its history in `histories`."""
        users = list(users)
        if histories is not None and len(histories) != len(users):
            raise SettingsError(f"there are {len(histories)} histories for {len(users)} users; give one for each")
        if top < 0:
            raise SettingsError(f"top is {top}; it takes 0 or more")
        requests = [
            self._request("", user)
            if isinstance(user, Profile)
            else self._request(str(user), None if histories is None else histories[index])
            for index, user in enumerate(users)
        ]
        excluded = {str(news_id) for news_id in exclude}
        pool = self._live if candidates is None else dict.fromkeys(map(str, candidates))
        moment = moment or self.bundle.as_of
        chosen = [
            news_id
            for news_id in pool
            if news_id not in excluded and (max_age_hours is None or self._age_hours(news_id, moment) <= max_age_hours)
        ]
        return self._rank(requests, chosen, new, moment, top, hide_profile=candidates is None)

    def _request(self, user_id: str, history: Profile | None) -> _Request:
        profile = self.profile(user_id) if history is None else history
        sides, unknown = [], []
        for side, limit in ((profile.clicked, self._tables.clicked), (profile.skipped, self._tables.skipped)):
            ids = [entry.news_id for entry in side]
            unknown += [news_id for news_id in ids if news_id not in self.stories]
            known = [news_id for news_id in ids if news_id in self.stories]
            sides.append(known[len(known) - min(len(known), limit.shape[1]) :])  # the newest
        notes: tuple[str, ...] = ()
        if unknown and history is not None:
            shown = ", ".join(unknown[:3]) + (", …" if len(unknown) > 3 else "")
            notes = (f"{len(unknown)} stories of the history are not in the catalogue and are left out: {shown}",)
        clicked, skipped = sides
        return _Request(user_id, self._users.get(user_id, 0), clicked, skipped, notes)

    def _rank(
        self,
        requests: Sequence[_Request],
        pool: list[str],
        new: Sequence[NewStory],
        moment: datetime | None,
        top: int,
        *,
        hide_profile: bool,
    ) -> list[Ranking]:
        """Rank the stories of `pool` for each request; with `hide_profile`, without those of its profile."""
        notes = tuple(dict.fromkeys(self._reader.notes(new)))
        rankings = []
        for chunk in _chunks(requests, self._users_at_once(len(pool) + len(new))):
            candidates = [
                [news_id for news_id in pool if news_id not in request.profile] if hide_profile else pool
                for request in chunk
            ]
            scores = self._score(chunk, candidates, new, moment)
            for request, ids, row in zip(chunk, candidates, scores, strict=True):
                names = [(news_id, self._title(news_id)) for news_id in ids]
                names += [(story.news_id, story.title) for story in new]
                best = sorted(range(len(names)), key=lambda index: (-row[index], index))[:top]
                rows = tuple(RankedStory(rank, *names[index], row[index]) for rank, index in enumerate(best, start=1))
                rankings.append(Ranking(request.user_id, bool(request.profile), rows, (*request.notes, *notes)))
        return rankings

    @torch.no_grad()
    def _score(
        self,
        requests: Sequence[_Request],
        chosen: Sequence[list[str]],
        new: Sequence[NewStory],
        moment: datetime | None,
    ) -> list[list[float]]:
        """For each request the scores of its candidates, then those of the new stories."""
        device = next(self.model.parameters()).device
        rows = torch.tensor([request.row for request in requests])
        profile_rows = self._tables.profiles(rows)  # for the user rows and neighbours; the sequences come from requests
        profiles = Profiles(
            profile_rows.users,
            self._positions([request.clicked for request in requests]),
            self._positions([request.skipped for request in requests]),
            profile_rows.neighbours,
        ).to(device)
        candidates = self._positions(chosen).to(device)
        encoded = self.stories.encoded
        if new:
            extra = self.stories.encode_apart(self._reader.rows(new))
            first = len(next(iter(_tensors(encoded))))
            encoded = map_tables(lambda table, rows: torch.cat([table, rows]), encoded, extra)
            fresh = torch.arange(first, first + len(new), device=device).expand(len(requests), -1)
            candidates = torch.cat([candidates, fresh], dim=1)
        seconds = 0 if moment is None else int(moment.timestamp())
        context = Context(torch.full((len(requests),), seconds, dtype=torch.int64, device=device))
        scores = self.model.match(encoded, self.model.read(encoded, profiles), candidates, context).float().tolist()
        width = candidates.shape[1] - len(new)
        return [[*row[: len(ids)], *row[width:]] for ids, row in zip(chosen, scores, strict=True)]

    def _positions(self, sequences: Sequence[list[str]]) -> Tensor:
        """Positions of stories in the catalogue, padded with 0 to at least one column."""
        positions = [self.stories.positions(ids) for ids in sequences]
        padded = torch.zeros(len(sequences), max(1, *map(len, positions)), dtype=torch.int64)
        for row, places in zip(padded, positions, strict=True):
            row[: len(places)] = torch.tensor(places, dtype=torch.int64)
        return padded

    def _users_at_once(self, candidates: int) -> int:
        limit = _SCORES_AT_ONCE[next(self.model.parameters()).device.type]
        return max(1, min(_USERS_AT_ONCE, limit // max(1, candidates)))

    def _ids(self, rows: Tensor) -> list[str]:
        return [self.bundle.data.news_ids[row] for row in rows.tolist() if row]

    def _title(self, news_id: str) -> str:
        if news_id in self._added:
            return self._added[news_id].title
        return self.bundle.data.titles[self.stories.row(news_id)]

    def _age_hours(self, news_id: str, moment: datetime | None) -> float:
        """Hours since a story was published or first shown; 0 for a story added without a time."""
        story = self._added.get(news_id)
        if story is not None:
            published = story.published
        else:
            if news_id not in self.stories:
                raise SettingsError(f"story '{news_id}' is not in the catalogue; add it first, or leave it out")
            published = self.bundle.first_seen(self.stories.row(news_id))
        if published is None or moment is None:
            return 0.0
        return (_utc(moment) - _utc(published)).total_seconds() / 3600


def _utc(moment: datetime) -> datetime:
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment


def _chunks(requests: Sequence[_Request], size: int) -> Iterator[Sequence[_Request]]:
    for start in range(0, len(requests), size):
        yield requests[start : start + size]


def _tensors(encoded: object) -> list[Tensor]:
    tensors: list[Tensor] = []
    map_tables(tensors.append, encoded)
    return tensors
