"""The simulated newsroom: its files, its likeness to MIND, and the truth behind it."""

import json
import math
import re
import subprocess
import sys
import tomllib
from collections import Counter, defaultdict
from dataclasses import fields
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from drpn.errors import LogError, OutputError
from drpn.logs.simulate import Simulated, SimulationSettings, simulate
from drpn.logs.simulate.headlines import reading_order
from drpn.logs.simulate.lexicon import ADJECTIVE, DETERMINER, LINK, NAME, NOUN, VERB, read_lexicon
from drpn.logs.simulate.readers import gather_readers
from drpn.logs.simulate.stories import tell_stories
from drpn.logs.simulate.topics import TOPIC_SHARES, subtopics_per_topic
from drpn.logs.simulate.vocabulary import gather_words
from drpn.logs.simulate.write import clock

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "simulator.md"
SMALL = SimulationSettings(users=40, news=600, days=2, seed=5)
FILES = [
    "train/news.tsv",
    "train/behaviors.tsv",
    "dev/news.tsv",
    "dev/behaviors.tsv",
    "truth.parquet",
    "simulation.json",
]
TIME = re.compile(r"[1-9]\d?/[1-9]\d?/\d{4} (1[0-2]|[1-9]):[0-5]\d:[0-5]\d [AP]M")


class Impression(NamedTuple):
    part: str
    name: str
    user: str
    time: datetime
    history: list[str]
    news: list[str]
    clicked: list[bool]


class Newsroom(NamedTuple):
    folder: Path
    impressions: list[Impression]
    news: dict[str, list[str]]
    truth: pa.Table
    columns: dict[str, np.ndarray]

    def column(self, name: str) -> np.ndarray:
        """A column of the truth as an array."""
        if name not in self.columns:
            column = self.truth[name].combine_chunks()
            if pa.types.is_dictionary(column.type):
                column = column.cast(pa.string())
            self.columns[name] = column.to_numpy(zero_copy_only=False)
        return self.columns[name]

    def pages(self, part: str) -> list[slice]:
        """The rows of the truth that belong to each impression of a part."""
        starts = np.flatnonzero(self.column("position") == 0)
        chosen = self.column("part")[starts] == part
        ends = np.append(starts[1:], len(self.truth))
        return [slice(a, b) for a, b, good in zip(starts, ends, chosen, strict=True) if good]


def read(folder: Path) -> Newsroom:
    impressions = []
    for part in ("train", "dev"):
        for line in (folder / part / "behaviors.tsv").read_text(encoding="utf-8").splitlines():
            name, user, time, history, shown = line.split("\t")
            when = datetime.strptime(time, "%m/%d/%Y %I:%M:%S %p")
            news = [token[:-2] for token in shown.split(" ")]
            clicked = [token[-2:] == "-1" for token in shown.split(" ")]
            impressions.append(Impression(part, name, user, when, history.split(), news, clicked))
    lines = (folder / "dev" / "news.tsv").read_text(encoding="utf-8").splitlines()
    news = {line.split("\t")[0]: line.split("\t") for line in lines}
    return Newsroom(folder, impressions, news, pq.read_table(folder / "truth.parquet"), {})


@pytest.fixture(scope="module")
def newsroom(tmp_path_factory: pytest.TempPathFactory) -> Newsroom:
    folder = tmp_path_factory.mktemp("newsroom") / "default"
    simulate(folder, SimulationSettings())
    return read(folder)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Simulated]:
    folder = tmp_path_factory.mktemp("newsroom") / "small"
    return folder, simulate(folder, SMALL)


def auc(score: np.ndarray, clicked: np.ndarray) -> float:
    good, bad = score[clicked][:, None], score[~clicked][None]
    return float(((good > bad) + 0.5 * (good == bad)).mean())


# --- the files ---


