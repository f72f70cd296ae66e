"""Requests to a newsroom and its answers, as plain data."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from drpn.bundle.mixing import Mix
from drpn.bundle.rerank import Method, check_share
from drpn.errors import SettingsError
from drpn.state.profile import Profile

About = Mapping[str, str | float]
"""Facts about a user: device, age, gender, subscriber; only what the bundle's log says of its readers counts."""
Why = Literal["ranked", "diverse", "fresh", "popular", "explored", "pinned", "buried"]
"""Why a story has its place: its score; unlike the stories above; among the newest; among the most clicked; by chance;
put there by an editor."""


@dataclass(frozen=True)
class Rules:
    """What editors decide for one request. They never bring back a story that the user clicked, or one that expired."""

    pin: tuple[str, ...] = ()
    """Stories for the first places, in this order, whether they are among the candidates or not."""
    bury: tuple[str, ...] = ()
    """Stories that come after all others."""
    only_categories: tuple[str, ...] = ()
    """If given, stories of other categories are left out."""
    without_categories: tuple[str, ...] = ()
    """Stories of these categories are left out."""
    max_age_hours: float | None = None
    """Older stories are left out; a story without a time of publication counts as new."""
    category_share: float | None = None
    """The share of the list that one category may have; at least one story of each is allowed."""

    def __post_init__(self) -> None:
        if self.max_age_hours is not None and not self.max_age_hours >= 0:
            raise SettingsError(f"max_age_hours is {self.max_age_hours}; it takes 0 or more")
        if self.category_share is not None:
            check_share("category_share", self.category_share)

    @property
    def none(self) -> bool:
        """Whether there is no rule."""
        return self == _NO_RULES


_NO_RULES = Rules()


@dataclass(frozen=True)
class RankRequest:
    """Asks for a list of stories."""

    user_id: str | None = None
    """None for a reader without an id, who is ranked for as a user nobody knows."""
    candidates: tuple[str, ...] | None = None
    """The stories to rank; None for the live ones."""
    exclude: tuple[str, ...] = ()
    count: int = 10
    personalize: bool = True
    """If False, nothing that is known of the user is used, and nothing is stored of the request."""
    page: str | None = None
    """The story on whose page the list is shown."""
    surface: str | None = None
    session: str | None = None
    about: About = field(default_factory=dict)
    moment: datetime | None = None
    """The time of the request; by default the time of the newsroom's clock."""
    diversity: float = 0.0
    diversity_method: Method = "mmr"
    fresh: float = 0.0
    popular: float = 0.0
    """As in `Recommender.recommend`; clicks since the end of the log count, too."""
    explore: float = 0.0
    """The probability that a place gets a random candidate; propensities say what this leads to."""
    rules: Rules = _NO_RULES

    def __post_init__(self) -> None:
        if self.count < 0:
            raise SettingsError(f"count is {self.count}; it takes 0 or more")
        check_share("explore", self.explore)
        _ = self.mix  # checks the shares

    @property
    def mix(self) -> Mix:
        """How the list is mixed."""
        return Mix(self.diversity, self.diversity_method, self.fresh, self.popular)

    @property
    def reader(self) -> str | None:
        """The user whose profile counts; None if none does."""
        return self.user_id if self.personalize else None


@dataclass(frozen=True)
class ListedStory:
    """One story of an answer."""

    position: int
    """Place in the list, from 0."""
    news_id: str
    title: str
    category: str
    score: float
    plain_rank: int
    """Place by score alone, from 1."""
    why: Why
    propensity: float | None
    """The probability of this story at this place, given the stories above; None in a plain ranking."""
    rules: tuple[str, ...] = ()
    """The rules that moved the story, in words: those of editors, and that the user was shown and skipped it."""


@dataclass(frozen=True)
class Answer:
    """A list of stories, best first."""

    impression_id: str | None
    """Signed; feedback refers to it. None without a user to store feedback for."""
    user_id: str | None
    known: bool
    """Whether the user's profile has stories that the model knows."""
    bundle: str
    variant: str
    moment: datetime
    stories: tuple[ListedStory, ...]
    fallback: bool = False
    """Whether the model failed or did not answer in time, so that the most clicked stories are listed."""
    notes: tuple[str, ...] = ()
    """One line for each input that was ignored, such as unknown candidates."""


@dataclass(frozen=True)
class Influence:
    """How much a story of the profile moves a candidate's score: the score with it less the score without it."""

    news_id: str
    side: Literal["clicked", "skipped"]
    change: float


@dataclass(frozen=True)
class ExplainedStory:
    """A story of the profile with its weights."""

    news_id: str
    title: str
    category: str
    moment: datetime | None
    weights: dict[str, float]
    """By aggregator, such as "semantic denoise"; they sum to 1 over a side. Empty if the model has none."""


@dataclass(frozen=True)
class ExplainedCandidate:
    """A candidate and the stories of the profile that move its score most, the largest change first."""

    news_id: str
    title: str
    category: str
    score: float
    influences: tuple[Influence, ...]
    rules: tuple[str, ...] = ()
    """The rules of the service that lower it in rankings, in words; the score is the model's."""


@dataclass(frozen=True)
class Explanation:
    """Why a user gets this ranking."""

    user_id: str
    bundle: str
    variant: str
    clicked: tuple[ExplainedStory, ...]
    """Newest first."""
    skipped: tuple[ExplainedStory, ...]
    aggregator: str | None
    """The aggregator whose weights count as trust; None if the model has none."""
    candidates: tuple[ExplainedCandidate, ...]
    """Best first."""


@dataclass(frozen=True)
class UserView:
    """Profile and clicks of a user."""

    user_id: str
    variant: str
    version: int
    profile: Profile
    clicked: frozenset[str]
    """All stories that the user clicked."""
    erased: bool


@dataclass(frozen=True)
class Moved:
    """A story before and after something was tried; ranks are from 1."""

    news_id: str
    title: str
    score_before: float
    score_after: float
    rank_before: int
    rank_after: int
    lowered: tuple[str, ...] = ()
    """The rules of the service that lower it after, in words."""


@dataclass(frozen=True)
class VariantRate:
    """The click rate of the pages that one variant of one bundle ranked."""

    bundle: str
    variant: str
    impressions: int
    shown: int
    clicked: int
    rate: float
    low: float
    high: float
    """95 % interval after Wilson; shown stories count as independent."""


@dataclass(frozen=True)
class NewsroomFigures:
    """Figures of this process for monitoring, since it started."""

    rankings: int
    fallbacks: int
    refused: int
    """Rankings refused because too many waited."""
    waiting: int
    batches: int
    live_stories: int
    cached_readers: int
    reader_hits: int
    reader_misses: int
    last_sequence: int
    """The newest event that rankings know."""
    dropped_rankings: int
    """Rankings that could not be logged."""
