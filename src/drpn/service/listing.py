"""From scores to a list: mixing, exploration, and the rules of editors."""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from drpn.bundle.candidates import KnownStory
from drpn.bundle.candidates import StoryFacts as ContentFacts
from drpn.bundle.mixing import Candidates, Pick, mixed
from drpn.service.requests import ListedStory, RankRequest, Why
from drpn.service.skips import Skipped, lower
from drpn.service.stories import Pool

Mask = NDArray[np.bool_]
Floats = NDArray[np.float32]


class Facts(NamedTuple):
    """What mixing asks about candidates and the user."""

    content: ContentFacts
    story: Callable[[str], KnownStory]
    clicks: Callable[[Sequence[str]], NDArray[np.float64]]
    clicked: Sequence[str]
    """The stories that the user clicked."""


def allowed(pool: Pool, request: RankRequest, hidden: frozenset[str], seconds: float) -> tuple[Mask, list[str]]:
    """Which stories of a pool may be listed, and a line for each rule that leaves some out."""
    mask, rules, notes = pool.expires > seconds, request.rules, list[str]()
    mask[pool.places(hidden | set(request.exclude) if request.exclude else hidden)] = False
    if rules.none:
        return mask, notes
    place = pool.place
    pinned = [place[news_id] for news_id in rules.pin if news_id in place and mask[place[news_id]]]

    def leave_out(which: Mask, why: str) -> None:
        count = int((mask & which).sum())
        if count:
            notes.append(f"{count:,} {'story' if count == 1 else 'stories'} left out: {why}")
            np.logical_and(mask, ~which, out=mask)

    codes = pool.category_codes
    if rules.only_categories:
        wanted = [codes[name] for name in rules.only_categories if name in codes]
        leave_out(~np.isin(pool.categories, wanted), f"not in {', '.join(rules.only_categories)}")
    if rules.without_categories:
        unwanted = [codes[name] for name in rules.without_categories if name in codes]
        leave_out(np.isin(pool.categories, unwanted), f"in {', '.join(rules.without_categories)}")
    if rules.max_age_hours is not None:
        old = pool.published < seconds - rules.max_age_hours * 3600
        leave_out(old, f"older than {rules.max_age_hours:g} hours")
    mask[pinned] = True
    return mask, notes


def listing(
    pool: Pool,
    scores: Floats,
    mask: Mask,
    request: RankRequest,
    facts: Callable[[], Facts],
    seed: str,
    skipped: Mapping[str, Skipped] = MappingProxyType({}),
) -> tuple[tuple[ListedStory, ...], list[str]]:
    """The list, best first, and a line for each rule that left stories out. Exploration is drawn from `seed`.

    Stories in `skipped` go down. The scores of the list are those of the model.
    """
    rules = request.rules
    lowered, lowering = lower(pool, scores, mask, skipped)
    if request.mix.plain and rules.none and not request.explore:
        return _plain(pool, scores, mask, request.count, lowered, lowering), []
    # pinned stories were added to the pool, also if they are not among the candidates
    pinned = [pool.place[news_id] for news_id in dict.fromkeys(rules.pin) if news_id in pool.place]
    order = _order(lowered, mask)
    rank = np.zeros(len(pool), np.int64)
    rank[order if lowered is scores else _order(scores, mask)] = np.arange(1, len(order) + 1)
    buried = {pool.place[news_id] for news_id in rules.bury if news_id in pool.place}
    placing = _Placing(pool, order, request, set(pinned), buried)
    listed: list[tuple[int, Why, float, tuple[str, ...]]] = []
    for place in pinned:
        if mask[place] and len(listed) < request.count:
            listed.append((place, "pinned", 1.0, (f"an editor pinned it to place {len(listed) + 1}",)))
            placing.take(place)
    queue = _queue(pool, lowered, order, request, facts)
    chance = random.Random(seed)
    while len(listed) < request.count:
        step = placing.next(queue, request.explore, chance)
        if step is None:
            break
        if step[0] in lowering:
            step = (*step[:3], (lowering[step[0]], *step[3]))
        listed.append(step)
    for place in order.tolist():
        if place in buried and place not in placing.used and len(listed) < request.count:
            listed.append((place, "buried", 1.0, ("an editor put it after all others",)))
    stories = tuple(
        ListedStory(
            number,
            pool.news_ids[place],
            pool.facts[place].title,
            pool.facts[place].category,
            float(scores[place]),
            int(rank[place]),
            why,
            propensity,
            reasons,
        )
        for number, (place, why, propensity, reasons) in enumerate(listed)
    )
    return stories, placing.notes()


def _plain(
    pool: Pool, scores: Floats, mask: Mask, count: int, lowered: Floats, lowering: Mapping[int, str]
) -> tuple[ListedStory, ...]:
    """The list in the order of the lowered scores."""
    return tuple(
        ListedStory(
            number,
            pool.news_ids[place],
            pool.facts[place].title,
            pool.facts[place].category,
            float(scores[place]),
            _rank(scores, mask, place) if lowering else number + 1,
            "ranked",
            None,
            (lowering[place],) if place in lowering else (),
        )
        for number, place in enumerate(_order(lowered, mask, count).tolist())
    )