def test_the_same_seed_gives_the_same_bytes(small: tuple[Path, Simulated], tmp_path: Path) -> None:
    simulate(tmp_path / "two", SMALL)
    for name in FILES:
        assert (small[0] / name).read_bytes() == (tmp_path / "two" / name).read_bytes(), name


def test_another_seed_gives_another_newsroom(small: tuple[Path, Simulated], tmp_path: Path) -> None:
    simulate(tmp_path / "two", SimulationSettings(users=40, news=600, days=2, seed=6))
    for name in FILES:
        assert (small[0] / name).read_bytes() != (tmp_path / "two" / name).read_bytes(), name


def test_every_behaviors_line_is_in_minds_format(newsroom: Newsroom) -> None:
    for part in ("train", "dev"):
        known = {line.split("\t")[0] for line in _text(newsroom, part, "news.tsv")}
        for line in _text(newsroom, part, "behaviors.tsv"):
            name, user, time, history, shown = line.split("\t")
            assert name.isdecimal()
            assert re.fullmatch(r"U\d+", user)
            assert TIME.fullmatch(time), time
            news = [re.fullmatch(r"(N\d+)-[01]", token) for token in shown.split(" ")]
            assert all(news), shown
            names = [match[1] for match in news if match]
            assert len(set(names)) == len(names) >= 2
            assert known.issuperset(names)
            assert known.issuperset(history.split())
            assert "  " not in history


def test_every_news_line_is_in_minds_format(newsroom: Newsroom) -> None:
    for part in ("train", "dev"):
        for line in _text(newsroom, part, "news.tsv"):
            name, category, subcategory, title, abstract, url, *entities = line.split("\t")
            assert re.fullmatch(r"N\d+", name)
            assert subcategory.startswith(f"{category}_")
            assert title[0].isupper()
            assert '"' not in title + abstract
            assert url.endswith(f"/{name}")
            assert entities == ["[]", "[]"]


def test_impression_ids_are_unique_and_the_last_day_is_the_dev_part(newsroom: Newsroom) -> None:
    assert len({impression.name for impression in newsroom.impressions}) == len(newsroom.impressions)
    days = {
        part: {i.time.date().isoformat() for i in newsroom.impressions if i.part == part} for part in ("train", "dev")
    }
    assert days["train"] == {f"2019-11-{day:02}" for day in range(9, 15)}
    assert days["dev"] == {"2019-11-15"}


@pytest.mark.parametrize(
    ("second", "text"),
    [
        (0, "11/9/2019 12:00:00 AM"),
        (2 * 86_400 + 9 * 3600 + 5 * 60 + 58, "11/11/2019 9:05:58 AM"),
        (12 * 3600 + 1, "11/9/2019 12:00:01 PM"),
        (22 * 86_400 + 23 * 3600, "12/1/2019 11:00:00 PM"),
    ],
)
def test_times_are_written_as_mind_writes_them(second: int, text: str) -> None:
    assert clock(second) == text


def test_the_counts_are_those_of_the_files(small: tuple[Path, Simulated]) -> None:
    folder, counts = small
    newsroom = read(folder)
    assert counts.users == len({impression.user for impression in newsroom.impressions})
    assert counts.news == len(newsroom.news) == 600
    assert counts.impressions == len(newsroom.impressions)
    assert counts.clicks == sum(sum(impression.clicked) for impression in newsroom.impressions)
    assert counts.shown == len(newsroom.truth)
    note = json.loads((folder / "simulation.json").read_text())
    assert note["settings"]["seed"] == 5
    assert note["written"]["shown"] == counts.shown


def test_an_existing_newsroom_is_kept_unless_replaced(tmp_path: Path) -> None:
    out = tmp_path / "out"
    simulate(out, SimulationSettings(users=1, news=300, days=2))
    (out / "mine").touch()
    with pytest.raises(OutputError, match="exists"):
        simulate(out, SMALL)
    assert (out / "mine").exists()
    simulate(out, SimulationSettings(users=2, news=300, days=2), replace=True)
    assert not (out / "mine").exists()
    assert json.loads((out / "simulation.json").read_text())["settings"]["users"] == 2


