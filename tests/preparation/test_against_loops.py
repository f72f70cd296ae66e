"""Compare a dataset folder with plain loops over the raw files."""

import json
import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from drpn.dataset.folder import SPLITS, Dataset, SplitName
from drpn.preparation.settings import DataSettings
from drpn.recipes.prepare import prepare
from reference import raw_logs
from reference.raw_logs import RawLog

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data"
SAMPLE = 300


@dataclass(frozen=True)
class Case:
    """A raw folder, its reader and the settings to prepare it with."""

    name: str
    read: Callable[[Path], RawLog]
    settings: DataSettings = field(default_factory=DataSettings)
    skip_unknown_news: bool = False
    written: bool = False

    def folder(self, temporary: Path) -> Path:
        """The raw folder: written to `temporary`, or real data."""
        if self.written:
            write = write_thirty_days if self.name.startswith("thirty-days") else write_two_parts
            return write(temporary / "logs")
        if not (DATA / self.name).is_dir():
            pytest.skip(f"{self.name} is not in shared/data next to the checkout")
        return DATA / self.name


WRITTEN = [
    Case("two-parts", raw_logs.read_mind, written=True),
    Case("history", raw_logs.read_mind, DataSettings(history=True), written=True),
    Case("consecutive", raw_logs.read_mind, DataSettings(graph="consecutive"), written=True),
    Case("history-consecutive", raw_logs.read_mind, DataSettings(history=True, graph="consecutive"), written=True),
    Case("more", raw_logs.read_mind, DataSettings(abstracts=5, entities=2, user_neighbours=4), written=True),
    Case("with-profile", raw_logs.read_mind, DataSettings(users="with-profile", user_neighbours=4), written=True),
    Case("history-with-profile", raw_logs.read_mind, DataSettings(history=True, users="with-profile"), written=True),
    Case("thirty-days", raw_logs.read_mind, written=True),
    Case("thirty-days-with-profile", raw_logs.read_mind, DataSettings(users="with-profile"), written=True),
    Case("few-words", raw_logs.read_mind, DataSettings(entities=5, words=6, category_words=True), written=True),
    Case("history-more", raw_logs.read_mind, DataSettings(history=True, user_neighbours=30), written=True),
]
REAL = [
    Case("mind-small-sample", raw_logs.read_mind, DataSettings(entities=5)),
    Case("ebnerd-demo-week1", raw_logs.read_ebnerd, skip_unknown_news=True),
    Case("ebnerd-demo-week1/", raw_logs.read_ebnerd, DataSettings(history=True), skip_unknown_news=True),
]


@dataclass(frozen=True)
class Pair:
    """A dataset folder and the raw log it was prepared from."""

    case: Case
    log: RawLog
    dataset: Dataset

    @cached_property
    def users(self) -> list[str]:
        """User ids by row."""
        return ["", *raw_logs.users(self.log)]

    @cached_property
    def news(self) -> list[str]:
        """News ids by row."""
        return ["", *(news.id for news in self.log.news)]

    @cached_property
    def feedback(self) -> raw_logs.Feedback:
        """The feedback of every user in the profile window."""
        return raw_logs.feedback(raw_logs.profile_events(self.log, history=self.case.settings.history))

    @cached_property
    def all_feedback(self) -> raw_logs.Feedback:
        """The feedback of every user in the whole log."""
        history = raw_logs.history_events(self.log) if self.case.settings.history else []
        return raw_logs.feedback(history + raw_logs.shown_events(self.log.impressions))

    @cached_property
    def graph(self) -> raw_logs.Graph:
        """The graph of stories."""
        consecutive = self.case.settings.graph == "consecutive"
        return raw_logs.consecutive_graph(self.feedback) if consecutive else raw_logs.co_click_graph(self.feedback)

    def sample(self, rows: list[int]) -> list[int]:
        """All rows of a written log, a random sample of those of a real one."""
        if self.case.written or len(rows) <= SAMPLE:
            return rows
        return random.Random(11).sample(rows, SAMPLE)

    def sample_users(self) -> list[int]:
        """Rows of users with and without a profile."""
        with_profile = [row for row, user in enumerate(self.users) if user in self.feedback]
        without = [row for row, user in enumerate(self.users) if row and user not in self.feedback]
        return self.sample(with_profile) + self.sample(without)

    def sample_news(self) -> list[int]:
        """Rows of stories with and without graph neighbours."""
        with_neighbours = [row for row, news in enumerate(self.news) if news in self.graph]
        without = [row for row, news in enumerate(self.news) if row and news not in self.graph]
        return self.sample(with_neighbours) + self.sample(without)


