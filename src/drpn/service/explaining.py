"""Why a user gets a ranking: the weights of the user's stories, and what single stories change."""

from collections.abc import Mapping
from datetime import datetime
from typing import Literal

import numpy as np

from drpn.bundle.scoring import ProfileStories
from drpn.service.desk import Desk, ScoreRequest
from drpn.service.requests import ExplainedCandidate, ExplainedStory, Explanation, Influence
from drpn.service.skips import Skipped
from drpn.service.users import KnownUser
from drpn.state.profile import Entry

_MOST_INFLUENCES = 5
"""Stories that are named for each candidate."""

Side = Literal["clicked", "skipped"]
_SIDES: tuple[Side, ...] = ("clicked", "skipped")


def explain(
    desk: Desk,
    variant: str,
    user_id: str,
    known: KnownUser,
    asked: ScoreRequest,
    skipped: Mapping[str, Skipped],
) -> Explanation:
    """Explain the scores of some candidates; those in `skipped` go down in rankings."""
    profile = asked.profile
    left_out: list[tuple[Side, str]] = [(side, news_id) for side in _SIDES for news_id in getattr(profile, side)]
    requests = [asked, *(asked._replace(profile=_without(profile, *one)) for one in left_out)]
    scores = np.stack(desk.scores(requests, keep=False)).astype(np.float64)
    changes = scores[0] - scores[1:]  # (stories of the profile, candidates)
    candidates = []
    for place in np.argsort(-scores[0], kind="stable").tolist():
        largest = np.argsort(-np.abs(changes[:, place]), kind="stable")[:_MOST_INFLUENCES].tolist()
        facts, news_id = asked.pool.facts[place], asked.pool.news_ids[place]
        candidates.append(
            ExplainedCandidate(
                news_id,
                facts.title,
                facts.category,
                float(scores[0, place]),
                tuple(
                    Influence(left_out[one][1], left_out[one][0], float(changes[one, place]))
                    for one in largest
                    if changes[one, place]
                ),
                (skipped[news_id].text,) if news_id in skipped else (),
            )
        )
    weights, aggregator = desk.scorer.weights(profile)
    sides = {side: _explained(desk, known, profile, side, weights[side]) for side in _SIDES}
    return Explanation(user_id, desk.name, variant, sides["clicked"], sides["skipped"], aggregator, tuple(candidates))


def _without(profile: ProfileStories, side: Side, news_id: str) -> ProfileStories:
    kept = tuple(story for story in getattr(profile, side) if story != news_id)
    return profile._replace(clicked=kept) if side == "clicked" else profile._replace(skipped=kept)


def _explained(
    desk: Desk, known: KnownUser, profile: ProfileStories, side: Side, weights: dict[str, list[float]]
) -> tuple[ExplainedStory, ...]:
    """One side of a profile, newest first."""
    entries: tuple[Entry, ...] = getattr(known.profile, side)
    moments = {entry.news_id: entry.moment for entry in entries}
    stories = []
    for place, news_id in enumerate(getattr(profile, side)):
        facts, moment = desk.stories.facts(news_id), moments.get(news_id)
        stories.append(
            ExplainedStory(
                news_id,
                facts.title,
                facts.category,
                moment if isinstance(moment, datetime) else None,
                {name: values[place] for name, values in weights.items()},
            )
        )
    return tuple(reversed(stories))
