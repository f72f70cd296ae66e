"""Diversity of rankings compared with its definition, with and without ties."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drpn.dataset.contents import ContentReader
from drpn.errors import ScoreError
from drpn.evaluation import diversity as code
from drpn.evaluation.bootstrap import intervals
from drpn.evaluation.comparison import compared
from drpn.evaluation.diversity import DIVERSITY, Diversity, DiversityMeter
from drpn.evaluation.groups import masks, rows
from drpn.evaluation.metrics import Metrics, measure
from reference import diversity_loops as loops
from reference.diversity_loops import Story
from small_contents import dataset_of, impressions_of

words = st.lists(st.integers(0, 6), max_size=4).map(tuple)
stories = st.lists(
    st.builds(Story, st.integers(0, 3), st.integers(0, 2), words, st.integers(0, 20)), min_size=7, max_size=7
)
rankings = st.lists(
    st.lists(st.sampled_from(range(7)), min_size=2, max_size=6, unique=True).flatmap(
        lambda chosen: st.tuples(
            st.lists(st.sampled_from([-1.0, 0.0, 0.5]), min_size=len(chosen), max_size=len(chosen)), st.just(chosen)
        )
    ),
    min_size=1,
    max_size=4,
)


def measured(every: list[Story], lists: list[tuple[list[float], list[int]]]) -> Diversity:
    meter = DiversityMeter(dataset_of(every), impressions_of([[story + 1 for story in rows] for _, rows in lists]))
    return meter.measure(np.array([score for scores, _ in lists for score in scores]))


@given(stories)
def test_similarity_of_two_stories(every: list[Story]) -> None:
    contents = ContentReader.of(dataset_of(every)).rows(np.arange(1, 8))
    similarity = contents.similarity(contents[2:5])
    assert similarity.shape == (7, 3)
    for first in range(7):
        for second in range(2, 5):
            if first != second:
                expected = loops.similarity(every[first], every[second], every)
                assert similarity[first, second - 2] == pytest.approx(expected, abs=1e-12)
    assert contents.similarity(contents[:0]).shape == (7, 0)
    every_pair = contents.similarity(contents)
    for story in range(7):
        np.testing.assert_allclose(contents.similar_to(story), every_pair[story], atol=1e-12)


@settings(deadline=None)
@given(stories, rankings, st.integers(1, 7))
def test_values_are_means_over_all_orders_that_the_scores_allow(every, lists, most) -> None:
    """The first four of up to six candidates, so that ties cross the last place."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(code, "TOP", 4)
        patch.setattr(code, "MOST_SHOWN", most)
        result = measured(every, lists).by_name()
    for row, expected in enumerate(loops.diversity(lists, every, 4, most)):
        for name, value in zip(DIVERSITY, expected, strict=True):
            assert result[name][row] == pytest.approx(value, abs=1e-9), name


def test_one_list_by_hand() -> None:
    # four candidates in three categories; the first two share the category, not the subcategory, and one of two words
    every = [Story(1, 1, (2, 3), 3), Story(1, 2, (2, 4), 0), Story(2, 3, (5,), 0), Story(3, 4, (), 1)]
    result = measured(every, [([0.9, 0.8, 0.2, 0.1], [0, 1, 2, 3])])
    common, single = (math.log(5 / (count + 1)) + 1 for count in (2, 1))
    cosine = common**2 / (common**2 + single**2)
    assert result.distance[0] == pytest.approx(1 - (1 + cosine) / 3 / 6)  # one similar pair of six
    assert result.coverage[0] == 1  # all candidates are in the first ten
    assert result.concentration[0] == 1
    assert result.novelty[0] == pytest.approx(-(math.log2(4 / 8) + 2 * math.log2(1 / 8) + math.log2(2 / 8)) / 4)