@pytest.fixture(
    scope="module",
    params=[
        *WRITTEN,
        *(pytest.param(case, marks=pytest.mark.data) for case in REAL[:-1]),
        pytest.param(REAL[-1], marks=[pytest.mark.data, pytest.mark.slow]),  # its plain loops take a minute
    ],
    ids=lambda case: case.name,
)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """Each raw folder, read with loops and prepared, once per module."""
    case: Case = request.param
    temporary = tmp_path_factory.mktemp(case.name)
    logs = case.folder(temporary)
    dataset = prepare(logs, temporary / "dataset", case.settings, skip_unknown_news=case.skip_unknown_news)
    log = case.read(logs)
    if case.settings.users == "with-profile":
        log = raw_logs.leave_out_users_without_profile(log, history=case.settings.history)
    return Pair(case, log, dataset)


def test_users_and_stories_are_sorted_by_id(pair: Pair) -> None:
    assert list(pair.dataset.user_ids) == pair.users
    assert list(pair.dataset.news_ids) == pair.news
    assert list(pair.dataset.titles) == ["", *(news.title for news in pair.log.news)]


def test_statistics_match(pair: Pair) -> None:
    settings = pair.case.settings
    expected = raw_logs.statistics(
        pair.log,
        history=settings.history,
        newest_clicked=settings.clicked,
        newest_skipped=settings.skipped,
    )
    expected["news_with_neighbours"] = len(pair.graph)
    assert {name: pair.dataset.statistics[name] for name in expected} == rounded(expected)


def test_left_out_impressions_are_counted(pair: Pair) -> None:
    counts = pair.dataset.statistics.get("impressions_left_out")
    if pair.case.settings.users == "all":
        assert counts is None
        return
    everyone = raw_logs.split(pair.log._replace(left_out=frozenset()))
    kept = raw_logs.split(pair.log)
    assert counts == {name: len(getattr(everyone, name)) - len(getattr(kept, name)) for name in SPLITS}
    assert sum(counts.values()) > 0 or pair.case.settings.history
    users = {user for name in SPLITS for user in pair.dataset.impressions(name).users}
    assert all(pair.dataset.clicked[user, 0] or pair.dataset.skipped[user, 0] for user in users)


def test_repeated_stories_and_conflicting_labels_are_counted(pair: Pair) -> None:
    """In the written log on many pages; in the real ones never."""
    names = ("repeated_stories", "conflicting_labels")
    counts = [pair.dataset.statistics[name] for name in names]
    assert counts == (list(pair.log.repeats) if pair.case.written else [0, 0])
    assert (counts[0] > 20 and counts[1] >= 5) or not pair.case.written


@pytest.mark.parametrize("split", SPLITS)
def test_impressions_match_the_log(pair: Pair, split: SplitName) -> None:
    expected = [
        (impression.id, impression.user, impression.time, impression.candidates, impression.clicked)
        for impression in getattr(raw_logs.split(pair.log), split)
    ]
    assert list(stored_impressions(pair, split)) == expected


@pytest.mark.parametrize("kind", ["clicked", "skipped"])
def test_profiles_contain_the_newest_feedback_oldest_first(pair: Pair, kind: str) -> None:
    array, newest = pair.dataset.arrays.array(f"users/{kind}"), getattr(pair.case.settings, kind)
    for row in pair.sample_users():
        events = raw_logs.sequence(pair.feedback.get(pair.users[row], {}), clicked=kind == "clicked")
        assert names(array[row].tolist(), pair.news) == padded([event.news for event in events[-newest:]], newest, "")


@pytest.mark.parametrize("kind", ["clicked", "skipped"])
def test_latest_profiles_are_those_of_all_impressions(pair: Pair, kind: str) -> None:
    array, newest = pair.dataset.arrays.array(f"latest/{kind}"), getattr(pair.case.settings, kind)
    for row in pair.sample(list(range(1, len(pair.users)))):
        events = raw_logs.sequence(pair.all_feedback.get(pair.users[row], {}), clicked=kind == "clicked")
        assert names(array[row].tolist(), pair.news) == padded([event.news for event in events[-newest:]], newest, "")


