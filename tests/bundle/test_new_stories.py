"""New stories, with category and subcategory, get the same features as stories of the log."""

import json
from pathlib import Path

import pytest
import torch

from drpn.batches.tables import news_rows
from drpn.bundle.files import Bundle, data_shape, write_bundle
from drpn.bundle.recommender import Recommender
from drpn.bundle.stories import NewStory, StoryReader, new_stories
from drpn.dataset.folder import Dataset
from drpn.errors import SettingsError
from drpn.models.drpn import Drpn, DrpnSettings
from drpn.preparation.settings import DataSettings
from drpn.recipes.prepare import prepare
from writing import MindLine, write_mind

STORIES = [
    "N1\tsports\tgolf\tA long putt, and a short one!",
    "N2\tSports\tgolf open\tTitle holder out",
    "N3\t weather \t\tRain",
    "N4\tmoney\tmarkets\t" + " ".join(f"word{number}" for number in range(20)),
    "N5\tmoney\tsports\tgolf",
    "N6\t\t\tNo label at all",
]


@pytest.fixture(autouse=True)
def use_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("drpn.bundle.recommender.pick_device", lambda: torch.device("cpu"))


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    lines = [
        MindLine(str(10 * day + user), f"U{user}", f"11/{day}/2019 {user}:00:00 AM", "N1-1 N2-0 N3-0 N4-0 N5-1 N6-0")
        for day in (9, 10, 11)
        for user in (1, 2)
    ]
    return write_mind(tmp_path_factory.mktemp("titles") / "logs", lines, STORIES)


def recommender(dataset: Dataset, folder: Path) -> Recommender:
    settings = DrpnSettings(size=12, heads=2, hidden=8)
    model = Drpn(settings, data_shape(dataset))
    write_bundle(folder, model, name="drpn", settings=settings, dataset=dataset, facts={})
    return Recommender(Bundle.open(folder))


def story_reader(recommender: Recommender) -> StoryReader:
    data = recommender.bundle.data
    return StoryReader(data, news_rows(data, ()), recommender.bundle.manifest["data"]["settings"]["category_words"])


@pytest.mark.parametrize("category_words", [True, False])
def test_a_new_story_gets_the_features_of_the_same_story_of_the_log(
    logs: Path, tmp_path: Path, category_words: bool
) -> None:
    dataset = prepare(logs, tmp_path / "data", DataSettings(category_words=category_words))
    rows = range(1, len(STORIES) + 1)
    stories = [NewStory(dataset.titles[row], dataset.category(row), dataset.subcategory(row)) for row in rows]
    features = story_reader(recommender(dataset, tmp_path / "bundle")).rows(stories)
    assert features.words.tolist() == dataset.news_words[1:].tolist()
    assert features.category.tolist() == dataset.arrays.array("news/category")[1:].tolist()
    assert features.subcategory.tolist() == dataset.arrays.array("news/subcategory")[1:].tolist()
    # new stories have no row and no neighbours
    assert features.rows.tolist() == [0] * len(STORIES)
    assert not features.neighbours.any()


@pytest.fixture
def known(logs: Path, tmp_path: Path) -> Recommender:
    return recommender(prepare(logs, tmp_path / "data"), tmp_path / "bundle")


def test_category_and_subcategory_are_the_first_two_words(known: Recommender) -> None:
    (title,) = story_reader(known).rows([NewStory("Rain", "Sports", "golf open")]).words.tolist()
    words = known.bundle.data.vocabulary.words
    assert [words[row] for row in title if row] == ["sports", "golf open", "rain"]


def test_spaces_around_labels_are_ignored(known: Recommender) -> None:
    plain, spaced = NewStory("Rain", "sports", "golf"), NewStory("Rain", " sports", "golf ")
    features = story_reader(known).rows([plain, spaced])
    assert features.words[0].tolist() == features.words[1].tolist()
    assert features.category.tolist() == [features.category[0]] * 2
    assert features.category[0] > 0
    assert features.subcategory[0] == features.subcategory[1] > 0
    assert known.recommend("U1", new=[plain, spaced]).notes == ()


def test_an_unknown_label_is_ignored_with_a_note(known: Recommender) -> None:
    unknown, unlabelled = NewStory("Rain", "sport", "xyzzy"), NewStory("Rain")
    features = story_reader(known).rows([unknown, unlabelled])
    assert features.words[0].tolist() == features.words[1].tolist()
    assert features.category.tolist() == features.subcategory.tolist() == [0, 0]
    ranking = known.recommend("U1", new=[unknown, unlabelled, unknown])
    assert ranking.notes == (
        "no story of the log has the category 'sport'; the title is ranked without it; did you mean 'sports'?",
        "no story of the log has the subcategory 'xyzzy'; the title is ranked without it",
    )


def test_labels_are_matched_to_titles_by_position() -> None:
    assert new_stories(["a", "b"], ["sports", "money"], ["", "markets"]) == [
        NewStory("a", "sports"),
        NewStory("b", "money", "markets"),
    ]
    assert new_stories(["a", "b"], subcategories=["x", "y"]) == [NewStory("a", "", "x"), NewStory("b", "", "y")]
    assert new_stories(["a", "b"]) == [NewStory("a"), NewStory("b")]
    assert new_stories([]) == []


@pytest.mark.parametrize(
    ("titles", "categories", "subcategories", "message"),
    [
        (["a", "b"], ["sports"], [], "the number of category labels is 1, of titles 2; "),
        (["a"], ["sports"], ["golf", "tennis"], "the number of subcategory labels is 2, of titles 1; "),
        ([], ["sports"], [], "the number of category labels is 1, of titles 0; "),
    ],
)
def test_a_wrong_number_of_labels_is_refused(
    titles: list[str], categories: list[str], subcategories: list[str], message: str
) -> None:
    with pytest.raises(SettingsError) as raised:
        new_stories(titles, categories, subcategories)
    assert str(raised.value) == (
        f"{message}give one label for each title, in the same order ('' for none), or none at all"
    )


def test_recommend_accepts_category_and_subcategory(drpn, logs: Path) -> None:
    assert drpn("prepare", logs, "--out", "data").returncode == 0
    sets = [
        f"--set={setting}" for setting in ("model.size=12", "model.heads=2", "training.epochs=1", "training.device=cpu")
    ]
    assert drpn("train", "data", "--out", "run", *sets).returncode == 0

    def recommend(*labels: str) -> tuple[float, str]:
        done = drpn("recommend", "run", "--user", "U1", "--title", "Rain", *labels, "--json")
        assert done.returncode == 0, done.stderr
        return next(row["score"] for row in json.loads(done.stdout)["rows"] if row["news_id"] == "new"), done.stderr

    plain, no_note = recommend()
    labelled, _ = recommend("--category", "money", "--subcategory", "markets")
    unknown, note = recommend("--category", "moneys")
    assert labelled != plain
    assert unknown == plain
    assert no_note == ""
    assert note == (
        "drpn: no story of the log has the category 'moneys'; the title is ranked without it; did you mean 'money'?\n"
    )
    done = drpn("recommend", "run", "--user", "U1", "--category", "money")
    assert done.returncode == 2
    assert done.stderr.startswith("drpn: the number of category labels is 1, of titles 0; ")
    assert done.stderr.endswith("; repeat --category once for each --title\n")
