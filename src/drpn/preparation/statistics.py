"""Statistics of a dataset: the paper's Table 1 and more."""

from typing import Any

import ibis.expr.types as ir
import numpy as np

from drpn.dataset.arrays import Array
from drpn.dataset.folder import Impressions
from drpn.dataset.parts import parts_of
from drpn.logs.engines.engine import Engine

_OPTIONAL = (
    *("words_with_vector", "text_with_vector", "words_of_abstracts_alone"),
    *("entities", "entity_mentions", "entity_mentions_found"),
)
"""Word statistics that only some datasets have."""
TITLE_WORDS = ("mean_title_words", "mean_title_words_with_labels", "mean_title_words_of_15")
"""Mean words of a title: alone, with category and subcategory as words, and these cut to 15, as DRPN's paper has it."""


def feedback_counts(engine: Engine, feedback: ir.Table) -> dict[str, int]:
    """Counts of the profile window: `clicked` and `skipped` without repeats, `clicks` and `skips` with repeats."""
    counts = engine.single_row(
        feedback.aggregate(
            users=feedback.user.nunique(),
            clicked=feedback.clicked.sum().coalesce(0),
            skipped=(~feedback.clicked).sum().coalesce(0),
            clicks=feedback.clicks.sum().coalesce(0),
            skips=feedback.skips.sum().coalesce(0),
        )
    )
    return {name: int(count) for name, count in counts.items()}


def statistics(
    *,
    users: int,
    news: int,
    words: dict[str, Any],
    counts: dict[str, int],
    splits: dict[str, Impressions],
    stretches: dict[str, Any],
    clicked: Array,
    skipped: Array,
    neighbours: Array,
) -> dict[str, Any]:
    """The statistics of the manifest, whose keys are stable; profile means are over users with a profile.

    `of_profile_users` counts the impressions of users with a profile alone, in every split.
    """
    with_profile = (clicked[:, 0] > 0) | (skipped[:, 0] > 0)
    profile_users = max(counts["users"], 1)
    labels = sum(int(part.clicked.sum()) for part in splits.values())
    candidates = sum(len(part.candidates) for part in splits.values())
    impressions = sum(len(part) for part in splits.values())
    return {
        "users": users,
        "news": news,
        "words": words["words"],
        **{name: _rounded(words[name]) for name in TITLE_WORDS},
        "impressions": {name: len(part) for name, part in splits.items()},
        "clicked_samples": labels,
        "skipped_samples": candidates - labels,
        "mean_candidates": _rounded(candidates / impressions),
        "profile_users": counts["users"],
        "mean_clicked": _rounded(counts["clicked"] / profile_users),
        "mean_skipped": _rounded(counts["skipped"] / profile_users),
        "mean_clicked_with_repeats": _rounded(counts["clicks"] / profile_users),
        "mean_skipped_with_repeats": _rounded(counts["skips"] / profile_users),
        "mean_clicked_kept": _rounded(_nonzero(clicked) / profile_users),
        "mean_skipped_kept": _rounded(_nonzero(skipped) / profile_users),
        "news_with_neighbours": int(np.count_nonzero(neighbours[:, 0])),
        "users_without_profile": {
            name: _rounded(1 - with_profile[np.unique(part.users)].mean()) for name, part in splits.items()
        },
        "users_not_in_training": _not_in_training({name: part.users for name, part in splits.items()}),
        "of_profile_users": _of_profile_users(splits, with_profile),
        "stretches": stretches,
        **{name: words[name] for name in _OPTIONAL if name in words},
    }


def _of_profile_users(splits: dict[str, Impressions], with_profile: Array) -> dict[str, Any]:
    counts = [
        (int(piece.clicked[kept].sum()), int(kept.sum()))
        for part in splits.values()
        for piece in part.pieces()
        for kept in [np.repeat(with_profile[piece.users], np.diff(piece.offsets))]
    ]
    clicked, candidates = (sum(column) for column in zip(*counts, strict=True))
    return {
        "clicked_samples": clicked,
        "skipped_samples": candidates - clicked,
        "users_not_in_training": _not_in_training(
            {name: part.users[with_profile[part.users]] for name, part in splits.items()}
        ),
    }


def _not_in_training(users: dict[str, Array]) -> dict[str, float]:
    """The share of validation and test users without a training impression; 0 if there are no such users."""
    return {
        name: _rounded(np.isin(np.unique(users[name]), users["train"], invert=True).mean()) if len(users[name]) else 0.0
        for name in ("validation", "test")
    }


def _nonzero(array: Array) -> int:
    return sum(int(np.count_nonzero(part)) for part in parts_of(array))


def _rounded(value: float) -> float:
    return round(float(value), 4)
