"""The live protocol of `drpn prepare`: profiles and counts as of each impression."""

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import live_site
from drpn.dataset.folder import SPLITS, Dataset
from drpn.preparation.settings import DataSettings
from drpn.state.count_columns import PAGE, PAIR
from drpn.state.profile import Event, ProfileState
from live_site import LIVE, Impression, prepared
from reference.live_counts import known_before

HALF_PRECISION = {"rtol": 2e-3, "atol": 2e-3}


@pytest.fixture(scope="module")
def log() -> list[Impression]:
    return live_site.impressions()


@pytest.fixture(scope="module")
def dataset(log: list[Impression], tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return prepared(tmp_path_factory.mktemp("live"), log)


def by_impression(dataset: Dataset) -> dict[str, dict[str, Any]]:
    """Everything that readers/ and pairs/ hold, by the id of the impression, with ids and texts for rows and codes."""
    arrays, rows = dataset.arrays, dict[str, dict[str, Any]]()
    columns = list(dataset.statistics["live"]["user"])
    for name in SPLITS:
        split = dataset.impressions(name)
        for place, impression in enumerate(split.ids):
            reader, pair = split.readers[place], split.first_pair + split.offsets[place : place + 2]
            codes = dict(zip(columns, arrays.array("readers/columns")[reader].tolist(), strict=True))
            rows[impression] = {
                "user": dataset.user_ids[arrays.array("readers/user")[reader]],
                "clicked": [dataset.news_ids[news] for news in arrays.array("readers/clicked")[reader] if news],
                "skipped": [dataset.news_ids[news] for news in arrays.array("readers/skipped")[reader] if news],
                "texts": {
                    column: arrays.strings(f"names/{column}")[codes[column]] for column in ("device", "subscriber")
                },
                "age": codes["age"],
                "page": arrays.array("readers/page")[reader].tolist(),
                "pairs": arrays.array("pairs/counts")[pair[0] : pair[1]].tolist(),
            }
    return rows


def test_days_of_a_short_log(dataset: Dataset, log: list[Impression]) -> None:
    """Two days warm the counts up, one trains, the day before the last validates, and the last full day tests."""
    days = {name: {str(time)[:10] for time in dataset.impressions(name).times} for name in SPLITS}
    assert days == {"train": {"2026-05-20"}, "validation": {"2026-05-21"}, "test": {"2026-05-22"}}
    assert dataset.live
    count = len([impression for impression in log if impression.time.day >= 20])
    assert len(dataset.arrays.array("readers/user")) == count + 1
    assert len(dataset.arrays.array("pairs/counts")) == sum(
        len(dataset.impressions(name).candidates) for name in SPLITS
    )


def test_counts_of_a_written_log_against_lists_of_events(dataset: Dataset, log: list[Impression]) -> None:
    pairs, pages = known_before(*live_site.reference_log(log, dataset))
    rows, first = by_impression(dataset), 0
    compared = 0
    for impression, page in zip(log, pages, strict=True):
        candidates = pairs[first : first + len(impression.shown)]
        first += len(impression.shown)
        if impression.id not in rows:
            continue
        compared += 1
        np.testing.assert_allclose(rows[impression.id]["page"], [page[name] for name in PAGE], rtol=1e-5, atol=1e-5)
        expected = [[columns[name] for name in PAIR] for columns in candidates]
        np.testing.assert_allclose(rows[impression.id]["pairs"], expected, **HALF_PRECISION)
    assert compared == len(rows) > 30
    largest = np.abs(dataset.arrays.array("pairs/counts")).max(0)
    assert [PAIR[place] for place in np.flatnonzero(largest == 0)] == ["clicked before the log"]


def test_profiles_of_a_written_log_follow_the_update_rule(dataset: Dataset, log: list[Impression]) -> None:
    for impression_id, row in by_impression(dataset).items():
        (asked,) = (impression for impression in log if impression.id == impression_id)
        state = ProfileState()
        for number, impression in enumerate(log):
            if impression.user == asked.user and impression.time < asked.time:
                for position, story in enumerate(impression.shown):
                    if story.clicked or story.seen is not False:
                        state.update(Event(story.news, story.clicked, number * 100 + position))
        profile = state.profile(LIVE.clicked, LIVE.skipped)
        assert row["user"] == asked.user
        assert row["clicked"] == [entry.news_id for entry in profile.clicked]
        assert row["skipped"] == [entry.news_id for entry in profile.skipped]


def test_columns_of_readers_are_codes(dataset: Dataset, log: list[Impression]) -> None:
    for impression_id, row in by_impression(dataset).items():
        (asked,) = (impression for impression in log if impression.id == impression_id)
        assert row["texts"] == {"device": asked.device or "", "subscriber": asked.subscriber or ""}
        assert (row["age"] == 0) == (asked.age is None)
    # the training day has readers of three ages
    assert dataset.statistics["live"]["user"] == {"device": 3, "age": 4, "subscriber": 3}


@pytest.mark.parametrize("seed", range(4))
def test_the_future_of_a_written_log_changes_nothing(seed: int, tmp_path: Path) -> None:
    """A log that ends after some impression, and one with another future, have the same rows until then."""
    rng, log = random.Random(seed), live_site.impressions(seed)
    cut = rng.choice([impression.time for impression in log if impression.time.day == 22])
    past = [impression for impression in log if impression.time <= cut]
    future = [impression for impression in log if impression.time > cut]
    changed = [
        impression._replace(
            user=rng.choice(["u0", "u9"]),
            shown=tuple(story._replace(clicked=not story.clicked, seen=True) for story in impression.shown[::-1]),
        )
        for impression in future
    ]
    one_day = replace(LIVE, profile_days=1)  # with any future, training begins on the same day
    whole = by_impression(prepared(tmp_path / "whole", log, one_day))
    compared = 0
    for name, other in (("cut", past), ("changed", [*past, *changed])):
        rows = by_impression(prepared(tmp_path / name, other, one_day))
        for impression in past:
            if impression.id in rows and impression.id in whole:
                compared += 1
                both = [
                    {key: value for key, value in table[impression.id].items() if key != "age"}
                    for table in (rows, whole)
                ]
                assert both[0] == both[1]  # the groups of ages are those of the training days
    assert compared > 20


def test_a_log_without_the_optional_columns(tmp_path: Path) -> None:
    log = [
        impression._replace(page=None, subscriber=None, device=None, age=None) for impression in live_site.impressions()
    ]
    dataset = prepared(tmp_path, log)
    rows = dataset.arrays.array("readers/page")
    assert not rows[:, PAGE.index("page has story")].any()


def test_users_without_a_profile_cannot_be_left_out() -> None:
    with pytest.raises(ValueError, match="users is with-profile; with the live protocol it takes all"):
        DataSettings(protocol="live", users="with-profile")


def test_the_paper_protocol_writes_no_counts(log: list[Impression], tmp_path: Path) -> None:
    dataset = prepared(tmp_path, log, DataSettings(vector_size=0, validation=0.3))
    assert not dataset.live
    assert not [name for name in dataset.arrays.checksums if name.startswith(("readers/", "pairs/"))]
