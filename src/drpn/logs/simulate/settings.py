"""What can be asked of the newsroom, and what it reports of itself."""

import math
from dataclasses import dataclass

FEWEST_NEWS = 300
"""Below this a front page runs out of stories at night."""


@dataclass(frozen=True, kw_only=True)
class SimulationSettings:
    """A newsroom and its users; the defaults give the statistics of MIND."""

    users: int = 2_000
    """Users who visit at least once in the log."""
    news: int | None = None
    """Stories in all, those of the three weeks before the log included; none given: grows slowly with the users."""
    days: int = 7
    """Days of the log, the first a Saturday; the last is the dev part, those before are the train part."""
    seed: int = 0
    """Same seed and settings, same bytes."""
    accidents: float = 0.15
    """Share of all clicks that are accidents or fall for clickbait: the noise in positive feedback."""
    attention: float = 0.67
    """Mean share of a page that a user's eyes reach; what lies below is skipped unseen."""
    targeting: float = 0.15
    """Share of a page that the site picks from the subtopics the user likes; the rest goes by prominence."""

    def __post_init__(self) -> None:
        if self.users < 1:
            raise ValueError(f"users is {self.users}; at least 1 is needed")
        if self.news is not None and self.news < FEWEST_NEWS:
            raise ValueError(f"news is {self.news}; at least {FEWEST_NEWS} are needed to fill the front page")
        if self.days < 2:
            raise ValueError(f"days is {self.days}; at least 2 are needed, one to train on and one for the dev part")
        if self.seed < 0:
            raise ValueError(f"seed is {self.seed}; it must be 0 or more")
        if not 0 <= self.accidents < 1:
            raise ValueError(f"accidents is {self.accidents}; a share of clicks lies from 0 up to, not including, 1")
        if not 0 < self.attention <= 1:
            raise ValueError(f"attention is {self.attention}; a share of the page lies above 0 and up to 1")
        if not 0 <= self.targeting <= 1:
            raise ValueError(f"targeting is {self.targeting}; a share of the page lies from 0 to 1")

    @property
    def stories(self) -> int:
        """Stories in all: `news`, or in step with MIND-small's 51,282 news for 50,000 users."""
        if self.news is not None:
            return self.news
        return max(FEWEST_NEWS, round(51_282 * math.pow(self.users / 50_000, 0.25)))


@dataclass(frozen=True)
class Simulated:
    """How much was written."""

    users: int
    news: int
    impressions: int
    clicks: int
    shown: int
