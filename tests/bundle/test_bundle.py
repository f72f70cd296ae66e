"""A bundle gives the same scores as the model it was written from, holds no pickles, and ranks stories."""

import dataclasses
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from batch_cases import leave_out_of_training
from drpn.batches.tables import Tables
from drpn.bundle.files import Bundle, data_shape, write_bundle
from drpn.bundle.recommender import Recommender
from drpn.bundle.stories import NewStory
from drpn.dataset.arrays import ArrayReader, sha256
from drpn.dataset.folder import Dataset
from drpn.errors import RunError
from drpn.evaluation.scoring import score_impressions
from drpn.layers.news import IdVectors
from drpn.models.base import ClickModel
from drpn.models.catalogue import CATALOGUE
from drpn.models.drpn_planted import DrpnPlantedSettings
from drpn.preparation.settings import DataSettings
from drpn.progress import Silent
from drpn.recipes.prepare import prepare
from drpn.recipes.runs import first_difference, former_settings, sections
from drpn.recipes.settings import training_defaults
from drpn.recipes.train import train
from drpn.state.profile import Profile
from drpn.training.settings import TrainingSettings
from drpn.versioned import read_versioned, write_versioned
from latest_profiles import latest_tables
from live_newsroom import make_bundle, make_model
from writing import MindLine, write_mind

CPU = torch.device("cpu")
CHANGELOG = Path(__file__).parents[2] / "CHANGELOG.md"
SMALL: dict[str, Any] = {"size": 12, "heads": 2, "hidden": 8, "graph_heads": 2}
FACTS: dict[str, Any] = {"metrics": {"validation_auc": 0.612}, "training": {"seed": 7}, "commit": "abc1234"}
WITHOUT_COUNTS = [name for name, entry in CATALOGUE.items() if not entry.settings.context]
"""Models whose scores depend on the folder alone, and not on counts as of an impression."""
WORDS = ["goal", "market", "storm", "coach", "bank", "snow", "league", "profit", "sunny", "tariff"]


