"""A log fed to a newsroom event by event gives the scores of the offline evaluation of the live protocol.

Page views of one second are ranked before any of them is reported: what happens within a second does not know of each
other. A site that asks later in the same second gets a ranking that knows more than the evaluation.
"""

import os
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

import drpn
from drpn.batches.tables import Tables
from drpn.dataset.folder import Dataset
from drpn.evaluation.scoring import score_impressions
from drpn.models.base import ClickModel
from drpn.preparation.settings import DataSettings
from drpn.progress import Silent
from drpn.recipes.prepare import prepare
from drpn.service.requests import RankRequest
from drpn.state.counts import Known, LiveCounts, PageViews
from drpn.store.records import Impression, Shown
from live_newsroom import CPU, Running, make_bundle, make_model, running, scores

SETTINGS = DataSettings(vector_size=16, protocol="live")
ABOUT = ("device", "gender", "age", "subscriber")
DATA = Path(os.environ.get("DRPN_DATA", Path(__file__).parents[2].parent / "shared" / "data"))
EBNERD = DATA / "ebnerd-demo-week1"


def offline_scores(dataset: Dataset, model: ClickModel) -> dict[str, dict[str, float]]:
    """The scores of the evaluation, by impression and story."""
    impressions = dataset.impressions("test")
    tables = Tables.from_dataset(model.limit(dataset), CPU, needs=model.requirements)
    scores = score_impressions(model, tables, impressions, Silent())
    known = {}
    for number in range(len(impressions.users)):
        part = slice(int(impressions.offsets[number]), int(impressions.offsets[number + 1]))
        names = (dataset.news_ids[row] for row in impressions.candidates[part].tolist())
        known[impressions.ids[number]] = dict(zip(names, scores[part].tolist(), strict=True))
    return known


def pages(rows: pa.Table) -> list[list[dict[str, Any]]]:
    """The rows of each page view, in the order of time and id."""
    by_page = defaultdict(list)
    for row in rows.to_pylist():
        by_page[row["impression_id"]].append(row)
    return sorted(by_page.values(), key=lambda page: (page[0]["time"], page[0]["impression_id"]))


def as_impression(page: list[dict[str, Any]]) -> Impression:
    first = page[0]
    facts = {name: first[name] for name in ("page", "surface", *ABOUT) if first.get(name) is not None}
    return Impression(
        first["impression_id"],
        first["user_id"],
        tuple(Shown(row["news_id"], row["clicked"], row["position"], row.get("seen")) for row in page),
        moment(page),
        complete=True,
        **facts,
    )


def moment(page: list[dict[str, Any]]) -> datetime:
    time: datetime = page[0]["time"]
    return time.replace(tzinfo=UTC)


def stories_of_a_day(random: np.random.Generator, day: int) -> list[int]:
    """Stories of about a day, in no order of their numbers, and perhaps an older one."""
    recent = random.choice(np.arange(4 * day, 4 * day + 16), 5, replace=False).tolist()
    return [*recent, int(random.integers(0, max(1, 4 * day - 16)))] if random.random() < 0.5 else recent


def write_difficult_log(logs: Path) -> None:
    """Nine days with all that once made scores differ.

    Users have several page views in one second. Stories have numbers and no time of publication, appear late, come back
    after days, and are on pages without being seen.
    """
    random = np.random.default_rng(8)
    words = ["goal", "market", "storm", "coach", "bank", "snow", "league", "profit", "sunny", "tariff"]
    ids = [str(100 + number) for number in range(60)]
    titles = [" ".join(random.choice(words, 4)) for _ in ids]
    news = {"news_id": ids, "title": titles, "category": [f"topic{number % 3}" for number in range(len(ids))]}
    rows, moment, user = [], datetime(2026, 1, 1, 1), 0
    for number in range(700):
        moment += timedelta(seconds=int(random.choice([0, 0, 1, 2500, 3000])) if number else 0)
        user = user if random.random() < 0.4 else int(random.integers(20))
        device = str(random.choice(["phone", "desktop"]))
        shown = stories_of_a_day(random, moment.day)
        seen = int(random.integers(1, len(shown)))
        page = str(100 + int(random.choice(shown))) if random.random() < 0.3 else None
        for position, story in enumerate(shown):
            rows.append(
                {
                    "impression_id": f"i{number:04}",
                    "user_id": f"u{user}",
                    "time": moment,
                    "device": device,
                    "subscriber": ["no", "yes"][user % 2],
                    "page": page,
                    "news_id": ids[story],
                    "clicked": bool(position < seen and random.random() < 0.2),
                    "position": position,
                    "seen": position < seen,
                }
            )
    logs.mkdir()
    pq.write_table(pa.table(news), logs / "news.parquet")
    pq.write_table(pa.Table.from_pylist(rows), logs / "impressions.parquet")


def same_test_day(monkeypatch: pytest.MonkeyPatch, day: int) -> None:
    """Begin the test with the same day in the whole and in the cut log: text vectors come from the days before it."""
    monkeypatch.setattr("drpn.preparation.days.last_full_day", lambda _days: day)


