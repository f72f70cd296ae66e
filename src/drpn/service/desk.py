"""One bundle, kept up to date with the log of a store."""

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from drpn.batches.batch import Context
from drpn.bundle.context import Asked, CountedView
from drpn.bundle.fast_fusion import FastUser
from drpn.bundle.files import Bundle, pick_device
from drpn.bundle.recommender import Recommender
from drpn.bundle.scoring import ProfileStories, ReadProfile, Scorer, derived_tables
from drpn.errors import SettingsError
from drpn.service.popularity import Popularity
from drpn.service.stories import LiveStories, Pool
from drpn.service.users import KnownUser
from drpn.service.views import PageView, PageViews
from drpn.state.profile import Profile
from drpn.store.base import Store
from drpn.store.records import ClickCounted, Erased, Impression, LoggedEvent, NewsPut, Seed, TakenDown

if TYPE_CHECKING:
    from drpn.bundle.shared_readers import SharedReaders
    from drpn.bundle.shared_tables import SharedTables

_EVENTS_AT_ONCE = 1000
_NOBODY = ProfileStories(0, (), ())


class ScoreRequest(NamedTuple):
    """Candidates to score for one user."""

    user_id: str | None
    """None to know nothing of the user."""
    profile: ProfileStories
    pool: Pool
    seconds: int
    page: str | None
    about: Mapping[str, str | float]
    also: tuple[PageView, ...] = ()
    """Page views of the user that count as if they were recorded, oldest first."""


