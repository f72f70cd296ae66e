"""Which stories are clicked most at the moment."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

HALF_LIFE = 12 * 3600.0
"""Seconds after which a click counts half."""


class Popularity:
    """Clicks on stories, each counting half after every `HALF_LIFE`."""

    def __init__(self) -> None:
        self._clicks: dict[str, tuple[float, float]] = {}  # the sum, and the second it is as of

    def add(self, news_id: str, seconds: float, clicks: float = 1.0) -> None:
        """Count clicks on a story; those that come late count as if they came in time."""
        known, moment = self._clicks.get(news_id, (0.0, seconds))
        newest = max(moment, seconds)
        faded = known * 0.5 ** ((newest - moment) / HALF_LIFE) + clicks * 0.5 ** ((newest - seconds) / HALF_LIFE)
        self._clicks[news_id] = faded, newest

    def clicks(self, news_ids: Sequence[str], seconds: float) -> NDArray[np.float64]:
        """The faded clicks on stories at a moment."""
        get, never = self._clicks.get, (0.0, seconds)
        known = np.array([get(news_id, never) for news_id in news_ids], np.float64).reshape(-1, 2)
        faded: NDArray[np.float64] = known[:, 0] * 0.5 ** (np.maximum(seconds - known[:, 1], 0) / HALF_LIFE)
        return faded