def test_twelve_candidates_with_a_tie_for_the_last_two_places() -> None:
    # eight stories of category 1, then four tied for two places: of categories 2, 2, 3 and 1
    every = [Story(1, 0, (), 1)] * 8 + [Story(2, 0, (), 1), Story(2, 0, (), 1), Story(3, 0, (), 1), Story(1, 0, (), 1)]
    result = measured(every, [([1.0] * 8 + [0.0] * 4, list(range(12)))])
    # of the six draws of two, category 2 is in five and category 3 in three
    assert result.coverage[0] == pytest.approx((1 + 5 / 6 + 3 / 6) / 3)
    # same category: 28 pairs of the eight, eight more where the last story is drawn (one half), one where both of
    # category 2 are (one sixth); the title is the second part of the similarity, there is no subcategory
    assert result.distance[0] == pytest.approx(1 - (28 + 8 / 2 + 1 / 6) / 45 / 2)


def test_concentration_is_the_share_of_the_ten_most_placed_stories() -> None:
    every = [Story(1, 0, ())] * 25
    lists = [list(range(10)), list(range(10)), [*range(5), *range(10, 15)], list(range(15, 25))]
    result = measured(every, [([float(-place) for place in range(10)], chosen) for chosen in lists])
    assert result.concentration.tolist() == [1, 1, 0.5, 0]


def test_concentration_counts_the_places_of_measured_impressions_alone() -> None:
    """Three impressions without a skip show stories 11 to 20 the most often; they are not measured."""
    lists = [list(range(11, 21))] * 3 + [list(range(1, 11)), list(range(11, 21)), list(range(1, 11))]
    labels = [[True] * 10] * 3 + [[True] + [False] * 9] * 3
    meter = DiversityMeter(dataset_of([Story(1, 0, ())] * 20), impressions_of(lists, labels))
    result = meter.measure(-np.tile(np.arange(10.0), 6))
    assert result.concentration[3:].tolist() == [1, 0, 1]


def test_candidates_below_the_tenth_place_do_not_count() -> None:
    every = [Story(number % 4, 0, (number + 2,), number) for number in range(14)]
    scores = [float(-number) for number in range(14)]
    first = measured(every, [(scores, list(range(14)))])
    rest = measured(every, [(scores[:10] + scores[:9:-1], [*range(10), 13, 12, 11, 10])])
    for name, values in first.by_name().items():
        assert values[0] == pytest.approx(rest.by_name()[name][0])
    assert first.coverage[0] == 1
    assert first.novelty[0] != pytest.approx(measured(every, [([-s for s in scores], list(range(14)))]).novelty[0])


def test_one_category_is_covered_and_no_labels_leave_the_titles() -> None:
    one = measured([Story(1, 1, (2,))] * 3, [([3.0, 2.0, 1.0], [0, 1, 2])])
    assert (one.distance[0], one.coverage[0]) == (pytest.approx(0), 1)
    none = measured([Story(0, 0, (2,)), Story(0, 0, (3,))], [([2.0, 1.0], [0, 1])])
    assert (none.distance[0], none.coverage[0]) == (1, 1)


def test_the_same_impressions_are_counted_as_in_the_other_metrics() -> None:
    every = [Story(1, 0, (2,)), Story(2, 0, (3,)), Story(1, 0, (4,))]
    lists = [[1, 2], [], [3], [1, 2, 3], [2, 3]]
    labels = [[True, False], [], [True], [False] * 3, [True, True]]
    impressions = impressions_of(lists, labels)
    scores = np.linspace(1, 0, 8)
    result = DiversityMeter(dataset_of(every), impressions).measure(scores)
    expected = measure(scores, impressions.clicked, impressions.offsets)
    np.testing.assert_array_equal(result.counted, expected.counted)
    assert result.counted.tolist() == [True, False, False, False, False]
    for values in result.by_name().values():
        np.testing.assert_array_equal(np.isnan(values), ~expected.counted)


