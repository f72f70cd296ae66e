"""Stories that training never saw, with category and subcategory, are read as those of the log are."""

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
from drpn.prepare.settings import DataSettings
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
def on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
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


def reader_of(recommender: Recommender) -> StoryReader:
    data = recommender.bundle.data
    return StoryReader(data, news_rows(data, ()), recommender.bundle.manifest["data"]["settings"]["category_words"])


@pytest.mark.parametrize("category_words", [True, False])
def test_a_title_of_the_log_given_as_new_is_read_as_in_the_folder(
    logs: Path, tmp_path: Path, category_words: bool
) -> None:
    dataset = prepare(logs, tmp_path / "data", DataSettings(category_words=category_words))
    rows = range(1, len(STORIES) + 1)
    same = [NewStory(dataset.titles[row], dataset.category(row), dataset.subcategory(row)) for row in rows]
    found = reader_of(recommender(dataset, tmp_path / "bundle")).rows(same)
    assert found.words.tolist() == dataset.news_words[1:].tolist()
    assert found.category.tolist() == dataset.arrays.array("news/category")[1:].tolist()
    assert found.subcategory.tolist() == dataset.arrays.array("news/subcategory")[1:].tolist()
    # nothing else is known of it
    assert found.rows.tolist() == [0] * len(STORIES)
    assert not found.neighbours.any()
    assert not found.seen.any()


@pytest.fixture
def known(logs: Path, tmp_path: Path) -> Recommender:
    return recommender(prepare(logs, tmp_path / "data"), tmp_path / "bundle")


def test_category_and_subcategory_are_one_word_each_in_front(known: Recommender) -> None:
    (title,) = reader_of(known).rows([NewStory("Rain", "Sports", "golf open")]).words.tolist()
    words = known.bundle.data.vocabulary.words
    assert [words[row] for row in title if row] == ["sports", "golf open", "rain"]


def test_space_around_a_label_does_not_matter(known: Recommender) -> None:
    plain, spaced = NewStory("Rain", "sports", "golf"), NewStory("Rain", " sports", "golf ")
    found = reader_of(known).rows([plain, spaced])
    assert found.words[0].tolist() == found.words[1].tolist()
    assert found.category.tolist() == [found.category[0]] * 2
    assert found.category[0] > 0
    assert found.subcategory[0] == found.subcategory[1] > 0
    assert known.recommend("U1", new=[plain, spaced]).notes == ()


def test_a_label_that_the_log_does_not_have_is_left_out_and_named(known: Recommender) -> None:
    unknown, none = NewStory("Rain", "sport", "xyzzy"), NewStory("Rain")
    found = reader_of(known).rows([unknown, none])
    assert found.words[0].tolist() == found.words[1].tolist()
    assert found.category.tolist() == found.subcategory.tolist() == [0, 0]
    ranking = known.recommend("U1", new=[unknown, none, unknown])
    assert ranking.notes == (
        "no story of the log has the category 'sport'; the title is ranked without it; did you mean 'sports'?",
        "no story of the log has the subcategory 'xyzzy'; the title is ranked without it",
    )


def test_labels_go_to_titles_in_their_order() -> None:
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
def test_labels_that_do_not_fit_the_titles(
    titles: list[str], categories: list[str], subcategories: list[str], message: str
) -> None:
    with pytest.raises(SettingsError) as raised:
        new_stories(titles, categories, subcategories)
    assert str(raised.value) == (
        f"{message}give one label for each title, in the same order ('' for none), or none at all"
    )


def test_the_command_takes_category_and_subcategory(drpn, logs: Path) -> None:
    assert drpn("prepare", logs, "--out", "data").returncode == 0
    sets = [f"--set={one}" for one in ("model.size=12", "model.heads=2", "training.epochs=1", "training.device=cpu")]
    assert drpn("train", "data", "--out", "run", *sets).returncode == 0

    def recommend(*labels: str) -> tuple[float, str]:
        done = drpn("recommend", "run", "--user", "U1", "--title", "Rain", *labels, "--json")
        assert done.returncode == 0, done.stderr
        return next(row["score"] for row in json.loads(done.stdout)["rows"] if row["news_id"] == "new"), done.stderr

    plain, quiet = recommend()
    labelled, _ = recommend("--category", "money", "--subcategory", "markets")
    unknown, note = recommend("--category", "moneys")
    assert labelled != plain
    assert unknown == plain
    assert quiet == ""
    assert note == (
        "drpn: no story of the log has the category 'moneys'; the title is ranked without it; did you mean 'money'?\n"
    )
    done = drpn("recommend", "run", "--user", "U1", "--category", "money")
    assert done.returncode == 2
    assert done.stderr.startswith("drpn: the number of category labels is 1, of titles 0; ")
    assert done.stderr.endswith("; repeat --category once for each --title\n")
