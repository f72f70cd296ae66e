"""What may be chosen about a dataset folder."""

from dataclasses import dataclass
from typing import Literal

from drpn.state.profile import CLICKED_KEPT, SKIPPED_KEPT


@dataclass(frozen=True, kw_only=True)
class DataSettings:
    """How logs become numbers; the defaults are the paper's."""

    clicked: int = CLICKED_KEPT
    """l_p: newest clicked news kept of each user."""
    skipped: int = SKIPPED_KEPT
    """l_n: newest skipped news kept of each user."""
    words: int = 15
    """Words kept of each title."""
    category_words: bool = True
    """Put category and subcategory in front of the title as two words, within `words`."""
    vector_size: int = 300
    """Size of the word vectors learnt from the titles shown in training, where no vector file is given; 0: none."""
    neighbours: int = 5
    """Heaviest graph neighbours kept of each news."""
    graph: Literal["co-click", "consecutive"] = "co-click"
    """Which two news are linked: those that one user clicked, or clicked one after the other."""
    abstracts: int = 0
    """Words kept of each abstract, for models that read them; 0: none. Words that no title has join the vocabulary,
    behind those of the titles."""
    entities: int = 0
    """Entities kept of each title, for models that read them; 0: none."""
    user_neighbours: int = 0
    """Users kept of each user who clicked the most of the same news in the profile window, for models that read them;
    0: none. Readers of a news that more than 100 users clicked are dealt, in the order of their ids, into even groups
    of at most 100, and it links the readers of a group alone: all pairs of them would be too many to count."""
    history: bool = False
    """Add the clicks from before the log, where it has them, in front of those of the profile window."""
    profile_days: int | None = None
    """Days of the profile window; none: in a log of two parts all days before the training days, in a log of one part
    five, or all but the last two of a log of six days or fewer."""
    train_days: int = 1
    """Days after the profile window whose impressions train the model."""
    validation: float = 0.1
    """Share of the evaluation impressions, the earliest, that are for validation."""

    def __post_init__(self) -> None:
        for name in ("clicked", "skipped", "words", "neighbours", "train_days"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it takes 1 or more")
        for name in ("vector_size", "abstracts", "entities", "user_neighbours"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is {getattr(self, name)}; it takes 0 or more")
        if self.profile_days is not None and self.profile_days < 1:
            raise ValueError(f"profile_days is {self.profile_days}; it takes 1 or more")
        if not 0 < self.validation < 1:
            raise ValueError(f"validation is {self.validation}; it takes a share between 0 and 1")
