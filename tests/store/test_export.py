"""A store as an events log: what `drpn prepare` makes of it equals the store and the log that was fed to it."""

import random
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import live_site
from drpn.dataset.folder import Dataset
from drpn.errors import OutputError, StoreError
from drpn.preparation.settings import DataSettings
from drpn.recipes.prepare import prepare
from drpn.store.base import Store
from drpn.store.export import Exported, export_events
from drpn.store.opening import open_store
from drpn.store.records import Click, Impression, LoggedRanking, Shown, Story, as_utc, shown_stories

START, STOP = as_utc(live_site.START), as_utc(live_site.START + timedelta(days=live_site.DAYS))
PAPER = DataSettings(vector_size=0, validation=0.5)
LIVE = DataSettings(vector_size=0, validation=0.5, protocol="live")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = open_store(f"sqlite:///{tmp_path}/store.db", clock=lambda: STOP + timedelta(days=1))
    yield store
    store.close()


def feed(store: Store, log: list[live_site.Impression], seed: int = 3) -> None:
    """Report the page views in any order: some clicks at once, some later, some after the impression was closed."""
    rng = random.Random(seed)
    late: list[Click] = []
    for view in rng.sample(log, len(log)):
        now = [rng.random() < 0.5 for _ in view.shown]
        shown = tuple(
            Shown(s.news, s.clicked and at_once, seen=s.seen) for s, at_once in zip(view.shown, now, strict=True)
        )
        store.add_impression(
            Impression(
                view.id,
                view.user,
                shown,
                view.time,
                page=view.page,
                subscriber=view.subscriber,
                device=view.device,
                age=view.age,
                complete=rng.random() < 0.3,
            )
        ).result()
        late += [
            Click(view.id, view.user, s.news, view.time + timedelta(minutes=5))
            for s, at_once in zip(view.shown, now, strict=True)
            if s.clicked and not at_once
        ]
        if rng.random() < 0.3:
            store.close_for(view.user).result()
    for click in rng.sample(late, len(late)):
        store.add_click(click).result()
    while store.close_before(STOP).result():
        pass
    store.put_news([story(line) for line in live_site.stories()]).result()


def story(line: dict[str, object]) -> Story:
    published = None if line["published"] is None else datetime.fromisoformat(str(line["published"]))
    columns = {name: line[name] for name in ("news_id", "title", "category", "subcategory")}
    return Story(**columns, published=published, vector=tuple(line["vector"]))  # type: ignore[arg-type]


def export(store: Store, folder: Path) -> Exported:
    return export_events(store, folder, START, STOP)


@pytest.mark.parametrize("settings", [PAPER, LIVE], ids=["paper", "live"])
def test_export_prepares_like_the_log_and_the_store(store: Store, tmp_path: Path, settings: DataSettings) -> None:
    log = live_site.impressions(each_day=40)
    feed(store, log)
    exported = export(store, tmp_path / "exported")
    assert (exported.impressions, exported.without_text) == (len(log), 0)
    assert exported.clicks == sum(s.clicked for view in log for s in view.shown)
    dataset = prepare(tmp_path / "exported", tmp_path / "data", settings)
    assert_same_arrays(dataset, live_site.prepared(tmp_path / "direct", log, settings))
    for row, user in enumerate(dataset.user_ids):
        if not row:
            continue
        state = store.user(user)
        for side, entries in (("clicked", state.profile.clicked), ("skipped", state.profile.skipped)):
            rows = dataset.arrays.array(f"latest/{side}")[row]
            assert [dataset.news_ids[int(number)] for number in rows if number] == [entry.news_id for entry in entries]
        start, stop = dataset.arrays.array("latest/all_clicked_offsets")[row : row + 2]
        every_click = dataset.arrays.array("latest/all_clicked")[start:stop]
        assert {dataset.news_ids[int(number)] for number in every_click} == state.clicked


