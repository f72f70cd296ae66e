"""A bundle's profiles are as of the end of the log; training and evaluation do not read them."""

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from drpn.bundle.files import Bundle
from drpn.bundle.recommender import Recommender
from drpn.dataset.arrays import ArrayReader, sha256
from drpn.dataset.folder import Dataset
from drpn.preparation.settings import DataSettings
from drpn.recipes.evaluate import evaluate
from drpn.recipes.prepare import prepare
from drpn.recipes.runs import Run
from drpn.versioned import write_versioned
from small_training import train_small, weights
from writing import MindLine, write_mind

CPU = torch.device("cpu")
STORIES, DAYS = 40, 4
END = datetime(2019, 11, 12, 9, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _single_thread(one_thread: None) -> None:
    """Every test here uses one thread."""


def lines() -> list[MindLine]:
    """Four days on which users U1 to U8 each see twelve of forty stories and click four; U9 comes on the last day."""
    random = np.random.default_rng(5)
    result = []
    for day in range(DAYS):
        for user in range(1, 10 if day == DAYS - 1 else 9):
            shown = random.choice(STORIES, 12, replace=False)
            labels = " ".join(f"N{story}-{int(place < 4)}" for place, story in enumerate(shown))
            result.append(MindLine(str(len(result)), f"U{user}", f"11/{9 + day}/2019 {user}:00:00 AM", labels))
    return result


def clicked_by(user: str) -> list[str]:
    """Every story that a user clicked, in the order of the last click."""
    clicks: dict[str, None] = {}
    for line in lines():
        for token in line.candidates.split() if line.user_id == user else ():
            if token.endswith("-1"):
                clicks.pop(token[:-2], None)
                clicks[token[:-2]] = None
    return list(clicks)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    folder = tmp_path_factory.mktemp("latest")
    news = [f"N{number}\ttopic{number % 3}\t\tstory {number} of {number % 7}" for number in range(STORIES)]
    return prepare(write_mind(folder / "logs", lines(), news), folder / "data", DataSettings(clicked=3, skipped=4))


@pytest.fixture(scope="module")
def run(dataset: Dataset) -> Path:
    return train_small(dataset.path, dataset.path.parent / "run", epochs=1)


@pytest.fixture(scope="module")
def recommender(run: Path) -> Recommender:
    return Recommender(Run.open(run).bundle(), CPU)


@pytest.mark.parametrize("user", [f"U{number}" for number in range(1, 10)])
def test_stories_already_clicked_do_not_come_back(recommender: Recommender, user: str) -> None:
    """Neither those of the profile, which holds three, nor older ones."""
    clicked = clicked_by(user)
    assert len(clicked) > 3
    ranked = [row.news_id for row in recommender.recommend(user, top=STORIES).rows]
    assert set(ranked) == set(recommender.live) - set(clicked)
    assert set(clicked) & set(recommender.live)
    (only,) = recommender.recommend(user, candidates=clicked[:1]).rows  # unless they are asked for
    assert only.news_id == clicked[0]


def test_skipped_stories_are_ranked_again(recommender: Recommender) -> None:
    skipped = [entry.news_id for entry in recommender.profile("U1").skipped]
    assert len(skipped) == 4
    ranked = {row.news_id for row in recommender.recommend("U1", top=STORIES).rows}
    assert set(skipped) & set(recommender.live) <= ranked


def test_a_profile_holds_the_newest_stories_of_the_whole_log(recommender: Recommender, dataset: Dataset) -> None:
    for user in ("U1", "U5", "U9"):
        profile = recommender.profile(user)
        assert [entry.news_id for entry in profile.clicked] == clicked_by(user)[-3:]
        assert profile.as_of == recommender.bundle.profiles_as_of == END
    row = list(dataset.user_ids).index("U9")
    assert not dataset.clicked[row].any()  # a newcomer in the window, not at the end of the log
    assert recommender.recommend("U9").known
    assert "Profiles are as of the end of the logs, 2019-11-12T09:00:00 UTC." in (
        recommender.bundle.path / "README.md"
    ).read_text(encoding="utf-8")


def test_training_and_evaluation_do_not_read_the_latest_profiles(
    dataset: Dataset, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    array = ArrayReader.array

    def recorded(reader: ArrayReader, name: str) -> Any:
        read.append(name)
        return array(reader, name)

    monkeypatch.setattr(ArrayReader, "array", recorded)
    again = train_small(dataset.path, tmp_path / "run", epochs=1)
    evaluate(again)
    assert {"users/clicked", "users/skipped", "train/candidates"} <= set(read)
    assert not [name for name in read if name.startswith("latest/")]
    assert weights(again) == weights(run)


def test_other_latest_profiles_change_neither_weights_nor_metrics(dataset: Dataset, run: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(dataset.path, tmp_path / "data")
    for name in ("clicked", "skipped"):
        stories = np.load(folder / "latest" / f"{name}.npy")
        np.save(folder / "latest" / f"{name}.npy", np.where(stories > 0, 1, 0).astype(np.int32))
    checksums = {name: sha256(folder / name) for name in dataset.manifest["files"]}
    write_versioned(folder / "manifest.json", dataset.manifest | {"files": checksums})
    other = train_small(folder, tmp_path / "run", epochs=1)
    assert weights(other) == weights(run)
    assert evaluate(other) == evaluate(run)
    assert Run.open(other).bundle().data.clicked[1].tolist() == [1, 1, 1]


def as_prepared_before(dataset: Dataset, folder: Path) -> Path:
    """A copy of a dataset folder without latest/, as older versions prepared it."""
    shutil.copytree(dataset.path, folder)
    shutil.rmtree(folder / "latest")
    files = {name: sum for name, sum in dataset.manifest["files"].items() if not name.startswith("latest/")}
    write_versioned(folder / "manifest.json", dataset.manifest | {"files": files})
    return folder


def test_folders_prepared_before_still_train_and_rank(dataset: Dataset, tmp_path: Path) -> None:
    """With the profiles of the window, whose stories are left out."""
    old = train_small(as_prepared_before(dataset, tmp_path / "old"), tmp_path / "run", epochs=1)
    bundle = Run.open(old).bundle()
    assert "profiles_as_of" not in json.loads((bundle.path / "manifest.json").read_text())["data"]
    assert bundle.profiles_as_of is None
    recommender = Recommender(bundle, CPU)
    for user in ("U1", "U7", "U9"):
        row = list(dataset.user_ids).index(user)
        sides = [[dataset.news_ids[story] for story in side[row].tolist() if story]
                 for side in (dataset.clicked, dataset.skipped)]  # fmt: skip
        profile = recommender.profile(user)
        assert [[entry.news_id for entry in side] for side in (profile.clicked, profile.skipped)] == sides
        assert profile.as_of is None
        ranked = {row.news_id for row in recommender.recommend(user, top=STORIES).rows}
        assert ranked == set(recommender.live) - {story for side in sides for story in side}
    assert not recommender.recommend("U9").known


def test_a_bundle_does_not_hold_the_window(run: Path) -> None:
    bundle = Bundle.open(run / "bundle")
    names = {name for name in bundle.data.arrays.checksums if name.startswith(("users/", "latest/"))}
    assert names == {
        "users/id.offsets.npy", "users/id.utf8.npy", "users/clicked.npy", "users/skipped.npy", "users/trained.npy",
        "users/all_clicked.npy", "users/all_clicked_offsets.npy",
    }  # fmt: skip
