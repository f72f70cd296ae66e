"""The plausible days and the end of a log, with and without wrong clocks."""

from datetime import datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drpn.dataset.times import end_of_log, plausible_days

START = datetime(2026, 3, 2)


def days(counts: dict[int, int]) -> tuple[int, int]:
    return plausible_days(np.array(list(counts)), np.array(list(counts.values())))


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({100: 5}, (100, 100)),
        ({100: 5, 101: 7, 102: 1}, (100, 102)),
        ({100: 500, 101: 700, 102: 600, 376_000: 1}, (100, 102)),
        ({100: 500, 101: 700, 102: 600, 0: 1, -700_000: 2}, (100, 102)),
        ({100: 500, 107: 700, 114: 600}, (100, 114)),
        ({100: 500, 101: 700, 109: 600}, (100, 101)),
        # quiet days that follow each other are part of the log
        ({100: 5_000, 101: 7_000, **dict.fromkeys(range(102, 200), 1)}, (100, 199)),
        # the busiest day is a wrong clock, and most impressions are elsewhere
        ({0: 60, **dict.fromkeys(range(100, 130), 38)}, (100, 129)),
        # of two parts with a gap, the one with more impressions
        ({**dict.fromkeys(range(100, 110), 30), **dict.fromkeys(range(140, 143), 60)}, (100, 109)),
        ({2: 1, 1: 3, 3: 2}, (1, 3)),
    ],
)
def test_plausible_days(counts: dict[int, int], expected: tuple[int, int]) -> None:
    assert days(counts) == expected


def log(*hours: float) -> np.ndarray:
    return np.array([START + timedelta(hours=hour) for hour in hours], dtype="datetime64[us]")


def test_the_end_of_a_log_is_its_last_impression() -> None:
    assert end_of_log(log(0, 5, 30, 31, 40)) == np.datetime64(START + timedelta(hours=40))
    assert end_of_log(log(7)) == np.datetime64(START + timedelta(hours=7))
    assert end_of_log(log(0, 100, 200)) == np.datetime64(START + timedelta(hours=200))  # never two within a day


@given(
    st.lists(st.integers(0, 7 * 24), min_size=60, max_size=200),
    st.lists(st.integers(8 * 24, 400 * 24), min_size=1, max_size=3, unique_by=lambda hour: hour // 24),
    st.randoms(use_true_random=False),
)
def test_a_few_wrong_clocks_do_not_move_the_end(hours: list[int], wrong: list[int], shuffler: object) -> None:
    """Impressions of a week, at least one in each hour, and up to three later ones that are days apart."""
    hours = [*range(7 * 24), *hours]
    wrong = [hour for number, hour in enumerate(sorted(wrong)) if not number or hour - sorted(wrong)[number - 1] > 24]
    clean, every = log(*hours), [*hours, *wrong]
    shuffler.shuffle(every)
    assert end_of_log(clean) == np.datetime64(START + timedelta(hours=7 * 24)) or max(hours) < 7 * 24
    assert end_of_log(log(*every)) == end_of_log(clean)
