"""The truth file of the simulator: why each story was clicked or skipped."""

from collections import defaultdict
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest

from drpn.logs.simulate import SimulationSettings, simulate
from drpn.logs.simulate.readers import make_readers
from drpn.logs.simulate.stories import make_stories
from newsroom_files import Newsroom, auc, read


def test_truth_agrees_with_behaviors(newsroom: Newsroom) -> None:
    rows = zip(*(newsroom.column(name).tolist() for name in
                 ("part", "impression_id", "position", "user_id", "news_id", "clicked")), strict=True)  # fmt: skip
    for impression in newsroom.impressions:
        for position, (name, clicked) in enumerate(zip(impression.news, impression.clicked, strict=True)):
            assert next(rows) == (impression.part, impression.impression_id, position, impression.user, name, clicked)
    assert next(rows, None) is None


def test_types_of_the_truth_columns(newsroom: Newsroom) -> None:
    types = {field.name: str(field.type) for field in newsroom.truth.schema}
    assert types["position"] == types["place"] == "int32"
    assert types["opinion"] == "int8"
    assert types["appeal"] == "float"
    assert types["clicked"] == types["seen"] == "bool"
    assert types["impression_id"] == types["user_id"] == types["news_id"] == "string"


def test_stories_are_shown_and_read_only_after_publication(newsroom: Newsroom) -> None:
    settings = SimulationSettings()
    born = make_stories(np.random.default_rng(settings.seed), settings.stories, settings.days, None).born
    start = datetime(2019, 11, 9)
    ages = []
    for impression in newsroom.impressions:
        hour = (impression.time - start).total_seconds() / 3600
        ages += [hour - born[int(name[1:]) - 1] for name in impression.news]
        assert all(born[int(name[1:]) - 1] < 0 for name in impression.history)
    assert min(ages) > 0
    assert max(ages) < 8.1 * 24
    assert np.median(ages) < 30


def test_causes_agree_with_clicks_and_opinions(newsroom: Newsroom) -> None:
    cause, opinion = newsroom.column("cause"), newsroom.column("opinion")
    clicked, seen = newsroom.column("clicked"), newsroom.column("seen")
    expected = {
        "interest": clicked & (opinion == 1),
        "accident": clicked & (opinion <= 0),
        "clickbait": clicked & (opinion <= 0),
        "missed": ~clicked & (opinion == 1),
        "disliked": ~clicked & (opinion == -1),
        "indifferent": ~clicked & (opinion == 0),
    }
    assert set(cause.tolist()) == set(expected)
    for name, rows in expected.items():
        assert rows[cause == name].all(), name
    assert seen[clicked].all()
    assert 0.2 < np.mean(~seen[~clicked]) < 0.45


def test_clicks_and_skips_contain_noise(newsroom: Newsroom) -> None:
    cause, clicked = newsroom.column("cause"), newsroom.column("clicked")
    noise = np.isin(cause[clicked], ["accident", "clickbait"])
    assert 0.135 < noise.mean() < 0.175  # the setting is 0.15
    assert 0.03 < (cause[clicked] == "clickbait").mean() < 0.06  # below half of the noise: many pages have none
    assert 0.08 < np.mean(cause[~clicked] == "missed") < 0.20


@pytest.mark.parametrize(("accidents", "low", "high"), [(0.0, 0.0, 0.0), (0.05, 0.02, 0.09), (0.4, 0.33, 0.47)])
def test_accidents_setting_changes_the_share_of_noise(
    tmp_path: Path, accidents: float, low: float, high: float
) -> None:
    simulate(tmp_path / "out", SimulationSettings(users=250, news=3_000, accidents=accidents))
    newsroom = read(tmp_path / "out")
    cause = newsroom.column("cause")[newsroom.column("clicked")]
    assert low <= np.isin(cause, ["accident", "clickbait"]).mean() <= high


def test_opinion_of_a_user_on_a_story_never_changes(newsroom: Newsroom) -> None:
    opinions: dict[tuple[str, str], set[int]] = defaultdict(set)
    times: dict[tuple[str, str], int] = defaultdict(int)
    rows = (newsroom.column(name).tolist() for name in ("user_id", "news_id", "opinion"))
    for user, news, opinion in zip(*rows, strict=True):
        opinions[user, news].add(opinion)
        times[user, news] += 1
    assert sum(count > 1 for count in times.values()) > 1_000  # stories are shown again
    assert all(len(values) == 1 for values in opinions.values())


def test_clicked_stories_are_not_shown_again_in_later_hours(newsroom: Newsroom) -> None:
    clicked: dict[tuple[str, str], datetime] = {}
    for impression in newsroom.impressions:
        hour = impression.time.replace(minute=0, second=0)
        for news, was_clicked in zip(impression.news, impression.clicked, strict=True):
            assert clicked.get((impression.user, news), hour) == hour
            if was_clicked:
                clicked[impression.user, news] = hour


def test_users_dislike_subtopics_within_favourite_topics() -> None:
    rng = np.random.default_rng(0)
    topics = make_stories(rng, 3_000, 7, None).topics
    taste = make_readers(rng, topics, 500, 7).taste
    both = [
        any((row[topics.topic_of == topic] == 1).any() and (row[topics.topic_of == topic] == -1).any()
            for topic in range(len(topics.topics)))
        for row in taste
    ]  # fmt: skip
    assert np.mean(both) > 0.9
    liked = (taste == 1).sum(axis=1)
    assert np.percentile(liked, 10) < 15
    assert np.percentile(liked, 90) > 25


def test_oracle_beats_popularity_and_popularity_beats_chance(newsroom: Newsroom) -> None:
    shown: dict[str, int] = defaultdict(int)
    clicks: dict[str, int] = defaultdict(int)
    by_rate = []
    for impression in newsroom.impressions:  # sorted by time
        rate = np.array([(clicks[name] + 0.4) / (shown[name] + 10) for name in impression.news])
        if impression.part == "dev":
            by_rate.append(auc(rate, np.array(impression.clicked)))
        for name, clicked in zip(impression.news, impression.clicked, strict=True):
            shown[name] += 1
            clicks[name] += clicked
    appeal, clicked = newsroom.column("appeal"), newsroom.column("clicked")
    oracle = np.mean([auc(appeal[page], clicked[page]) for page in newsroom.pages("dev")])
    popularity = np.mean(by_rate)
    assert 0.74 < oracle < 0.84  # 0.79
    assert 0.54 < popularity < 0.66  # 0.60; chance is 0.5
    assert oracle > popularity + 0.1


def test_appeal_sums_to_one_over_a_page(newsroom: Newsroom) -> None:
    appeal = newsroom.column("appeal")
    totals = [appeal[page].sum() for page in newsroom.pages("dev")]
    np.testing.assert_allclose(totals, 1.0, atol=1e-4)
    assert appeal.min() > 0


def test_order_in_the_file_is_independent_of_the_place_on_the_page(newsroom: Newsroom) -> None:
    position, place, clicked = (newsroom.column(name) for name in ("position", "place", "clicked"))
    pages = [page for page in newsroom.pages("train") if page.stop - page.start >= 20]
    for page in pages[:50]:
        assert sorted(place[page]) == list(range(page.stop - page.start))
    by_position = np.mean([auc(-position[page], clicked[page]) for page in pages])
    by_place = np.mean([auc(-place[page], clicked[page]) for page in pages])
    assert 0.48 < by_position < 0.52
    assert by_place > 0.55  # users look at the top of the page more often
