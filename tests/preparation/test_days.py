"""Which days of a log make the profiles, train, validate and test, and the warnings about them."""

import tempfile
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from drpn.dataset.folder import SPLITS, Dataset
from drpn.errors import LogError
from drpn.preparation.days import Day, choose_days
from drpn.preparation.settings import DataSettings
from drpn.preparation.stretches import warnings
from drpn.recipes.prepare import prepare
from small_comparison import Notes
from writing import MindLine, write_mind

START = date(2026, 1, 1)


def day(number: int, *, impressions: int = 100, first: float = 0.2, last: float = 23.5) -> Day:
    """The day with this number, counted from 1; times are hours of the day."""
    midnight = datetime(2026, 1, 1) + timedelta(days=number - 1)
    return Day(midnight.date(), impressions, midnight + timedelta(hours=first), midnight + timedelta(hours=last))


def chosen(days: Sequence[Day], parts: int = 1, **options: Any) -> tuple[int | None, ...]:
    """The numbers of the first days of profiles, training, evaluation and test."""
    result = choose_days(days, parts=parts, settings=DataSettings(**options))
    starts = (result.profile, result.train, result.evaluation, result.test)
    return tuple(start and (start - START).days + 1 for start in starts)


def log(count: int) -> list[Day]:
    """A log of this many full days."""
    return [day(number) for number in range(1, count + 1)]


def test_thirty_days_test_on_the_newest() -> None:
    assert chosen(log(30)) == (1, 24, 29, 30)  # five days of training


@pytest.mark.parametrize(
    ("count", "expected"),
    [(3, (1, 2, 3, None)), (6, (1, 5, 6, None)), (7, (1, 6, 7, None))],
)
def test_a_week_or_less_evaluates_what_follows_training(count: int, expected: tuple[int | None, ...]) -> None:
    assert chosen(log(count)) == expected


@pytest.mark.parametrize(
    ("count", "expected"),
    [(8, (1, 6, 7, 8)), (9, (1, 6, 8, 9)), (11, (1, 6, 10, 11)), (12, (1, 6, 11, 12)), (13, (1, 7, 12, 13))],
)
def test_short_logs_leave_five_days_for_profiles(count: int, expected: tuple[int, ...]) -> None:
    assert chosen(log(count)) == expected


def test_a_week_from_morning_to_morning_is_a_week() -> None:
    """EB-NeRD's weeks touch eight dates."""
    days = [day(1, first=7), *(day(number) for number in range(2, 8)), day(8, impressions=20, last=6.9)]
    assert chosen(days) == (1, 6, 7, None)
    assert chosen([day(1, first=6.5), *days[1:]]) == (1, 5, 6, 7)  # a little more than a week: the 8th day is not full


def test_two_parts_keep_the_protocol_of_the_paper() -> None:
    assert chosen(log(6), parts=2) == (1, 6, None, None)
    assert chosen(log(29), parts=2) == (1, 29, None, None)
    assert chosen(log(29), parts=2, profile_days=4, train_days=2) == (24, 28, None, None)


def test_the_test_begins_with_the_last_full_day() -> None:
    month = log(29)
    assert chosen([*month, day(30, last=12)]) == (1, 23, 28, 29)  # cut at noon
    assert chosen([*month, day(30, impressions=24)]) == (1, 23, 28, 29)
    assert chosen([*month, day(30, impressions=25, last=21.6)]) == (1, 24, 29, 30)  # a quiet Sunday
    assert chosen([*month, day(30, impressions=3), day(31, impressions=2, last=1)])[3] == 29


def test_single_impressions_with_a_wrong_clock_do_not_move_the_days() -> None:
    month = chosen(log(30))
    assert chosen([*log(30), day(355_000, impressions=1, last=12)]) == month
    past, *rest = chosen([day(-20_000, impressions=1), *log(30)])
    assert (past, tuple(rest)) == (-20_000, month[1:])


def test_days_without_impressions_do_not_count() -> None:
    weekdays = [entry for entry in log(42) if entry.date.weekday() < 5]
    dates = [(entry.date - START).days + 1 for entry in weekdays]
    assert chosen(weekdays) == (1, dates[-7], dates[-2], dates[-1])
    assert chosen([day(1), day(2), day(20), day(21)]) == (1, 2, 20, 21)


def test_settings_win() -> None:
    month = log(30)
    assert chosen(month, profile_days=24, train_days=5) == (1, 25, 30, None)
    assert chosen(month, profile_days=5) == (1, 6, 7, None)
    assert chosen(month, train_days=1) == (1, 28, 29, 30)
    assert chosen(month, validation=0.2) == (1, 25, 30, None)  # a share of the last day, not the day before
    assert chosen(month, train_days=2, validation=0.2) == (1, 28, 30, None)
    assert chosen(log(7), train_days=1, validation=0.1) == chosen(log(7))


