"""Ranks stories for users with a bundle."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from drpn.batches.batch import Context
from drpn.batches.tables import Tables, news_rows
from drpn.bundle.candidates import KnownStory, PoolFacts, StoryFacts
from drpn.bundle.catalogue import StoryCatalogue
from drpn.bundle.context import About, LiveContext
from drpn.bundle.files import Bundle, pick_device
from drpn.bundle.mixing import Mix, Pick, mixed
from drpn.bundle.profiles import read_profiles
from drpn.bundle.requests import Moment, RankedStory, Ranking, Request, UserId, as_ids, as_list
from drpn.bundle.rerank import Method
from drpn.bundle.stories import NewStory, StoryReader, as_utc
from drpn.bundle.users import BundleUsers
from drpn.errors import SettingsError
from drpn.models.base import ClickModel
from drpn.state.profile import Profile

if TYPE_CHECKING:
    from drpn.bundle.shared_tables import SharedTables

_SCORES_AT_ONCE = {"cpu": 1 << 16, "cuda": 1 << 20}
_USERS_AT_ONCE = 256


class Recommender:
    """A bundle that answers: ranks for a user id or a history, over given candidates or the live stories.

    Live stories are those shown in the last 24 hours of the log and those added since, without those removed.
    """

    def __init__(
        self,
        bundle: Bundle,
        device: torch.device | None = None,
        derive: Callable[[ClickModel, Any], Any] | None = None,
        shared: "SharedTables | None" = None,
    ) -> None:
        """`derive` makes tables from encoded stories that a server keeps, `shared` has them for several processes (see
        `StoryCatalogue`)."""
        self.bundle = bundle
        self.model = bundle.model.to(device or pick_device())
        self._tables = Tables.from_dataset(self.model.limit(bundle.data), torch.device("cpu"), needs=self.model.needs)
        settings = bundle.manifest["data"]["settings"]
        self._reader = StoryReader(
            bundle.data, self._tables.news, settings["category_words"], settings.get("entities", 0)
        )
        recent = np.flatnonzero(bundle.data.arrays.array("news/recent"))
        self._live = dict.fromkeys(bundle.data.news_ids[int(row)] for row in recent)
        self.stories = StoryCatalogue(
            self.model, self._tables.news, bundle.news_ids, derive, live=self._live, shared=shared
        )
        limits = {"clicked": self._tables.clicked.shape[1], "skipped": self._tables.skipped.shape[1]}
        self._users = BundleUsers(bundle, self.stories, **limits)
        self._added: dict[str, NewStory] = {}
        self._facts = StoryFacts(bundle, self._reader)
        self._counts = (
            None if self.model.context is None else LiveContext(bundle, self._users.rows, self._whole_reader())
        )

    def _whole_reader(self) -> StoryReader:
        """Reads titles and abstracts as long as those of the dataset; the model may read fewer words."""
        first = news_rows(self.bundle.data, needs=("abstracts",)).part(slice(1))
        return StoryReader(self.bundle.data, first, self.bundle.manifest["data"]["settings"]["category_words"])

    @property
    def tables(self) -> Tables:
        """The users and stories of the bundle, as the model reads them."""
        return self._tables

    @property
    def counts(self) -> LiveContext | None:
        """The counts of a running site, for models that read them."""
        return self._counts

    @property
    def reader(self) -> StoryReader:
        """Reads stories that came after the log."""
        return self._reader

    @property
    def facts(self) -> StoryFacts:
        """Facts about stories."""
        return self._facts

    @property
    def users(self) -> Mapping[str, int]:
        """The rows of the bundle's users."""
        return self._users.rows

    @property
    def live(self) -> list[str]:
        """The ids of the live stories."""
        return list(self._live)

    def add(self, stories: Sequence[NewStory]) -> tuple[str, ...]:
        """Add stories to the catalogue and to the live ones; a story of the same id is replaced.

        Returns a line for each label or entity that no story of the log has; stories are ranked without these.
        """
        unnamed = [story.title for story in stories if story.news_id in ("", NewStory.news_id)]
        if unnamed:
            raise SettingsError(f"the story '{unnamed[0]}' has no news_id; give it one")
        self.stories.add([story.news_id for story in stories], self._reader.rows(stories))
        if self._counts is not None:
            self._counts.add(stories)
        for story in stories:
            self._live[story.news_id], self._added[story.news_id] = None, story
        return tuple(dict.fromkeys(self._reader.notes(stories)))

    def remove(self, news_ids: Iterable[str | int]) -> None:
        """Remove stories: they are not ranked any more, and profiles that hold them are read without them."""
        removed = as_ids(news_ids, "news_ids")
        self.stories.remove(removed)
        for news_id in removed:
            self._live.pop(news_id, None)
            self._added.pop(news_id, None)

    def profile(self, user_id: UserId) -> Profile:
        """The profile that the bundle has of a user; empty for a user that it does not know.

        It is as of the end of the log, which is its `as_of`, or of the last page view that was recorded. If the dataset
        was prepared by an older version, it ends before the training days, and `as_of` is None.
        """
        return self._users.profile(str(user_id))

    def record(
        self,
        user_id: UserId,
        shown: Iterable[str | int],
        clicked: Iterable[str | int] = (),
        *,
        moment: datetime,
        page: str | int | None = None,
        about: About | None = None,
    ) -> None:
        """Tell what a user was shown and clicked; the next request knows it.

        `shown` are the stories that came into view, in their order on the page; those not in `clicked` count as
        skipped. `page` is the story whose page they were on. `about` is what is known of the user, such as {"device":
        "phone"}. Users and stories may be unknown. Everything is kept in memory, not in the bundle.
        """
        user, stories, clicks = str(user_id), list(dict.fromkeys(as_ids(shown, "shown"))), as_ids(clicked, "clicked")
        if not user:
            raise SettingsError("user_id is empty; feedback needs the id of its user")
        others = [news_id for news_id in clicks if news_id not in stories]
        if others:
            raise SettingsError(
                f"story '{others[0]}' was clicked but is not in shown; list all stories that were shown"
            )
        if self._counts is not None:
            seconds = int(as_utc(moment).timestamp())
            self._counts.record(user, stories, clicks, seconds, None if page is None else str(page), about or {})
        self._users.record(user, stories, clicks, moment)

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
        page: str | int | None = None,
        about: About | None = None,
        top: int = 10,
        diversity: float = 0.0,
        diversity_method: Method = "mmr",
        fresh: float = 0.0,
        popular: float = 0.0,
    ) -> Ranking:
        """Rank for one user.

        Without `candidates`, the live stories are ranked that the user never clicked in the log. `history` replaces
        the profile that the bundle has of the user; then the live stories are ranked that are not in it. Stories in
        `new` are ranked too, without being added to the catalogue. `moment` is the time of the request, by default the
        end of the log. Models that read counts also use `page`, the story whose page the list is shown on, and `about`,
        what is known of the user, such as {"device": "phone"}; without it they use what the log last said.

        `diversity` from 0, the ranking by score, to 1 makes the list more diverse: with the method "mmr" stories differ
        more from each other, with "calibrated" their categories have the shares of those that the user clicked.
        `fresh` and `popular` are the shares of places for the newest stories and for those most often clicked in the
        last 24 hours of the log.
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
            page=page,
            about=about,
            top=top,
            diversity=diversity,
            diversity_method=diversity_method,
            fresh=fresh,
            popular=popular,
        )[0]

    def recommend_many(
        self,
        users: Iterable[UserId | Profile],
        *,
        histories: Sequence[Profile | None] | None = None,
        candidates: Iterable[str | int] | None = None,
        new: Sequence[NewStory] = (),
        exclude: Iterable[str | int] = (),
        max_age_hours: float | None = None,
        moment: datetime | None = None,
        page: str | int | None = None,
        about: About | None = None,
        top: int = 10,
        diversity: float = 0.0,
        diversity_method: Method = "mmr",
        fresh: float = 0.0,
        popular: float = 0.0,
    ) -> list[Ranking]:
        """Rank for many users at once; each is a user id or a history, or an id with its history in `histories`."""
        users = as_list(users, "users")
        if histories is not None and len(histories) != len(users):
            raise SettingsError(f"there are {len(histories)} histories for {len(users)} users; give one for each")
        if top < 0:
            raise SettingsError(f"top is {top}; it takes 0 or more")
        if max_age_hours is not None and not max_age_hours >= 0:
            raise SettingsError(f"max_age_hours is {max_age_hours}; it takes 0 or more")
        mix = Mix(diversity, diversity_method, fresh, popular)
        requests = [self._users.request(*pair) for pair in zip(users, histories or [None] * len(users), strict=True)]
        excluded = set(as_ids(exclude, "exclude"))
        pool = self._live if candidates is None else dict.fromkeys(as_ids(candidates, "candidates"))
        moment = moment or self.bundle.as_of
        chosen = [
            news_id
            for news_id in pool
            if news_id not in excluded and (max_age_hours is None or self._age_hours(news_id, moment) <= max_age_hours)
        ]
        situation = Moment(moment, None if page is None else str(page), about or {})
        return self._rank(requests, chosen, new, situation, top, mix, hide_profile=candidates is None)

    def _rank(
        self,
        requests: Sequence[Request],
        pool: list[str],
        new: Sequence[NewStory],
        moment: Moment,
        top: int,
        mix: Mix,
        *,
        hide_profile: bool,
    ) -> list[Ranking]:
        """Rank the stories of `pool` for each request; with `hide_profile`, without those that it hides."""
        notes = (*dict.fromkeys(self._reader.notes(new)), *self._context_notes(moment))
        column = {news_id: index for index, news_id in enumerate(pool)}
        rankings = []

        def candidate(index: int) -> KnownStory:
            return self.story(pool[index]) if index < len(pool) else new[index - len(pool)]

        def rows_of_all() -> list[int]:
            return [*self.stories.rows(pool), *(0 for _ in new)]

        with self.stories.temporary(self._reader.rows(new)) as fresh:
            candidates = torch.tensor([*self.stories.positions(pool), *fresh], dtype=torch.int64)
            facts = None if mix.plain else PoolFacts(self._facts, candidate, rows_of_all, mix)
            for chunk in _chunks(requests, self._users_at_once(len(candidates))):
                context = self._context(chunk, pool, new, moment)
                scores = self._score(chunk, candidates, context)
                for request, row in zip(chunk, scores, strict=True):
                    hidden = [column[story] for story in request.hidden if story in column] if hide_profile else []
                    row[hidden] = -torch.inf
                    best, order = row.sort(descending=True, stable=True)
                    shown = len(row) - len(hidden)
                    if facts is None:
                        picks = [Pick(place, "ranked") for place in range(min(top, shown))]
                    else:
                        clicked = [self.story(news_id) for news_id in request.clicked]
                        ranked = facts.ranked(order[:shown].numpy(), best[:shown].double().numpy(), clicked)
                        picks = mixed(ranked, mix, top)
                    places = [pick.place for pick in picks]
                    listed = zip(picks, order[places].tolist(), best[places].tolist(), strict=True)
                    rows = tuple(
                        RankedStory(rank, *self._names(index, pool, new), score, pick.reason, pick.place + 1)
                        for rank, (pick, index, score) in enumerate(listed, start=1)
                    )
                    known = bool(request.clicked or request.skipped)
                    rankings.append(Ranking(request.user_id, known, rows, (*request.notes, *notes)))
        return rankings

    def story(self, news_id: str) -> KnownStory:
        """A story that was added, or the row of a story of the bundle."""
        return self._added.get(news_id) or self.stories.row(news_id)

    def _names(self, index: int, pool: list[str], new: Sequence[NewStory]) -> tuple[str, str]:
        """The id and the title of a candidate; new stories come after those of the pool."""
        if index < len(pool):
            return pool[index], self._title(pool[index])
        story = new[index - len(pool)]
        return story.news_id, story.title

    @torch.no_grad()
    def _score(self, requests: Sequence[Request], candidates: Tensor, context: Context) -> Tensor:
        """The scores of the candidates, a row for each request, on the CPU."""
        if not len(candidates):
            return torch.zeros(len(requests), 0)
        device = next(self.model.parameters()).device
        profiles = read_profiles(requests, self._tables, self.stories).to(device)
        encoded = self.stories.encoded
        everyone = candidates.to(device).expand(len(requests), -1).contiguous()
        return self.model.rank(encoded, self.model.read(encoded, profiles), everyone, context.to(device)).float().cpu()

    def _context(
        self, requests: Sequence[Request], pool: list[str], new: Sequence[NewStory], moment: Moment
    ) -> Context:
        """The context of requests, with counts for models that read them."""
        if self._counts is None or not (pool or new):
            return Context(torch.full((len(requests),), moment.seconds, dtype=torch.int64))
        users = [request.user_id for request in requests]
        return self._counts.at(users, pool, new, moment.seconds, moment.page, moment.about)

    def _context_notes(self, moment: Moment) -> tuple[str, ...]:
        if self._counts is not None:
            return self._counts.notes(moment.about)
        ignored = [name for name, value in (("page", moment.page), ("about", moment.about)) if value]
        return (f"this model reads no counts, so it ignores {' and '.join(ignored)}",) if ignored else ()

    def _users_at_once(self, candidates: int) -> int:
        limit = _SCORES_AT_ONCE[next(self.model.parameters()).device.type]
        return max(1, min(_USERS_AT_ONCE, limit // max(1, candidates)))

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
        return (as_utc(moment) - as_utc(published)).total_seconds() / 3600


def _chunks(requests: Sequence[Request], size: int) -> Iterator[Sequence[Request]]:
    for start in range(0, len(requests), size):
        yield requests[start : start + size]
