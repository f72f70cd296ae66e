"""A story that is put has the score of the same story in the catalogue of the log, with all that models read of it."""

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from drpn.bundle.files import Bundle
from drpn.bundle.recommender import Recommender
from drpn.bundle.stories import NewStory
from drpn.preparation.settings import DataSettings
from drpn.recipes.prepare import prepare
from drpn.service.requests import RankRequest
from drpn.store.records import Story
from live_newsroom import STORIES, VIEWS, WORDS, Running, make_bundle, make_model, running, scores


def _entities(*names: str) -> str:
    """Names in a title, as MIND's JSON without offsets."""
    return json.dumps([{"WikidataId": f"Q-{name}", "SurfaceForms": [name]} for name in names])


UNSHOWN = Story(
    "unshown",
    "storm bank goal",
    "topic1",
    abstract="Snow, and a market of tariff profit",
    vector=(0.5, -2.0, 0.25),
    entities=_entities("nothing", "bank", "goal"),
)
"""A story of the catalogue that nobody was shown."""
CASES = [
    ("drpn-live", {"abstracts": 5}, "abstract", {}),
    ("drpn-live", {"vectors": True}, "vector", {}),
    ("naml", {"abstracts": 5}, "abstract", {"abstract": True}),
    ("dkn", {"entities": 3}, "entities", {"channels": "entities"}),
]
every_case = pytest.mark.parametrize(
    ("model", "data", "read", "settings"), CASES, ids=[f"{case[0]}-{case[2]}" for case in CASES]
)


def write_logs(folder: Path, *, vectors: bool) -> Path:
    """The page views of `live_newsroom`, with abstracts and perhaps vectors of stories."""
    random = np.random.default_rng(4)
    stories = [
        Story(
            name,
            " ".join(random.choice(WORDS, 4)),
            f"topic{row % 3}",
            abstract=" ".join(random.choice(WORDS, 8)),
            vector=tuple(random.normal(size=3).tolist()),
            entities=_entities(*WORDS),
        )
        for row, name in enumerate(STORIES)
    ]
    names = ("news_id", "title", "category", "abstract", *(["vector"] if vectors else []))
    news = [
        {name: getattr(story, name) for name in names} | {"title_entities": story.entities}
        for story in (*stories, UNSHOWN)
    ]
    shown = [
        {
            "impression_id": f"i{view.number:04}",
            "user_id": view.user,
            "time": view.moment.replace(tzinfo=None),
            "news_id": story,
            "clicked": story in view.clicked,
            "position": place,
        }
        for view in VIEWS
        for place, story in enumerate(view.shown)
    ]
    folder.mkdir()
    for name, rows in (("news", news), ("impressions", shown)):
        pq.write_table(pa.Table.from_pylist(rows), folder / f"{name}.parquet")
    return folder


def newsroom(folder: Path, model: str, data: dict[str, Any], settings: dict[str, Any]) -> Any:
    logs = write_logs(folder / "logs", vectors=data.get("vectors", False))
    options = DataSettings(
        vector_size=8, protocol="live", abstracts=data.get("abstracts", 0), entities=data.get("entities", 0)
    )
    dataset = prepare(logs, folder / "data", options)
    bundle = make_bundle(folder / "bundle", dataset, make_model(dataset, model, **settings), model)
    return running(folder / "store", bundle, now=VIEWS[-1].moment + timedelta(hours=1))


def score_of(room: Running, user: str, news_id: str) -> float:
    return scores(room.newsroom.rank(RankRequest(user, (news_id,))))[news_id]


@every_case
def test_a_put_story_has_the_score_of_the_same_story_of_the_log(
    tmp_path: Path, model: str, data: dict[str, Any], read: str, settings: dict[str, Any]
) -> None:
    without = replace(UNSHOWN, news_id="without", **{read: None})
    with newsroom(tmp_path, model, data, settings) as room:
        room.newsroom.put_news([replace(UNSHOWN, news_id="later"), without]).result()
        users = [f"u{number}" for number in range(9)]
        known, later, less = (
            [score_of(room, user, news_id) for user in users] for news_id in ("unshown", "later", "without")
        )
    assert later == pytest.approx(known, abs=1e-5)
    assert less != pytest.approx(known, abs=1e-3)


@pytest.mark.parametrize(
    ("model", "data", "read", "settings"), CASES[:-1], ids=[f"{case[0]}-{case[2]}" for case in CASES[:-1]]
)
def test_a_story_of_the_log_changes_if_it_is_put_with_other_content(
    tmp_path: Path, model: str, data: dict[str, Any], read: str, settings: dict[str, Any]
) -> None:
    other: dict[str, Any] = {"abstract": "Coach of a league", "vector": (-1.0, 1.0, 0.0)}
    with newsroom(tmp_path, model, data, settings) as room:
        before = score_of(room, "u1", "unshown")
        for same in (UNSHOWN, replace(UNSHOWN, abstract=None, vector=None)):
            room.newsroom.put_news([same]).result()
            assert score_of(room, "u1", "unshown") == pytest.approx(before, abs=1e-6)
        room.newsroom.put_news([replace(UNSHOWN, **{read: other[read]})]).result()
        assert score_of(room, "u1", "unshown") != pytest.approx(before, abs=1e-3)


def test_a_vector_of_another_size_is_left_out(tmp_path: Path) -> None:
    with newsroom(tmp_path, "drpn-live", {"vectors": True}, {}) as room:
        stories = [
            replace(UNSHOWN, news_id=name, vector=vector)
            for name, vector in (("none", None), ("short", (1.0, 2.0)), ("huge", (1e300, 0.0, 0.0)))
        ]
        room.newsroom.put_news(stories).result()
        assert score_of(room, "u1", "short") == pytest.approx(score_of(room, "u1", "none"), abs=1e-6)
        assert np.isfinite(score_of(room, "u1", "huge"))
    recommender = Recommender(Bundle.open(tmp_path / "bundle"))
    assert recommender.add([NewStory("Storm", "topic1", news_id="short", vector=[1.0, 2.0])]) == (
        "the vector of 'Storm' has 2 numbers, those of the log have 3; the title is ranked without it",
    )