# --- the likeness to MIND: numbers in comments are those of MIND-small's sample, or of the paper where it says so ---


def test_pages_and_clicks_are_like_minds(newsroom: Newsroom) -> None:
    train = [impression for impression in newsroom.impressions if impression.part == "train"]
    lengths = np.array([len(impression.news) for impression in train])
    clicks = np.array([sum(impression.clicked) for impression in train])
    assert 36 < lengths.mean() < 39.5  # 37.86
    assert np.abs(np.percentile(lengths, [5, 25, 50, 75, 95]) - [2, 10, 24, 51, 121]).max() <= 6
    assert clicks.min() == 1
    assert 1.42 < clicks.mean() < 1.60  # 1.500
    assert 0.69 < np.mean(clicks == 1) < 0.78  # 0.727
    assert 0.036 < clicks.sum() / lengths.sum() < 0.044  # 0.0396


def test_histories_are_like_minds(newsroom: Newsroom) -> None:
    lengths = np.array([len(impression.history) for impression in newsroom.impressions])
    assert 26 < lengths.mean() < 40  # 32.4
    assert 14 <= np.median(lengths) <= 23  # 18
    assert 0.005 < np.mean(lengths == 0) < 0.04  # 0.0196
    by_user = {impression.user: impression.history for impression in newsroom.impressions}
    assert all(impression.history == by_user[impression.user] for impression in newsroom.impressions)
    assert all(len(set(history)) == len(history) for history in by_user.values())


def test_titles_and_categories_are_like_minds(newsroom: Newsroom) -> None:
    words = np.array([len(row[3].split()) for row in newsroom.news.values()])
    assert 10.3 < words.mean() < 11.3  # 10.75
    assert np.abs(np.percentile(words, [5, 25, 50, 75, 95]) - [6, 9, 10, 13, 16]).max() <= 1
    categories = [newsroom.news[name][1] for impression in newsroom.impressions for name in impression.news]
    shares = {name: categories.count(name) / len(categories) for name in set(categories)}
    assert 0.23 < shares["news"] < 0.32  # 0.27
    assert 0.07 < shares["sports"] < 0.13  # 0.10
    assert len({row[1] for row in newsroom.news.values()}) == 18
    assert 160 <= len({row[2] for row in newsroom.news.values()}) <= 285


def test_few_news_hold_most_of_what_is_shown(newsroom: Newsroom) -> None:
    shown: dict[str, int] = defaultdict(int)
    for impression in newsroom.impressions:
        if impression.part == "train":
            for name in impression.news:
                shown[name] += 1
    counts = np.array(sorted(shown.values(), reverse=True))
    assert 5_500 < len(counts) < 9_500  # 8,379
    assert 0.15 < counts[:100].sum() / counts.sum() < 0.25  # 0.199
    assert 0.63 < counts[:1000].sum() / counts.sum() < 0.80  # 0.740


def test_profiles_are_like_the_papers(newsroom: Newsroom) -> None:
    clicked: dict[str, set[str]] = defaultdict(set)
    shown: dict[str, set[str]] = defaultdict(set)
    for impression in newsroom.impressions:
        if impression.time < datetime(2019, 11, 14):
            shown[impression.user].update(impression.news)
            clicked[impression.user].update(np.array(impression.news)[impression.clicked])
    many = np.array([len(clicked[user]) for user in shown])
    skipped = np.array([len(shown[user] - clicked[user]) for user in shown])
    assert 3.6 < many.mean() < 4.9  # the paper: 4.14
    assert 84 < skipped.mean() < 110  # the paper: 96.80
    assert np.mean(many == 1) > 0.45


