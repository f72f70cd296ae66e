"""The words of a title that name an entity."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drpn.dataset.mentions import Mention, mentioned_words, word_entities
from drpn.dataset.vocabulary import token_spans, tokens

WORDS = [
    *["Queen", "queen", "the", "U.S.", "Trump's", "San", "José", "half-time", "3.5", "New", "York", "?", "…"],
    *["İstanbul", "ΣΑΣ"],  # letters whose lower case is longer, or depends on their place in the word
]
titles = st.lists(st.sampled_from(WORDS), max_size=9).map(" ".join)


def named_words(title: str, *mentions: Mention) -> list[tuple[str, list[str]]]:
    """The entities that are found, with their words."""
    words = tokens(title)
    return [(mention.entity, [words[i] for i in places]) for mention, places in mentioned_words(title, mentions)]


TITLE = "The Brands Queen Elizabeth, Prince Charles, and Prince Philip Swear By"


@pytest.mark.parametrize(
    ("name", "offset", "words"),
    [
        ("Prince Philip", 48, ["prince", "philip"]),
        ("Queen Elizabeth", 11, ["queen", "elizabeth"]),
        ("prince philip", 48, ["prince", "philip"]),
        ("Prince Philip", 5, ["prince", "philip"]),  # not at this place
        ("Prince Philip", -3, ["prince", "philip"]),
        ("Prince Philip", 4_000, ["prince", "philip"]),
        ("Prince Philip", None, ["prince", "philip"]),
        ("Prince  Philip", 48, ["prince", "philip"]),  # another space
        ("Philip’s", 55, []),
        ("Prince Harry", 28, []),
        ("Brand", 4, ["brands"]),  # a part of a word at its place
        ("Brand", 5, []),  # a part of a word elsewhere
        ("Elizabeth,", 17, ["elizabeth", ","]),
        (" ", 3, []),
        ("", 6, []),
    ],
)
def test_a_name_counts_at_its_offset_or_elsewhere(name: str, offset: int | None, words: list[str]) -> None:
    assert named_words(TITLE, Mention("Q1", name, offset)) == ([("Q1", words)] if words else [])


def test_the_nearest_place_counts_if_the_offset_is_wrong() -> None:
    title = "Rose said that Rose rose"
    places = [mentioned_words(title, [Mention("Q1", "rose", offset)])[0][1] for offset in (1, 6, 8, 14, 15, 21, None)]
    assert [place.start for place in places] == [0, 0, 3, 3, 3, 4, 0]
    title = "rose İİİİİİ rose"  # character 8 is nearer to the second rose, whose lower case starts at 18
    assert [words for _, words in mentioned_words(title, [Mention("Q1", "rose", 8)])] == [range(7, 8)]


def test_offsets_count_characters_of_the_title_before_lower_casing() -> None:
    title = "İİİ Queen meets İzmir"  # each İ has two characters in lower case
    assert len(title.lower()) == len(title) + 4
    (queen,) = mentioned_words(title, [Mention("Q1", "Queen", 4)])
    assert [token_spans(title)[place][0] for place in queen[1]] == ["queen"]
    assert named_words(title, Mention("Q2", "İzmir", title.index("İzmir")))[0][0] == "Q2"


def test_words_in_front_of_the_title_are_counted() -> None:
    assert [words for _, words in mentioned_words("Queen", [Mention("Q1", "Queen", 0)], before=2)] == [range(2, 3)]


def test_a_longer_name_has_the_words_of_a_shorter_one() -> None:
    title, rows = "New York Times of New York", {"city": 1, "paper": 2, "other": 3}
    mentions = [
        *(Mention("city", "New York", offset) for offset in (0, 18)),
        Mention("paper", "New York Times", 0),
        Mention("other", "York", 22),
        Mention("other", "New York", 18),
    ]
    matched = mentioned_words(title, mentions)
    assert word_entities(matched, rows, keep=9, length=7) == [2, 2, 2, 0, 1, 1, 0]
    assert word_entities(matched, rows, keep=9, length=5) == [2, 2, 2, 0, 1]
    assert word_entities(matched, rows, keep=1, length=6) == [1, 1, 0, 0, 1, 1]
    assert word_entities(matched, {"other": 3}, keep=1, length=6) == [0, 0, 0, 0, 3, 3]


@given(titles.filter(bool), st.data())
def test_a_part_of_a_title_is_found_where_it_is(title: str, data: st.DataObject) -> None:
    """The words are those that overlap the characters of the name."""
    start = data.draw(st.integers(0, len(title) - 1))
    end = data.draw(st.integers(start + 1, len(title)))
    before = data.draw(st.integers(0, 2))
    matched = mentioned_words(title, [Mention("Q1", title[start:end], start)], before=before)
    low, high = len(title[:start].lower()), len(title[:end].lower())
    overlapping = [i + before for i, (_, first, last) in enumerate(token_spans(title)) if first < high and last > low]
    assert [list(words) for _, words in matched] == ([overlapping] if overlapping else [])


@given(titles, titles, st.none() | st.integers(-5, 60))
def test_words_that_are_found_overlap_the_name(title: str, name: str, offset: int | None) -> None:
    """Whatever the offset, the words that are found have those of the name, and a name in the title is found."""
    words, wanted = tokens(title), tokens(name)
    matched = mentioned_words(title, [Mention("Q1", name, offset)])
    for _, places in matched:
        assert 0 <= places.start < places.stop <= len(words)
        assert "".join(wanted) in "".join(words[i] for i in places)
    in_title = any(words[i : i + len(wanted)] == wanted for i in range(len(words))) and bool(wanted)
    assert not in_title or matched


@given(titles, st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(WORDS), st.integers(0, 40)), max_size=5))
def test_each_word_has_at_most_one_entity_and_padding_none(title: str, drawn: list[tuple[str, str, int]]) -> None:
    matched = mentioned_words(title, [Mention(*one) for one in drawn])
    rows = {"a": 1, "b": 2}
    entities = word_entities(matched, rows, keep=2, length=12)
    for place, entity in enumerate(entities):
        names = {rows.get(mention.entity, 0) for mention, words in matched if place in words}
        assert entity in names | {0}
        assert (entity != 0) == bool(names - {0})
    assert not any(entities[len(tokens(title)) :])
