"""Models that need more than the paper's features: trained, shipped, and refused where a folder lacks it."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from drpn.batches.samples import Clicks, Sampler
from drpn.batches.tables import Tables
from drpn.bundle.files import Bundle, data_shape, write_bundle
from drpn.bundle.recommender import Recommender
from drpn.bundle.stories import NewStory
from drpn.dataset.folder import Dataset
from drpn.dataset.requirements import REQUIREMENTS
from drpn.errors import FolderError, RunError
from drpn.evaluation.scoring import score_impressions
from drpn.models.catalogue import CATALOGUE
from drpn.prepare.settings import DataSettings
from drpn.progress import Silent
from drpn.recipes.needs import missing_requirements, requirements_of
from drpn.recipes.prepare import prepare
from drpn.recipes.train import train
from drpn.training.loss import click_loss
from drpn.training.settings import TrainingSettings
from drpn.training.steps import Samples, Stepper
from drpn.versioned import read_versioned, write_versioned
from reads_everything import NAME, Everything, EverythingSettings, enter, stirred
from writing import MindLine, write_mind

CPU = torch.device("cpu")
MORE = DataSettings(abstracts=4, entities=2, user_neighbours=3, vector_size=5)
TRAINING = TrainingSettings(epochs=1, batch=4, device="cpu")


@pytest.fixture(autouse=True)
def in_the_catalogue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("drpn.bundle.recommender.pick_device", lambda: CPU)
    enter(monkeypatch)


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three days of 20 stories and 12 readers, of whom the last four are not there on the day that trains.

    The last day shows the first 12 stories alone, so that others are there only as their neighbours.
    """
    random = np.random.default_rng(8)
    stories = [
        f"N{row}\ttopic\t\tword{row % 7} word{row % 5}\tfirst{row % 3} more{row % 4}\t\t"
        + json.dumps([{"WikidataId": f"Q{row % 6}"}, {"WikidataId": f"Q{row % 4}"}])
        for row in range(1, 21)
    ]
    lines = []
    for day in (9, 10, 11):
        for user in range(1, 13 if day != 10 else 9):
            shown = random.choice(np.arange(1, 13 if day == 11 else 21), 5, replace=False)
            labels = " ".join(f"N{news}-{int(place < 2)}" for place, news in enumerate(shown))
            lines.append(MindLine(str(len(lines)), f"U{user:02}", f"11/{day}/2019 {user % 11 + 1}:00:00 AM", labels))
    folder = tmp_path_factory.mktemp("more") / "logs"
    write_mind(folder, lines, stories)
    vectors = [f"Q{row}\t" + "\t".join(f"{x:.3f}" for x in random.normal(size=3)) for row in range(5)]
    (folder / "entity_embedding.vec").write_text("\n".join(vectors) + "\n")
    return folder


@pytest.fixture(scope="module")
def dataset(logs: Path) -> Dataset:
    return prepare(logs, logs.parent / "data", MORE)


@pytest.fixture(scope="module")
def plain(logs: Path) -> Dataset:
    return prepare(logs, logs.parent / "plain", DataSettings(clicked=7, history=True), skip_unknown_news=True)


def scores(model: Any, known: Dataset, impressions: Dataset) -> list[float]:
    return score_impressions(model, Tables.from_dataset(known, CPU), impressions.impressions("test"), Silent()).tolist()


@pytest.fixture
def bundle(dataset: Dataset, tmp_path: Path) -> Bundle:
    model = stirred(data_shape(dataset))
    write_bundle(tmp_path / "bundle", model, name=NAME, settings=model.settings, dataset=dataset, facts={})
    return Bundle.open(tmp_path / "bundle")