@contextmanager
def newsroom_of(folder: Path, logs: Path, count: int) -> Iterator[tuple[Running, list[Any], Dataset, ClickModel]]:
    """A newsroom whose bundle ends before the last page views of a log, and these page views."""
    rows = pq.read_table(logs / "impressions.parquet")
    every = pages(rows)
    start = every[-count][0]["time"]
    short = folder / "short"
    short.mkdir()
    pq.write_table(
        rows.filter(pc.less(rows["time"], pa.scalar(start, rows["time"].type))), short / "impressions.parquet"
    )
    pq.write_table(pq.read_table(logs / "news.parquet"), short / "news.parquet")
    whole = prepare(logs, folder / "whole-data", SETTINGS)
    cut = prepare(short, folder / "short-data", SETTINGS)
    model = make_model(whole)
    bundle = make_bundle(folder / "bundle-until-then", cut, model)
    told = [page for page in every if page[0]["time"] >= start]
    with running(folder / "store", bundle, now=moment(told[0])) as room:
        yield room, told, whole, model


def replay(folder: Path, logs: Path, count: int) -> NDArray[np.float64]:
    """The differences between the scores of the service and of the evaluation, for the last page views of a log."""
    differences, compared = list[float](), 0
    with newsroom_of(folder, logs, count) as (room, told, whole, model):
        offline = offline_scores(whole, model)
        for time, several in groupby(told, key=moment):
            room.clock.now = time
            at_once = list(several)
            for page in at_once:
                first = page[0]
                answer = room.newsroom.rank(
                    RankRequest(
                        first["user_id"],
                        tuple(row["news_id"] for row in page),
                        count=len(page),
                        page=first.get("page"),
                        about={name: first[name] for name in ABOUT if first.get(name) is not None},
                    )
                )
                known = offline[first["impression_id"]]
                differences += [abs(story.score - known[story.news_id]) for story in answer.stories]
                compared += 1
            for future in [room.newsroom.record(as_impression(page)) for page in at_once]:
                future.result()
    assert compared >= count
    return np.array(differences)


def test_a_difficult_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    same_test_day(monkeypatch, 5)
    write_difficult_log(tmp_path / "logs")
    differences = replay(tmp_path, tmp_path / "logs", 160)
    assert len(differences) > 300
    assert differences.max() < 1e-5


def test_a_restart_counts_the_log_in_large_parts_and_gives_the_same_scores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    same_test_day(monkeypatch, 5)
    write_difficult_log(tmp_path / "logs")
    observe, parts = LiveCounts.observe, list[int]()

    def counted(counts: LiveCounts, views: PageViews, *, record: bool = True) -> Known:
        parts.extend([len(views.users)] * record)
        return observe(counts, views, record=record)

    monkeypatch.setattr(LiveCounts, "observe", counted)
    later = timedelta(seconds=1)

    def scores_of(room: Running, told: list[Any]) -> list[dict[str, float]]:
        room.clock.now = moment(told[-1]) + later
        return [scores(room.newsroom.rank(RankRequest(f"u{number}", count=60))) for number in range(20)]

    with newsroom_of(tmp_path, tmp_path / "logs", 160) as (room, told, _, _):
        parts.clear()
        for time, several in groupby(told, key=moment):
            room.clock.now = time
            for page in several:
                room.newsroom.record(as_impression(page)).result()
            room.newsroom.rank(RankRequest("u1", count=1))
        before = scores_of(room, told)
        seconds = len({moment(page) for page in told})
        assert len(parts) == seconds
    parts.clear()
    with running(tmp_path / "store", tmp_path / "bundle-until-then", now=moment(told[-1]) + later) as room:
        after = scores_of(room, told)
    assert sum(parts) == len(told)
    assert len(parts) < seconds / 2  # none is longer than two hours
    for one, other in zip(before, after, strict=True):
        assert one == pytest.approx(other, abs=1e-5)


@pytest.mark.slow
def test_five_thousand_impressions_of_a_simulated_newsroom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    same_test_day(monkeypatch, 3)
    drpn.simulate(tmp_path / "logs", users=3_000, news=900, days=5, preset="live", seed=3)
    differences = replay(tmp_path, tmp_path / "logs", 5_000)
    assert len(differences) > 40_000
    assert differences.max() < 1e-5


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.skipif(not EBNERD.exists(), reason=f"{EBNERD} is not there; DRPN_DATA names the folder of the data")
def test_five_thousand_impressions_of_ebnerd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    same_test_day(monkeypatch, 4)
    logs = tmp_path / "logs"
    logs.mkdir()
    articles = pq.read_table(EBNERD / "articles.parquet")
    known = set(articles["article_id"].to_pylist())
    news = {
        "news_id": [str(name) for name in articles["article_id"].to_pylist()],
        "title": [title or "" for title in articles["title"].to_pylist()],
        "category": [str(name) for name in articles["category"].to_pylist()],
    }
    pq.write_table(pa.table(news), logs / "news.parquet")
    rows = []
    for view in pq.read_table(EBNERD / "train" / "behaviors.parquet").to_pylist():
        shown = [story for story in dict.fromkeys(view["article_ids_inview"]) if story in known]
        for position, story in enumerate(shown):
            page = view["article_id"]
            rows.append(
                {
                    "impression_id": f"{view['impression_id']:012}",
                    "user_id": str(view["user_id"]),
                    "time": view["impression_time"],
                    "device": str(view["device_type"]),
                    "subscriber": str(view["is_subscriber"]),
                    "page": str(int(page)) if page is not None and page in known else None,
                    "news_id": str(story),
                    "clicked": story in view["article_ids_clicked"],
                    "position": position,
                }
            )
    pq.write_table(pa.Table.from_pylist(rows), logs / "impressions.parquet")
    differences = replay(tmp_path, logs, 5_000)
    assert len(differences) > 40_000
    assert differences.max() < 1e-5
