"""A model that reads fewer words, clicks and skips than its folder holds: training, bundle, explanations, errors."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

from drpn.bundle.recommender import Recommender
from drpn.bundle.stories import NewStory
from drpn.dataset.folder import Dataset
from drpn.errors import FolderError
from drpn.logs.simulate import SimulationSettings, simulate
from drpn.models.catalogue import CATALOGUE
from drpn.preparation.settings import DataSettings
from drpn.recipes.evaluate import evaluate
from drpn.recipes.explain import explain
from drpn.recipes.needs import missing_requirements, other_neighbours, outdated_parts, prepare_hint
from drpn.recipes.prepare import prepare
from drpn.recipes.runs import Run
from drpn.recipes.train import train
from drpn.training.settings import TrainingSettings
from small_comparison import Notes
from small_training import refused, small, weights

FEW = DataSettings(vector_size=0, words=6, clicked=2, skipped=5)
LIMITS = {"max_words": 6, "max_clicked": 2, "max_skipped": 5}
TITLE = "Storm warning for the whole coast as ferries stop and schools close early on Monday"


class Runs(NamedTuple):
    """The same training with limits on a large folder, and on a small folder without limits."""

    limited: Run
    small: Run


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("newsroom") / "logs"
    simulate(folder, SimulationSettings(users=60, news=1_500))
    return folder


@pytest.fixture(scope="module")
def runs(logs: Path) -> Runs:
    prepare(logs, logs.parent / "many", DataSettings(vector_size=0))
    prepare(logs, logs.parent / "few", FEW)
    training = TrainingSettings(epochs=1, device="cpu")
    return Runs(
        train(logs.parent / "many", logs.parent / "a", settings=small("drpn", **LIMITS), training=training),
        train(logs.parent / "few", logs.parent / "b", settings=small("drpn"), training=training),
    )


@pytest.fixture(autouse=True)
def on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("bundle.recommender", "recipes.evaluate", "recipes.explain"):
        monkeypatch.setattr(f"drpn.{module}.pick_device", lambda: torch.device("cpu"))


def test_training_gives_the_same_weights(runs: Runs) -> None:
    assert weights(runs.limited.path) == weights(runs.small.path)


def test_evaluation_and_noise_are_the_same(runs: Runs) -> None:
    limited, expected = evaluate(runs.limited.path), evaluate(runs.small.path)
    assert limited.noise
    texts = [
        json.dumps(json.loads(json.dumps(one.as_dict()), object_hook=_without_distances)) for one in (limited, expected)
    ]
    assert texts[0] == texts[1]


def _without_distances(values: dict[str, Any]) -> dict[str, Any]:
    """Distances of stories read all words of a folder, whatever the model reads."""
    return {key: value for key, value in values.items() if not key.startswith("distance")}


def test_explanations_are_the_same(runs: Runs) -> None:
    dataset = runs.small.dataset()
    user = dataset.user_ids[int((runs.limited.dataset().clicked != 0).sum(1).argmax())]
    traced = explain(runs.limited.path, user)
    assert traced == explain(runs.small.path, user)
    assert len(traced.clicked) == 2


def test_rankings_are_the_same_and_whole_profiles_are_hidden(runs: Runs) -> None:
    limited, expected = (Recommender(run.bundle()) for run in runs)
    users = list(limited.bundle.data.user_ids)[1:]
    user = max(users, key=lambda name: len(limited.profile(name).clicked))
    profile = limited.profile(user)
    assert len(profile.clicked) > 2
    story, candidates = NewStory(TITLE, "weather"), limited.live[:40]
    for one in (limited, expected):
        assert one.model.limit(one.bundle.data).news_words.shape[1] == 6
    rows, same = (
        one.recommend(history=profile, candidates=candidates, new=[story], top=99).rows for one in (limited, expected)
    )
    assert rows == same
    unread = profile.clicked[0].news_id  # beyond the two newest, which the model reads
    limited.add([NewStory(TITLE, news_id=unread)])
    for somebody, shown in ((users[0] if users[0] != user else users[1], True), (user, False)):
        assert (unread in {row.news_id for row in limited.recommend(somebody, top=10_000).rows}) == shown


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_model_has_the_limits(name: str) -> None:
    settings = replace(CATALOGUE[name].settings, **LIMITS)
    assert (settings.max_words, settings.max_clicked, settings.max_skipped) == (6, 2, 5)
    for limit in LIMITS:
        assert getattr(CATALOGUE[name].settings, limit) is None
        with pytest.raises(ValueError, match=f"^{limit} is 0; it takes 1 or more$"):
            replace(CATALOGUE[name].settings, **{limit: 0})


@pytest.mark.parametrize(
    ("limits", "needed", "sets"),
    [
        ({"max_words": 30}, "30 words of a title (model.max_words)", "data.words=30"),
        (
            {"max_words": 30, "max_clicked": 50},
            "30 words of a title (model.max_words) and 50 clicked stories (model.max_clicked)",
            "data.words=30 and data.clicked=50",
        ),
    ],
)
def test_a_folder_that_holds_less_than_the_model_reads(
    runs: Runs, limits: dict[str, Any], needed: str, sets: str
) -> None:
    few = runs.small.dataset()
    settings = small("nrms", **limits)
    expected = f"nrms needs {needed}, which {few.path} lacks; prepare it again with {sets}"
    assert missing_requirements("nrms", settings, few) == expected
    with pytest.raises(FolderError) as refusal:
        train(few.path, few.path.parent / "c", model="nrms", settings=settings)
    assert str(refusal.value) == expected
    assert "--set data.words=30" in prepare_hint("nrms", settings, few)


def test_a_sequence_that_the_model_does_not_read_is_not_missed(runs: Runs) -> None:
    few: Dataset = runs.small.dataset()
    assert missing_requirements("nrms", small("nrms", max_skipped=60), few) is None
    assert missing_requirements("drpn", small("drpn", max_skipped=60), few) is not None
    assert missing_requirements("drpn", small("drpn", max_words=6, max_clicked=1, max_skipped=5), few) is None


def test_limits_on_the_command_line(drpn, runs: Runs) -> None:
    few = runs.small.dataset().path
    assert refused(drpn, "train", few, "--out", "run", "--set", "model.max_words=0").startswith(
        "model.max_words is 0; it takes 1 or more"
    )
    assert "prepare it again with data.clicked=50" in refused(
        drpn, "train", few, "--out", "run", "--set", "model.max_clicked=50"
    )


def test_a_model_reads_its_own_number_of_neighbours(logs: Path, tmp_path: Path) -> None:
    """A folder with 15 neighbours for GERL gives DRPN, which reads 5, the same weights as a folder with 5."""
    training = TrainingSettings(epochs=1, device="cpu")
    for count in (5, 15):
        prepare(logs, tmp_path / f"{count}", DataSettings(vector_size=0, neighbours=count, user_neighbours=count))
        for name in ("drpn", "gerl"):
            train(
                tmp_path / f"{count}", tmp_path / f"{name}{count}", model=name, settings=small(name), training=training
            )
    held = Dataset.open(tmp_path / "15").neighbours
    assert held.shape[1] == 15
    assert held[:, 5:].any()
    assert weights(tmp_path / "drpn5") == weights(tmp_path / "drpn15")
    assert weights(tmp_path / "gerl5") != weights(tmp_path / "gerl15")
    settings = small("gerl", max_neighbours=5)
    train(tmp_path / "15", tmp_path / "few", model="gerl", settings=settings, training=training)
    assert weights(tmp_path / "few") == weights(tmp_path / "gerl5")
    for name, folder, count in (("drpn", "15", 5), ("gerl", "5", 5), ("gerl", "15", 15)):
        read = Run.open(tmp_path / f"{name}{folder}").bundle().model.limit(Dataset.open(tmp_path / folder))
        assert read.neighbours.shape[1] == read.arrays.array("users/neighbours").shape[1] == count


def test_a_folder_with_fewer_neighbours_is_noted(logs: Path, tmp_path: Path) -> None:
    prepare(logs, tmp_path / "data", DataSettings(vector_size=0, user_neighbours=10))
    training, notes = TrainingSettings(epochs=1, device="cpu"), Notes()
    for name in ("gerl", "drpn"):
        train(tmp_path / "data", tmp_path / name, model=name, settings=small(name), training=training, progress=notes)
    assert [note for note in notes.messages if "neighbours" in note] == [
        f"gerl reads up to 15 neighbours, and {tmp_path / 'data'} holds fewer (the neighbours of users: 10, "
        "the neighbours of stories: 5); for as many, prepare it again with data.user_neighbours=15 and "
        "data.neighbours=15"
    ]


def test_a_folder_with_another_number_of_neighbours_than_drpn_reads_is_noted(logs: Path, tmp_path: Path) -> None:
    dataset = prepare(logs, tmp_path / "data", DataSettings(vector_size=0, neighbours=9))
    assert other_neighbours("drpn", small("drpn"), dataset) == (
        f"drpn reads 5 of the 9 neighbours that {dataset.path} holds (model.max_neighbours)"
    )
    assert other_neighbours("drpn", replace(small("drpn"), max_neighbours=15), dataset) == (
        f"drpn reads up to 15 neighbours, and {dataset.path} holds fewer (the neighbours of stories: 9); for as many, "
        "prepare it again with data.neighbours=15"
    )
    for settings in (replace(small("drpn"), max_neighbours=9), small("drpn-g"), small("drpn-g-ids")):
        assert other_neighbours("drpn", settings, dataset) is None


def test_a_folder_of_an_older_version_is_noted(logs: Path, tmp_path: Path) -> None:
    """It lacks the profiles at the end of the log, and the words that name entities."""
    dataset = prepare(logs, tmp_path / "data", DataSettings(vector_size=0))
    assert outdated_parts("dkn", dataset) == []
    old = {name: checksum for name, checksum in dataset.arrays.checksums.items() if not name.startswith("latest/")}
    older = replace(dataset, arrays=replace(dataset.arrays, checksums=old | {"news/entities.npy": ""}))
    assert outdated_parts("drpn", older) == [
        "recommendations will not know clicks after the profile window; "
        f"prepare the logs of {dataset.path} again to change that"
    ]
    assert len(outdated_parts("dkn", older)) == 2