def test_people_visit_by_day_and_on_working_days(newsroom: Newsroom) -> None:
    hours = np.bincount([impression.time.hour for impression in newsroom.impressions], minlength=24)
    assert hours[8:12].mean() > 5 * hours[[22, 23, 0, 1]].mean()  # 528 and 61
    days = np.bincount([impression.time.weekday() for impression in newsroom.impressions], minlength=7)
    assert 0.33 < days[5:].mean() / days[:5].mean() < 0.55  # 0.44


def test_a_subtopic_can_be_told_from_the_words_of_stories_never_seen(newsroom: Newsroom) -> None:
    rows = list(newsroom.news.values())
    words: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for row in rows[2_000:]:
        for word in set(re.findall(r"\w+", row[3].lower())):
            words[word][row[2]] += 1
    right = 0
    for row in rows[:2_000]:
        votes: dict[str, float] = defaultdict(float)
        for word in set(re.findall(r"\w+", row[3].lower())) & words.keys():
            total = sum(words[word].values())
            for subtopic, count in words[word].items():
                votes[subtopic] += (count / total) ** 2
        right += bool(votes) and max(votes, key=votes.__getitem__) == row[2]
    assert right / 2_000 > 0.75  # the largest subtopic holds 7 %


def test_naive_bayes_tells_the_subtopic_of_stories_never_seen(newsroom: Newsroom) -> None:
    rows = [(row[2], _words(row[3])) for row in newsroom.news.values()]
    words: dict[str, Counter[str]] = defaultdict(Counter)
    stories = Counter(subtopic for subtopic, _ in rows[2_000:])
    for subtopic, title in rows[2_000:]:
        words[subtopic].update(title)
    known = len({word for counts in words.values() for word in counts})
    sizes = {subtopic: counts.total() + 0.05 * known for subtopic, counts in words.items()}

    def guess(title: list[str]) -> str:
        # ln P(subtopic) + the sum of ln P(word | subtopic), with 0.05 added to each count
        return max(words, key=lambda name: math.log(stories[name]) - len(title) * math.log(sizes[name])
                   + sum(math.log(words[name][word] + 0.05) for word in title))  # fmt: skip

    right = np.mean([guess(title) == subtopic for subtopic, title in rows[:2_000]])
    assert 0.73 < right < 0.83  # 0.778; always the largest subtopic: 0.06
    assert stories.most_common(1)[0][1] / 20_000 < 0.08


# --- the words ---


def test_no_word_is_in_two_lists() -> None:
    lexicon = read_lexicon()
    counts = Counter(word for words in lexicon.lists() for word in words)
    assert [word for word, count in counts.items() if count > 1] == []
    assert [word for word in counts if not re.fullmatch("[a-z]+", word)] == []
    assert len(lexicon.bait) == 30
    assert min(map(len, lexicon.subtopics)) >= 7


def test_the_lexicon_has_the_topics_of_the_newsroom_and_every_role_is_of_a_word_in_it() -> None:
    stored = tomllib.loads((ROOT / "src/drpn/logs/simulate/lexicon.toml").read_text(encoding="utf-8"))
    assert list(stored["topics"]) == list(TOPIC_SHARES)
    assert [len(topic["subtopics"]) for topic in stored["topics"].values()] == subtopics_per_topic().tolist()
    words = {word for words in read_lexicon().lists() for word in words}
    roles = Counter(word for text in stored["roles"].values() for word in text.split())
    assert set(roles) <= words
    assert set(roles.values()) == {1}


def test_the_lexicon_is_shipped() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "logs/simulate/lexicon.toml" in project["tool"]["setuptools"]["package-data"]["drpn"]