def test_a_bundle_gives_back_the_same_scores(bundle: Bundle, dataset: Dataset) -> None:
    model = stirred(data_shape(dataset))
    found = scores(bundle.model, bundle.data, dataset)
    assert found == scores(model, dataset, dataset)
    assert len(set(found)) > len(found) // 2
    assert (bundle.manifest["word_vector_size"], bundle.manifest["entity_vector_size"]) == (5, 3)
    assert not (bundle.path / "entities" / "vector.npy").exists()  # among the weights
    assert not (bundle.path / "news" / "abstract.utf8.npy").exists()


def test_a_bundle_knows_whom_training_knew(bundle: Bundle, dataset: Dataset) -> None:
    expected = [f"U{user:02}" for user in range(1, 9)]  # all clicked and skipped on the second day
    for data in (dataset, bundle.data):
        assert [data.user_ids[row] for row in np.flatnonzero(data.trained_users)] == expected
    assert "train/user" not in bundle.data.arrays
    everybody = torch.arange(len(dataset.user_ids))
    one, other = (
        Tables.from_dataset(data, CPU).batch(everybody, everybody[:, None].int()) for data in (dataset, bundle.data)
    )
    for field in dataclasses.fields(one.profiles):
        assert torch.equal(getattr(one.profiles, field.name), getattr(other.profiles, field.name)), field.name
    assert one.profiles.users.tolist() == [*range(9), 0, 0, 0, 0]


def test_a_bundle_from_before_takes_every_user_as_known(bundle: Bundle, dataset: Dataset) -> None:
    manifest = read_versioned(bundle.path / "manifest.json", version=1, of="", error=RunError, remedy="")
    del manifest["files"]["users/trained.npy"], manifest["entity_vector_size"]
    write_versioned(bundle.path / "manifest.json", manifest)
    with pytest.raises(RunError):  # this model's vectors were of another size
        Bundle.open(bundle.path)
    data = Dataset(bundle.path, {}, dataclasses.replace(bundle.data.arrays, checksums=manifest["files"]))
    assert data.trained_users.tolist() == [False] + [True] * (len(dataset.user_ids) - 1)


def test_a_bundle_holds_what_its_model_needs(bundle: Bundle, dataset: Dataset, tmp_path: Path) -> None:
    assert all(requirement.array in bundle.data.arrays for requirement in REQUIREMENTS.values())
    modest = Everything(EverythingSettings(needs="abstracts"), data_shape(dataset))
    write_bundle(tmp_path / "modest", modest, name="drpn", settings=modest.settings, dataset=dataset, facts={})
    files = {path.relative_to(tmp_path / "modest").as_posix() for path in (tmp_path / "modest").rglob("*.npy")}
    assert "news/abstract_words.npy" in files
    assert "news/neighbours.npy" in files
    assert not files & {"news/entities.npy", "entities/id.utf8.npy", "users/neighbours.npy"}


@pytest.mark.parametrize("new", [(), (NewStory("word1"), NewStory("word2"))], ids=["old", "old and new"])
def test_ranking_reads_all_of_it(bundle: Bundle, dataset: Dataset, new: tuple[NewStory, ...]) -> None:
    """The scores of every impression by the way that evaluation goes; new titles change none of them."""
    test, compared = dataset.impressions("test"), 0
    by_evaluation = scores(bundle.model, dataset, dataset)
    for row, user in enumerate(test.users):
        found = Recommender(bundle).recommend(dataset.user_ids[int(user)], top=100, new=new).rows
        ranked = {one.news_id: one.score for one in found}
        for place in range(int(test.offsets[row]), int(test.offsets[row + 1])):
            name = dataset.news_ids[int(test.candidates[place])]
            if name in ranked:  # what the user knows already is not ranked
                assert ranked[name] == pytest.approx(by_evaluation[place], rel=1e-4, abs=1e-4)
                compared += 1
    assert compared > 20


