"""Settings of the simulation, and the counts it reports."""

import math
from dataclasses import dataclass

from drpn.logs.simulate.presets import PRESETS, Preset

FEWEST_NEWS = 300
"""With fewer stories a front page cannot be filled at night."""

ACCIDENTS = 0.15
"""In EB-NeRD 17 % of clicked stories are read for less than 5 seconds."""

MOST_NOISE = 0.5
"""With more noise, clicks would say less about interest than skips."""


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
    accidents: float = ACCIDENTS
    """Share of clicks that are accidental or caused by clickbait: the noise in positive feedback."""
    attention: float = 0.67
    """Mean share of a page that a user looks at; stories below are skipped unseen."""
    targeting: float = 0.15
    """Share of a page that the site picks from subtopics the user likes; the rest is picked by prominence."""
    preset: str = "newsroom"
    """The newsroom, one of `PRESETS`."""
    noise: float | None = None
    """Share of noise in clicks and in skips: clicks without interest, and interesting stories that are skipped. It
    replaces `accidents`, `attention` (users see the whole page) and `targeting`. None: as the preset has it."""

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
        if self.preset not in PRESETS:
            raise ValueError(f"preset is {self.preset!r}; it takes one of {', '.join(PRESETS)}")
        if self.noise is not None and not 0 <= self.noise <= MOST_NOISE:
            raise ValueError(f"noise is {self.noise}; it takes a share of clicks and skips, from 0 to {MOST_NOISE}")
        if self.noise is not None and self.newsroom.live:
            raise ValueError(
                f"noise is {self.noise}, but in the preset {self.preset} noise in skips follows from the age of "
                "stories and the weariness of users; set accidents"
            )
        if self.feedback_noise is not None and self.accidents != ACCIDENTS:
            raise ValueError(f"accidents is {self.accidents}, but noise, {self.feedback_noise}, replaces it; set noise")

    @property
    def newsroom(self) -> Preset:
        """The properties of the preset."""
        return PRESETS[self.preset]

    @property
    def feedback_noise(self) -> float | None:
        """Share of noise in clicks and in skips; None: it follows from `accidents`, `attention` and `targeting`."""
        return self.newsroom.noise if self.noise is None else self.noise

    @property
    def click_noise(self) -> float:
        """Share of clicks that are noise."""
        return self.accidents if self.feedback_noise is None else self.feedback_noise

    @property
    def stories(self) -> int:
        """Total number of stories: `news`, or scaled from MIND-small's 51,282 stories for 50,000 users."""
        if self.news is not None:
            return self.news
        return max(FEWEST_NEWS, round(51_282 * math.pow(self.users / 50_000, 0.25) * self.newsroom.stories))


@dataclass(frozen=True)
class Simulated:
    """Counts of the written log."""

    users: int
    news: int
    impressions: int
    clicks: int
    shown: int