@pytest.mark.parametrize(
    ("stories", "general", "topic", "subtopic"),
    [(300, 196, 15, 12), (20_000, 1_600, 120, 36), (80_000, 3_200, 240, 72)],
)
def test_lists_grow_with_the_stories_and_no_two_words_are_alike(
    stories: int, general: int, topic: int, subtopic: int
) -> None:
    vocabulary = gather_words(np.random.default_rng(3), stories)
    assert (vocabulary.general, vocabulary.per_topic, vocabulary.per_subtopic) == (general, topic, subtopic)
    assert len(vocabulary.words) == general + 30 + 18 * topic + 221 * subtopic
    assert len({word.lower() for word in vocabulary.words}) == len(vocabulary.words)
    by_subtopic = vocabulary.words[-221 * subtopic :].reshape(221, subtopic)
    for words, found in zip(read_lexicon().subtopics, by_subtopic, strict=True):
        assert found.tolist()[: len(words)] == words
    names = vocabulary.words[vocabulary.role == NAME]
    assert all(re.fullmatch("[A-Z][a-z]{4,}", name) for name in names)
    assert all(word.islower() for word in vocabulary.words[vocabulary.role != NAME])


def test_a_title_reads_phrase_verb_phrase_link_phrase() -> None:
    words = ["in", "chess", "chess", "wins", "new", "Marlow", "the", "gambit", "rook", "after", "Zorrin"]
    role = np.array([LINK, NOUN, NOUN, VERB, ADJECTIVE, NAME, DETERMINER, NOUN, NOUN, LINK, NAME])
    word = np.array([words.index(word) for word in words])
    order = reading_order(np.zeros(11, dtype=np.int64), word, role)
    # 4 phrases for 3 ties; 6 nouns and names, mixed evenly, chess a second time last:
    # chess Marlow | gambit | rook Zorrin | chess
    assert " ".join(words[row] for row in order) == "new chess Marlow wins the gambit in rook Zorrin after chess"


def test_titles_only_order_the_words_drawn_for_them() -> None:
    rng = np.random.default_rng(1)
    story = np.repeat(np.arange(400), rng.integers(1, 30, size=400))
    word, role = rng.integers(50, size=len(story)), rng.integers(6, size=len(story))
    order = reading_order(story, word, role)
    assert sorted(order) == list(range(len(story)))
    assert (story[order] == story).all()


def test_function_words_stand_inside_a_title_and_take_no_marks(newsroom: Newsroom) -> None:
    role = {word: number for word, number in read_lexicon().roles.items() if number in (DETERMINER, LINK)}
    edges = doubled = 0
    for row in newsroom.news.values():
        title = _words(row[3])
        if sum(word not in read_lexicon().roles for word in title) >= 2:  # two nouns or names
            edges += title[0] in role or title[-1] in role
        doubled += any(role.get(a) == LINK == role.get(b) for a, b in pairwise(title))
        marked = [word[:-1].lower() for word in row[3].split()[1:-1] if word[-1] in ",:"]
        assert not role.keys() & set(marked), row[3]
    assert edges == 0
    assert doubled / len(newsroom.news) < 0.12  # 0.09: more links than there are words to stand between them


def test_the_first_word_and_names_are_written_large(newsroom: Newsroom) -> None:
    english = {word for words in read_lexicon().lists() for word in words}
    share = []
    for row in newsroom.news.values():
        first, *rest = re.findall(r"\w+", row[3])
        assert first[0].isupper()
        assert all((word in english) == word.islower() for word in rest), row[3]
        share += [word in english for word in rest]
    assert 0.70 < np.mean(share) < 0.78  # a quarter are names


def _words(title: str) -> list[str]:
    return re.findall(r"\w+", title.lower())


# --- the truth ---


def test_the_truth_agrees_with_the_lines(newsroom: Newsroom) -> None:
    rows = zip(*(newsroom.column(name).tolist() for name in
                 ("part", "impression_id", "position", "user_id", "news_id", "clicked")), strict=True)  # fmt: skip
    for impression in newsroom.impressions:
        for position, (name, clicked) in enumerate(zip(impression.news, impression.clicked, strict=True)):
            assert next(rows) == (impression.part, impression.name, position, impression.user, name, clicked)
    assert next(rows, None) is None


