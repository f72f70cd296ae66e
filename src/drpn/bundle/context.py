"""The context of a request: counts as of the end of the log and everything recorded since."""

import copy
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from drpn.batches.batch import Context
from drpn.bundle.files import Bundle
from drpn.bundle.stories import NewStory, StoryReader, as_utc
from drpn.bundle.waiting import WaitingView, WaitingViews
from drpn.dataset.reader_columns import GROUP, ReaderColumns
from drpn.dataset.taste_vectors import TasteVectors
from drpn.dataset.text_vectors import TextVectors
from drpn.errors import RunError, SettingsError
from drpn.state.counts import LiveCounts, Stories
from drpn.state.page_views import LONGEST_PART, PageViews, midnight
from drpn.state.publication import UNPUBLISHED, Appearances, id_number, id_numbers
from drpn.state.running import NEVER
from drpn.state.text_sums import units

About = Mapping[str, str | float]
"""Facts about a reader, such as the device."""


class CountedView(NamedTuple):
    """A page view of a user, complete with its clicks."""

    shown: Sequence[str]
    clicked: Sequence[str]
    seconds: int
    page: str | None
    about: About
    unseen: Sequence[str] = ()
    """Stories of the page that the user did not see."""


class Asked(NamedTuple):
    """A request for counts."""

    user: str
    rows: NDArray[np.int64]
    """The candidates, as `LiveContext.rows` numbers them."""
    seconds: int
    page: str | None
    about: About
    also: Sequence[CountedView] = ()
    """Page views of the user that count as if they were recorded, oldest first."""


