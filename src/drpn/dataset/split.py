"""Which impressions make the profiles, train the model, validate and test it: four stretches of time, in that order."""

from dataclasses import dataclass
from datetime import date, datetime, timedelta

import ibis.expr.types as ir

from drpn.dataset.folder import SPLITS
from drpn.dataset.settings import DataSettings
from drpn.errors import LogError
from drpn.logs.engine import Engine
from drpn.logs.tables import Logs


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


def split(engine: Engine, logs: Logs, settings: DataSettings) -> Split:
    """The four stretches of a log."""
    first, last = _span(engine, logs.impressions)
    days = choose_days(first, last, parts=logs.parts, settings=settings)
    table = logs.impressions
    total = _count(engine, table)
    if days.evaluation is None:
        evaluation = _count(engine, table.filter(table.part == 0))
        _check_parts(engine, logs)
    else:
        evaluation = _count_before(engine, table, days.evaluation)
    profile, train = (_count_before(engine, table.filter(table.part == 0), day) for day in (days.profile, days.train))
    test = _first_test(engine, table, evaluation, total, settings.validation)
    result = Split(range(profile, train), range(train, evaluation), range(evaluation, test), range(test, total))
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


def _span(engine: Engine, impressions: ir.Table) -> tuple[datetime, datetime]:
    table = impressions.filter(impressions.part == 0)
    found = engine.one(table.aggregate(first=table.time.min(), last=table.time.max()))
    return found["first"], found["last"]


def _check_parts(engine: Engine, logs: Logs) -> None:
    table = logs.impressions
    first = table.filter(table.part == 0)
    second = table.filter(table.part == 1)
    end = engine.one(first.aggregate(time=first.time.max()))["time"]
    begin = engine.one(second.aggregate(time=second.time.min()))["time"]
    if begin is not None and begin <= end:
        raise LogError(f"the second part begins at {begin} but the first ends at {end}; they must not overlap in time")


def _first_test(engine: Engine, table: ir.Table, start: int, total: int, share: float) -> int:
    """The first impression after validation; those of one instant are never torn apart."""
    target = start + max(1, int((total - start) * share))
    if target >= total:
        return total
    at = engine.one(table.filter(table.impression == target).aggregate(time=table.time.max()))["time"]
    later = table.filter((table.impression >= start) & (table.time >= at))
    return int(engine.one(later.aggregate(first=later.impression.min()))["first"])


def _count(engine: Engine, table: ir.Table) -> int:
    return int(engine.one(table.aggregate(rows=table.count()))["rows"])


def _count_before(engine: Engine, table: ir.Table, day: date) -> int:
    return _count(engine, table.filter(table.time < datetime(day.year, day.month, day.day)))