def test_logs_that_are_too_short_are_refused() -> None:
    with pytest.raises(LogError, match=r"has 2 days \(2026-01-01 to 2026-01-02\) and needs 3 or more; use a longer "):
        chosen(log(2))
    with pytest.raises(LogError, match=r"has 3 days with impressions \(2026-01-01 to 2026-01-20\) and needs 4 or more"):
        chosen([day(1), day(2), day(20)])
    with pytest.raises(LogError, match=r"has 30 days .* and needs 31 or more"):
        chosen(log(30), train_days=28)
    with pytest.raises(LogError, match=r"has 30 days .* and needs 31 or more"):
        chosen(log(30), profile_days=29)


@given(
    st.lists(
        st.tuples(st.integers(1, 400), st.integers(1, 1_000), st.floats(0, 23.9)),
        min_size=1,
        max_size=40,
        unique_by=lambda entry: entry[0],
    ),
    st.integers(1, 2),
    st.none() | st.integers(1, 6),
    st.none() | st.integers(1, 20),
    st.sampled_from([None, 0.1]),
)
def test_stretches_follow_each_other(
    entries: list[tuple[int, int, float]],
    parts: int,
    train_days: int | None,
    profile_days: int | None,
    validation: float | None,
) -> None:
    """For any log and settings: profiles, training and evaluation are in order and each has a day."""
    days = [day(number, impressions=count, first=0, last=last) for number, count, last in sorted(entries)]
    options = DataSettings(train_days=train_days, profile_days=profile_days, validation=validation)
    try:
        result = choose_days(days, parts=parts, settings=options)
    except LogError:
        return
    starts = [start for start in (result.profile, result.train, result.evaluation, result.test) if start is not None]
    assert starts == sorted(set(starts))
    assert days[0].date <= starts[0]
    assert starts[-1] <= days[-1].date
    if result.test is not None:  # every stretch has a day with impressions
        places = [[entry.date for entry in days].index(start) for start in starts]
        assert places[3] - places[2] == 1
        trained = places[2] - places[1]
        assert trained == train_days if train_days else 1 <= trained <= 5


def impressions(days: Sequence[int], *, each: int = 2, hours: Sequence[int] = (9, 23)) -> list[MindLine]:
    """A few impressions on each of the days of January 2026; every one has a click and a skip."""
    lines = []
    for number in days:
        for index in range(each):
            hour = hours[index % len(hours)]
            clock = f"1/{number}/2026 {hour % 12 or 12}:{index % 60:02}:00 {'AM' if hour < 12 else 'PM'}"
            lines.append(MindLine(f"{number}-{index}", f"U{index % 3}", clock, "N1-1 N2-0"))
    return lines


def stretch_days(dataset: Dataset) -> dict[str, tuple[int, int]]:
    """The first and last day of January of each stretch."""
    measured = dataset.statistics["stretches"]
    return {
        name: (datetime.fromisoformat(stretch["first"]).day, datetime.fromisoformat(stretch["last"]).day)
        for name, stretch in measured.items()
    }


def test_thirty_days_of_logs(tmp_path: Path) -> None:
    notes = Notes()
    logs = write_mind(tmp_path / "logs", [*impressions(range(1, 30), each=100), *impressions([30], each=10, hours=[1])])
    dataset = prepare(logs, tmp_path / "data", progress=notes)
    assert [len(dataset.impressions(name)) for name in SPLITS] == [500, 100, 110]
    assert stretch_days(dataset) == {"profile": (1, 22), "train": (23, 27), "validation": (28, 28), "test": (29, 30)}
    assert dataset.statistics["warnings"] == []
    assert not any("warning" in note for note in notes.messages)


def test_the_days_of_the_settings_win_and_are_warned_about(tmp_path: Path) -> None:
    notes = Notes()
    logs = write_mind(tmp_path / "logs", impressions(range(1, 31), each=4))
    dataset = prepare(logs, tmp_path / "data", DataSettings(profile_days=5, train_days=1), progress=notes)
    assert {name: days for name, days in stretch_days(dataset).items() if name in ("profile", "train")} == {
        "profile": (1, 5),
        "train": (6, 6),
    }
    expected = [
        "profile window is tiny: 20 impressions, fewer than 100",
        "training is tiny: 4 impressions with a click and a skip, fewer than 100",
        "validation is tiny: 9 impressions with a click and a skip, fewer than 100",
        "test is tiny: 87 impressions with a click and a skip, fewer than 100",
        "test is stale: it ends on 2026-01-30, but the profiles end on 2026-01-05, more than 10 days before",
    ]
    assert dataset.statistics["warnings"] == expected
    assert [note for note in notes.messages if note.startswith("warning")] == [f"warning: {text}" for text in expected]


