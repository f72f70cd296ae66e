"""The day after a simulated log: stories that follow those of the log, and readers who react to a list."""

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from drpn.errors import LogError
from drpn.logs.simulate import SimulationSettings, simulate
from drpn.logs.simulate.next_day import NextDay, Visit

SETTINGS = SimulationSettings(users=600, news=600, days=3, seed=5, preset="live")
START = datetime(2019, 11, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("next") / "logs"
    simulate(folder, SETTINGS)
    return folder


@pytest.fixture
def day(logs: Path) -> NextDay:
    return NextDay(logs)


def lists(day: NextDay, seed: int = 0) -> list[list[str]]:
    """A list of random stories of the day for each visit."""
    rng = np.random.default_rng(seed)
    recent = [story.news_id for story in day.stories]
    return [rng.choice(recent, 12, replace=False).tolist() for _ in day.visits]


def test_the_day_follows_the_log(day: NextDay, logs: Path) -> None:
    news = pq.read_table(logs / "news.parquet").to_pydict()
    assert (day.start, day.end) == (START, START + timedelta(days=1))
    assert [story.news_id for story in day.stories] == [f"N{601 + row}" for row in range(len(day.stories))]
    # as many stories as on a day of the log, of the same topics, with words of its titles
    each_day = sum(published >= datetime(2019, 11, 9) for published in news["published"]) / 3
    assert len(day.stories) == pytest.approx(each_day, rel=0.3)
    assert np.mean([story.subcategory in news["subcategory"] for story in day.stories]) > 0.8
    known = {word for title in news["title"] for word in title.lower().split()}
    words = [word for story in day.stories for word in story.title.lower().split()]
    assert np.mean([word in known for word in words]) > 0.8
    published = [story.published for story in day.stories]
    assert published == sorted(published)
    assert all(day.start <= moment < day.end for moment in published)
    assert all(story.expires > story.published for story in day.stories)


def test_as_many_readers_come_as_on_a_day_of_the_log(day: NextDay, logs: Path) -> None:
    table = pq.read_table(logs / "impressions.parquet", columns=["user_id", "session", "device"])
    sessions = len(set(table["session"].to_pylist()))
    assert len(day.visits) == pytest.approx(sessions / 3, rel=0.25)
    moments = [visit.moment for visit in day.visits]
    assert moments == sorted(moments)
    assert all(day.start <= moment < day.end for moment in moments)
    assert all(visit.page is None and visit.started == visit.moment for visit in day.visits)
    assert {visit.user_id for visit in day.visits} <= set(table["user_id"].to_pylist())
    last = dict(zip(table["user_id"].to_pylist(), table["device"].to_pylist(), strict=True))
    assert all(visit.device == last[visit.user_id] for visit in day.visits)


def test_the_same_log_gives_the_same_day(logs: Path) -> None:
    one, other = NextDay(logs), NextDay(logs)
    assert (one.stories, one.visits) == (other.stories, other.visits)
    shown = lists(one)
    first, second = (
        [day.react(visit, listed) for visit, listed in zip(day.visits, shown, strict=True)] for day in (one, other)
    )
    assert first == second


def test_readers_react_to_the_list_they_get(day: NextDay) -> None:
    clicks = pages = 0
    for visit, listed in zip(day.visits, lists(day), strict=True):
        clicked, following = day.react(visit, listed)
        assert set(clicked) <= set(listed)
        assert len(clicked) <= 2
        clicks += len(clicked)
        if following is not None:
            assert visit.moment < following.moment < visit.started + timedelta(minutes=30)
            assert following._replace(moment=visit.moment, page=None, length=visit.length) == visit
            assert following.page is None or following.page in clicked
            pages += following.page is not None
    assert clicks > 20
    assert pages > 5


def test_readers_tire_of_what_the_service_shows_them(day: NextDay) -> None:
    """Each story again and again to everybody: clicks become few."""
    stories = [story.news_id for story in day.stories[:12]]
    users = [visit.user_id for visit in day.visits][:150]
    rates = []
    for _ in range(4):
        clicked = [
            day.react(Visit(day.start + timedelta(hours=9), user, "phone", "T", day.start, None, 12), stories)[0]
            for user in users
        ]
        rates.append(sum(map(len, clicked)))
    assert rates[0] > 20
    assert rates[3] < 0.5 * rates[0]


def test_readers_remember_the_log(logs: Path, tmp_path: Path) -> None:
    """A reader of a log in which everything was shown thrice without a click is tired of it."""
    fresh, tired = tmp_path / "fresh", tmp_path / "tired"
    table = pq.read_table(logs / "impressions.parquet")
    users = sorted(set(table["user_id"].to_pylist()))[:200]
    stories = [f"N{number}" for number in range(560, 590)]
    for folder, times in ((fresh, 1), (tired, 5)):
        shutil.copytree(logs, folder)
        columns: dict[str, list[object]] = {name: [] for name in ("user_id", "news_id", "clicked", "device")}
        for user in users:
            for story in stories * times:
                for name, value in zip(columns, (user, story, False, "phone"), strict=True):
                    columns[name].append(value)
        pq.write_table(pa.table(columns), folder / "impressions.parquet")
    moment = START + timedelta(hours=1)
    counts = []
    for folder in (fresh, tired):
        day = NextDay(folder)
        visits = [Visit(moment, user, "phone", "T", moment, None, 12) for user in users]
        counts.append(sum(len(day.react(visit, stories)[0]) for visit in visits))
    assert counts[1] < 0.5 * counts[0]


def test_logs_whose_readers_cannot_come_back(logs: Path, tmp_path: Path) -> None:
    simulate(tmp_path / "mind", SimulationSettings(users=50, news=300, days=2))
    with pytest.raises(LogError, match="no simulated live site"):
        NextDay(tmp_path / "mind")
    with pytest.raises(LogError, match=r"simulation\.json cannot be read"):
        NextDay(tmp_path)
    for number, (change, message) in enumerate(
        [
            ({"titles": "borrowed"}, "no simulated live site"),
            ({"settings": {"users": 9}}, "no simulated live site"),
            ({"settings": {"color": 1}}, "cannot be read"),
        ]
    ):
        folder = tmp_path / f"changed{number}"
        shutil.copytree(logs, folder)
        file = folder / "simulation.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | change))
        with pytest.raises(LogError, match=message):
            NextDay(folder)
    fewer = json.loads((logs / "simulation.json").read_text())
    fewer["settings"]["users"] = 300
    shutil.copytree(logs, tmp_path / "fewer")
    (tmp_path / "fewer" / "simulation.json").write_text(json.dumps(fewer))
    with pytest.raises(LogError, match="does not fit"):
        NextDay(tmp_path / "fewer")
    (tmp_path / "fewer" / "impressions.parquet").write_text("nothing")
    with pytest.raises(LogError, match=r"impressions\.parquet cannot be read"):
        NextDay(tmp_path / "fewer")
