"""Choose the days of each stretch of a log: profile window, training, validation and test.

Two parts, as MIND's: the paper's protocol. The last day of the first part trains the model, the days before it make the
profiles, and the second part is evaluated.

One part that spans a week or less: five days make the profiles, the sixth trains, the rest is evaluated. With six days
or fewer the last one is evaluated, the one before it trains, and the others make the profiles.

One part that spans more than a week: the test begins with the last full day, the day before it validates, up to five
days before that train, and all earlier days make the profiles. Training takes fewer than five days if fewer than five
would be left for the profiles.

One part, live protocol: the first two days warm the counts up, the test begins with the last full day, the day before
it validates, and all days between train. Profiles and counts go on through all of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from statistics import median
from typing import NamedTuple

from drpn.errors import LogError
from drpn.preparation.settings import DataSettings

WEEK = timedelta(days=7)
PROFILE_DAYS = 5
"""The paper's profile window, and the least that a longer log leaves for it."""
MOST_TRAINING_DAYS = 5
WARM_UP_DAYS = 2
"""Days at the start of a log in which the counts of the live protocol begin to fill."""
FULL_SHARE, FULL_MARGIN = 0.25, 2.0
"""A full day has at least this share of the usual impressions, and its last is at most this many hours too early."""


class Day(NamedTuple):
    """One day on which a log has impressions."""

    date: date
    impressions: int
    first: datetime
    last: datetime

    @property
    def end(self) -> float:
        """Time of day of the last impression, in hours."""
        return (self.last - datetime(self.date.year, self.date.month, self.date.day)) / timedelta(hours=1)


@dataclass(frozen=True)
class Days:
    """First day of the profile window, training, evaluation (None: the second part) and test (None: by share)."""

    profile: date
    train: date
    evaluation: date | None
    test: date | None = None


def choose_days(days: Sequence[Day], *, parts: int, settings: DataSettings) -> Days:
    """The first day of each stretch; `days` are those of the first part, in order."""
    if parts == 2:
        return _last_of_first_part(days, settings)
    if settings.protocol == "live":
        return _live(days, settings)
    if settings.profile_days is None and days[-1].last - days[0].first > WEEK:
        return _newest(days, settings)
    return _from_the_start(days, settings)


def _live(days: Sequence[Day], settings: DataSettings) -> Days:
    """Days without impressions do not count."""
    test = last_full_day(days)
    evaluation = test - 1 if settings.validation is None else test
    warm_up = settings.profile_days or (WARM_UP_DAYS if evaluation > WARM_UP_DAYS else 1)
    train = warm_up if settings.train_days is None else evaluation - settings.train_days
    if train < warm_up or evaluation <= train:
        needed = warm_up + (settings.train_days or 1) + 1 + (settings.validation is None)
        raise _too_short(days[: test + 1], test + 1, needed, counted="days with impressions")
    return Days(days[0].date, days[train].date, days[evaluation].date, days[test].date if evaluation < test else None)


def last_full_day(days: Sequence[Day]) -> int:
    """The index of the last full day: compared with the median of the seven days before it, it has at least a quarter
    of the impressions, as many weekends have, and its last impression is at most two hours earlier."""
    for place in range(len(days) - 1, 0, -1):
        day, before = days[place], days[max(0, place - 7) : place]
        enough = day.impressions >= FULL_SHARE * median(other.impressions for other in before)
        if enough and day.end + FULL_MARGIN >= median(other.end for other in before):
            return place
    return 0


def _last_of_first_part(days: Sequence[Day], settings: DataSettings) -> Days:
    start, total = days[0].date, _total(days)
    train = total - (settings.train_days or 1)  # in days from the start
    profile = 0 if settings.profile_days is None else train - settings.profile_days
    if profile < 0 or train <= profile:
        raise _too_short(days, total, (settings.profile_days or 1) + (settings.train_days or 1))
    return Days(start + timedelta(days=profile), start + timedelta(days=train), None)


def _from_the_start(days: Sequence[Day], settings: DataSettings) -> Days:
    start, total, train_days = days[0].date, _total(days), settings.train_days or 1
    train = settings.profile_days or (PROFILE_DAYS if total > PROFILE_DAYS + 1 else total - train_days - 1)
    if train <= 0 or train + train_days >= total:
        raise _too_short(days, total, (settings.profile_days or 1) + train_days + 1)
    return Days(start, start + timedelta(days=train), start + timedelta(days=train + train_days))


def _newest(days: Sequence[Day], settings: DataSettings) -> Days:
    """Days without impressions do not count, so that no stretch is empty."""
    test = last_full_day(days)
    evaluation = test - 1 if settings.validation is None else test
    train = evaluation - (settings.train_days or max(1, min(MOST_TRAINING_DAYS, evaluation - PROFILE_DAYS)))
    if train <= 0:
        needed = (settings.train_days or 1) + 2 + (settings.validation is None)
        raise _too_short(days[: test + 1], test + 1, needed, counted="days with impressions")
    return Days(days[0].date, days[train].date, days[evaluation].date, days[test].date if evaluation < test else None)


def _total(days: Sequence[Day]) -> int:
    """Days from the first to the last, with those that have no impressions."""
    return (days[-1].date - days[0].date).days + 1


def _too_short(days: Sequence[Day], total: int, needed: int, *, counted: str = "days") -> LogError:
    return LogError(
        f"the log has {total} {counted} ({days[0].date} to {days[-1].date}) and needs {needed} or more; "
        "use a longer log, or fewer days with data.profile_days and data.train_days"
    )
