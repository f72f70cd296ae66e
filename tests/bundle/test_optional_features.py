"""Models that need optional data: training, bundles, and the error if a dataset folder lacks the data."""

import dataclasses
import json
from dataclasses import replace
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
from drpn.dataset.mentions import Mention
from drpn.dataset.requirements import REQUIREMENTS
from drpn.errors import FolderError, RunError
from drpn.evaluation.scoring import score_impressions
from drpn.models.baselines.dkn import Dkn, DknSettings
from drpn.models.catalogue import CATALOGUE
from drpn.preparation.settings import DataSettings
from drpn.progress import Silent
from drpn.recipes.needs import missing_requirements, requirements_of
from drpn.recipes.prepare import prepare
from drpn.recipes.train import train
from drpn.training.batch_loss import Samples
from drpn.training.loss import click_loss
from drpn.training.settings import TrainingSettings
from drpn.training.steps import Stepper
from drpn.versioned import read_versioned, write_versioned
from latest_profiles import latest_tables
from reads_everything import NAME, Everything, EverythingSettings, enter, stirred
from writing import MindLine, write_mind

CPU = torch.device("cpu")
OPTIONAL = DataSettings(abstracts=4, entities=2, user_neighbours=3, vector_size=5)
TRAINING = TrainingSettings(epochs=1, batch=4, device="cpu")


