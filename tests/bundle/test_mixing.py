"""Lists with diversity, fresh and popular stories: their order, their reasons and what never appears in them."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drpn.bundle import mixing
from drpn.bundle.mixing import Candidates, Mix, Pick, mixed
from drpn.dataset.contents import ContentReader
from drpn.errors import SettingsError
from reference import diversity_loops as loops
from reference.diversity_loops import Story
from small_contents import dataset_of

UNKNOWN = np.iinfo(np.int64).min
shares = st.sampled_from([0.0, 0.1, 0.25, 0.5])
mixes = st.builds(Mix, st.sampled_from([0.0, 0.3, 1.0]), st.sampled_from(["mmr", "calibrated"]), shares, shares)


def stories(count: int, seed: int = 0) -> list[Story]:
    random = np.random.default_rng(seed)
    return [Story(*random.integers(1, 4, 2), tuple(random.integers(2, 12, 4))) for _ in range(count)]


def candidates(count: int, seed: int = 0) -> Candidates:
    """Stories in the order of the model; times and clicks have ties, some times are unknown."""
    random = np.random.default_rng(seed)
    reader = ContentReader.of(dataset_of(stories(count, seed)))
    published = random.integers(0, max(count // 2, 2), count)
    published[random.random(count) < 0.2] = UNKNOWN
    return Candidates(
        scores=-np.sort(-random.random(count)),
        published=published,
        clicks=random.integers(0, 5, count),
        contents=lambda places: reader.rows(places + 1),
        target=lambda: np.array([0.0, 0.5, 0.25, 0.25]),
    )


def test_plain_mix() -> None:
    assert Mix().plain
    assert not Mix(diversity=0.1).plain
    assert not Mix(fresh=0.1).plain
    assert not Mix(popular=0.1).plain
    assert Mix(method="calibrated").plain


@pytest.mark.parametrize("method", ["mmr", "calibrated"])
@pytest.mark.parametrize("diversity", [0.2, 0.6, 1.0])
def test_a_list_equals_a_loop(method: mixing.Method, diversity: float) -> None:
    every = stories(25, 4)
    given_candidates = candidates(25, 4)
    scores = given_candidates.scores.tolist()
    picks = mixed(given_candidates, Mix(diversity, method), 25)
    if method == "mmr":
        similar = [[loops.similarity(first, second, every) for second in every] for first in every]
        expected = loops.mmr(scores, similar, diversity)
    else:
        expected = loops.calibrated(scores, [story.category for story in every], [0, 0.5, 0.25, 0.25], diversity)
    assert [pick.place for pick in picks] == expected
    for rank, pick in enumerate(picks):
        higher = set(range(pick.place)) - {before.place for before in picks[:rank]}
        assert pick.reason == ("diverse" if higher else "ranked")


@settings(deadline=None)
@given(mixes, st.integers(0, 40), st.integers(0, 60), st.integers(0, 99))
def test_a_list_holds_each_story_once(mix: Mix, count: int, top: int, seed: int) -> None:
    picks = mixed(candidates(count, seed), mix, top)
    places = [pick.place for pick in picks]
    assert len(places) == min(count, top)
    assert len(set(places)) == len(places)
    assert set(places) <= set(range(count))
    if top >= count:
        assert sorted(places) == list(range(count))


@settings(deadline=None)
@given(mixes, st.integers(1, 30), st.integers(0, 99))
def test_a_longer_list_begins_with_the_shorter_one(mix: Mix, top: int, seed: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mixing, "POOL", 15)
        assert mixed(candidates(30, seed), mix, 30)[:top] == mixed(candidates(30, seed), mix, top)


def test_shares_of_places() -> None:
    picks = mixed(candidates(200), Mix(fresh=0.1, popular=0.2), 20)
    assert Counter(pick.reason for pick in picks) == {"ranked": 14, "fresh": 2, "popular": 4}
    assert Counter(pick.reason for pick in picks[:10]) == {"ranked": 7, "fresh": 1, "popular": 2}
    every = mixed(candidates(200), Mix(fresh=0.5, popular=0.5), 10)
    assert Counter(pick.reason for pick in every) == {"fresh": 5, "popular": 5}
    assert {pick.reason for pick in mixed(candidates(200), Mix(fresh=1.0), 5)} == {"fresh"}


def test_fresh_and_popular_stories_come_in_their_order() -> None:
    given_candidates = candidates(200)
    for mix, values in ((Mix(fresh=1.0), given_candidates.published), (Mix(popular=1.0), given_candidates.clicks)):
        assert values is not None
        places = [pick.place for pick in mixed(given_candidates, mix, 8)]
        assert places == sorted(range(200), key=lambda place, by=values.tolist(): (-by[place], place))[:8]


def test_without_fresh_or_popular_stories_the_places_are_ranked() -> None:
    nothing = candidates(6)._replace(published=np.full(6, UNKNOWN, dtype=np.int64), clicks=np.zeros(6, dtype=np.int64))
    assert mixed(nothing, Mix(fresh=0.5, popular=0.5), 6) == [Pick(place, "ranked") for place in range(6)]


def test_stories_below_the_pool_follow_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mixing, "POOL", 10)
    picks = mixed(candidates(30), Mix(diversity=1.0), 25)
    assert sorted(pick.place for pick in picks[:10]) == list(range(10))
    assert [pick.place for pick in picks[10:]] == list(range(10, 25))
    assert {pick.reason for pick in picks[10:]} == {"ranked"}


def test_fresh_stories_from_below_the_pool_count_as_placed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy of a fresh story from below the pool is no longer diverse."""
    monkeypatch.setattr(mixing, "POOL", 3)
    every = [Story(1, 1, (2,)), Story(2, 2, (3,)), Story(3, 3, (4,)), Story(2, 2, (3,))]
    reader = ContentReader.of(dataset_of(every))
    published = np.array([0, 0, 0, 9])
    given_candidates = Candidates(
        np.array([4.0, 3.0, 2.0, 1.0]), published, None, lambda places: reader.rows(places + 1), lambda: np.ones(4) / 4
    )
    picks = mixed(given_candidates, Mix(diversity=1.0, fresh=0.5), 4)
    assert picks[0] == Pick(3, "fresh")
    assert picks[1] == Pick(0, "ranked")
    assert [pick.place for pick in mixed(given_candidates, Mix(diversity=1.0), 3)] == [0, 1, 2]
    # the second ranked story would be 1, but it is the same as the fresh one
    later = mixed(given_candidates._replace(published=np.array([UNKNOWN] * 3 + [9])), Mix(diversity=1.0, fresh=0.5), 3)
    assert later == [Pick(3, "fresh"), Pick(0, "ranked"), Pick(2, "diverse")]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"diversity": 1.01}, r"^diversity is 1.01; it takes a number from 0 to 1$"),
        ({"diversity": float("nan")}, r"^diversity is nan; it takes a number from 0 to 1$"),
        ({"fresh": -1}, r"^fresh is -1; it takes a number from 0 to 1$"),
        ({"popular": 2}, r"^popular is 2; it takes a number from 0 to 1$"),
        ({"method": "best"}, r"^the diversity method is 'best'; choose from mmr, calibrated$"),
        ({"fresh": 0.5, "popular": 0.6}, r"^fresh is 0.5 and popular 0.6; together they take at most 1$"),
    ],
)
def test_wrong_settings(values: dict[str, float], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        Mix(**values)  # type: ignore[arg-type]