def stretch(last: str, samples: int = 100, impressions: int = 100) -> dict[str, Any]:
    return {"first": "2026-01-01T00:00:00", "last": last, "impressions": impressions, "samples": samples}


def test_warnings() -> None:
    measured = {
        "profile": {"first": "2026-01-01T00:00:00", "last": "2026-01-05T23:00:00", "impressions": 100},
        "train": stretch("2026-01-06T23:00:00"),
        "validation": stretch("2026-01-07T04:00:00", samples=0),
        "test": stretch("2026-01-15T23:00:00", samples=99),
    }
    assert warnings(measured) == [
        "validation is empty: it has no impressions with a click and a skip",
        "test is tiny: 99 impressions with a click and a skip, fewer than 100",
    ]
    measured["train"] = stretch("2026-01-15T23:00:01")
    assert warnings(measured)[0].startswith(
        "training is stale: it ends on 2026-01-15, but the profiles end on 2026-01-"
    )


def test_a_choice_of_users_that_leaves_nothing_is_refused(tmp_path: Path) -> None:
    lines = [
        line if line.impression_id.startswith("1-") else line._replace(user_id=f"new{line.user_id}")
        for line in impressions([1, 2, 3], each=4)
    ]
    logs = write_mind(tmp_path / "logs", lines)
    prepare(logs, tmp_path / "all")
    with pytest.raises(LogError, match="no impressions of users with a profile are left for train; keep all users in "):
        prepare(logs, tmp_path / "data", DataSettings(users="with-profile"))
    assert not (tmp_path / "data").exists()


@settings(
    max_examples=settings.default.max_examples // 8,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # shrinking would prepare thousands of logs
)
@given(st.lists(st.integers(0, 24 * 25), min_size=30, max_size=80))
def test_splits_of_long_logs_are_disjoint_in_time_and_complete(hours: list[int]) -> None:
    # at least nine days, and no gap of a week: what follows one would count as a wrong clock
    moments = sorted({*hours, *range(3, 24 * 9, 24), *range(3, 24 * 26, 24 * 5)})
    lines = []
    for index, hour in enumerate(moments):
        moment = datetime(2026, 1, 1) + timedelta(hours=hour)
        lines.append(MindLine(str(index), f"U{index % 3}", f"{moment:%m/%d/%Y %I:%M:%S %p}", "N1-1 N2-0"))
    with tempfile.TemporaryDirectory() as folder:
        dataset = prepare(write_mind(Path(folder) / "logs", lines), Path(folder) / "data")
        end = datetime.fromisoformat(dataset.statistics["stretches"]["profile"]["last"])
        ids = []
        for name in SPLITS:
            part = dataset.impressions(name)
            times = part.times.astype("datetime64[us]").tolist()
            assert times[0].date() > end.date()
            end = times[-1]
            ids += list(part.ids)
        count = dataset.statistics["stretches"]["profile"]["impressions"]
        assert sorted(map(int, ids)) == list(range(count, len(lines)))
        validation = dataset.impressions("validation").times.astype("datetime64[D]")
        assert len(set(validation.tolist())) == 1


@pytest.mark.parametrize(
    ("count", "expected"),
    [(3, None), (4, (1, 2, 3, 4)), (5, (1, 3, 4, 5)), (8, (1, 3, 7, 8)), (30, (1, 3, 29, 30))],
)
def test_the_live_protocol_warms_up_two_days_and_trains_on_all_others(
    count: int, expected: tuple[int, ...] | None
) -> None:
    if expected is None:
        with pytest.raises(LogError, match="needs 4 or more"):
            chosen(log(count), protocol="live")
    else:
        assert chosen(log(count), protocol="live") == expected


def test_settings_change_the_days_of_the_live_protocol() -> None:
    assert chosen(log(8), protocol="live", train_days=2) == (1, 5, 7, 8)
    assert chosen(log(8), protocol="live", profile_days=4) == (1, 5, 7, 8)
    assert chosen(log(8), protocol="live", validation=0.2) == (1, 3, 8, None)
    half_a_day = [*log(7), day(8, impressions=10, last=9.0)]
    assert chosen(half_a_day, protocol="live") == (1, 3, 6, 7)
    assert chosen(log(8), 2, protocol="live") == chosen(log(8), 2)
    with pytest.raises(LogError, match="needs"):
        chosen(log(8), protocol="live", profile_days=5, train_days=2)