@pytest.fixture(autouse=True)
def register_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("drpn.bundle.recommender.pick_device", lambda: CPU)
    enter(monkeypatch)


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three days with 20 stories and 12 users; the last four users have no impression on the training day.

    The last day shows only the first 12 stories, so the others are read only as neighbours.
    """
    random = np.random.default_rng(8)
    stories = [
        f"N{row}\ttopic\t\tword{row % 7} word{row % 5}\tfirst{row % 3} more{row % 4}\t\t"
        + json.dumps(
            [
                {"WikidataId": f"Q{row % 6}", "SurfaceForms": [f"word{row % 7}"], "OccurrenceOffsets": [0]},
                {"WikidataId": f"Q{row % 4}", "SurfaceForms": [f"Word{row % 5}"], "OccurrenceOffsets": [6]},
            ]
        )
        for row in range(1, 21)
    ]
    lines = []
    for day in (9, 10, 11):
        for user in range(1, 13 if day != 10 else 9):
            shown = random.choice(np.arange(1, 13 if day == 11 else 21), 5, replace=False)
            labels = " ".join(f"N{number}-{int(position < 2)}" for position, number in enumerate(shown))
            lines.append(MindLine(str(len(lines)), f"U{user:02}", f"11/{day}/2019 {user % 11 + 1}:00:00 AM", labels))
    folder = tmp_path_factory.mktemp("optional") / "logs"
    write_mind(folder, lines, stories)
    vectors = [f"Q{row}\t" + "\t".join(f"{x:.3f}" for x in random.normal(size=3)) for row in range(5)]
    (folder / "entity_embedding.vec").write_text("\n".join(vectors) + "\n")
    (folder / "context_embedding.vec").write_text("Q1 1 2\nQ3 -1 2\n")
    return folder


@pytest.fixture(scope="module")
def dataset(logs: Path) -> Dataset:
    return prepare(logs, logs.parent / "data", OPTIONAL)


@pytest.fixture(scope="module")
def plain(logs: Path) -> Dataset:
    return prepare(logs, logs.parent / "plain", DataSettings(clicked=7, history=True), skip_unknown_news=True)


def scores(model: Any, tables: Dataset, dataset: Dataset) -> list[float]:
    """Scores of the test impressions of `dataset`, with stories and latest profiles from `tables`."""
    return score_impressions(model, latest_tables(tables), dataset.impressions("test"), Silent()).tolist()


@pytest.fixture
def bundle(dataset: Dataset, tmp_path: Path) -> Bundle:
    model = stirred(data_shape(dataset))
    write_bundle(tmp_path / "bundle", model, name=NAME, settings=model.settings, dataset=dataset, facts={})
    return Bundle.open(tmp_path / "bundle")


def test_an_opened_bundle_gives_the_same_scores(bundle: Bundle, dataset: Dataset) -> None:
    model = stirred(data_shape(dataset))
    from_bundle = scores(bundle.model, bundle.data, dataset)
    assert from_bundle == scores(model, dataset, dataset)
    assert len(set(from_bundle)) > len(from_bundle) // 2  # not all the same number
    assert [bundle.manifest[f"{kind}_vector_size"] for kind in ("word", "entity", "context")] == [5, 3, 2]
    for name in ("vector.npy", "context.npy"):
        assert not (bundle.path / "entities" / name).exists()  # they are among the weights
    assert not (bundle.path / "news" / "abstract.utf8.npy").exists()


def test_a_bundle_knows_the_users_of_training(bundle: Bundle, dataset: Dataset) -> None:
    expected = [f"U{user:02}" for user in range(1, 9)]  # those with a click and a skip on the second day
    for data in (dataset, bundle.data):
        assert [data.user_ids[row] for row in np.flatnonzero(data.trained_users)] == expected
    assert "train/user" not in bundle.data.arrays
    users = torch.arange(len(dataset.user_ids))
    of_dataset, of_bundle = (
        latest_tables(data).batch(users, users[:, None].int()).profiles for data in (dataset, bundle.data)
    )
    for field in dataclasses.fields(of_dataset):
        assert torch.equal(getattr(of_dataset, field.name), getattr(of_bundle, field.name)), field.name
    assert of_dataset.users.tolist() == [*range(9), 0, 0, 0, 0]


def test_in_a_bundle_of_an_older_version_every_user_is_known(bundle: Bundle, dataset: Dataset) -> None:
    manifest = read_versioned(bundle.path / "manifest.json", version=1, of="", error=RunError, remedy="")
    del manifest["files"]["users/trained.npy"], manifest["entity_vector_size"]
    write_versioned(bundle.path / "manifest.json", manifest)
    with pytest.raises(RunError):  # without its size, the table of entity vectors does not fit the weights
        Bundle.open(bundle.path)
    data = Dataset(bundle.path, {}, dataclasses.replace(bundle.data.arrays, checksums=manifest["files"]))
    assert data.trained_users.tolist() == [False] + [True] * (len(dataset.user_ids) - 1)


def test_a_bundle_holds_only_the_data_its_model_needs(bundle: Bundle, dataset: Dataset, tmp_path: Path) -> None:
    shipped = [requirement.array for need, requirement in REQUIREMENTS.items() if need not in ("contexts", "counts")]
    assert all(array in bundle.data.arrays for array in shipped)  # vectors of contexts are among the weights
    folder = tmp_path / "abstracts-only"
    model = Everything(EverythingSettings(needs="abstracts"), data_shape(dataset))
    write_bundle(folder, model, name="drpn", settings=model.settings, dataset=dataset, facts={})
    files = {path.relative_to(folder).as_posix() for path in folder.rglob("*.npy")}
    assert "news/abstract_words.npy" in files
    assert "news/neighbours.npy" in files
    assert not files & {"news/word_entities.npy", "entities/id.utf8.npy", "users/neighbours.npy"}


@pytest.mark.parametrize("new", [(), (NewStory("word1"), NewStory("word2"))], ids=["old", "old and new"])
def test_recommendations_have_the_scores_of_evaluation(
    bundle: Bundle, dataset: Dataset, new: tuple[NewStory, ...]
) -> None:
    """Scores of every test impression, compared with those of evaluation; new stories do not change them."""
    test, compared = dataset.impressions("test"), 0
    by_evaluation = scores(bundle.model, dataset, dataset)
    for row, user in enumerate(test.users):
        ranking = Recommender(bundle).recommend(dataset.user_ids[int(user)], top=100, new=new)
        ranked = {story.news_id: story.score for story in ranking.rows}
        for position in range(int(test.offsets[row]), int(test.offsets[row + 1])):
            story_id = dataset.news_ids[int(test.candidates[position])]
            if story_id in ranked:  # stories that the user clicked are not ranked
                assert ranked[story_id] == pytest.approx(by_evaluation[position], rel=1e-4, abs=1e-4)
                compared += 1
    assert compared > 20


def test_training_reads_the_optional_data(dataset: Dataset, tmp_path: Path) -> None:
    run = train(dataset.path, tmp_path / "run", model=NAME, settings=EverythingSettings(), training=TRAINING)
    model = run.bundle().model
    assert isinstance(model, Everything)
    torch.manual_seed(TRAINING.seed)
    before = Everything(EverythingSettings(), data_shape(dataset))
    moved = (model.users.ids.table.weight != before.users.ids.table.weight).any(1)
    neighbours = np.asarray(dataset.arrays.array("users/neighbours"))[dataset.trained_users]
    assert set(moved.nonzero().flatten().tolist()) == (set(range(1, 9)) | set(neighbours.flatten().tolist())) - {0}
    assert (model.entities.table.weight != before.entities.table.weight).any()


DKN = DknSettings(size=4, filters=3, attention=3, hidden=5)


def test_dkn_reads_the_entities_that_the_folder_has(dataset: Dataset, plain: Dataset, tmp_path: Path) -> None:
    """Entities and contexts learn, a bundle gives the scores of evaluation, and entities of new stories are read."""
    learning = replace(DKN, train_entities=True)
    run = train(dataset.path, tmp_path / "run", model="dkn", settings=learning, training=TRAINING)
    bundle = run.bundle()
    model = bundle.model
    assert isinstance(model, Dkn)
    assert model.content == "words + entities + contexts"
    torch.manual_seed(TRAINING.seed)
    before = Dkn(learning, data_shape(dataset)).state_dict()
    for name in ("entities", "contexts"):
        key = f"knowledge.{name}.vectors.table.weight"
        assert (model.state_dict()[key] != before[key]).any()
    assert scores(model, bundle.data, dataset) == scores(model, dataset, dataset)
    fixed = train(dataset.path, tmp_path / "fixed", model="dkn", settings=DKN, training=TRAINING).bundle().model
    for name, array in (("entities", "entities/vector"), ("contexts", "entities/context")):
        kept = fixed.state_dict()[f"knowledge.{name}.vectors.table"]
        assert kept.tolist() == dataset.arrays.array(array).tolist()
    recommender = Recommender(bundle)
    title = dataset.titles[1]
    named = [Mention("Q1", "word1", 0), ("Q1", "WORD1", 6)]
    stories = [
        NewStory(title, "topic", news_id="named", entities=named),
        NewStory(title, "topic", news_id="unnamed"),
    ]
    ranking = recommender.recommend("U01", candidates=["N1"], new=stories)
    ranked = {story.news_id: story.score for story in ranking.rows}
    assert ranked["named"] == pytest.approx(ranked["N1"])
    assert ranked["unnamed"] != pytest.approx(ranked["N1"], rel=1e-4)
    assert recommender.add(stories) == ()
    wrong = NewStory(title, news_id="wrong", entities=[Mention("Q99", "word1"), Mention("Q1", "Nowhere", 3)])
    assert recommender.add([wrong]) == (
        "no story of the log names the entity 'Q99'; the title is ranked without it",
        f"the title '{title}' does not have the name 'Nowhere' of the entity 'Q1'; the title is ranked without it",
    )
    words_only = train(plain.path, tmp_path / "plain", model="dkn", settings=DKN, training=TRAINING)
    assert words_only.bundle().model.content == "words"


def test_dkn_with_chosen_channels_needs_them(plain: Dataset, tmp_path: Path) -> None:
    for channels, what, sets, options in (
        ("entities", "the entities that words of titles name", "data.entities=5", ""),
        (
            "contexts",
            "the entities that words of titles name and context vectors of entities",
            "data.entities=5 and a file context_embedding.vec",
            "--contexts FILE ",
        ),
    ):
        settings = replace(DKN, channels=channels)
        with pytest.raises(FolderError) as raised:
            train(plain.path, tmp_path / "run", model="dkn", settings=settings, training=TRAINING)
        assert str(raised.value) == f"dkn needs {what}, which {plain.path} lacks; prepare it again with {sets}"
        assert raised.value.hint is not None
        assert raised.value.hint.endswith(
            f"--skip-unknown-news {options}--set data.clicked=7 --set data.history=true --set data.entities=5"
        )


def test_a_training_step_reads_the_neighbours_of_candidates(dataset: Dataset) -> None:
    tables = Tables.from_dataset(dataset, CPU, needs=tuple(REQUIREMENTS))
    model, clicks = stirred(data_shape(dataset)), Clicks.from_impressions(dataset.impressions("train"), CPU)
    step = Stepper(model, tables, TRAINING, optimiser=torch.optim.SGD(model.parameters(), lr=0.0))
    plan = Sampler(clicks, tables, batch_size=1, negatives=2, seed=0).plan(0)
    for part in plan.batches(1):
        batch = tables.batch(*part).of_all_stories()
        expected = click_loss(model.score(model.encode_news(tables.news), batch), batch.candidate_mask)
        torch.testing.assert_close(step(Samples(*part)), expected.detach(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("needs", "words", "sets"),
    [
        (
            "user_neighbours news_neighbours",
            "the neighbours of users",
            "--set data.user_neighbours=15 --set data.neighbours=15",
        ),
        ("entities", "the entities that words of titles name", "--set data.entities=5"),
        ("abstracts", "the words of abstracts", "--set data.abstracts=40"),
        (
            "entities user_neighbours",
            "the entities that words of titles name and the neighbours of users",
            "--set data.entities=5 --set data.user_neighbours=15",
        ),
    ],
)
def test_a_folder_without_the_needed_data_is_refused(
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


def test_the_command_of_the_hint_prepares_the_missing_data(logs: Path, drpn, tmp_path: Path) -> None:
    prepare(logs, tmp_path / "data", DataSettings(words=9))
    sets = [f"--set=training.{setting}" for setting in ("epochs=1", "device=cpu")]
    refused = drpn("train", "data", "--out", "run", "--model", NAME, "--set=model.needs=user_neighbours", *sets)
    assert refused.returncode == 2
    message = (
        "drpn: everything needs the neighbours of users, which data lacks; "
        "prepare it again with data.user_neighbours=15; run: "
    )
    command = "drpn prepare LOGS --out data --force --set data.words=9 --set data.user_neighbours=15"
    assert refused.stderr == f"{message}{command}\n"
    again = drpn(*command.replace("LOGS", str(logs)).split()[1:])
    assert again.returncode == 0, again.stderr
    done = drpn("train", "data", "--out", "run", "--model", NAME, "--set=model.needs=user_neighbours", *sets)
    assert done.returncode == 0, done.stderr
    assert Dataset.open(tmp_path / "data").news_words.shape[1] == 9


@pytest.mark.parametrize("name", CATALOGUE)
def test_the_needs_of_every_model_are_requirements(name: str, dataset: Dataset) -> None:
    settings = CATALOGUE[name].settings
    assert set(requirements_of(name, settings)) <= set(REQUIREMENTS)
    if not settings.context:  # the folder is not one of the live protocol
        assert missing_requirements(name, settings, dataset) is None
