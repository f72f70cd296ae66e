"""One list of recommendations: the ranking, made more diverse, with fresh and popular stories mixed in."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from drpn.bundle.rerank import Calibration, MarginalRelevance, Method, Placing, check_method, check_share, scaled
from drpn.dataset.contents import Contents
from drpn.errors import SettingsError

Reason = Literal["ranked", "diverse", "fresh", "popular"]
POOL = 300
"""The best stories that are re-ranked; those below them follow in the order of the model."""

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Mix:
    """How a list is mixed; the default is the plain ranking."""

    diversity: float = 0.0
    """From 0, the plain ranking, to 1, the most diverse list."""
    method: Method = "mmr"
    """`mmr`: stories that differ from each other. `calibrated`: categories in the shares that the user clicked."""
    fresh: float = 0.0
    """Share of places for the newest stories."""
    popular: float = 0.0
    """Share of places for the stories clicked most often in the last 24 hours of the log."""

    def __post_init__(self) -> None:
        for name in ("diversity", "fresh", "popular"):
            check_share(name, getattr(self, name))
        check_method(self.method)
        if self.fresh + self.popular > 1:
            raise SettingsError(f"fresh is {self.fresh} and popular {self.popular}; together they take at most 1")

    @property
    def plain(self) -> bool:
        """Whether the list is the plain ranking."""
        return not (self.diversity or self.fresh or self.popular)


class Pick(NamedTuple):
    """A story of the mixed list."""

    place: int
    """Its place in the order of the model, from 0."""
    reason: Reason


class Candidates(NamedTuple):
    """The candidates of one user in the order of the model, best first."""

    scores: Floats
    published: Ints | None
    """Seconds; the lowest number if unknown. None unless fresh stories are mixed in."""
    clicks: Ints | None
    """Clicks of the last 24 hours. None unless popular stories are mixed in."""
    contents: Callable[[Ints], Contents]
    """Labels and titles of the candidates at these places."""
    target: Callable[[], Floats]
    """The share of each category in the user's clicks."""


def mixed(candidates: Candidates, mix: Mix, count: int) -> list[Pick]:
    """Return the first `count` stories of the mixed list; a longer list begins with the same stories."""
    count = min(count, len(candidates.scores))
    pool = min(POOL, len(candidates.scores))
    published, clicks = candidates.published if mix.fresh else None, candidates.clicks if mix.popular else None
    fresh = _Queue("fresh", mix.fresh, _highest(published, count, np.iinfo(np.int64).min))
    popular = _Queue("popular", mix.popular, _highest(clicks, count, 0))
    outside = sorted({place for queue in (fresh, popular) for place in queue.waiting if place >= pool})
    columns = np.concatenate([np.arange(pool), np.array(outside, dtype=np.int64)])
    column_of = {place: column for column, place in enumerate(columns.tolist())}
    placing = _placing(candidates, mix, columns, pool) if mix.diversity else None
    open_pool = np.ones(pool, dtype=np.bool_)
    taken: set[int] = set()
    rest = iter(range(len(candidates.scores)))
    picks: list[Pick] = []
    while len(picks) < count:
        pick = fresh.next(len(picks) + 1, taken) or popular.next(len(picks) + 1, taken)
        if pick is None:
            pick = _next_ranked(placing, open_pool) if open_pool.any() else _next_plain(rest, taken)
        picks.append(pick)
        taken.add(pick.place)
        if pick.place < pool:
            open_pool[pick.place] = False
        if placing and open_pool.any():
            placing.place(np.array([column_of[pick.place]]))
    return picks


class _Queue:
    """Stories to be mixed in, best first."""

    def __init__(self, reason: Reason, share: float, waiting: list[int]) -> None:
        self._reason, self._share, self._placed = reason, share, 0
        self.waiting = waiting

    def next(self, rank: int, taken: set[int]) -> Pick | None:
        """Return the next story if one is due: of the first n places, n times the share, rounded, are for them."""
        if self._placed >= math.floor(rank * self._share + 0.5 + 1e-9):
            return None
        self.waiting = [place for place in self.waiting if place not in taken]
        if not self.waiting:
            return None
        self._placed += 1
        return Pick(self.waiting[0], self._reason)


def _highest(values: Ints | None, count: int, unknown: int) -> list[int]:
    """Return the places of the highest values, at most `count`; of equal ones, the places ranked higher."""
    if values is None or not count:
        return []
    kth = len(values) - count
    least = np.partition(values, kth)[kth]
    places = np.flatnonzero((values >= least) & (values > unknown))
    order = np.argsort(-values[places].astype(np.float64), kind="stable")
    best: list[int] = places[order][:count].tolist()
    return best


def _placing(candidates: Candidates, mix: Mix, columns: Ints, pool: int) -> Placing:
    relevance = np.zeros((1, len(columns)))
    relevance[0, :pool] = scaled(candidates.scores[None, :pool])[0]
    contents = candidates.contents(columns)
    if mix.method == "calibrated":
        return Calibration(relevance, contents.category[None], candidates.target()[None], mix.diversity)
    return MarginalRelevance(relevance, lambda chosen: contents.similar_to(int(chosen[0]))[None], mix.diversity)


def _next_ranked(placing: Placing | None, open_pool: NDArray[np.bool_]) -> Pick:
    """Return the open story of the pool with the highest value; it is `diverse` if the model ranks another higher."""
    first = int(open_pool.argmax())
    if placing is None:
        return Pick(first, "ranked")
    values = np.where(open_pool, placing.values()[0, : len(open_pool)], -np.inf)
    best = int(values.argmax())
    return Pick(best, "ranked" if best == first else "diverse")


def _next_plain(rest: Iterator[int], taken: set[int]) -> Pick:
    return Pick(next(place for place in rest if place not in taken), "ranked")
