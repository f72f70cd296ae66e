"""The preset `live`, measured from its own log: ageing, weariness, sessions, devices and pages of stories."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from drpn import schema
from drpn.logs.simulate import PRESETS, SimulationSettings, simulate
from drpn.recipes.prepare import prepare
from newsroom_files import auc

SETTINGS = SimulationSettings(users=1_500, seed=3, preset="live")
HOUR = np.timedelta64(3600, "s")


class LiveLog(NamedTuple):
    """The tables of a live site; columns of `shown` are arrays sorted by time."""

    folder: Path
    news: pa.Table
    shown: dict[str, np.ndarray]
    age: np.ndarray
    """Hours from publication to showing."""
    topic: np.ndarray
    page_topic: np.ndarray
    """Empty on the front page."""

    def rate(self, rows: np.ndarray) -> float:
        """The click rate of some rows."""
        return float(self.shown["clicked"][rows].mean())


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> LiveLog:
    folder = tmp_path_factory.mktemp("live") / "logs"
    counts = simulate(folder, SETTINGS)
    log = _read(folder)
    assert (counts.shown, counts.news) == (len(log.age), len(log.news))
    assert counts.clicks == log.shown["clicked"].sum()
    assert counts.impressions == len(np.unique(log.shown["impression_id"]))
    assert counts.users == len(np.unique(log.shown["user_id"]))
    return log


def _read(folder: Path) -> LiveLog:
    news = pq.read_table(folder / "news.parquet")
    table = pq.read_table(folder / "impressions.parquet")
    table = table.sort_by([("time", "ascending"), ("impression_id", "ascending")])
    shown = {name: table[name].to_numpy() for name in table.column_names}
    published = dict(zip(news["news_id"].to_pylist(), news["published"].to_numpy(), strict=True))
    topics = dict(zip(news["news_id"].to_pylist(), news["category"].to_pylist(), strict=True))
    age = (shown["time"] - np.array([published[name] for name in shown["news_id"]])) / HOUR
    topic = np.array([topics[name] for name in shown["news_id"]])
    return LiveLog(folder, news, shown, age, topic, np.array([topics.get(page, "") for page in shown["page"]]))


def test_columns_are_those_of_the_events_format(live: LiveLog) -> None:
    known = {column.name for column in schema.IMPRESSIONS} | {"page"}
    assert set(live.shown) <= known
    assert {"session", "surface", "device", "page", "opinion", "appeal"} <= set(live.shown)
    assert set(live.news.column_names) <= {column.name for column in schema.NEWS}


def test_stories_are_published_through_the_days_and_shown_afterwards(live: LiveLog) -> None:
    days = live.news["published"].to_numpy().astype("datetime64[D]")
    log_days = np.unique(live.shown["time"].astype("datetime64[D]"))
    assert len(log_days) == 7
    assert all((days == day).sum() > 0.05 * len(days) for day in log_days)
    assert live.age.min() >= 0


def test_click_rates_decay_with_age(live: LiveLog) -> None:
    first = _earlier_shows(live) == 0  # so that weariness plays no part
    bounds = [0, 2, 4, 8, 16, 200]
    rates = [live.rate(first & (live.age > low) & (live.age <= high)) for low, high in pairwise(bounds)]
    assert rates == sorted(rates, reverse=True)
    assert rates[0] > 5 * rates[-1]


def test_stories_age_at_different_speeds(live: LiveLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """How much of its early click rate a story keeps varies more than if all stories had the same half-life."""
    preset = PRESETS["live"]
    assert preset.live is not None
    even = replace(preset, live=replace(preset.live, half_life_spread=0.0))
    monkeypatch.setitem(PRESETS, "live", even)
    simulate(tmp_path / "logs", SETTINGS)
    assert _spread_of_decay(live) > 1.5 * _spread_of_decay(_read(tmp_path / "logs"))


def test_each_show_without_a_click_lowers_the_click_rate(live: LiveLog) -> None:
    earlier = _earlier_shows(live)
    young = (live.age > 2) & (live.age < 6)
    rates = [live.rate(young & (earlier == count)) for count in range(3)]
    assert rates[1] < 0.7 * rates[0]
    assert rates[2] < 0.8 * rates[1]


def test_stories_related_to_the_page_are_clicked_more(live: LiveLog) -> None:
    on_article = live.page_topic != ""
    related = on_article & (live.page_topic == live.topic)
    assert live.rate(related) > 1.6 * live.rate(on_article & ~related)
    assert 0.1 < on_article.mean() < 0.5
    surface = np.where(on_article, "article page", "front page")
    assert (live.shown["surface"] == surface).all()
    assert (live.shown["page"][on_article] != live.shown["news_id"][on_article]).all()


def test_sessions_are_short_and_belong_to_one_user_and_device(live: LiveLog) -> None:
    session, time = live.shown["session"], live.shown["time"]
    names, first, number = np.unique(session, return_index=True, return_inverse=True)
    for column in ("user_id", "device"):
        assert (live.shown[column] == live.shown[column][first][number]).all()
    last = np.zeros(len(names), dtype=time.dtype)
    last[number] = time  # sorted by time, so that the last value stays
    assert ((last - time[first]) < np.timedelta64(1800, "s")).all()
    views = len(np.unique(live.shown["impression_id"]))
    assert 2 < views / len(names) < 4.5
    order = np.lexsort((time[first], live.shown["user_id"][first]))
    user, start, end = live.shown["user_id"][first][order], time[first][order], last[order]
    same = user[1:] == user[:-1]
    assert ((start[1:] - end[:-1])[same] >= np.timedelta64(1800, "s")).all()


def test_devices_and_visits_follow_the_hour_of_day(live: LiveLog) -> None:
    hour = live.shown["time"].astype("datetime64[h]").astype(np.int64) % 24
    office = (hour >= 8) & (hour < 17)
    desktop = live.shown["device"] == "desktop"
    assert set(live.shown["device"]) == {"phone", "tablet", "desktop"}
    assert desktop[office].mean() > desktop[~office].mean() + 0.05
    counts = np.bincount(hour, minlength=24)
    assert counts[8:12].mean() > 4 * counts[[22, 23, 0, 1]].mean()


def test_the_share_of_accidents_is_as_set(live: LiveLog) -> None:
    clicked, opinion = live.shown["clicked"], live.shown["opinion"]
    assert np.mean(opinion[clicked] < 1) == pytest.approx(0.15, abs=0.02)


def test_no_clicked_story_is_shown_again(live: LiveLog) -> None:
    pairs = [f"{user} {news}" for user, news in zip(live.shown["user_id"], live.shown["news_id"], strict=True)]
    clicked = dict.fromkeys(np.array(pairs)[live.shown["clicked"]].tolist())
    assert len(clicked) == live.shown["clicked"].sum()


def test_counts_of_the_moment_beat_counts_of_the_days_before(live: LiveLog) -> None:
    """On the last day, from strictly earlier views: click rate with a half-life of two hours against that of all days
    before; chance is 0.5 and the oracle about 0.84."""
    time, clicked = live.shown["time"], live.shown["clicked"]
    last_day = time >= time.max().astype("datetime64[D]")
    _, story = np.unique(live.shown["news_id"], return_inverse=True)
    past_clicks, past_shown = (np.bincount(story[~last_day], weight) for weight in (clicked[~last_day], None))
    past = np.zeros((2, story.max() + 1))
    past[0, : len(past_clicks)], past[1, : len(past_shown)] = past_clicks, past_shown
    static = ((past[0] + 0.5) / (past[1] + 10))[story]
    moment = _decayed_rates(time, story, clicked)
    scores = {"static": [], "moment": [], "oracle": []}
    _, view = np.unique(live.shown["impression_id"], return_inverse=True)
    order = np.argsort(view, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(view[order])) + 1):
        if last_day[rows[0]] and 0 < clicked[rows].sum() < len(rows):
            for name, values in (("static", static), ("moment", moment), ("oracle", live.shown["appeal"])):
                scores[name].append(auc(values[rows], clicked[rows]))
    mean = {name: np.mean(values) for name, values in scores.items()}
    assert mean["moment"] > mean["static"] + 0.07
    assert mean["oracle"] > mean["moment"] + 0.03


def test_appeal_sums_to_one_over_a_list(live: LiveLog) -> None:
    _, view = np.unique(live.shown["impression_id"], return_inverse=True)
    np.testing.assert_allclose(np.bincount(view, live.shown["appeal"]), 1.0, atol=1e-4)


def test_a_live_log_can_be_prepared(live: LiveLog, tmp_path: Path) -> None:
    dataset = prepare(live.folder, tmp_path / "dataset")
    assert "users/clicked_opinion" in dataset.arrays
    assert "news/published" in dataset.arrays
    test = dataset.impressions("test")
    assert {"session", "device", "surface", "appeal"} <= set(test.extras)
    assert test.times.min().astype("datetime64[D]") == live.shown["time"].max().astype("datetime64[D]")


def _spread_of_decay(live: LiveLog) -> float:
    """Standard deviation over stories of the logarithm of late over early click rate, among users who are interested
    and were not shown the story before."""
    first = (_earlier_shows(live) == 0) & (live.shown["opinion"] == 1)
    names, story = np.unique(live.shown["news_id"], return_inverse=True)
    rates, often = [], np.ones(len(names), dtype=bool)
    for rows in (live.age < 3, (live.age >= 5) & (live.age < 9)):
        shown = np.bincount(story[rows & first], minlength=len(names))
        clicks = np.bincount(story[rows & first], live.shown["clicked"][rows & first], minlength=len(names))
        rates.append((clicks + 1) / (shown + 4))
        often &= shown > 25
    assert often.sum() > 20
    return float(np.std(np.log(rates[1] / rates[0])[often]))


def _earlier_shows(live: LiveLog) -> np.ndarray:
    """How often the same user was shown the same story before; rows are sorted by time."""
    pairs = [f"{user} {news}" for user, news in zip(live.shown["user_id"], live.shown["news_id"], strict=True)]
    _, pair = np.unique(pairs, return_inverse=True)
    order = np.argsort(pair, kind="stable")
    start = np.searchsorted(pair[order], pair[order])
    count = np.empty(len(pair), dtype=np.int64)
    count[order] = np.arange(len(pair)) - start
    return count


def _decayed_rates(time: np.ndarray, story: np.ndarray, clicked: np.ndarray) -> np.ndarray:
    """The smoothed click rate of each row's story just before it, with a half-life of two hours."""
    hours = ((time - time[0]) / HOUR).tolist()
    sums = {}
    rates = np.zeros(len(story))
    for row, (hour, number, click) in enumerate(zip(hours, story.tolist(), clicked.tolist(), strict=True)):
        clicks, shown, last = sums.get(number, (0.0, 0.0, hour))
        fading = 0.5 ** ((hour - last) / 2)
        rates[row] = (clicks * fading + 0.5) / (shown * fading + 10)
        sums[number] = (clicks * fading + click, shown * fading + 1, hour)
    return rates