class Desk:
    """A bundle that ranks, with the profiles, counts and stories of a store. For one thread at a time."""

    def __init__(self, path: Path, store: Store, *, cached_readers: int, shared: Path | None = None) -> None:
        """Open a bundle and follow the log to its end; processes with the same folder `shared` share its tables."""
        self.path = path
        self.bundle = Bundle.open(path, mapped=shared is not None)
        folder = path.resolve()
        self.name = folder.parent.name if folder.name == "bundle" else folder.name
        self.recommender = Recommender(self.bundle, derive=derived_tables, shared=_shared_tables(shared, path))
        self.scorer = Scorer(self.recommender.model, self.recommender.tables, self.recommender.stories)
        self.stories = LiveStories(self.recommender)
        self.popularity = Popularity()
        self._store, self._size = store, cached_readers
        self._shared_readers = _shared_readers(shared, path, cached_readers)
        self._read: OrderedDict[str, tuple[ProfileStories, ReadProfile]] = OrderedDict()
        self._profiles: dict[str, tuple[KnownUser, int, ProfileStories]] = {}
        self.hits = self.misses = 0
        as_of = self.bundle.as_of
        self._views = PageViews(store, as_of)
        self._marks: dict[str, str] | None = None
        self._count_log(as_of)
        self.sequence = 0 if as_of is None else store.sequence_at(as_of)
        self._stories_until = self._put_stored()
        self.stories.live()  # encodes them
        self.follow()

    def seeds(self) -> Iterator[Seed]:
        """The profiles of the bundle."""
        for user_id, row in self.recommender.users.items():
            yield Seed(user_id, self.recommender.profile(user_id), tuple(self.bundle.all_clicked(row) or ()))

    def follow(self) -> int:
        """Apply the events that are new in the log; returns the number of the last one."""
        while events := self._store.events_after(self.sequence, limit=_EVENTS_AT_ONCE):
            self.apply(events)
        return self.sequence

    def apply(self, events: Sequence[LoggedEvent]) -> None:
        """Apply events; those that were applied before change nothing."""
        for event in events:
            if event.sequence <= self.sequence:
                continue
            what = event.what
            if isinstance(what, NewsPut | TakenDown):
                if event.sequence > self._stories_until:
                    self._apply_story(what)
            elif isinstance(what, Erased):
                self._erase(what.mark)
            else:
                self._count_clicks(what, event.time)
                for view in self._views.apply(what):
                    with suppress(SettingsError):  # counts that cannot be made must not stop the log
                        self._record(view)
            self.sequence = event.sequence

    def profile(self, user_id: str | None, known: KnownUser | None, changed: Profile | None = None) -> ProfileStories:
        """A user as the model reads one; `changed` stands for the user's profile."""
        if user_id is None or known is None:
            return _NOBODY
        if changed is None:
            kept = self._profiles.get(user_id)
            if kept is None or kept[0] is not known or kept[1] != self.stories.version:
                if len(self._profiles) > self._size:
                    self._profiles.clear()
                kept = known, self.stories.version, self._stories_of(user_id, known, known.profile)
                self._profiles[user_id] = kept
            return kept[2]
        return self._stories_of(user_id, known, changed)

    def _stories_of(self, user_id: str, known: KnownUser, profile: Profile) -> ProfileStories:
        clicked, skipped = (
            tuple(entry.news_id for entry in side if entry.news_id in self.recommender.stories)
            for side in (profile.clicked, profile.skipped)
        )
        tables = self.recommender.tables
        row = 0 if known.erased else self.recommender.users.get(user_id, 0)
        kept = (
            side[max(0, len(side) - most.shape[1]) :]
            for side, most in (
                (clicked, tables.clicked),
                (skipped, tables.skipped),
            )
        )
        return ProfileStories(row, *kept)

    def scores(self, requests: Sequence[ScoreRequest], *, keep: bool = True) -> list[NDArray[np.float32]]:
        """The scores of the candidates of each request; users are read together and, with `keep`, kept."""
        contexts = self._contexts(requests)
        readers = self._readers(requests) if keep else self.scorer.read([request.profile for request in requests])
        return [
            self.scorer.scores(reader, request.pool.positions, context).numpy()
            for request, reader, context in zip(requests, readers, contexts, strict=True)
        ]

    @property
    def cached(self) -> int:
        """Users whose encoded profiles are kept."""
        return len(self._read)

    def _readers(self, requests: Sequence[ScoreRequest]) -> list[ReadProfile]:
        readers: dict[int, ReadProfile] = {}
        missing: dict[tuple[str, ProfileStories], list[int]] = {}
        for place, request in enumerate(requests):
            user = request.user_id or ""
            kept = self._read.get(user)
            if kept is not None and kept[0] == request.profile:
                self.hits += 1
                self._read.move_to_end(user)
                readers[place] = kept[1]
            else:
                self.misses += 1
                missing.setdefault((user, request.profile), []).append(place)
        for (user, profile), read in zip(missing, self._encoded([key[1] for key in missing]), strict=True):
            self._read[user] = profile, read
            self._read.move_to_end(user)
            readers |= dict.fromkeys(missing[user, profile], read)
        while len(self._read) > self._size:
            self._read.popitem(last=False)
        return [readers[place] for place in range(len(requests))]

    def _encoded(self, profiles: list[ProfileStories]) -> list[ReadProfile]:
        """Users as the model encodes them; what another process has encoded is taken from there."""
        shared = self._shared_readers
        if shared is None:
            return self.scorer.read(profiles)
        # the texts of other stories may have changed, in each process at another moment
        of_bundle = [all(self.recommender.stories.rows([*one.clicked, *one.skipped])) for one in profiles]
        stored = [shared.get(one) if same else None for one, same in zip(profiles, of_bundle, strict=True)]
        rest = iter(self.scorer.read([one for one, known in zip(profiles, stored, strict=True) if known is None]))
        readers = []
        for profile, same, known in zip(profiles, of_bundle, stored, strict=True):
            if known is None:
                reader = next(rest)
                if same and reader.fast is not None:
                    shared.put(profile, reader.fast)
            else:
                reader = ReadProfile(profile, FastUser(*known), None)
            readers.append(reader)
        return readers

    def _contexts(self, requests: Sequence[ScoreRequest]) -> list[Context]:
        counts = self.recommender.counts
        if counts is None:
            return [Context(torch.tensor([request.seconds])) for request in requests]
        asked = []
        for request in requests:
            assert request.pool.rows is not None
            also = [self._counted(view) for view in request.also]
            asked.append(
                Asked(request.user_id or "", request.pool.rows, request.seconds, request.page, request.about, also)
            )
        return counts.at_each(asked)

    def about(self, about: Mapping[str, str | float]) -> dict[str, str | float]:
        """The facts about a user that the bundle's log has; none for models without counts."""
        counts = self.recommender.counts
        return {} if counts is None else {name: value for name, value in about.items() if name in counts.columns}

    @property
    def reads_counts(self) -> bool:
        """Whether the model knows how often each user was shown each story."""
        return self.recommender.counts is not None

    def knows_page(self, page: str) -> bool:
        """Whether the story of a page has counts."""
        counts = self.recommender.counts
        return counts is not None and counts.knows(page)

    def hide(self, user_id: str) -> None:
        """Use nothing that the bundle knows of a user who was erased."""
        counts = self.recommender.counts
        if counts is not None and user_id in self.recommender.users and user_id not in counts.later_users:
            counts.hide(user_id)

    def _record(self, view: PageView) -> None:
        counts = self.recommender.counts
        if counts is None:
            return
        if self._marks is not None:
            self._marks[self._store.mark(view.user_id)] = view.user_id
        counted = self._counted(view)
        counts.record(view.user_id, *counted)

    def _counted(self, view: PageView) -> CountedView:
        clicked = [news_id for news_id in view.shown if news_id in view.clicked]
        seconds, about = int(view.time.timestamp()), self.about(view.about)
        return CountedView(view.shown, clicked, seconds, view.page, about, view.unseen)

    def _erase(self, mark: str) -> None:
        """Forget a user, whom the log names by a mark alone."""
        self._read.clear()
        self._profiles.clear()
        self._views.erase(mark)
        counts = self.recommender.counts
        if counts is None:
            return
        if self._marks is None:
            self._marks = {self._store.mark(user): user for user in (*self.recommender.users, *counts.later_users)}
        user = self._marks.pop(mark, None)
        if user is not None:
            counts.hide(user)
            if user in self.recommender.users:
                self._marks[mark] = user

    def _apply_story(self, what: NewsPut | TakenDown) -> None:
        if isinstance(what, TakenDown):
            self.stories.take_down(what.news_id)
        elif self.stories.put([what.story]):
            self._read.clear()  # profiles may hold the older text

    def _put_stored(self) -> int:
        """Put the stories of the store; returns the number of the last event that is in them."""
        last = self._store.last_sequence()
        put = [stored.story for stored in self._store.stories() if stored.story.title]
        for start in range(0, len(put), _EVENTS_AT_ONCE):
            self.stories.put(put[start : start + _EVENTS_AT_ONCE])
        for stored in self._store.stories():
            if stored.taken_down:
                self.stories.take_down(stored.story.news_id)
        return last

    def _count_log(self, as_of: datetime | None) -> None:
        """Start with the clicks on the last day of the log."""
        if "news/recent_clicks" not in self.bundle.data.arrays:
            return
        clicks = self.bundle.data.arrays.array("news/recent_clicks")
        seconds = 0.0 if as_of is None else as_of.timestamp()
        for row in np.flatnonzero(clicks).tolist():
            self.popularity.add(self.bundle.data.news_ids[row], seconds, float(clicks[row]))

    def _count_clicks(self, what: object, time: datetime) -> None:
        seconds = time.astimezone(UTC).timestamp()
        if isinstance(what, ClickCounted):
            self.popularity.add(what.click.news_id, seconds)
        elif isinstance(what, Impression):
            for story in what.shown:
                if story.clicked:
                    self.popularity.add(story.news_id, seconds)


def _shared_tables(folder: Path | None, bundle: Path) -> "SharedTables | None":
    """The tables that processes share; a GPU has its own."""
    if folder is None or pick_device().type != "cpu":
        return None
    from drpn.bundle.shared_tables import SharedTables  # not on every system

    return SharedTables(folder, bundle)


def _shared_readers(folder: Path | None, bundle: Path, places: int) -> "SharedReaders | None":
    """The users that processes share."""
    if folder is None:
        return None
    from drpn.bundle.shared_readers import SharedReaders
    from drpn.bundle.shared_tables import tables_name

    return SharedReaders(folder / f"{tables_name(bundle)}.readers", places)
