"""Rankings by popularity, for requests that the model cannot answer in time.

They read what is at hand, so that they do not wait for the thread that ranks.
"""

import time
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from drpn.service.desk import Desk, ScoreRequest
from drpn.service.ranking import Prepared
from drpn.service.requests import RankRequest
from drpn.service.stories import Pool
from drpn.service.users import KnownUser
from drpn.store.records import as_utc

_SECONDS = 5.0
"""How old the list of popular stories may be."""


@dataclass(frozen=True)
class _Popular:
    """The live stories and their clicks, as of some seconds ago."""

    pool: Pool
    clicks: NDArray[np.float64]
    made: float


class Fallback:
    """The popular stories of each variant, renewed every few seconds."""

    def __init__(self) -> None:
        self._popular: dict[str, _Popular] = {}

    def refresh(self, variant: str, desk: Desk, now: datetime, *, force: bool = False) -> None:
        """Count the clicks on live stories again if that is due."""
        known, moment = self._popular.get(variant), time.monotonic()
        if force or known is None or moment - known.made > _SECONDS:
            pool = desk.stories.live(now.timestamp())
            clicks = desk.popularity.clicks(pool.news_ids, now.timestamp())
            self._popular[variant] = _Popular(pool, clicks, moment)

    def prepare(
        self,
        request: RankRequest,
        variant: str,
        desk: Desk,
        known: KnownUser | None,
        hidden: frozenset[str],
        now: datetime,
    ) -> tuple[Prepared, NDArray[np.float32]]:
        """A request and its scores, which are clicks; everything but mixing holds."""
        moment = as_utc(request.moment or now)
        popular = self._popular[variant]
        pool, clicks = popular.pool, popular.clicks
        if request.candidates is not None or request.rules.pin:
            some = popular.pool.news_ids if request.candidates is None else request.candidates
            chosen = [
                news_id
                for news_id in dict.fromkeys((*some, *request.rules.pin))
                if desk.stories.may_be_ranked(news_id, moment.timestamp())
            ]
            facts = [desk.stories.facts(news_id) for news_id in chosen]
            pool = Pool(chosen, pool.positions[:0], facts, None, np.array([one.expires for one in facts], np.float64))
            clicks = desk.popularity.clicks(chosen, moment.timestamp())
        plain = replace(request, diversity=0.0, fresh=0.0, popular=0.0)
        asked = ScoreRequest(request.reader, desk.profile(None, None), pool, int(moment.timestamp()), None, {})
        return Prepared(plain, variant, desk, known, asked, moment, hidden, ()), clicks.astype(np.float32)