def _rank(scores: Floats, mask: Mask, place: int) -> int:
    """The place of a story by score alone, from 1; of equal ones, the first in the pool is better."""
    better = mask & (scores > scores[place])
    equal = mask[:place] & (scores[:place] == scores[place])
    return 1 + int(better.sum()) + int(equal.sum())


def _order(scores: Floats, mask: Mask, count: int | None = None) -> NDArray[np.int64]:
    """The places of the stories that may be listed, best first; of equal ones, the first. At most `count`."""
    places = np.flatnonzero(mask)
    values = scores[places]
    if count is not None and 0 < count < len(places) // 8:
        least = np.partition(values, len(values) - count)[len(values) - count]
        places = places[values >= least]
        values = scores[places]
    return places[np.argsort(-values, kind="stable")][:count]


def _queue(
    pool: Pool, scores: Floats, order: NDArray[np.int64], request: RankRequest, facts: Callable[[], Facts]
) -> Iterator[tuple[int, Why]]:
    """The stories in the order of the model or, if the request asks for it, mixed."""
    if request.mix.plain:
        for place in order.tolist():
            yield place, "ranked"
        return
    known, news_ids = facts(), pool.news_ids
    published = pool.published[order]
    timed = np.isfinite(published)
    # a story without a time counts as the newest
    moments = np.where(timed, np.where(timed, published, 0).astype(np.int64), np.iinfo(np.int64).max)
    candidates = Candidates(
        scores=scores[order].astype(np.float64),
        published=moments if request.fresh else None,
        # faded clicks as whole numbers
        clicks=(1000 * known.clicks([news_ids[place] for place in order.tolist()])).astype(np.int64)
        if request.popular
        else None,
        contents=lambda places: known.content.contents(
            [known.story(news_ids[place]) for place in order[places].tolist()]
        ),
        target=lambda: known.content.category_shares([known.story(news_id) for news_id in known.clicked]),
    )
    given, wanted = 0, request.count + len(request.rules.pin) + len(request.rules.bury)
    while given < len(order):
        picks: list[Pick] = mixed(candidates, request.mix, min(len(order), max(wanted, 1)))
        for pick in picks[given:]:
            yield int(order[pick.place]), cast(Why, pick.reason)
        given, wanted = len(picks), 4 * wanted


class _Placing:
    """Places one story after the other, within the rules."""

    def __init__(
        self, pool: Pool, order: NDArray[np.int64], request: RankRequest, pinned: set[int], buried: set[int]
    ) -> None:
        self._pool, self.used = pool, set[int]()
        self._open = np.zeros(len(pool), np.bool_)
        self._open[order] = True
        self._open[[*pinned, *buried]] = False
        share = request.rules.category_share
        self._most = None if share is None else max(1, int(share * request.count + 1e-9))
        self._listed = np.zeros(len(pool.category_codes) if share is not None else 0, np.int64)
        self._full: dict[int, int] = {}
        self._passed = False

    def take(self, place: int) -> None:
        """Note that a story was placed."""
        self.used.add(place)
        self._open[place] = False
        if self._most is not None:
            category = int(self._pool.categories[place])
            self._listed[category] += 1
            if self._listed[category] >= self._most:
                left = self._open & (self._pool.categories == category)
                self._full[category] = int(left.sum())
                self._open[left] = False

    def next(
        self, queue: Iterator[tuple[int, Why]], explore: float, chance: random.Random
    ) -> tuple[int, Why, float, tuple[str, ...]] | None:
        """The story of the next place: that of the queue or, with probability `explore`, any that may be listed."""
        head = self._head(queue)
        if head is None:
            return None
        best, why = head
        place, propensity = best, 1.0
        if explore:
            remaining = np.flatnonzero(self._open)
            if chance.random() < explore:
                place = int(remaining[chance.randrange(len(remaining))])
            propensity = explore / len(remaining) + (1 - explore) * (place == best)
        if place != best:
            why = "explored"
            self._waiting = best, head[1]
        reasons = ("placed above stories of categories that have their share",) if self._passed else ()
        self.take(place)
        return place, why, propensity, reasons

    def notes(self) -> list[str]:
        """A line for each category that has its share."""
        names = list(self._pool.category_codes)
        return [
            f"the category '{names[category]}' has its share of the list; {left:,} more of it left out"
            for category, left in self._full.items()
            if left
        ]

    _waiting: tuple[int, Why] | None = None

    def _head(self, queue: Iterator[tuple[int, Why]]) -> tuple[int, Why] | None:
        """The next story of the queue that may be listed."""
        waiting, self._waiting = self._waiting, None
        if waiting is not None and self._open[waiting[0]]:
            return waiting
        for place, why in queue:
            if self._open[place]:
                return place, why
            if place not in self.used and self._full and int(self._pool.categories[place]) in self._full:
                self._passed = True
        return None