def test_all_clicks_of_each_user_are_kept(pair: Pair) -> None:
    offsets, news = (pair.dataset.arrays.array(f"latest/all_clicked{end}") for end in ("_offsets", ""))
    assert len(offsets) == len(pair.users) + 1
    for row in pair.sample(list(range(1, len(pair.users)))):
        events = raw_logs.sequence(pair.all_feedback.get(pair.users[row], {}), clicked=True)
        assert names(news[offsets[row] : offsets[row + 1]].tolist(), pair.news) == sorted(
            event.news for event in events
        )


def test_read_seconds_are_those_of_the_last_click(pair: Pair) -> None:
    name = "users/clicked_read_seconds"
    if pair.case.read is raw_logs.read_mind:
        assert name not in pair.dataset.arrays
        return
    array, newest = pair.dataset.arrays.array(name), pair.case.settings.clicked
    for row in pair.sample_users():
        events = raw_logs.sequence(pair.feedback.get(pair.users[row], {}), clicked=True)
        expected = padded([event.read_seconds for event in events[-newest:]], newest, None)
        assert [None if math.isnan(seconds) else seconds for seconds in array[row].tolist()] == expected


def test_neighbours_are_the_heaviest(pair: Pair) -> None:
    neighbours, count = pair.dataset.neighbours, pair.case.settings.neighbours
    for row in pair.sample_news():
        heaviest = [neighbour for neighbour, _ in raw_logs.heaviest(pair.graph, pair.news[row], count)]
        assert names(neighbours[row].tolist(), pair.news) == padded(heaviest, count, ""), pair.news[row]


def test_neighbour_users_share_the_most_clicked_stories(pair: Pair) -> None:
    count, name = pair.case.settings.user_neighbours, "users/neighbours"
    if not count:
        assert name not in pair.dataset.arrays
        return
    neighbours, graph = pair.dataset.arrays.array(name), raw_logs.user_graph(pair.feedback)
    assert neighbours.shape == (len(pair.users), count)
    for row, user in enumerate(pair.users):
        heaviest = [other for other, _ in raw_logs.heaviest(graph, user, count)]
        assert names(neighbours[row].tolist(), pair.users) == padded(heaviest, count, "")


def test_trained_users_have_a_click_and_a_skip_in_one_impression(pair: Pair) -> None:
    expected = raw_logs.trained_users(pair.log)
    trained = [user for user, is_trained in zip(pair.users, pair.dataset.trained_users, strict=True) if is_trained]
    assert trained == sorted(expected)
    train_users = {impression.user for impression in raw_logs.split(pair.log).train}
    assert len(expected) < len(train_users) or not pair.case.written, "some users must have no sample"


def test_vocabulary_is_sorted_by_frequency(pair: Pair) -> None:
    expected = raw_logs.vocabulary(pair.log.news, abstracts=pair.case.settings.abstracts)
    assert list(pair.dataset.arrays.strings("words/word"))[2:] == expected


def test_abstract_words_are_the_first_of_each_abstract(pair: Pair) -> None:
    count, name = pair.case.settings.abstracts, "news/abstract_words"
    if not count:
        assert name not in pair.dataset.arrays
        return
    array, words = pair.dataset.arrays.array(name), pair.dataset.vocabulary.words
    expected = [padded(raw_logs.abstract_words(news, count), count, "") for news in pair.log.news]
    assert [names(rows, words) for rows in array.tolist()] == [[""] * count, *expected]
    only_in_abstracts = len(words) - 2 - len(raw_logs.vocabulary(pair.log.news))
    assert pair.dataset.statistics["words_of_abstracts_alone"] == only_in_abstracts > 0


def test_words_name_the_entities_of_their_title(pair: Pair) -> None:
    settings, name = pair.case.settings, "news/word_entities"
    if not settings.entities:
        assert name not in pair.dataset.arrays
        return
    array, ids = pair.dataset.arrays.array(name), list(pair.dataset.arrays.strings("entities/id"))
    expected = raw_logs.word_entities(pair.log, words=settings.words, keep=settings.entities)
    assert [names(rows, ids) for rows in array.tolist()] == [[""] * settings.words, *expected.values()]
    assert set(ids) == {entity for words in expected.values() for entity in words} | {""}
    assert not array[pair.dataset.news_words == 0].any()
    statistics = pair.dataset.statistics
    assert statistics["entities"] == len(ids) - 1 > 5
    count = sum(len(raw_logs.named_words(news)) for news in pair.log.news)
    assert statistics["entity_mentions_found"] == count > 50
    if pair.case.written:
        assert count < statistics["entity_mentions"]
        assert any('"Q40"' in news.entities for news in pair.log.news)
        assert "Q40" not in ids  # only in titles shown after training


