"""Taste vectors that are learned from earlier clicks."""

import numpy as np
import pytest
from numpy.typing import NDArray

from drpn.dataset.taste_vectors import TasteVectors
from drpn.preparation import tastes
from drpn.preparation.tastes import Clicks, Stories, learn_tastes, profiles_before
from drpn.progress import Silent

NEWS, WORDS = 81, 30


def newsroom() -> tuple[Clicks, Stories, NDArray[np.int64]]:
    """Readers of odd number click stories of odd number, whose words are odd too, apart from one in ten clicks."""
    random = np.random.default_rng(1)
    users = random.integers(1, 41, 6_000)
    parity = np.where(random.random(6_000) < 0.1, 1 - users % 2, users % 2)
    stories = 1 + 2 * random.integers(0, 40, 6_000) + (1 - parity)
    words = 1 + 2 * random.integers(0, 14, (NEWS, 4)) + (1 - np.arange(NEWS) % 2)[:, None]
    words[0] = 0
    words[:, 3] *= random.random(NEWS) < 0.5  # some titles are shorter
    labels = np.zeros(NEWS, np.int32)
    return Clicks(users, stories), Stories(words.astype(np.int32), labels, labels), users


def learned(clicks: Clicks, stories: Stories) -> TasteVectors:
    return learn_tastes(clicks, stories, None, (WORDS, 3, 2), Silent())


def test_the_mean_of_a_readers_clicks_tells_what_the_reader_clicks() -> None:
    clicks, stories, _ = newsroom()
    vectors = learned(clicks, stories).read(*stories)
    odd, even = vectors[1::2].mean(0), vectors[2::2].mean(0)
    own = np.concatenate([vectors[1::2] @ odd, vectors[2::2] @ even])
    other = np.concatenate([vectors[1::2] @ even, vectors[2::2] @ odd])
    assert own.min() > other.max()


def test_a_story_that_nobody_clicked_has_the_taste_of_its_words() -> None:
    clicks, stories, _ = newsroom()
    seen = clicks.stories < 61
    tables = learned(Clicks(clicks.users[seen], clicks.stories[seen]), stories)
    vectors = tables.read(*stories)
    odd, even = vectors[1:61:2].mean(0), vectors[2:61:2].mean(0)
    later = vectors[61:]
    closer_to_odd = later @ odd > later @ even
    assert (closer_to_odd == (np.arange(61, NEWS) % 2 == 1)).mean() > 0.9


def test_labels_that_no_story_has_get_a_vector_and_padding_none() -> None:
    clicks, stories, _ = newsroom()
    tables = learned(clicks, stories)
    assert [len(table) for table in (tables.words, tables.categories, tables.subcategories)] == [WORDS, 3, 2]
    assert not any(table[0].any() for table in (tables.words, tables.categories, tables.subcategories))
    assert not tables.read(np.zeros((1, 4), np.int64), np.array([0]), np.array([0])).any()
    assert tables.read(np.zeros((0, 4), np.int64), np.array([], int), np.array([], int)).shape == (0, tastes.SIZE)


def test_the_vector_of_a_story_is_a_mean_of_words_plus_labels() -> None:
    tables = TasteVectors(*(np.array(rows, np.float32) for rows in ([[0], [1], [5]], [[0], [10]], [[0], [100], [200]])))
    read = tables.read(np.array([[1, 2, 0], [2, 0, 0], [0, 0, 0]]), np.array([1, 0, 1]), np.array([2, 1, 0]))
    assert read.tolist() == [[213], [105], [10]]


def test_the_same_clicks_give_the_same_vectors_and_leave_random_numbers_alone() -> None:
    import torch

    clicks, stories, _ = newsroom()
    before = torch.get_rng_state()
    one, other = learned(clicks, stories), learned(clicks, stories)
    assert torch.equal(torch.get_rng_state(), before)
    for name, table in one.arrays().items():
        np.testing.assert_array_equal(table, other.arrays()[name])


def test_without_clicks_nothing_is_learned() -> None:
    _, stories, _ = newsroom()
    nothing = np.zeros(0, np.int64)
    start = np.random.default_rng(0).normal(size=(WORDS, 5)).astype(np.float32)
    tables = learn_tastes(Clicks(nothing, nothing), stories, start, (WORDS, 3, 2), Silent())
    assert tables.words.shape == (WORDS, 5)
    cosine = (tables.words[1:] * start[1:]).sum(1) / np.linalg.norm(tables.words[1:], axis=1)
    assert cosine == pytest.approx(np.linalg.norm(start[1:], axis=1), rel=1e-5)


def test_profiles_hold_the_latest_earlier_clicks_of_the_same_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tastes, "_PROFILE", 4)
    random = np.random.default_rng(2)
    clicks = Clicks(random.integers(1, 5, 60), random.integers(1, NEWS, 60))
    latest, chosen = profiles_before(clicks)
    expected = {}
    for place in range(60):
        earlier = [clicks.stories[one] for one in range(place) if clicks.users[one] == clicks.users[place]]
        if len(earlier) >= 3:
            expected[place] = [*earlier[::-1][:4], *[0] * (4 - len(earlier))]
    assert chosen.tolist() == list(expected)
    assert latest.tolist() == list(expected.values())
    monkeypatch.setattr(tastes, "_MOST_CLICKS", 7)
    assert profiles_before(clicks)[1].tolist() == list(expected)[-7:]