def assert_same_arrays(one: Dataset, other: Dataset) -> None:
    assert set(one.arrays.checksums) == set(other.arrays.checksums)
    for name in one.arrays.checksums:
        if name.endswith(".npy"):
            left, right = (data.arrays.array(name.removesuffix(".npy")) for data in (one, other))
            np.testing.assert_array_equal(left, right, err_msg=name)
    assert list(one.news_ids) == list(other.news_ids)
    assert list(one.user_ids) == list(other.user_ids)


def test_command_line_prepares_an_export(store: Store, tmp_path: Path, drpn: Callable[..., Any]) -> None:
    feed(store, live_site.impressions())
    export(store, tmp_path / "exported")
    done = drpn("prepare", "exported", "--out", "data", "--set", "data.protocol=live")
    assert done.returncode == 0, done.stderr


def test_profiles_of_a_long_log(store: Store, tmp_path: Path) -> None:
    """Profiles are cut at 30 and 60 stories in both."""
    rng = random.Random(5)
    names = [f"n{number:03}" for number in range(300)]
    for number in range(120):
        moment = START + timedelta(seconds=rng.randrange(4 * 86_400))
        shown = rng.sample(names, 6)
        store.add_impression(
            Impression(f"i{number}", f"u{number % 2}", shown_stories(shown, shown[:2]), moment, complete=True)
        )
    store.put_news([Story(name, f"Title {name}") for name in names]).result()
    export(store, tmp_path / "exported")
    dataset = prepare(tmp_path / "exported", tmp_path / "data", PAPER)
    for row, user in ((1, "u0"), (2, "u1")):
        profile = store.user(user).profile
        assert (len(profile.clicked), len(profile.skipped)) == (30, 60)
        for side, entries in (("clicked", profile.clicked), ("skipped", profile.skipped)):
            rows = dataset.arrays.array(f"latest/{side}")[row]
            assert [dataset.news_ids[int(number)] for number in rows] == [entry.news_id for entry in entries]


def test_columns(store: Store, tmp_path: Path) -> None:
    shown = (Shown("a", True, 4, True, 0.5, 0.25), Shown("b", seen=False), Shown("c", score=2.0))
    full = Impression(
        "i1", "anna", shown, START, "p", "front page", "s1", "phone", 42.0, "f", "paying", "run7", "B", complete=True
    )
    plain = Impression("i2", "ben", shown_stories("ab"), START + timedelta(microseconds=1), complete=True)
    store.add_impression(full).result()
    store.add_impression(plain).result()
    store.add_impression(Impression("open", "ben", shown_stories("ab"), START)).result()
    store.append_rankings(
        [
            LoggedRanking("i1", "anna", START, "other", "A", ("a", "b", "c"), (9.0, 8.0, 7.0), (0.9, 0.8, 0.7)),
            LoggedRanking("i2", "ben", START, "run7", "A", ("b", "a"), (0.2, 0.1)),
        ]
    )
    store.put_news([Story("a", "Storm", "weather", expires=START), Story("unused", "Unused")]).result()
    store.take_down(["unused", "unknown"]).result()
    exported = export_events(store, tmp_path / "log", START, STOP, stories=[Story("b", "Chess"), Story("a", "Older")])
    assert (exported.impressions, exported.shown, exported.clicks) == (2, 5, 1)
    assert (exported.stories, exported.without_text) == (5, 2)
    rows = pq.read_table(tmp_path / "log" / "impressions.parquet").to_pylist()
    time = START.replace(tzinfo=None)
    of_page = {"impression_id": "i1", "user_id": "anna", "time": time, "session": "s1", "surface": "front page",
               "device": "phone", "age": 42.0, "gender": "f", "subscriber": "paying", "page": "p",
               "policy": "run7/B"}  # fmt: skip
    nothing = dict.fromkeys(("session", "surface", "device", "age", "gender", "subscriber", "page"))
    other = nothing | {"impression_id": "i2", "user_id": "ben", "time": time + timedelta(microseconds=1),
                       "policy": "run7/A", "seen": None, "propensity": None}  # fmt: skip
    assert rows == [
        of_page | {"news_id": "a", "clicked": True, "position": 4, "seen": True, "score": 0.5, "propensity": 0.25},
        of_page | {"news_id": "b", "clicked": False, "position": 1, "seen": False, "score": 8.0, "propensity": 0.8},
        of_page | {"news_id": "c", "clicked": False, "position": 2, "seen": None, "score": 2.0, "propensity": 0.7},
        other | {"news_id": "a", "clicked": False, "position": 0, "score": 0.1},
        other | {"news_id": "b", "clicked": False, "position": 1, "score": 0.2},
    ]
    news = pq.read_table(tmp_path / "log" / "news.parquet").to_pylist()
    assert news == [
        {"news_id": "a", "title": "Storm", "category": "weather"},
        {"news_id": "unused", "title": "Unused", "category": None},
        {"news_id": "b", "title": "Chess", "category": None},
        {"news_id": "c", "title": "", "category": None},
        {"news_id": "p", "title": "", "category": None},
    ]