def test_story_words_are_the_first_of_category_and_title(pair: Pair) -> None:
    words, count = list(pair.dataset.arrays.strings("words/word")), pair.case.settings.words
    for row in pair.sample(list(range(1, len(pair.news)))):
        rows = pair.dataset.news_words[row].tolist()
        expected = raw_logs.all_words(pair.log.news[row - 1])[:count]
        assert names(rows[: len(expected)], words) == expected
        assert rows[len(expected) :] == [0] * (count - len(expected))


def test_times_shown_and_clicked_match(pair: Pair) -> None:
    expected = raw_logs.times_shown_and_clicked(pair.log)
    shown, clicked = pair.dataset.arrays.array("news/times_shown"), pair.dataset.arrays.array("news/times_clicked")
    for row in pair.sample_news():
        assert (shown[row], clicked[row]) == expected[pair.news[row]], pair.news[row]


def test_written_log_contains_the_hard_cases(tmp_path: Path) -> None:
    log = raw_logs.read_mind(write_two_parts(tmp_path))
    windows, events = raw_logs.split(log), raw_logs.profile_events(log, history=False)
    clicks = [(event.user, event.news) for event in events if event.clicked]
    skips = [(event.user, event.news) for event in events if not event.clicked]
    history = [(event.user, event.news) for event in raw_logs.history_events(log)]
    feedback = raw_logs.feedback(events).values()
    evaluated = windows.validation + windows.test
    page_views = [(impression.user, impression.time) for impression in windows.profile]
    first_part_users = {impression.user for impression in windows.profile + windows.train}

    assert repeats(clicks), "clicked again"
    assert repeats(skips), "skipped again"
    assert repeats(history), "twice in one history"
    assert set(clicks) & set(skips), "clicked and skipped"
    assert set(clicks) & set(history), "clicked in the history and in the window"
    assert repeats(page_views), "two page views of one user at the same time"
    assert {impression.user for impression in evaluated} - first_part_users, "users of the second part only"
    assert max(len(raw_logs.sequence(user_feedback, clicked=True)) for user_feedback in feedback) > 30
    assert max(len(raw_logs.sequence(user_feedback, clicked=False)) for user_feedback in feedback) > 60
    assert len(windows.validation) < len(evaluated) // 10, (
        "impressions of equal time at the border between validation and test"
    )


def stored_impressions(pair: Pair, split: SplitName) -> Iterator[tuple[str, str, datetime, list[str], list[bool]]]:
    """The impressions of a split, with ids in place of rows."""
    stored = pair.dataset.impressions(split)
    ids, users, offsets = list(stored.ids), names(stored.users.tolist(), pair.users), stored.offsets.tolist()
    times = stored.times.astype("datetime64[us]").tolist()
    candidates, clicked = names(stored.candidates.tolist(), pair.news), stored.clicked.tolist()
    for row, (id, user, time) in enumerate(zip(ids, users, times, strict=True)):
        start, end = offsets[row], offsets[row + 1]
        yield id, user, time, candidates[start:end], clicked[start:end]


def names(rows: list[int], texts: list[str]) -> list[str]:
    """The texts of the rows."""
    return [texts[row] for row in rows]


def padded(values: list[Any], length: int, padding: Any) -> list[Any]:
    """The values, padded to `length`."""
    return values + [padding] * (length - len(values))


def repeats(values: list[Any]) -> bool:
    """Whether a value occurs twice."""
    return len(set(values)) < len(values)


def rounded(value: Any) -> Any:
    """Numbers rounded as in the manifest."""
    if isinstance(value, dict):
        return {name: rounded(item) for name, item in value.items()}
    return round(value, 4) if isinstance(value, float) else value


WORDS = [
    *["Storm", "storm", "STORM", "rain", "Rain,", "vote", "Vote!", "won?", "a", "the", "The", "it's", "half-time"],
    *["Zürich", "ÆRØ", "3.5", "snake_case", '"quoted', 'end"', "a|b", "x;y", "…", "#tag", "日本", "naïve", "U.S."],
]
CATEGORIES = ["news", "Sports", "Food And Drink", " padded ", ""]