def test_training_reads_all_of_it(dataset: Dataset, tmp_path: Path) -> None:
    run = train(dataset.path, tmp_path / "run", model=NAME, settings=EverythingSettings(), training=TRAINING)
    model = run.bundle().model
    assert isinstance(model, Everything)
    torch.manual_seed(TRAINING.seed)
    before = Everything(EverythingSettings(), data_shape(dataset))
    moved = (model.users.ids.table.weight != before.users.ids.table.weight).any(1)
    neighbours = np.asarray(dataset.arrays.array("users/neighbours"))[dataset.trained_users]
    assert set(moved.nonzero().flatten().tolist()) == (set(range(1, 9)) | set(neighbours.flatten().tolist())) - {0}
    assert (model.entities.table.weight != before.entities.table.weight).any()


def test_a_step_finds_the_neighbours_of_candidates(dataset: Dataset) -> None:
    tables = Tables.from_dataset(dataset, CPU, needs=tuple(REQUIREMENTS))
    model, clicks = stirred(data_shape(dataset)), Clicks.from_impressions(dataset.impressions("train"), CPU)
    step = Stepper(model, tables, torch.optim.SGD(model.parameters(), lr=0.0), TRAINING)
    plan = Sampler(clicks, tables, batch_size=1, negatives=2, seed=0).plan(0)
    for part in plan.batches(1):
        batch = tables.batch(*part).of_all_stories()
        expected = click_loss(model.score(model.encode_news(tables.news), batch), batch.candidate_mask)
        torch.testing.assert_close(step(Samples(*part)), expected.detach(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("needs", "words", "sets"),
    [
        ("user_neighbours news_neighbours", "the neighbours of users", "--set data.user_neighbours=10"),
        ("entities", "the entities of titles", "--set data.entities=5"),
        ("abstracts", "the words of abstracts", "--set data.abstracts=40"),
        (
            "entities user_neighbours",
            "the entities of titles and the neighbours of users",
            "--set data.entities=5 --set data.user_neighbours=10",
        ),
    ],
)
def test_a_folder_that_lacks_what_a_model_needs(
    plain: Dataset, tmp_path: Path, needs: str, words: str, sets: str
) -> None:
    settings = EverythingSettings(needs=needs)
    with pytest.raises(FolderError) as raised:
        train(plain.path, tmp_path / "run", model=NAME, settings=settings, training=TRAINING)
    assert str(raised.value) == (
        f"everything needs {words}, which {plain.path} lacks; prepare it again with "
        + sets.removeprefix("--set ").replace(" --set ", " and ")
    )
    assert raised.value.hint == (
        f"run: drpn prepare LOGS --out {plain.path} --force --skip-unknown-news --set data.clicked=7 "
        f"--set data.history=true {sets}"
    )
    assert not (tmp_path / "run").exists()


def test_the_command_that_the_line_names_helps(logs: Path, drpn, tmp_path: Path) -> None:
    prepare(logs, tmp_path / "data", DataSettings(words=9))
    sets = [f"--set=training.{one}" for one in ("epochs=1", "device=cpu")]
    refused = drpn("train", "data", "--out", "run", "--model", NAME, "--set=model.needs=user_neighbours", *sets)
    assert refused.returncode == 2
    line = (
        "drpn: everything needs the neighbours of users, which data lacks; "
        "prepare it again with data.user_neighbours=10; run: "
    )
    command = "drpn prepare LOGS --out data --force --set data.words=9 --set data.user_neighbours=10"
    assert refused.stderr == f"{line}{command}\n"
    again = drpn(*command.replace("LOGS", str(logs)).split()[1:])
    assert again.returncode == 0, again.stderr
    done = drpn("train", "data", "--out", "run", "--model", NAME, "--set=model.needs=user_neighbours", *sets)
    assert done.returncode == 0, done.stderr
    assert Dataset.open(tmp_path / "data").news_words.shape[1] == 9


@pytest.mark.parametrize("name", CATALOGUE)
def test_what_the_models_of_the_catalogue_need_is_known(name: str, dataset: Dataset) -> None:
    settings = CATALOGUE[name].settings
    assert set(requirements_of(name, settings)) <= set(REQUIREMENTS)
    assert missing_requirements(name, settings, dataset) is None