def test_the_columns_of_the_truth_have_their_types(newsroom: Newsroom) -> None:
    types = {field.name: str(field.type) for field in newsroom.truth.schema}
    assert types["position"] == types["place"] == "int32"
    assert types["opinion"] == "int8"
    assert types["appeal"] == "float"
    assert types["clicked"] == types["seen"] == "bool"
    assert types["impression_id"] == types["user_id"] == types["news_id"] == "string"


def test_no_story_is_shown_before_it_is_born_nor_read_before_the_log_if_born_in_it(newsroom: Newsroom) -> None:
    settings = SimulationSettings()
    born = tell_stories(np.random.default_rng(settings.seed), settings.stories, settings.days, None).born
    start = datetime(2019, 11, 9)
    ages = []
    for impression in newsroom.impressions:
        hour = (impression.time - start).total_seconds() / 3600
        ages += [hour - born[int(name[1:]) - 1] for name in impression.news]
        assert all(born[int(name[1:]) - 1] < 0 for name in impression.history)
    assert min(ages) > 0
    assert max(ages) < 8.1 * 24
    assert np.median(ages) < 30


def test_every_cause_fits_its_row(newsroom: Newsroom) -> None:
    cause, opinion = newsroom.column("cause"), newsroom.column("opinion")
    clicked, seen = newsroom.column("clicked"), newsroom.column("seen")
    fits = {
        "interest": clicked & (opinion == 1),
        "accident": clicked & (opinion <= 0),
        "clickbait": clicked & (opinion <= 0),
        "missed": ~clicked & (opinion == 1),
        "disliked": ~clicked & (opinion == -1),
        "indifferent": ~clicked & (opinion == 0),
    }
    assert set(cause.tolist()) == set(fits)
    for name, rows in fits.items():
        assert rows[cause == name].all(), name
    assert seen[clicked].all()
    assert 0.2 < np.mean(~seen[~clicked]) < 0.45


def test_noise_is_in_both_feedbacks(newsroom: Newsroom) -> None:
    cause, clicked = newsroom.column("cause"), newsroom.column("clicked")
    unwanted = np.isin(cause[clicked], ["accident", "clickbait"])
    assert 0.135 < unwanted.mean() < 0.175  # the setting is 0.15
    assert 0.03 < (cause[clicked] == "clickbait").mean() < 0.06  # less than half of them: many pages hold no clickbait
    assert 0.08 < np.mean(cause[~clicked] == "missed") < 0.20


@pytest.mark.parametrize(("accidents", "low", "high"), [(0.0, 0.0, 0.0), (0.05, 0.02, 0.09), (0.4, 0.33, 0.47)])
def test_the_setting_moves_the_share_of_accidents(tmp_path: Path, accidents: float, low: float, high: float) -> None:
    simulate(tmp_path / "out", SimulationSettings(users=250, news=3_000, accidents=accidents))
    newsroom = read(tmp_path / "out")
    cause = newsroom.column("cause")[newsroom.column("clicked")]
    assert low <= np.isin(cause, ["accident", "clickbait"]).mean() <= high


def test_a_user_thinks_the_same_of_a_story_whenever_they_meet(newsroom: Newsroom) -> None:
    opinions: dict[tuple[str, str], set[int]] = defaultdict(set)
    times: dict[tuple[str, str], int] = defaultdict(int)
    rows = (newsroom.column(name).tolist() for name in ("user_id", "news_id", "opinion"))
    for user, news, opinion in zip(*rows, strict=True):
        opinions[user, news].add(opinion)
        times[user, news] += 1
    assert sum(count > 1 for count in times.values()) > 1_000  # stories come back
    assert all(len(found) == 1 for found in opinions.values())


def test_nobody_is_shown_what_they_clicked_in_an_earlier_hour(newsroom: Newsroom) -> None:
    clicked: dict[tuple[str, str], datetime] = {}
    for impression in newsroom.impressions:
        hour = impression.time.replace(minute=0, second=0)
        for news, mark in zip(impression.news, impression.clicked, strict=True):
            assert clicked.get((impression.user, news), hour) == hour
            if mark:
                clicked[impression.user, news] = hour


