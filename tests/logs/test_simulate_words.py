"""The words of the simulator: lists, titles, and how well they predict the subtopic."""

import math
import re
import tomllib
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from drpn.logs.simulate.headlines import reading_order
from drpn.logs.simulate.lexicon import ADJECTIVE, DETERMINER, LINK, NAME, NOUN, VERB, read_lexicon
from drpn.logs.simulate.topics import TOPIC_SHARES, subtopics_per_topic
from drpn.logs.simulate.vocabulary import make_vocabulary
from newsroom_files import Newsroom

ROOT = Path(__file__).parents[2]


def test_title_words_predict_the_subtopic_of_held_out_stories(newsroom: Newsroom) -> None:
    rows = list(newsroom.news.values())
    words: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for row in rows[2_000:]:
        for word in set(re.findall(r"\w+", row[3].lower())):
            words[word][row[2]] += 1
    correct = 0
    for row in rows[:2_000]:
        votes: dict[str, float] = defaultdict(float)
        for word in set(re.findall(r"\w+", row[3].lower())) & words.keys():
            total = sum(words[word].values())
            for subtopic, count in words[word].items():
                votes[subtopic] += (count / total) ** 2
        correct += bool(votes) and max(votes, key=votes.__getitem__) == row[2]
    assert correct / 2_000 > 0.75  # the largest subtopic has 7 %


def test_naive_bayes_predicts_the_subtopic_of_held_out_stories(newsroom: Newsroom) -> None:
    rows = [(row[2], _words(row[3])) for row in newsroom.news.values()]
    words: dict[str, Counter[str]] = defaultdict(Counter)
    stories = Counter(subtopic for subtopic, _ in rows[2_000:])
    for subtopic, title in rows[2_000:]:
        words[subtopic].update(title)
    vocabulary = len({word for counts in words.values() for word in counts})
    sizes = {subtopic: counts.total() + 0.05 * vocabulary for subtopic, counts in words.items()}

    def predict(title: list[str]) -> str:
        # ln P(subtopic) + the sum of ln P(word | subtopic), with 0.05 added to each count
        return max(words, key=lambda name: math.log(stories[name]) - len(title) * math.log(sizes[name])
                   + sum(math.log(words[name][word] + 0.05) for word in title))  # fmt: skip

    accuracy = np.mean([predict(title) == subtopic for subtopic, title in rows[:2_000]])
    assert 0.73 < accuracy < 0.83  # 0.778; always predicting the largest subtopic: 0.06
    assert stories.most_common(1)[0][1] / 20_000 < 0.08


def test_no_word_is_in_two_lists() -> None:
    lexicon = read_lexicon()
    counts = Counter(word for words in lexicon.lists() for word in words)
    assert [word for word, count in counts.items() if count > 1] == []
    assert [word for word in counts if not re.fullmatch("[a-z]+", word)] == []
    assert len(lexicon.bait) == 30
    assert min(map(len, lexicon.subtopics)) >= 7


def test_lexicon_has_the_topics_and_roles_only_for_its_words() -> None:
    stored = tomllib.loads((ROOT / "src/drpn/logs/simulate/lexicon.toml").read_text(encoding="utf-8"))
    assert list(stored["topics"]) == list(TOPIC_SHARES)
    assert [len(topic["subtopics"]) for topic in stored["topics"].values()] == subtopics_per_topic().tolist()
    words = {word for words in read_lexicon().lists() for word in words}
    roles = Counter(word for text in stored["roles"].values() for word in text.split())
    assert set(roles) <= words
    assert set(roles.values()) == {1}


def test_lexicon_is_package_data() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "logs/simulate/lexicon.toml" in project["tool"]["setuptools"]["package-data"]["drpn"]


@pytest.mark.parametrize(
    ("stories", "general", "topic", "subtopic"),
    [(300, 196, 15, 12), (20_000, 1_600, 120, 36), (80_000, 3_200, 240, 72)],
)
def test_lists_grow_with_the_stories_and_words_are_unique(
    stories: int, general: int, topic: int, subtopic: int
) -> None:
    vocabulary = make_vocabulary(np.random.default_rng(3), stories)
    assert (vocabulary.general, vocabulary.per_topic, vocabulary.per_subtopic) == (general, topic, subtopic)
    assert len(vocabulary.words) == general + 30 + 18 * topic + 221 * subtopic
    assert len({word.lower() for word in vocabulary.words}) == len(vocabulary.words)
    by_subtopic = vocabulary.words[-221 * subtopic :].reshape(221, subtopic)
    for english, words in zip(read_lexicon().subtopics, by_subtopic, strict=True):
        assert words.tolist()[: len(english)] == english
    names = vocabulary.words[vocabulary.role == NAME]
    assert all(re.fullmatch("[A-Z][a-z]{4,}", name) for name in names)
    assert all(word.islower() for word in vocabulary.words[vocabulary.role != NAME])


def test_word_order_is_phrase_verb_phrase_link_phrase() -> None:
    words = ["in", "chess", "chess", "wins", "new", "Marlow", "the", "gambit", "rook", "after", "Zorrin"]
    role = np.array([LINK, NOUN, NOUN, VERB, ADJECTIVE, NAME, DETERMINER, NOUN, NOUN, LINK, NAME])
    word = np.array([words.index(word) for word in words])
    order = reading_order(np.zeros(11, dtype=np.int64), word, role)
    # 3 verbs and links, so 4 phrases; 6 nouns and names, mixed evenly, the repeated "chess" last:
    # chess Marlow | gambit | rook Zorrin | chess
    assert " ".join(words[row] for row in order) == "new chess Marlow wins the gambit in rook Zorrin after chess"


def test_word_order_is_a_permutation_within_each_story() -> None:
    rng = np.random.default_rng(1)
    story = np.repeat(np.arange(400), rng.integers(1, 30, size=400))
    word, role = rng.integers(50, size=len(story)), rng.integers(6, size=len(story))
    order = reading_order(story, word, role)
    assert sorted(order) == list(range(len(story)))
    assert (story[order] == story).all()


def test_function_words_are_inside_a_title_and_have_no_marks(newsroom: Newsroom) -> None:
    role = {word: number for word, number in read_lexicon().roles.items() if number in (DETERMINER, LINK)}
    at_edge = doubled = 0
    for row in newsroom.news.values():
        title = _words(row[3])
        if sum(word not in read_lexicon().roles for word in title) >= 2:  # two nouns or names
            at_edge += title[0] in role or title[-1] in role
        doubled += any(role.get(a) == LINK == role.get(b) for a, b in pairwise(title))
        marked = [word[:-1].lower() for word in row[3].split()[1:-1] if word[-1] in ",:"]
        assert not role.keys() & set(marked), row[3]
    assert at_edge == 0
    assert doubled / len(newsroom.news) < 0.12  # 0.09: titles with more links than phrases


def test_first_word_and_names_are_capitalised(newsroom: Newsroom) -> None:
    english = {word for words in read_lexicon().lists() for word in words}
    is_english = []
    for row in newsroom.news.values():
        first, *rest = re.findall(r"\w+", row[3])
        assert first[0].isupper()
        assert all((word in english) == word.islower() for word in rest), row[3]
        is_english += [word in english for word in rest]
    assert 0.70 < np.mean(is_english) < 0.78  # a quarter are names


def _words(title: str) -> list[str]:
    return re.findall(r"\w+", title.lower())