@pytest.fixture(autouse=True)
def single_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def use_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("drpn.bundle.recommender.pick_device", lambda: CPU)


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three days with 22 stories and 9 users; the last user and the last two stories appear on the last day only."""
    random = np.random.default_rng(2)
    stories = [f"N{number}\ttopic{number % 3}\t\t{' '.join(random.choice(WORDS, 4))}" for number in range(1, 23)]
    lines = []
    for day in (9, 10, 11):
        for user in range(1, 10 if day == 11 else 9):
            shown = [f"N{number}" for number in random.choice(np.arange(1, 21), 5, replace=False)]
            shown += ["N21", "N22"] if day == 11 else []
            labels = " ".join(f"{story}-{int(position == 0)}" for position, story in enumerate(shown))
            lines.append(MindLine(str(len(lines)), f"U{user}", f"11/{day}/2019 {user}:00:00 AM", labels))
    return write_mind(tmp_path_factory.mktemp("bundle") / "logs", lines, stories)


@pytest.fixture(scope="module")
def dataset(logs: Path) -> Dataset:
    return prepare(logs, logs.parent / "data")


@pytest.fixture(scope="module")
def dataset_with_vectors(logs: Path) -> Dataset:
    """The same logs with word vectors of size 5; those of the models have size 12."""
    random = np.random.default_rng(4)
    file = logs.parent / "vectors.txt"
    file.write_text("".join(f"{word} {' '.join(f'{x:.3f}' for x in random.normal(size=5))}\n" for word in WORDS[:7]))
    return prepare(logs, logs.parent / "data-with-vectors", vectors=file)


def untrained(name: str, dataset: Dataset) -> tuple[ClickModel, Any]:
    defaults = CATALOGUE[name].settings
    known = {field.name for field in dataclasses.fields(defaults)}
    settings = dataclasses.replace(defaults, **{key: value for key, value in SMALL.items() if key in known})
    torch.manual_seed(3)
    model = CATALOGUE[name].model(settings, data_shape(dataset))
    with torch.no_grad():
        for (
            parameter
        ) in model.parameters():  # so that no parameter is zero, not even the learned vectors of empty sequences
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model, settings


def write(folder: Path, dataset: Dataset, name: str = "drpn") -> ClickModel:
    model, settings = untrained(name, dataset)
    write_bundle(folder, model, name=name, settings=settings, dataset=dataset, facts=FACTS)
    return model


def renew_checksum(file: Path) -> None:
    """Make a changed file of a bundle valid again."""
    manifest = json.loads((file.parent / "manifest.json").read_text())
    del manifest["checksum"]
    manifest["files"][file.name] = sha256(file)
    write_versioned(file.parent / "manifest.json", manifest)


def scores(model: ClickModel, source: Dataset, dataset: Dataset) -> list[float]:
    """Scores of the test impressions of `dataset`, with stories of `source` and its profiles at the end of the log."""
    return score_impressions(model, latest_tables(source), dataset.impressions("test"), Silent()).tolist()


@pytest.fixture
def bundle(dataset: Dataset, tmp_path: Path) -> Bundle:
    write(tmp_path / "bundle", dataset)
    return Bundle.open(tmp_path / "bundle")


@pytest.mark.parametrize("name", WITHOUT_COUNTS)
def test_an_opened_bundle_gives_the_same_scores(name: str, dataset: Dataset, tmp_path: Path) -> None:
    model = write(tmp_path / "bundle", dataset, name)
    torch.manual_seed(99)
    opened = Bundle.open(tmp_path / "bundle")
    assert opened.settings == untrained(name, dataset)[1]
    from_bundle = scores(opened.model, opened.data, dataset)
    assert from_bundle == scores(model, dataset, dataset)
    assert len(set(from_bundle)) > len(from_bundle) // 2  # not all the same number


@pytest.mark.parametrize("name", WITHOUT_COUNTS)
def test_a_bundle_holds_word_vectors_of_another_size(name: str, dataset_with_vectors: Dataset, tmp_path: Path) -> None:
    model = write(tmp_path / "bundle", dataset_with_vectors, name)
    opened = Bundle.open(tmp_path / "bundle")
    assert opened.manifest["word_vector_size"] == 5
    assert not (tmp_path / "bundle" / "words" / "vector.npy").exists()  # they are among the weights
    assert scores(opened.model, opened.data, dataset_with_vectors) == scores(
        model, dataset_with_vectors, dataset_with_vectors
    )


def test_a_bundle_from_before_labels_were_compared_ranks_as_before(dataset: Dataset, tmp_path: Path) -> None:
    model = make_model(dataset, "drpn-planted", compare_labels=False, weights="softmax")
    folder = make_bundle(tmp_path / "bundle", dataset, model, "drpn-planted")
    manifest = read_versioned(folder / "manifest.json", version=1, of="", error=RunError, remedy="")
    del manifest["settings"]["compare_labels"], manifest["settings"]["weights"]
    write_versioned(folder / "manifest.json", manifest)
    assert scores(Bundle.open(folder).model, dataset, dataset) == scores(model, dataset, dataset)


def test_a_run_from_before_labels_were_compared_is_resumed_with_its_settings() -> None:
    """The settings that the changelog names, and no others, are to be given."""
    older = {"planted_from": "skips", "planted_passes": 4}
    known = sections(DrpnPlantedSettings(), training_defaults("drpn-planted"))
    known["model"] |= {"id_spread": 0.3}
    known["training"] |= older
    del known["model"]["compare_labels"], known["model"]["weights"], known["training"]["planted_trains"]
    given = {"planted_trains": "vectors", **older}
    asked = sections(
        DrpnPlantedSettings(compare_labels=False, weights="softmax", id_spread=0.3),
        dataclasses.replace(training_defaults("drpn-planted"), **given),
    )
    former = former_settings(DrpnPlantedSettings)
    assert first_difference(known, asked, former) is None
    text = " ".join(CHANGELOG.read_text(encoding="utf-8").split())
    for section, name in (
        ("model", "id_spread"),
        ("model", "compare_labels"),
        ("model", "weights"),
        ("training", "planted_trains"),
        ("training", "planted_from"),
        ("training", "planted_passes"),
    ):
        different = {**asked, section: asked[section] | {name: "another"}}
        assert f"{section}.{name}" in str(first_difference(known, different, former))
        value = str(asked[section][name])
        assert f"`{section}.{name}={value.lower() if value == 'False' else value}`" in text


def test_a_bundle_can_be_moved(dataset: Dataset, tmp_path: Path) -> None:
    model = write(tmp_path / "first", dataset)
    (tmp_path / "first").rename(tmp_path / "moved")
    opened = Bundle.open(tmp_path / "moved")
    assert scores(opened.model, opened.data, dataset) == scores(model, dataset, dataset)
    assert str(dataset.path) not in (tmp_path / "moved" / "manifest.json").read_text()


def test_an_opened_model_is_in_evaluation_mode(bundle: Bundle) -> None:
    assert not bundle.model.training


def test_the_same_model_gives_the_same_bytes(dataset: Dataset, tmp_path: Path) -> None:
    write(tmp_path / "first", dataset)
    write(tmp_path / "second", dataset)
    files = sorted(path.relative_to(tmp_path / "first") for path in (tmp_path / "first").rglob("*.*"))
    assert len(files) > 10
    assert [(tmp_path / "first" / file).read_bytes() for file in files] == [
        (tmp_path / "second" / file).read_bytes() for file in files
    ]


def is_pickle(content: bytes) -> bool:
    """Whether a file is a pickle, which starts with 0x80 and its protocol, or a zip file, which torch.save writes."""
    return content[:2] in [bytes([0x80, protocol]) for protocol in range(2, 6)] or content[:2] == b"PK"


def test_nothing_in_a_run_or_bundle_is_a_pickle(dataset: Dataset, tmp_path: Path) -> None:
    settings = untrained("drpn", dataset)[1]
    train(
        dataset.path, tmp_path / "run", settings=settings, training=TrainingSettings(epochs=1, batch=16, device="cpu")
    )
    files = [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert {path.suffix for path in files if path.name != ".drpn"} == {
        ".safetensors", ".json", ".jsonl", ".npy", ".md", ".png"
    }  # fmt: skip
    for file in files:
        assert not is_pickle(file.read_bytes()), file
        if file.suffix == ".safetensors":
            assert load_file(file)
        if file.suffix == ".npy":
            np.load(file, allow_pickle=False)


def test_is_pickle_recognises_files_of_torch(tmp_path: Path) -> None:
    torch.save({"weight": torch.zeros(2)}, tmp_path / "model.pt")
    assert is_pickle((tmp_path / "model.pt").read_bytes())
    torch.save({"weight": torch.zeros(2)}, tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    assert is_pickle((tmp_path / "old.pt").read_bytes())


def test_the_model_card_lists_data_licence_settings_and_metrics(bundle: Bundle, dataset: Dataset) -> None:
    text = (bundle.path / "README.md").read_text()
    assert text.startswith("# drpn\n")
    assert f"{dataset.statistics['users']} users, {dataset.statistics['news']} stories" in text
    for source in dataset.manifest["sources"]:
        assert source["name"] in text
        assert source["sha256"][:16] in text
    assert (
        "A model trained on MIND or EB-NeRD falls under their research licences: it may not be used commercially."
    ) in text
    for name, value in dataclasses.asdict(bundle.settings).items():
        assert f"- {name} = {value}\n" in text
    assert "- validation_auc: 0.612\n" in text
    assert "commit abc1234, seed 7." in text


def test_the_manifest_lists_every_file(bundle: Bundle) -> None:
    listed = set(json.loads((bundle.path / "manifest.json").read_text())["files"])
    written = {path.relative_to(bundle.path).as_posix() for path in bundle.path.rglob("*.*") if path.is_file()}
    assert written - {"manifest.json", ".drpn"} == listed


def test_all_files_of_a_bundle_have_the_same_permissions(bundle: Bundle) -> None:
    modes = {path.name: path.stat().st_mode for path in bundle.path.rglob("*.*") if path.is_file()}
    assert modes["model.safetensors"] == modes["manifest.json"]


@pytest.fixture
def rank(bundle: Bundle) -> Callable[..., Any]:
    return Recommender(bundle).recommend


def clicked(dataset: Dataset, user: str) -> set[str]:
    """The stories that a user clicked, on any day."""
    row = list(dataset.user_ids).index(user)
    return {dataset.news_ids[int(story)] for story in dataset.arrays.array("latest/clicked")[row] if story}


def shown_on_the_last_day(dataset: Dataset) -> set[str]:
    return {
        dataset.news_ids[int(story)]
        for name in ("validation", "test")
        for story in dataset.impressions(name).candidates
    }


@pytest.mark.parametrize("user", ["U1", "U2", "U7"])
def test_a_known_user_gets_stories_they_have_not_clicked_best_first(rank, dataset: Dataset, user: str) -> None:
    ranking = rank(user, top=100)
    assert ranking.user_id == user
    assert ranking.known
    assert [row.rank for row in ranking.rows] == list(range(1, len(ranking.rows) + 1))
    ranked_scores = [row.score for row in ranking.rows]
    assert ranked_scores == sorted(ranked_scores, reverse=True)
    assert 2 <= len(clicked(dataset, user)) <= 3  # one a day
    ids = [row.news_id for row in ranking.rows]
    assert set(ids) == shown_on_the_last_day(dataset) - clicked(dataset, user)
    assert len(ids) == len(set(ids))
    titles = dict(zip(dataset.news_ids, dataset.titles, strict=True))
    assert all(row.title == titles[row.news_id] for row in ranking.rows)


def test_recommendations_have_the_scores_of_evaluation(rank, bundle: Bundle, dataset: Dataset) -> None:
    """Scores of one impression of the log, compared with those that evaluation computes."""
    shown = dataset.impressions("test")
    tables = Tables.from_dataset(dataset, CPU)  # evaluation has the profiles of the window
    by_evaluation = score_impressions(bundle.model, tables, shown, Silent()).tolist()
    row = int(shown.users[-2])
    sides = ([dataset.news_ids[story] for story in side[row].tolist() if story]
                        for side in (dataset.clicked, dataset.skipped))  # fmt: skip
    ranking = rank(dataset.user_ids[row], history=Profile(*sides), top=100)
    ranked = {row.news_id: row.score for row in ranking.rows}
    positions = range(int(shown.offsets[-3]), int(shown.offsets[-2]))
    story_ids = [dataset.news_ids[int(shown.candidates[position])] for position in positions]
    compared = [
        (ranked[story_id], by_evaluation[position])
        for story_id, position in zip(story_ids, positions, strict=True)
        if story_id in ranked
    ]
    assert len(compared) >= 2
    for score, expected in compared:
        assert score == pytest.approx(expected, abs=1e-5)


def test_an_unknown_user_gets_the_ranking_of_an_empty_profile(rank, dataset: Dataset) -> None:
    unknown, empty = rank("nobody", top=100), rank("U1", history=Profile(), top=100)
    assert (unknown.known, empty.known) == (False, False)
    assert unknown.rows == empty.rows
    assert {row.news_id for row in unknown.rows} == shown_on_the_last_day(dataset)
    assert rank("U1", top=100).rows != unknown.rows


def test_new_stories_are_ranked_among_the_others(rank) -> None:
    first, second = NewStory("storm over the bank", "topic1"), NewStory("profit of the league")
    plain = rank("U1", top=100)
    ranking = rank("U1", top=100, new=[first, second])
    new = {row.title: row.score for row in ranking.rows if row.news_id == "new"}
    assert set(new) == {first.title, second.title}
    assert len(set(new.values())) == 2
    assert [row.score for row in ranking.rows] == sorted((row.score for row in ranking.rows), reverse=True)
    # the others keep their scores
    old = {row.news_id: row.score for row in ranking.rows if row.news_id != "new"}
    assert old == pytest.approx({row.news_id: row.score for row in plain.rows}, abs=1e-6)


@pytest.mark.parametrize("name", ["drpn", "libfm", "nrms", "gerl"])
def test_a_bundle_without_the_stories_that_training_met_trusts_those_that_were_shown(
    name: str, dataset: Dataset, tmp_path: Path
) -> None:
    """Older versions did not write which stories training met."""
    write(tmp_path / "bundle", dataset, name)
    file = tmp_path / "bundle" / "model.safetensors"
    save_file({key: value for key, value in load_file(file).items() if not key.endswith("met")}, file)
    renew_checksum(file)
    model = Bundle.open(tmp_path / "bundle").model
    shown = torch.from_numpy(dataset.arrays.array("news/times_shown") > 0)
    for key, module in model.named_modules():
        if isinstance(module, IdVectors):
            assert torch.equal(module.met, torch.ones_like(module.met) if "users" in key else shown)


@pytest.mark.parametrize("category_words", [True, False])
def test_a_new_story_gets_the_score_of_the_same_story_of_the_log(
    logs: Path, tmp_path: Path, category_words: bool
) -> None:
    """A story that training did not meet has no id and no neighbours, so it must score the same as a new story."""
    dataset = prepare(logs, tmp_path / "data", DataSettings(category_words=category_words))
    row = list(dataset.news_ids).index("N22")
    model, settings = untrained("drpn", dataset)
    leave_out_of_training(model, [row])
    write_bundle(tmp_path / "bundle", model, name="drpn", settings=settings, dataset=dataset, facts=FACTS)
    same = NewStory(dataset.titles[row], dataset.category(row))
    ranking = Recommender(Bundle.open(tmp_path / "bundle")).recommend("U1", top=100, new=[same])
    by_id = {row.news_id: row.score for row in ranking.rows}
    assert by_id["new"] == pytest.approx(by_id["N22"], abs=1e-6)


def test_without_recent_stories_the_ranking_is_empty(bundle: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    array = ArrayReader.array

    def nothing_recent(reader: ArrayReader, name: str) -> Any:
        return np.zeros_like(array(reader, name)) if name == "news/recent" else array(reader, name)

    monkeypatch.setattr(ArrayReader, "array", nothing_recent)
    assert Recommender(bundle).recommend("U1").rows == ()
    (only,) = Recommender(bundle).recommend("U1", new=[NewStory("storm")]).rows
    assert (only.rank, only.news_id, only.title) == (1, "new", "storm")


def test_a_new_title_without_known_words_has_a_score(rank) -> None:
    ranking = rank("U1", top=100, new=[NewStory("xyzzy"), NewStory("")])
    assert all(np.isfinite(row.score) for row in ranking.rows)
    assert sum(row.news_id == "new" for row in ranking.rows) == 2


def test_ties_keep_the_order_of_the_input(rank) -> None:
    same = [NewStory("market storm"), NewStory("market storm"), NewStory("Market Storm")]
    rankings = [rank("U1", top=100, new=same) for _ in range(3)]
    assert rankings[0] == rankings[1] == rankings[2]
    titles = [row.title for row in rankings[0].rows if row.news_id == "new"]
    assert titles == ["market storm", "market storm", "Market Storm"]


@pytest.mark.parametrize("top", [0, 1, 3, 100])
def test_top_limits_the_ranking(rank, top: int) -> None:
    ranking = rank("U1", top=1000)
    assert rank("U1", top=top).rows == ranking.rows[:top]
