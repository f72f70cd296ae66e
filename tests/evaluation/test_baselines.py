"""Reference scores compared with numbers worked out by hand."""

import numpy as np
import pytest

from drpn.evaluation.baselines import chance, popularity
from drpn.evaluation.metrics import measure

TIMES_SHOWN = np.array([0, 100, 50, 0, 50, 0])
TIMES_CLICKED = np.array([0, 20, 10, 0, 0, 0])
CATEGORY = np.array([0, 1, 1, 1, 2, 3])


def rates(candidates: list[int], smoothing: float) -> list[float]:
    return popularity(TIMES_SHOWN, TIMES_CLICKED, CATEGORY, np.array(candidates), smoothing).tolist()


def test_chance_has_an_auc_of_one_half() -> None:
    scores = chance(np.array([4, 2, 9]))
    assert measure(scores, np.array([True, False, False]), np.array([0, 3])).mean()["auc"] == 0.5


def test_popularity_is_smoothed_towards_the_category_rate() -> None:
    # 40 of 200 impressions of category 1 were clicked, one in five; the popular story of category 2 does not count
    shown, clicked, category = np.array([0, 100, 100, 100]), np.array([0, 30, 10, 90]), np.array([0, 1, 1, 2])
    scores = popularity(shown, clicked, category, np.array([1, 2, 1]), smoothing=50)
    assert scores == pytest.approx([(30 + 10) / 150, (10 + 10) / 150, (30 + 10) / 150])


def test_popularity_without_smoothing_is_the_click_rate() -> None:
    assert rates([2, 1, 4], smoothing=0) == [0.2, 0.2, 0.0]


@pytest.mark.parametrize("smoothing", [0.0, 50.0])
def test_stories_not_shown_in_training_get_the_category_rate(smoothing: float) -> None:
    # category 1: 30 of 150; category 3 was never shown, so it gets the overall rate: 30 of 200
    assert rates([3, 5], smoothing) == pytest.approx([0.2, 0.15])


def test_an_empty_log_gives_equal_scores() -> None:
    nothing = np.zeros(6)
    assert popularity(nothing, nothing, CATEGORY, np.array([1, 5])).tolist() == [0, 0]