def test_users_dislike_subtopics_of_topics_they_like() -> None:
    rng = np.random.default_rng(0)
    topics = tell_stories(rng, 3_000, 7, None).topics
    taste = gather_readers(rng, topics, 500, 7).taste
    both = [
        any((row[topics.topic_of == topic] == 1).any() and (row[topics.topic_of == topic] == -1).any()
            for topic in range(len(topics.topics)))
        for row in taste
    ]  # fmt: skip
    assert np.mean(both) > 0.9
    liked = (taste == 1).sum(axis=1)
    assert np.percentile(liked, 10) < 15
    assert np.percentile(liked, 90) > 25


def test_who_knows_the_truth_ranks_best_and_popularity_is_better_than_chance(newsroom: Newsroom) -> None:
    shown: dict[str, int] = defaultdict(int)
    clicks: dict[str, int] = defaultdict(int)
    by_rate = []
    for impression in newsroom.impressions:  # in the order of time
        rate = np.array([(clicks[name] + 0.4) / (shown[name] + 10) for name in impression.news])
        if impression.part == "dev":
            by_rate.append(auc(rate, np.array(impression.clicked)))
        for name, clicked in zip(impression.news, impression.clicked, strict=True):
            shown[name] += 1
            clicks[name] += clicked
    appeal, clicked = newsroom.column("appeal"), newsroom.column("clicked")
    oracle = np.mean([auc(appeal[page], clicked[page]) for page in newsroom.pages("dev")])
    popularity = np.mean(by_rate)
    assert 0.74 < oracle < 0.84  # 0.79
    assert 0.54 < popularity < 0.66  # 0.60; chance is 0.5
    assert oracle > popularity + 0.1


def test_appeal_is_a_share_of_the_clicks_of_a_page(newsroom: Newsroom) -> None:
    appeal = newsroom.column("appeal")
    totals = [appeal[page].sum() for page in newsroom.pages("dev")]
    np.testing.assert_allclose(totals, 1.0, atol=1e-4)
    assert appeal.min() > 0


def test_the_order_in_the_file_says_nothing_of_the_place_on_the_page(newsroom: Newsroom) -> None:
    position, place, clicked = (newsroom.column(name) for name in ("position", "place", "clicked"))
    pages = [page for page in newsroom.pages("train") if page.stop - page.start >= 20]
    for page in pages[:50]:
        assert sorted(place[page]) == list(range(page.stop - page.start))
    by_position = np.mean([auc(-position[page], clicked[page]) for page in pages])
    by_place = np.mean([auc(-place[page], clicked[page]) for page in pages])
    assert 0.48 < by_position < 0.52
    assert by_place > 0.55  # eyes reach the top of the page more often


# --- borrowed titles ---