def test_chunks_do_not_change_the_values(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(4)
    every = [
        Story(*random.integers(0, 4, 2), tuple(random.integers(0, 9, 5)), int(random.integers(9))) for _ in "x" * 40
    ]
    lists = [random.choice(np.arange(1, 41), size, replace=False).tolist() for size in random.integers(2, 30, 50)]
    impressions = impressions_of(lists)
    scores = random.integers(0, 9, len(impressions.candidates)).astype(np.float32)
    meter = DiversityMeter(dataset_of(every), impressions)
    whole = meter.measure(scores)
    monkeypatch.setitem(code._AT_ONCE, "cpu", 40)
    for name, values in meter.measure(scores).by_name().items():
        np.testing.assert_allclose(values, whole.by_name()[name], atol=1e-12)


def test_scores_are_checked() -> None:
    with pytest.raises(ScoreError, match="only finite scores can be ranked"):
        measured([Story(1, 0, ()), Story(2, 0, ())], [([1.0, math.nan], [0, 1])])


def random_values(kind: type[Diversity] | type[Metrics], seed: int, shape: tuple[int, ...]) -> Any:
    """Random values; the first impression is not counted."""
    values = np.random.default_rng(seed).random((4, *shape))
    values[..., 0] = np.nan
    return kind(*values)


def test_rows_of_a_table_have_the_diversity_with_intervals() -> None:
    users = np.repeat(np.arange(40), 3)
    known = users % 4 > 0
    metrics, diversity = random_values(Metrics, 1, (120,)), random_values(Diversity, 2, (120,))
    rng = np.random.default_rng
    with_diversity = rows("drpn", metrics, users, known, rng(0), diversity=diversity)
    without = rows("drpn", metrics, users, known, rng(0))
    for group, (row, plain) in zip(masks(known).values(), zip(with_diversity, without, strict=True), strict=True):
        for key, value in plain.items():
            assert row[key] == (value if isinstance(value, str) else pytest.approx(value))
        assert row.keys() - plain.keys() == {key for name in DIVERSITY for key in (name, f"{name}_interval")}
        for name in DIVERSITY:
            values = diversity.by_name()[name][group]
            assert row[name] == pytest.approx(np.nanmean(values))
            low, high = row[f"{name}_interval"]
            assert low < row[name] < high
    alone = intervals(diversity.by_name(), users, rng(0))  # the first group has the first draws
    for name in DIVERSITY:
        assert with_diversity[0][f"{name}_interval"] == pytest.approx([alone[name].low, alone[name].high])


def test_systems_of_a_comparison_have_the_diversity_with_deviations() -> None:
    users = np.repeat(np.arange(40), 3)
    known = users % 4 > 0
    systems = {"drpn": random_values(Metrics, 1, (3, 120)), "nrms": random_values(Metrics, 2, (120,))}
    diversity = {"drpn": random_values(Diversity, 3, (3, 120))}
    table = compared(systems, users, known, base="drpn", diversity=diversity)
    plain = compared(systems, users, known, base="drpn")
    for row, before in zip(table, plain, strict=True):
        assert list(row) == list(before)
        for key, value in before.items():
            if not key.startswith(DIVERSITY):
                assert row[key] == value
            elif row["model"] == "nrms":
                assert row[key] is value is None
    for name in DIVERSITY:
        values = diversity["drpn"].by_name()[name]
        by_seed = np.nanmean(values, axis=1)
        assert table[0][name] == pytest.approx(by_seed.mean())
        assert table[0][f"{name}_deviation"] == pytest.approx(by_seed.std(ddof=1))
    nobody = compared(systems, users, np.ones(120, dtype=np.bool_), base="drpn", diversity=diversity)
    assert nobody[-1]["group"] == "without_profile"
    assert all(nobody[-1][name] is None for name in DIVERSITY)


def test_seeds_are_stacked() -> None:
    seeds = [random_values(Diversity, seed, (5,)) for seed in range(3)]
    stacked = Diversity.of_seeds(seeds)
    assert len(stacked) == 5
    assert stacked.novelty.shape == (3, 5)
    assert stacked.counted.tolist() == [False, True, True, True, True]
    assert stacked.mean()["novelty@10"] == pytest.approx(np.mean([values.mean()["novelty@10"] for values in seeds]))