def test_period(store: Store, tmp_path: Path) -> None:
    for number in range(3):
        moment = START + timedelta(days=number)
        store.add_impression(Impression(f"i{number}", "anna", shown_stories("ab"), moment, complete=True)).result()
    export_events(store, tmp_path / "log", START + timedelta(days=1), START + timedelta(days=2))
    assert pq.read_table(tmp_path / "log" / "impressions.parquet")["impression_id"].to_pylist() == ["i1", "i1"]
    with pytest.raises(StoreError, match="no closed impressions"):
        export_events(store, tmp_path / "none", START + timedelta(days=4), STOP)
    assert not (tmp_path / "none").exists()
    with pytest.raises(OutputError, match="exists"):
        export_events(store, tmp_path / "log", START, STOP)
    assert export_events(store, tmp_path / "log", START, STOP, replace=True).impressions == 3


def test_erased_users_do_not_appear(store: Store, tmp_path: Path) -> None:
    feed(store, live_site.impressions())
    store.erase("u1").result()
    export(store, tmp_path / "log")
    users = set(pq.read_table(tmp_path / "log" / "impressions.parquet")["user_id"].to_pylist())
    assert users == {"u0", "u2", "u3", "u4"}


def test_a_user_who_is_erased_during_the_export_does_not_appear(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed(store, live_site.impressions())
    whole = store.closed_impressions

    def erase_on_the_way(start: datetime, stop: datetime) -> Iterator[object]:
        yield from whole(start, stop)
        if not store.is_erased("u1"):
            store.erase("u1").result()

    monkeypatch.setattr(store, "closed_impressions", erase_on_the_way)
    export(store, tmp_path / "log")
    assert b"u1" not in (tmp_path / "log" / "impressions.parquet").read_bytes()
    users = set(pq.read_table(tmp_path / "log" / "impressions.parquet")["user_id"].to_pylist())
    assert users == {"u0", "u2", "u3", "u4"}


def test_many_impressions_are_exported_in_parts(store: Store, tmp_path: Path) -> None:
    for number in range(2100):
        moment = START + timedelta(seconds=number // 3)
        store.add_impression(Impression(f"i{number}", f"u{number % 7}", shown_stories("ab"), moment, complete=True))
    store.put_news([Story(f"n{number}", "Title") for number in range(1200)]).result()
    assert export(store, tmp_path / "log").impressions == 2100
    assert pq.read_table(tmp_path / "log" / "impressions.parquet")["impression_id"].to_pylist() == [
        f"i{number}" for number in sorted(range(2100), key=lambda number: (number // 3, f"i{number}")) for _ in range(2)
    ]
    assert pq.read_table(tmp_path / "log" / "news.parquet").num_rows == 1202
