"""A rule of the service: stories that the user was shown and skipped go down.

It is for models that read no counts: they may even raise a story that was skipped. A model that reads counts has
learned what becomes of such stories, and is left alone. The scores that the model gave stay as they are; the rule
changes the order alone, and the list says which stories it lowered.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from drpn.service.stories import Pool
from drpn.service.users import KnownUser

_LEAST = 0.05
"""A skip that has faded to less than this share of its first effect counts no more."""


class Skipped(NamedTuple):
    """A story that the user was shown and skipped."""

    times: int
    discount: float
    """By how much it goes down, in standard deviations of the scores of the list."""

    @property
    def text(self) -> str:
        """The rule in words, for the list and the explanation."""
        return f"shown and skipped {'once' if self.times == 1 else f'{self.times} times'}, lowered"


@dataclass(frozen=True)
class SkipRule:
    """How far skipped stories go down."""

    discount: float
    """In standard deviations for each skip, at first; 0 turns the rule off."""
    half_life_hours: float

    def skipped(self, user: KnownUser | None, pool: Pool, seconds: float) -> dict[str, Skipped]:
        """The stories of a pool that go down because the user skipped them; skips of a bundle have no time and do not
        count."""
        lowered: dict[str, Skipped] = {}
        if user is None or not self.discount:
            return lowered
        for news_id, (times, last) in user.skips.items():
            if news_id not in pool.place:
                continue
            # discount = d · times · 2^(-hours since the last skip / half-life)
            faded = 0.5 ** (max(0.0, seconds - last) / 3600 / self.half_life_hours)
            if faded >= _LEAST:
                lowered[news_id] = Skipped(times, self.discount * times * faded)
        return lowered


def lower(
    pool: Pool, scores: NDArray[np.float32], mask: NDArray[np.bool_], skipped: Mapping[str, Skipped]
) -> tuple[NDArray[np.float32], dict[int, str]]:
    """The scores by which a list is ordered, and the rule in words for each place in the pool that it lowered."""
    if not skipped:
        return scores, {}
    places = {pool.place[news_id]: one for news_id, one in skipped.items() if news_id in pool.place}
    # lowered = score - discount · standard deviation of the scores that may be listed
    spread = float(scores[mask].std()) if mask.any() else 0.0
    lowered = scores.copy()
    lowered[list(places)] -= np.array([one.discount * spread for one in places.values()], np.float32)
    return lowered, {place: one.text for place, one in places.items()}
