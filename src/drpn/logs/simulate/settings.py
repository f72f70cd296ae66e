"""Settings of the simulation, and the counts it reports."""

import math
from dataclasses import dataclass

FEWEST_NEWS = 300
"""With fewer stories a front page cannot be filled at night."""


@dataclass(frozen=True, kw_only=True)
class SimulationSettings:
    """A newsroom and its users; the defaults give the statistics of MIND."""

    users: int = 2_000
    """Users who visit at least once during the log."""
    news: int | None = None
    """Total number of stories, including those of the three weeks before the log; None: grows slowly with `users`."""
    days: int = 7
    """Days of the log, starting on a Saturday; the last day is the dev part, the days before are the train part."""
    seed: int = 0
    """The same seed and settings give the same bytes."""
    accidents: float = 0.15
    """Share of clicks that are accidental or caused by clickbait: the noise in positive feedback."""
    attention: float = 0.67
    """Mean share of a page that a user looks at; stories below are skipped unseen."""
    targeting: float = 0.15
    """Share of a page that the site picks from subtopics the user likes; the rest is picked by prominence."""

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
            raise ValueError(f"accidents is {self.accidents}; it takes a share of clicks, from 0 to below 1")
        if not 0 < self.attention <= 1:
            raise ValueError(f"attention is {self.attention}; it takes a share of the page, above 0 and up to 1")
        if not 0 <= self.targeting <= 1:
            raise ValueError(f"targeting is {self.targeting}; it takes a share of the page, from 0 to 1")

    @property
    def stories(self) -> int:
        """Total number of stories: `news`, or scaled from MIND-small's 51,282 stories for 50,000 users."""
        if self.news is not None:
            return self.news
        return max(FEWEST_NEWS, round(51_282 * math.pow(self.users / 50_000, 0.25)))


@dataclass(frozen=True)
class Simulated:
    """Counts of the written log."""

    users: int
    news: int
    impressions: int
    clicks: int
    shown: int
