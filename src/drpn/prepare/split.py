"""Which impressions make the profiles, train the model, validate and test it: four stretches of time, in that order."""

from dataclasses import dataclass
from datetime import date, datetime, timedelta

import ibis.expr.types as ir

from drpn.dataset.folder import SPLITS
from drpn.errors import LogError
from drpn.logs.engines.engine import Engine
from drpn.prepare.settings import DataSettings


@dataclass(frozen=True)
class Split:
    """Impressions are numbered by time, so each stretch is a range of numbers, the end not in it."""

    profile: range
    train: range
    validation: range
    test: range


@dataclass(frozen=True)
class Days:
    """The first day of the profile window, of training and of evaluation; None: the second part of the log."""

    profile: date
    train: date
    evaluation: date | None


def split(engine: Engine, impressions: ir.Table, *, parts: int, settings: DataSettings) -> Split:
    """The four stretches of a log of one or two parts."""
    first_part = impressions.filter(impressions.part == 0)
    span = engine.one(first_part.aggregate(first=first_part.time.min(), last=first_part.time.max()))
    first, last = span["first"], span["last"]
    days = choose_days(first, last, parts=parts, settings=settings)
    end = int(engine.one(impressions.aggregate(last=impressions.impression.max()))["last"]) + 1
    starts = [
        _first(engine, first_part.filter(first_part.time >= _midnight(day))) for day in (days.profile, days.train)
    ]
    if days.evaluation is None:
        second_part = impressions.filter(impressions.part == 1)
        _check_order(engine, last, second_part)
        starts.append(_first(engine, second_part))
    else:
        starts.append(_first(engine, first_part.filter(first_part.time >= _midnight(days.evaluation))))
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
    """The paper's protocol for logs of two parts, its like for logs of one; `first` and `last` span the first part."""
    start = first.date()
    total = (last.date() - start).days + 1
    if parts == 2:
        train = total - settings.train_days  # counted in days from the start
        profile = 0 if settings.profile_days is None else train - settings.profile_days
        evaluation = total
    else:
        profile = 0
        train = settings.profile_days or (5 if total > 6 else total - settings.train_days - 1)
        evaluation = train + settings.train_days
    if profile < 0 or train <= profile or (parts == 1 and evaluation >= total):
        need = (settings.profile_days or 1) + settings.train_days + (parts == 1)
        raise LogError(
            f"the log has {total} days ({first:%Y-%m-%d} to {last:%Y-%m-%d}) and needs {need} or more; bring a longer "
            "log, or choose fewer with data.profile_days and data.train_days"
        )
    day = [start + timedelta(days=count) for count in (profile, train, evaluation)]
    return Days(day[0], day[1], None if parts == 2 else day[2])


def _check_order(engine: Engine, end: datetime, second_part: ir.Table) -> None:
    begin = engine.one(second_part.aggregate(time=second_part.time.min()))["time"]
    if begin is not None and begin <= end:
        raise LogError(f"the second part begins at {begin} but the first ends at {end}; they must not overlap in time")


def _first_test(engine: Engine, evaluation: ir.Table, share: float, end: int) -> int:
    """The first impression after validation; those of one instant are never torn apart."""
    total = engine.one(evaluation.aggregate(rows=evaluation.count()))["rows"]
    target = max(1, int(total * share))
    if target >= total:
        return end
    at = engine.one(evaluation.order_by("impression").limit(1, offset=target).select("time"))["time"]
    first = _first(engine, evaluation.filter(evaluation.time >= at))
    return end if first is None else first


def _first(engine: Engine, impressions: ir.Table) -> int | None:
    """The smallest impression number, None where there is no impression."""
    number: int | None = engine.one(impressions.aggregate(first=impressions.impression.min()))["first"]
    return number


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day)