def _titles(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "titles.tsv"
    path.write_text(text, encoding="utf-8")
    return path


def test_titles_can_be_borrowed(tmp_path: Path) -> None:
    rows = [
        ("garden", "roses", "Pruning made easy"),
        ("garden", "", "Ten dull lawns"),
        ("boats", "sails", "Wind ahead"),
    ]
    lines = [f"N{i}\t{row[0]}\t{row[1]}\t{row[2]}\tabstract\n" for i, row in enumerate(rows)]
    simulate(tmp_path / "out", SMALL, titles=_titles(tmp_path, "".join(lines)))
    newsroom = read(tmp_path / "out")
    found = [tuple(row[1:4]) for row in newsroom.news.values()]
    assert set(found) == {rows[0], ("garden", "garden", "Ten dull lawns"), rows[2]}
    assert all(found.count(row) == 200 for row in set(found))  # 600 stories, three lines


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"titles\.tsv holds no news; pass a MIND news\.tsv"),
        ("N1\tnews\tx\tA title\nN2\tnews\tx\n", r"titles\.tsv:2: 3 columns \('N2.*at least 4.*mend the line"),
        ("N1\t\tx\tA title\n", r"titles\.tsv:1: the category of 'N1' is empty"),
        ("N1\tnews\tx\t \n", r"titles\.tsv:1: the title of 'N1' is empty"),
    ],
)
def test_a_bad_titles_file_is_named_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(LogError, match=message) as caught:
        simulate(tmp_path / "out", SMALL, titles=_titles(tmp_path, text))
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_a_missing_or_unreadable_titles_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(LogError, match=r"nowhere\.tsv cannot be read: No such file.*pass the path"):
        simulate(tmp_path / "out", SMALL, titles=tmp_path / "nowhere.tsv")
    (tmp_path / "latin.tsv").write_bytes(b"N1\tnews\tx\tCaf\xe9\n")
    with pytest.raises(LogError, match=r"latin\.tsv:1: b'\\xe9' is not UTF-8; save"):
        simulate(tmp_path / "out", SMALL, titles=tmp_path / "latin.tsv")


# --- settings ---


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("users", 0, "users is 0; at least 1"),
        ("news", 299, "news is 299; at least 300"),
        ("days", 1, "days is 1; at least 2"),
        ("seed", -1, "seed is -1; it must be 0 or more"),
        ("accidents", 1.0, "accidents is 1.0; a share"),
        ("accidents", -0.1, "accidents is -0.1; a share"),
        ("attention", 0.0, "attention is 0.0; a share"),
        ("targeting", 1.5, "targeting is 1.5; a share"),
    ],
)
def test_impossible_settings_are_refused(name: str, value: float, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        SimulationSettings(**{name: value})


def test_the_edges_of_the_settings_work(tmp_path: Path) -> None:
    edge = SimulationSettings(users=1, news=300, days=2, accidents=0.99, attention=1.0, targeting=1.0)
    assert simulate(tmp_path / "out", edge).clicks >= 1
    assert read(tmp_path / "out").column("seen").all()


def test_more_users_have_more_news() -> None:
    counts = [SimulationSettings(users=users).stories for users in (1, 2_000, 50_000, 200_000)]
    assert counts == sorted(counts)
    assert counts[2] == 51_282
    assert SimulationSettings(users=50_000, news=700).stories == 700


# --- the page in the documentation ---


def test_the_page_states_every_setting_and_every_column(newsroom: Newsroom) -> None:
    page = PAGE.read_text(encoding="utf-8")
    for field in fields(SimulationSettings):
        default = "none" if field.default is None else field.default
        assert f"| `{field.name}` | {default} |" in page
    for name in newsroom.truth.schema.names:
        assert f"`{name}`" in page
    for name in set(newsroom.column("cause").tolist()):
        assert f"| `{name}` |" in page


def test_the_table_is_written_between_its_marks(small: tuple[Path, Simulated], tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    begin, end = "<!-- newsroom table: begin -->", "<!-- newsroom table: end -->"
    page.write_text(f"before\n{begin}\nold\n{end}\nafter\n", encoding="utf-8")
    command = [sys.executable, str(ROOT / "benchmarks" / "newsroom.py"), str(small[0]), "--page", str(page)]
    subprocess.run(command, check=True, capture_output=True)
    text = page.read_text(encoding="utf-8")
    assert text.startswith(f"before\n{begin}\n")
    assert text.endswith(f"{end}\nafter\n")
    assert "old" not in text
    assert "seed 5" in text
    train = (small[0] / "train" / "behaviors.tsv").read_text(encoding="utf-8").splitlines()
    assert f"| impressions | {len(train)} |" in text


def _text(newsroom: Newsroom, part: str, name: str) -> list[str]:
    return (newsroom.folder / part / name).read_text(encoding="utf-8").splitlines()