def write_two_parts(folder: Path) -> Path:
    """Write a small random MIND folder with train/ and dev/; the seed is fixed."""
    draw = random.Random(2)
    news = [f"{draw.choice('Nné')}{number}" for number in range(1, 161)]
    lines = {id: _news_line(draw, id) for id in news}
    regulars, newcomers = [f"U{number}" for number in range(1, 25)], [f"V{number}" for number in range(1, 9)]
    parts = {
        # no impressions on the 11th; the last day of the part is the training day
        "train": (news[:140], regulars, [9, 10, 12, 13, 14, 15], 480),
        "dev": (news[20:], regulars + newcomers, [16], 120),
    }
    for name, (shown, users, days, count) in parts.items():
        (folder / name).mkdir(parents=True)
        rows = [_impression_line(draw, id, users, days, shown) for id in range(1, count + 1)]
        rows += draw.sample(rows, 10)  # exact duplicates
        draw.shuffle(rows)
        _write(folder / name / "news.tsv", [lines[id] for id in shown])
        _write(folder / name / "behaviors.tsv", rows)
    return folder


def write_thirty_days(folder: Path) -> Path:
    """Write a small random MIND folder of one part with thirty days; the last day ends in the morning."""
    draw = random.Random(3)
    news = [f"{draw.choice('Nné')}{number}" for number in range(1, 161)]
    regulars, newcomers = [f"U{number}" for number in range(1, 25)], [f"V{number}" for number in range(1, 9)]
    days = list(range(1, 30))
    rows = [_impression_line(draw, id, regulars, days, news) for id in range(1, 1201)]
    rows += [_impression_line(draw, id, newcomers, days[-7:], news) for id in range(1201, 1251)]
    rows += [f"{id}\tU{id % 9}\t11/30/2019 {id % 9 + 1}:15:00 AM\t\t{news[id % 7]}-1" for id in range(1251, 1281)]
    folder.mkdir(parents=True)
    _write(folder / "news.tsv", [_news_line(draw, id) for id in news])
    _write(folder / "behaviors.tsv", rows)
    return folder


def _news_line(draw: random.Random, id: str) -> str:
    title = " ".join(draw.choices(WORDS, k=draw.choice([0, 3, 6, 9, 18])))
    per_story = random.Random(id)
    abstract = " ".join(per_story.choices([*WORDS, "Sunny", "harbour", "tariff"], k=per_story.choice([0, 2, 4, 12])))
    labels = draw.choice(CATEGORIES), draw.choice(CATEGORIES)
    return "\t".join([id, *labels, title, abstract, "", _entities(per_story, title, late=int(id[1:]) > 140), "[]"])


def _entities(draw: random.Random, title: str, *, late: bool) -> str:
    """Up to four entities in MIND's format, possibly repeated; late stories have entities of their own.

    Names are parts of the title at their place, at a wrong place or without a place, and words that it does not have.
    """
    chosen = [f"Q{draw.randrange(40, 44) if late else draw.randrange(12)}" for _ in range(draw.choice([0, 1, 2, 4]))]
    empty = draw.choice(["", "[]", " "])
    rows = []
    for entity in chosen:
        row: dict[str, Any] = {"Label": 'a " b', "WikidataId": entity}
        if draw.random() < 0.9:
            start = draw.randrange(len(title)) if title else 0
            name = draw.choice([title[start : start + draw.randint(1, 9)], *title.split()[:4], "Nowhere", "", "?"])
            row["SurfaceForms"], row["OccurrenceOffsets"] = [name, "storm"], [draw.choice([start, title.find(name), 3])]
        rows.append(row)
    return json.dumps(rows) if chosen else empty


def _impression_line(draw: random.Random, id: int, users: list[str], days: list[int], news: list[str]) -> str:
    user = users[0] if draw.random() < 0.4 else draw.choice(users)  # the first user reads a lot
    time = datetime(2019, 11, draw.choice(days)) + timedelta(hours=draw.randrange(24), seconds=draw.choice([0, 358]))
    candidates = draw.choices(news, k=draw.randint(1, 14))
    labels = {news_id: int(draw.random() < 0.12) for news_id in candidates}
    tokens = [f"{news_id}-{labels[news_id]}" for news_id in candidates]
    if id % 150 == 7:  # a story with both labels, in fewer than one impression in a hundred
        tokens += [f"{candidates[0]}-0", f"{candidates[0]}-1"]
    shown = " ".join(tokens)
    history = " ".join(draw.choices(news, k=draw.choice([0, 2, 5, 40])))
    clock = (
        f"{time.month}/{time.day}/{time.year} {time.hour % 12 or 12}:{time:%M:%S} {'PM' if time.hour > 11 else 'AM'}"
    )
    return "\t".join([str(id), user, clock, history, shown])


def _write(file: Path, lines: list[str]) -> None:
    file.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")