class LiveContext:
    """The counts of a running site. Users and stories that the log does not have get rows when they are recorded."""

    def __init__(self, bundle: Bundle, users: Mapping[str, int], reader: StoryReader) -> None:
        """`users` are the rows of the bundle's users."""
        arrays = bundle.data.arrays
        if "counts/published" not in arrays or "counts/tastes" not in arrays:
            raise RunError(
                f"{bundle.path} was written without the counts as of the end of the log, which its model reads; "
                "prepare the logs again with the live protocol, and train again",
                hint="run: drpn prepare LOGS --out FOLDER --set data.protocol=live",
            )
        self._reader = reader
        self._texts = TextVectors(arrays.array("counts/word_vectors")) if "counts/word_vectors" in arrays else None
        self._dense = "news/vector" in arrays
        self._columns = ReaderColumns.of(arrays, bundle.data.statistics["live"]["user"])
        published = np.array(arrays.array("counts/published"))
        published[published == NEVER] = UNPUBLISHED  # until it is shown
        self._appearances = None
        numbers = None if "news/published" in arrays else id_numbers(list(bundle.data.news_ids)[1:])
        if numbers is not None:
            self._appearances = Appearances(range(1, len(published)), numbers.tolist(), published[1:])
        self._tastes = TasteVectors.stored(arrays.array)
        names = ("news/category", "news/subcategory", "counts/vectors", "counts/tastes")
        category, subcategory, vectors, tastes = (np.array(arrays.array(name)) for name in names)
        self._counts = LiveCounts(Stories(category, subcategory, published, vectors, tastes))
        stored = [name.removesuffix(".npy") for name in arrays.checksums if name.startswith("counts/")]
        self._counts.restore({name.removeprefix("counts/"): arrays.array(name) for name in stored})
        self._stories = {news_id: row for row, news_id in enumerate(bundle.data.news_ids) if row}
        self._users, self._later_users = users, dict[str, int]()
        self._codes = arrays.array("counts/columns")
        self._later_codes = dict[int, NDArray[np.int32]]()
        self._next_user = len(self._codes)
        self._waiting = WaitingViews()

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the log about its readers, such as the device."""
        return tuple(self._columns.sizes)

    def knows(self, news_id: str) -> bool:
        """Whether a story has counts; `at_each` takes only such stories as pages."""
        return news_id in self._stories

    def rows(self, news_ids: Sequence[str]) -> NDArray[np.int64]:
        """The numbers of stories, which stay the same; stories that are not known get some."""
        return np.array(self._story_rows(news_ids), np.int64)

    @property
    def later_users(self) -> Collection[str]:
        """Users that the bundle does not know, or whose counts in it are hidden."""
        return self._later_users.keys()

    def hide(self, user: str) -> None:
        """Forget what is known of a user; what is recorded from now on counts."""
        self._later_codes.pop(self._user(user), None)
        self._later_users.pop(user, None)
        if user in self._users:
            self._later_users[user] = 0

    def notes(self, about: About) -> tuple[str, ...]:
        """A line for each value that no reader of the log has."""
        return tuple(self._columns.codes(about)[1])

    def add(self, stories: Sequence[NewStory]) -> None:
        """Describe stories; one that is known keeps its counts and, if none is given, its time of publication."""
        self._count_waiting()
        rows = self._story_rows([story.news_id for story in stories])
        described = self._describe(stories)
        known = self._counts.stories
        published = np.where(described.published == UNPUBLISHED, known.published[rows], described.published)
        for old, new in (
            (known.category, described.category),
            (known.subcategory, described.subcategory),
            (known.published, published),
            (known.vectors, described.vectors),
            (known.tastes, described.tastes),
        ):
            old[rows] = new

    def at(
        self,
        users: Sequence[str],
        candidates: Sequence[str],
        new: Sequence[NewStory],
        seconds: int,
        page: str | None,
        about: About,
    ) -> Context:
        """The context of a request, in the form that training reads: each candidate for each user, then new stories."""
        self._count_waiting()
        counts, stories = self._counts, [self._stories[news_id] for news_id in candidates]
        if new:
            counts = copy.copy(counts)
            stories += range(len(counts.stories.category), len(counts.stories.category) + len(new))
            counts.stories = _joined(counts.stories, self._describe(new))
        if page is not None and page not in self._stories:
            raise SettingsError(
                f"the story of the page, '{page}', is not in the catalogue; add it first, or leave it out"
            )
        rows = [self._user(user) for user in users]
        codes = np.stack([self._user_codes(row, about) for row in rows])
        nothing = np.zeros(len(users) * len(stories), np.bool_)
        known = counts.observe(
            self._views(rows, codes, seconds, self._stories[page] if page else 0, stories, nothing, nothing),
            record=False,
        )
        # half precision, as in the dataset: quantiles of training tell values apart that differ by a rounding
        pairs = known.pairs.astype(np.float16).reshape(len(users), len(stories), known.pairs.shape[1])
        moments = torch.full((len(users),), seconds, dtype=torch.int64)
        return Context(moments, *(torch.from_numpy(array) for array in (codes, pairs, known.page)))

    def at_each(self, requests: Sequence[Asked]) -> list[Context]:
        """The contexts of several requests, each with its own user, candidates, time and page."""
        self._count_waiting()
        contexts: dict[int, Context] = {}
        by_second: dict[int, list[int]] = {}
        for place, request in enumerate(requests):
            if request.also:
                contexts[place] = self._as_if_recorded(request)
            else:
                by_second.setdefault(request.seconds, []).append(place)
        for second, places in by_second.items():  # requests of different seconds would count as earlier page views
            some = [requests[place] for place in places]
            codes = np.stack([self._user_codes(self._user(request.user), request.about) for request in some])
            offsets = np.cumsum([0, *(len(request.rows) for request in some)])
            nothing = np.zeros(offsets[-1], np.bool_)
            views = PageViews(
                np.array([self._user(request.user) for request in some], np.int64),
                np.full(len(some), second, np.int64),
                np.array([self._stories[request.page] if request.page else 0 for request in some], np.int64),
                self._groups(codes),
                np.zeros(len(some), np.bool_),
                offsets,
                np.concatenate([request.rows for request in some]),
                nothing,
                nothing,
            )
            known = self._counts.observe(views, record=False)
            pairs = known.pairs.astype(np.float16)  # half precision, as in `at`
            for number, place in enumerate(places):
                part = slice(offsets[number], offsets[number + 1])
                arrays = (codes[number : number + 1], pairs[None, part], known.page[number : number + 1])
                contexts[place] = Context(torch.tensor([second]), *(torch.from_numpy(array) for array in arrays))
        return [contexts[place] for place in range(len(requests))]

    def _as_if_recorded(self, request: Asked) -> Context:
        """The context of a request after page views that are not recorded.

        `LiveCounts.observe` gives the counts before each page view of a part: the request is the last one of a part
        that is forgotten.
        """
        row, seconds = self._user(request.user) or self._next_user, request.seconds
        views = [(self.rows(view.shown), view) for view in request.also]
        # strictly earlier seconds count, and a part is of one day and has a limited length
        earliest = max(seconds - LONGEST_PART + 1, midnight(seconds))
        times = [min(max(view.seconds, earliest), seconds - 1) for view in request.also]
        published, seen = np.array(self._counts.stories.published), self._user_codes(row, {})
        codes = []
        for time, (stories, view) in zip(times, views, strict=True):
            published[stories] = np.where(published[stories] == UNPUBLISHED, time, published[stories])
            seen = self._with(seen, view.about)
            codes.append(seen)
        codes.append(self._with(seen, request.about))
        counts = copy.copy(self._counts)
        counts.stories = replace(counts.stories, published=published)
        sizes = [len(stories) for stories, _ in views]
        clicked = np.array([news_id in view.clicked for _, view in views for news_id in view.shown], np.bool_)
        nothing = np.zeros(len(request.rows), np.bool_)
        pages = [*(view.page for view in request.also), request.page]
        known = counts.observe(
            PageViews(
                np.full(len(codes), row, np.int64),
                np.array([*times, seconds], np.int64),
                np.array([self._stories.get(page, 0) if page else 0 for page in pages], np.int64),
                self._groups(np.stack(codes)),
                np.zeros(len(codes), np.bool_),
                np.cumsum([0, *sizes, len(request.rows)]),
                np.concatenate([*(stories for stories, _ in views), request.rows]),
                np.concatenate([clicked, nothing]),
                np.concatenate([~clicked, nothing]),
            ),
            record=False,
        )
        pairs = known.pairs[sum(sizes) :].astype(np.float16)  # half precision, as in `at`
        arrays = (codes[-1][None], pairs[None], known.page[-1:])
        return Context(torch.tensor([seconds]), *(torch.from_numpy(array) for array in arrays))

    def record(
        self,
        user: str,
        shown: Sequence[str],
        clicked: Sequence[str],
        seconds: int,
        page: str | None,
        about: About,
        unseen: Sequence[str] = (),
    ) -> None:
        """Count a page view; users and stories that are not known get rows of their own.

        It is counted when somebody asks, together with the others of its second.
        """
        row = self._user(user)
        codes = self._user_codes(row, about)  # checked before anything changes
        if not row:
            row = self._later_users[user] = self._next_user
            self._next_user += 1
        if about:
            self._later_codes[row] = codes
        if not self._waiting.accepts(seconds):
            self._count_waiting()
        stories = self._story_rows(shown)
        page_row = 0 if page is None else self._story_rows([page])[0]
        self._publish([*shown, *unseen], seconds)
        group = int(self._groups(codes[None])[0])
        clicks = [news_id in clicked for news_id in shown]
        self._waiting.add(WaitingView(row, seconds, page_row, group, stories, clicks))

    def _count_waiting(self) -> None:
        for part in self._waiting.take():
            self._counts.observe(part)

    def _publish(self, shown: Sequence[str], seconds: int) -> None:
        """Stories that are shown were published, and with numbers as ids those of lower numbers, too."""
        rows = self._story_rows(shown)
        if self._appearances is not None:
            numbers = [number for news_id in shown if (number := id_number(news_id)) is not None]
            rows += self._appearances.show(max(numbers, default=-1), seconds)
        published = self._counts.stories.published
        published[rows] = np.where(published[rows] == UNPUBLISHED, seconds, published[rows])

    def _views(
        self,
        users: list[int],
        codes: NDArray[np.int32],
        seconds: int,
        page: int,
        stories: list[int],
        clicked: NDArray[np.bool_],
        skipped: NDArray[np.bool_],
    ) -> PageViews:
        """The same page view for some users."""
        count = len(users)
        return PageViews(
            np.array(users, np.int64),
            np.full(count, seconds, np.int64),
            np.full(count, page, np.int64),
            self._groups(codes),
            np.zeros(count, np.bool_),
            np.arange(count + 1) * len(stories),
            np.tile(np.array(stories, np.int64), count),
            clicked,
            skipped,
        )

    def _groups(self, codes: NDArray[np.int32]) -> NDArray[np.int64]:
        """The group of readers that each user is of."""
        sizes = list(self._columns.sizes)
        return codes[:, sizes.index(GROUP)].astype(np.int64) if GROUP in sizes else np.zeros(len(codes), np.int64)

    def _user(self, user: str) -> int:
        """The row of a user; 0 for one without counts."""
        later = self._later_users.get(user)
        return self._users.get(user, 0) if later is None else later

    def _user_codes(self, row: int, about: About) -> NDArray[np.int32]:
        """The columns of a user: those given, else those last seen."""
        seen = self._later_codes.get(row)
        if seen is None:
            seen = self._codes[row if row < len(self._codes) else 0]
        return self._with(seen, about)

    def _with(self, seen: NDArray[np.int32], about: About) -> NDArray[np.int32]:
        """The columns of a user, with some replaced by others."""
        codes = np.array(seen)
        for place, code in self._columns.codes(about)[0].items():
            codes[place] = code
        return codes

    def _story_rows(self, news_ids: Sequence[str]) -> list[int]:
        """The rows of stories; those that are not known get rows, without a text or a category."""
        missing = [news_id for news_id in dict.fromkeys(news_ids) if news_id not in self._stories]
        if missing:
            known, count = self._counts.stories, len(missing)
            first = len(known.category)
            self._stories |= {news_id: first + place for place, news_id in enumerate(missing)}
            unknown = np.zeros(count, np.int32)
            vectors, tastes = (np.zeros((count, one.shape[1]), np.float32) for one in (known.vectors, known.tastes))
            published = np.full(count, UNPUBLISHED)
            if self._appearances is not None:
                for place, news_id in enumerate(missing):
                    number = id_number(news_id)
                    if number is not None:
                        published[place] = self._appearances.add(first + place, number)
            later = Stories(unknown, unknown, published, vectors, tastes)
            self._counts.stories = _joined(known, later)
        return [self._stories[news_id] for news_id in news_ids]

    def _describe(self, stories: Sequence[NewStory]) -> Stories:
        """Category, publication and text of stories that came after the log."""
        rows = self._reader.rows(stories)
        words, category, subcategory = (
            part.numpy() for part in (torch.cat([rows.words, rows.abstract], dim=1), rows.category, rows.subcategory)
        )
        times = [
            UNPUBLISHED if story.published is None else int(as_utc(story.published).timestamp()) for story in stories
        ]
        if self._texts is not None:
            vectors = self._texts.read(words)
        elif self._dense:
            with np.errstate(over="ignore"):  # of a vector that is too long, nothing remains
                vectors = units(np.nan_to_num(self._reader.vectors(stories)))
        else:
            vectors = np.zeros((len(stories), self._counts.stories.vectors.shape[1]), np.float32)
        return Stories(
            category,
            subcategory,
            np.array(times, np.int64),
            vectors,
            self._tastes.read(words, category, subcategory),
        )


def _joined(one: Stories, other: Stories) -> Stories:
    def both(name: str) -> Any:
        return np.concatenate([getattr(one, name), getattr(other, name).astype(getattr(one, name).dtype)])

    return Stories(both("category"), both("subcategory"), both("published"), both("vectors"), both("tastes"))
