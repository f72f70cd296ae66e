"""Settings of a dataset folder."""

from dataclasses import dataclass
from typing import Literal

from drpn.state.profile import CLICKED_KEPT, SKIPPED_KEPT


@dataclass(frozen=True, kw_only=True)
class DataSettings:
    """How logs become arrays; the default sizes are the paper's."""

    clicked: int = CLICKED_KEPT
    """l_p: newest clicked stories kept per user."""
    skipped: int = SKIPPED_KEPT
    """l_n: newest skipped stories kept per user."""
    words: int = 15
    """Words kept per title."""
    category_words: bool = True
    """Put category and subcategory in front of the title as two words, within `words`."""
    vector_size: int = 300
    """Size of the word vectors computed from the titles shown in training if no vector file is passed; 0: none."""
    neighbours: int = 5
    """Heaviest graph neighbours kept per story."""
    graph: Literal["co-click", "consecutive"] = "co-click"
    """Which stories are linked: clicked by the same user (of the newest 1,000 clicks of each), or clicked by the same
    user directly one after the other."""
    abstracts: int = 0
    """Words kept per abstract, for models that read abstracts; 0: none. Words that are in no title are appended to the
    vocabulary, after those of the titles."""
    entities: int = 0
    """Entities kept per title, those that words of the title name, for models that read entities; 0: none."""
    user_neighbours: int = 0
    """Neighbour users kept per user, those who clicked the most of the same stories in the profile window, for models
    that read them; 0: none. If more than 100 users clicked a story, they are divided, in the order of their ids, into
    even groups of at most 100, and only users of the same group are linked: all pairs would be too many to count."""
    protocol: Literal["paper", "live"] = "paper"
    """Which facts are known of a user at an impression. paper: the profile of the profile window, as in the paper.
    live: also profiles and counts as of each impression, from strictly earlier seconds, as a running site would know
    them."""
    history: bool = False
    """Add the clicks before the log, if it has them, in front of those of the profile window. Clicks that have a time
    enter at that time; those that are later than the profile window count only in the profiles of the end of the log.
    """
    users: Literal["all", "with-profile"] = "all"
    """Whose impressions are kept for training, validation and test: those of all users, or, as in the paper's
    experiments, only those of users with a profile."""
    profile_days: int | None = None
    """Days of the profile window. In a log of two parts they end where training begins; in a log of one part they start
    with the log, and everything after the training days is evaluation. None: chosen by `preparation.days`."""
    train_days: int | None = None
    """Days after the profile window whose impressions train the model. None: chosen by `preparation.days`."""
    validation: float | None = None
    """Share of the evaluation impressions, the earliest ones, used for validation. None: 0.1, or the whole day before
    the test in a log of one part that spans more than a week."""
    part_rows: int = 10_000_000
    """Users or impressions that one file holds at most. Arrays with more of them are in several files, which are read
    like one."""

    def __post_init__(self) -> None:
        for name in ("clicked", "skipped", "words", "neighbours", "profile_days", "train_days", "part_rows"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it takes 1 or more")
        for name in ("vector_size", "abstracts", "entities", "user_neighbours"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is {getattr(self, name)}; it takes 0 or more")
        if self.protocol == "live" and self.users != "all":
            raise ValueError(f"users is {self.users}; with the live protocol it takes all")
        if self.validation is not None and not 0 < self.validation < 1:
            raise ValueError(f"validation is {self.validation}; it takes a share between 0 and 1")
