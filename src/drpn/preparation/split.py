"""Split the impressions by time into profile window, training, validation and test."""

from dataclasses import dataclass
from datetime import date, datetime
from itertools import pairwise

import ibis
import ibis.expr.types as ir

from drpn.dataset.folder import SPLITS
from drpn.errors import LogError
from drpn.logs.engines.engine import Engine
from drpn.preparation.days import Day, choose_days
from drpn.preparation.settings import DataSettings

_VALIDATION = 0.1
"""Section 5.1 of the paper: the first tenth of the evaluation impressions."""


@dataclass(frozen=True)
class Window:
    """Impressions with consecutive numbers, and the days on which they are."""

    start: int
    stop: int
    first_day: int
    last_day: int

    def within(self, table: ir.Table) -> ir.Table:
        """The rows of a table that belong to these impressions."""
        # the days follow from the numbers; an engine that keeps a table by day need not read the others
        days = (table.day >= self.first_day) & (table.day <= self.last_day)
        return table.filter(days & (table.impression >= self.start) & (table.impression < self.stop))

    def outside(self, table: ir.Table) -> ir.Table:
        """The other rows of a table."""
        return table.filter((table.impression < self.start) | (table.impression >= self.stop))

    def through(self, last: "Window") -> "Window":
        """The impressions from this window to the end of a later one."""
        days = self.first_day, self.last_day, last.first_day, last.last_day
        return Window(self.start, last.stop, min(days), max(days))


@dataclass(frozen=True)
class Split:
    """The windows of impressions; impressions are numbered by time."""

    profile: Window
    train: Window
    validation: Window
    test: Window


def split(engine: Engine, impressions: ir.Table, *, parts: int, settings: DataSettings) -> Split:
    """Split a log of one or two parts; `days` chooses the days."""
    first_part = impressions.filter(impressions.part == 0)
    log_days = _log_days(engine, first_part)
    if not log_days:
        raise LogError("the log has no impressions of known stories" + (" in its first part" if parts == 2 else ""))
    first, last = log_days[0].first, log_days[-1].last
    days = choose_days(log_days, parts=parts, settings=settings)
    end = int(engine.single_row(impressions.aggregate(last=impressions.impression.max()))["last"]) + 1

    def start(day: date) -> int:
        number = _first_number(engine, first_part.filter(first_part.time >= _midnight(day)))
        return end if number is None else number

    profile, train = start(days.profile), start(days.train)
    if days.evaluation is None:
        second_part = impressions.filter(impressions.part == 1)
        _check_no_overlap(engine, last, second_part)
        evaluation = _first_number(engine, second_part) or end
    else:
        evaluation = start(days.evaluation)
    if days.test is not None:
        test = start(days.test)
    else:
        share = _VALIDATION if settings.validation is None else settings.validation
        test = _first_test(engine, impressions.filter(impressions.impression >= evaluation), share, end)
    windows, bounds = {}, pairwise([profile, train, evaluation, test, end])
    for name, (begin, stop) in zip(("profile", *SPLITS), bounds, strict=True):
        if begin >= stop:
            raise LogError(
                f"no impressions are left for {name}: the log goes from {first:%Y-%m-%d} to {last:%Y-%m-%d}; "
                "choose other data.profile_days, data.train_days or data.validation"
            )
        windows[name] = _window(engine, impressions, begin, stop)
    return Split(**windows)


def _window(engine: Engine, impressions: ir.Table, start: int, stop: int) -> Window:
    inside = impressions.filter((impressions.impression >= start) & (impressions.impression < stop))
    days = engine.single_row(inside.aggregate(first=inside.day.min(), last=inside.day.max()))
    return Window(start, stop, int(days["first"]), int(days["last"]))


def _log_days(engine: Engine, impressions: ir.Table) -> list[Day]:
    """The days on which the log has impressions, in order."""
    by_day = impressions.group_by(date=impressions.time.date()).aggregate(
        impressions=impressions.count(), first=impressions.time.min(), last=impressions.time.max()
    )
    return [Day(**row) for batch in engine.stream(by_day.order_by("date")) for row in batch.to_pylist()]


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
    ranked = evaluation.mutate(place=ibis.row_number().over(order_by="impression"))
    time = engine.single_row(ranked.filter(ranked.place == target).select("time"))["time"]
    first = _first_number(engine, evaluation.filter(evaluation.time >= time))
    return end if first is None else first


def _first_number(engine: Engine, impressions: ir.Table) -> int | None:
    """The smallest impression number; None without impressions."""
    number: int | None = engine.single_row(impressions.aggregate(first=impressions.impression.min()))["first"]
    return number


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day)
