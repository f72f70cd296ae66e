"""One ranking: a request is prepared, scored by a desk, listed, and answered with an impression id."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from drpn.service.desk import Desk, ScoreRequest
from drpn.service.listing import Facts, allowed, listing
from drpn.service.requests import Answer, ListedStory, RankRequest
from drpn.service.signing import Signer
from drpn.service.skips import Skipped, SkipRule
from drpn.service.stories import Pool
from drpn.service.users import KnownUser
from drpn.store.records import LoggedRanking, as_utc


@dataclass(frozen=True)
class Prepared:
    """A request with everything that its answer needs."""

    request: RankRequest
    variant: str
    desk: Desk
    known: KnownUser | None
    asked: ScoreRequest
    moment: datetime
    hidden: frozenset[str]
    notes: tuple[str, ...]
    skipped: Mapping[str, Skipped] = field(default_factory=dict)
    """Stories that go down because the user skipped them."""


def prepare(
    request: RankRequest, variant: str, desk: Desk, known: KnownUser | None, now: datetime, rule: SkipRule
) -> Prepared:
    """Look up the profile, the candidates and the context of a request."""
    user = request.reader
    if user is not None and known is not None and known.erased:
        desk.hide(user)
    moment = as_utc(request.moment or now)
    seconds = moment.timestamp()
    pool, notes = _pool(desk, request, seconds)
    page = request.page
    if page is not None and not desk.knows_page(page):
        page = None
    about = desk.about(request.about)
    notes += [f"the model does not know the {name} of readers" for name in request.about if name not in about]
    asked = ScoreRequest(user, desk.profile(user, known), pool, int(seconds), page, about)
    hidden = frozenset[str]() if known is None else known.clicked
    skipped = {} if desk.reads_counts else rule.skipped(known, pool, seconds)
    return Prepared(request, variant, desk, known, asked, moment, hidden, tuple(notes), skipped)


def _pool(desk: Desk, request: RankRequest, seconds: float) -> tuple[Pool, list[str]]:
    """The stories to choose from: the live ones or the candidates, and those that are pinned."""
    stories = desk.stories
    pinned = [news_id for news_id in request.rules.pin if stories.may_be_ranked(news_id, seconds)]
    if request.candidates is None:
        live = stories.live(seconds)
        more = [news_id for news_id in pinned if news_id not in live.place]
        return (stories.pool([*live.news_ids, *more]) if more else live), []
    chosen = dict.fromkeys((*request.candidates, *pinned))
    pool, notes = stories.pool(chosen), []
    if len(pool) < len(chosen):
        unknown = [news_id for news_id in chosen if not stories.known(news_id)]
        if unknown:
            names = ", ".join(unknown[:3]) + (f" and {len(unknown) - 3:,} more" if len(unknown) > 3 else "")
            notes.append(f"candidates that are not in the catalogue are left out: {names}")
    return pool, notes


def listed(
    prepared: Prepared, scores: NDArray[np.float32], seed: str = ""
) -> tuple[tuple[ListedStory, ...], list[str]]:
    """The stories of a ranking, and a line for each rule that left some out. Exploration is drawn from `seed`."""
    request, desk, seconds = prepared.request, prepared.desk, prepared.moment.timestamp()

    def facts() -> Facts:
        return Facts(
            desk.recommender.facts,
            desk.recommender.story,
            lambda news_ids: desk.popularity.clicks(news_ids, seconds),
            prepared.asked.profile.clicked,
        )

    mask, left_out = allowed(prepared.asked.pool, request, prepared.hidden, seconds)
    stories, capped = listing(prepared.asked.pool, scores, mask, request, facts, seed, prepared.skipped)
    return stories, [*left_out, *capped]


def answer(
    prepared: Prepared, scores: NDArray[np.float32], signer: Signer, now: datetime, *, fallback: bool = False
) -> tuple[Answer, LoggedRanking]:
    """The answer to a request, and the ranking as it is logged."""
    desk, user = prepared.desk, prepared.request.reader
    issued = None if user is None else signer.issue(user, desk.name, prepared.variant, now)
    impression_id = issued or signer.number()
    stories, notes = listed(prepared, scores, impression_id)
    profile = prepared.asked.profile
    given = Answer(
        impression_id=issued,
        user_id=user,
        known=bool(profile.clicked or profile.skipped),
        bundle=desk.name,
        variant=prepared.variant,
        moment=prepared.moment,
        stories=stories,
        fallback=fallback,
        notes=(*prepared.notes, *notes),
    )
    logged = LoggedRanking(
        impression_id,
        user,
        prepared.moment,
        desk.name,
        prepared.variant,
        tuple(story.news_id for story in stories),
        tuple(story.score for story in stories),
        tuple(1.0 if story.propensity is None else story.propensity for story in stories),
        fallback,
    )
    return given, logged
