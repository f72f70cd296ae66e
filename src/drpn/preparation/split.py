"""Split the impressions by time into profile window, training, validation and test."""

from dataclasses import dataclass
from datetime import date, datetime, timedelta

import ibis.expr.types as ir

from drpn.dataset.folder import SPLITS
from drpn.errors import LogError
from drpn.logs.engines.engine import Engine
from drpn.preparation.settings import DataSettings


@dataclass(frozen=True)
class Split:
    """Four ranges of impression numbers; impressions are numbered by time."""

    profile: range
    train: range
    validation: range
    test: range


@dataclass(frozen=True)
class Days:
    """First day of the profile window, of training and of evaluation (None: the second part of the log)."""

    profile: date
    train: date
    evaluation: date | None


def split(engine: Engine, impressions: ir.Table, *, parts: int, settings: DataSettings) -> Split:
    """Split a log of one or two parts."""
    first_part = impressions.filter(impressions.part == 0)
    span = engine.single_row(first_part.aggregate(first=first_part.time.min(), last=first_part.time.max()))
    first, last = span["first"], span["last"]
    days = choose_days(first, last, parts=parts, settings=settings)
    end = int(engine.single_row(impressions.aggregate(last=impressions.impression.max()))["last"]) + 1
    starts = [
        _first_number(engine, first_part.filter(first_part.time >= _midnight(day)))
        for day in (days.profile, days.train)
    ]
    if days.evaluation is None:
        second_part = impressions.filter(impressions.part == 1)
        _check_no_overlap(engine, last, second_part)
        starts.append(_first_number(engine, second_part))
    else:
        starts.append(_first_number(engine, first_part.filter(first_part.time >= _midnight(days.evaluation))))
    profile, train, evaluation = (end if start is None else start for start in starts)
    test = _first_test(engine, impressions.filter(impressions.impression >= evaluation), settings.validation, end)
    result = Split(range(profile, train), range(train, evaluation), range(evaluation, test), range(test, end))
    for name in ("profile", *SPLITS):
        if not getattr(result, name):
            raise LogError(
                f"no impressions are left for {name}: the log goes from {first:%Y-%m-%d} to {last:%Y-%m-%d}; "
                "choose other data.profile_days, data.train_days or data.validation"
            )
    return result


def choose_days(first: datetime, last: datetime, *, parts: int, settings: DataSettings) -> Days:
    """The first day of each window: the paper's protocol for logs of two parts, a similar one for logs of one part.

    `first` and `last` are the first and last time of the first part.
    """
    start = first.date()
    total = (last.date() - start).days + 1
    if parts == 2:
        train = total - settings.train_days  # in days from the start
        profile = 0 if settings.profile_days is None else train - settings.profile_days
        evaluation = total
    else:
        profile = 0
        train = settings.profile_days or (5 if total > 6 else total - settings.train_days - 1)
        evaluation = train + settings.train_days
    if profile < 0 or train <= profile or (parts == 1 and evaluation >= total):
        needed = (settings.profile_days or 1) + settings.train_days + (parts == 1)
        raise LogError(
            f"the log has {total} days ({first:%Y-%m-%d} to {last:%Y-%m-%d}) and needs {needed} or more; "
            "use a longer log, or fewer days with data.profile_days and data.train_days"
        )
    day = [start + timedelta(days=count) for count in (profile, train, evaluation)]
    return Days(day[0], day[1], None if parts == 2 else day[2])


def _check_no_overlap(engine: Engine, end: datetime, second_part: ir.Table) -> None:
    begin = engine.single_row(second_part.aggregate(time=second_part.time.min()))["time"]
    if begin is not None and begin <= end:
        raise LogError(f"the second part begins at {begin} but the first ends at {end}; they must not overlap in time")


def _first_test(engine: Engine, evaluation: ir.Table, share: float, end: int) -> int:
    """The first impression of test; impressions with equal times are never split."""
    total = engine.single_row(evaluation.aggregate(rows=evaluation.count()))["rows"]
    target = max(1, int(total * share))
    if target >= total:
        return end
    time = engine.single_row(evaluation.order_by("impression").limit(1, offset=target).select("time"))["time"]
    first = _first_number(engine, evaluation.filter(evaluation.time >= time))
    return end if first is None else first


def _first_number(engine: Engine, impressions: ir.Table) -> int | None:
    """The smallest impression number; None without impressions."""
    number: int | None = engine.single_row(impressions.aggregate(first=impressions.impression.min()))["first"]
    return number


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day)
