"""A log fed to a newsroom event by event gives the scores of the offline evaluation of the live protocol."""

import os
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import drpn
from drpn.batches.tables import Tables
from drpn.dataset.folder import Dataset
from drpn.evaluation.scoring import score_impressions
from drpn.models.base import ClickModel
from drpn.preparation.settings import DataSettings
from drpn.progress import Silent
from drpn.recipes.prepare import prepare
from drpn.service.requests import RankRequest
from drpn.store.records import Impression, Shown
from live_newsroom import CPU, Running, make_bundle, make_model, running

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


def largest_difference(folder: Path, logs: Path, count: int) -> tuple[float, int]:
    """The largest difference between scores of the service and of the evaluation, and how many were compared."""
    differences = []
    with newsroom_of(folder, logs, count) as (room, told, whole, model):
        offline = offline_scores(whole, model)
        for time, several in groupby(told, key=moment):
            room.clock.now = time
            at_once = list(several)  # what happens within one second does not know of each other
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
                known = offline.get(first["impression_id"], {})
                differences += [abs(story.score - known[story.news_id]) for story in answer.stories if known]
            for future in [room.newsroom.record(as_impression(page)) for page in at_once]:
                future.result()
    return float(np.max(differences)), len(differences)


@pytest.mark.slow
def test_a_simulated_newsroom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    same_test_day(monkeypatch, 3)
    drpn.simulate(tmp_path / "logs", users=200, news=300, days=5, preset="live", seed=3)
    difference, compared = largest_difference(tmp_path, tmp_path / "logs", 150)
    assert compared > 500
    assert difference < 1e-5


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.xfail(
    reason="3 of 250 page views differ by more than 1e-5; one was traced to a count that half precision rounds the "
    "other way, the largest difference of 5,000 (0.18) was not traced"
)
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
    difference, compared = largest_difference(tmp_path, logs, 5_000)
    assert compared > 20_000
    assert difference < 1e-5
