"""Ceilings of noise AUC on profiles whose noise is known to be findable, or not; counts compared with loops."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score

from drpn.evaluation.ceilings import _same, personal_scores, story_scores
from drpn.evaluation.noise import noise_auc
from drpn.evaluation.trees import TreeSettings, fit_trees

STORIES, CATEGORIES, USERS = 200, 10, 400
CATEGORY = np.concatenate([[0], 1 + np.arange(STORIES) % CATEGORIES])
SUBCATEGORY = np.concatenate([[0], 1 + np.arange(STORIES) % (2 * CATEGORIES)])
sequences = arrays.arrays(np.int32, (4, 5), elements=st.integers(0, 7))


def _of_category(rng: np.random.Generator, category: np.ndarray) -> np.ndarray:
    """A random story of each category, from 1."""
    return category + CATEGORIES * rng.integers(STORIES // CATEGORIES, size=category.shape)


def _profiles(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Clicked stories, skipped stories and the kinds of the clicks: eight of one category and two of others."""
    favourite = rng.integers(1, CATEGORIES + 1, size=(USERS, 1))
    clicked = np.repeat(favourite, 10, axis=1)
    others = (
        1 + (favourite - 1 + rng.permuted(np.tile(np.arange(1, CATEGORIES), (USERS, 1)), axis=1)[:, :2]) % CATEGORIES
    )
    clicked[:, :2] = others
    kind = np.ones(clicked.shape, dtype=np.int8)
    kind[:, :2] = -1
    skipped = rng.integers(1, CATEGORIES + 1, size=(USERS, 12))
    return _of_category(rng, clicked), _of_category(rng, skipped), kind


def test_noise_that_the_category_share_explains_is_found_by_personal_evidence_alone() -> None:
    rng = np.random.default_rng(0)
    clicked, skipped, kind = _profiles(rng)
    personal = personal_scores(clicked, skipped, kind, CATEGORY, SUBCATEGORY)
    counts = rng.integers(1, 50, size=(2, STORIES + 1))
    assert noise_auc(personal, kind) > 0.98
    assert noise_auc(story_scores(clicked, kind, counts.sum(axis=0), counts[0], CATEGORY), kind) == pytest.approx(
        0.5, abs=0.06
    )


def test_noise_of_certain_stories_is_found_by_the_story_alone() -> None:
    rng = np.random.default_rng(1)
    clicked, skipped, _ = _profiles(rng)
    disliked = rng.random(STORIES + 1) < 0.3
    kind = np.where(disliked[clicked], -1, 1)
    shown = rng.integers(20, 100, size=STORIES + 1)
    clicks = np.where(disliked, 0.1, 0.6) * shown
    assert noise_auc(story_scores(clicked, kind, shown, clicks, CATEGORY), kind) > 0.98
    assert noise_auc(personal_scores(clicked, skipped, kind, CATEGORY, SUBCATEGORY), kind) == pytest.approx(
        0.5, abs=0.06
    )


def test_noise_of_one_category_is_found_by_the_story_alone() -> None:
    rng = np.random.default_rng(2)
    clicked, _, _ = _profiles(rng)
    kind = np.where(CATEGORY[clicked] <= 3, -1, 1)
    equal = np.full(STORIES + 1, 10)
    assert noise_auc(story_scores(clicked, kind, equal, equal, CATEGORY), kind) > 0.98


def test_random_noise_is_not_found() -> None:
    rng = np.random.default_rng(3)
    clicked, skipped, kind = _profiles(rng)
    kind = rng.permuted(kind, axis=1)
    counts = rng.integers(1, 50, size=(2, STORIES + 1))
    for scores in (
        personal_scores(clicked, skipped, kind, CATEGORY, SUBCATEGORY),
        story_scores(clicked, kind, counts.sum(axis=0), counts[0], CATEGORY),
    ):
        assert noise_auc(scores, kind) == pytest.approx(0.5, abs=0.06)


def test_ceilings_are_the_same_each_time() -> None:
    clicked, skipped, kind = _profiles(np.random.default_rng(4))
    first, second = (personal_scores(clicked, skipped, kind, CATEGORY, SUBCATEGORY) for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_no_user_is_scored_with_their_own_truth() -> None:
    """Reversing the truth of the even users changes the scores of the odd ones only."""
    clicked, skipped, kind = _profiles(np.random.default_rng(5))
    other_truth = kind.copy()
    other_truth[::2] *= -1
    before, after = (personal_scores(clicked, skipped, k, CATEGORY, SUBCATEGORY) for k in (kind, other_truth))
    np.testing.assert_array_equal(before[::2], after[::2])
    assert (before[1::2] != after[1::2]).any()


@pytest.mark.parametrize("users", [0, 1, 2])
def test_too_few_users_get_equal_scores(users: int) -> None:
    own, kind = np.ones((users, 3), dtype=np.int32), np.zeros((users, 3), dtype=np.int8)
    assert not personal_scores(own, own, kind, CATEGORY, SUBCATEGORY).any()


@settings(max_examples=60)
@given(sequences, sequences)
def test_counts_of_the_same_label_equal_the_loops(own: np.ndarray, other: np.ndarray) -> None:
    label = np.array([0, 1, 2, 1, 2, 2, 0, 3])
    for sequence in (own, other):
        count, share = _same(label, own, sequence)
        for user, slots in enumerate(own.tolist()):
            for slot, story in enumerate(slots):
                if story:
                    rest = [
                        label[other]
                        for place, other in enumerate(sequence[user].tolist())
                        if other and not (sequence is own and place == slot)
                    ]
                    expected = rest.count(label[story])
                    assert count[user, slot] == expected
                    assert share[user, slot] == pytest.approx(expected / max(len(rest), 1))


def test_trees_are_as_good_as_those_of_scikit_learn() -> None:
    rng = np.random.default_rng(6)
    features = rng.integers(0, 12, size=(20_000, 4)).astype(float)
    odds = np.where(features[:, 0] > 5, features[:, 1] - 5, 5 - features[:, 1]) + 0.5 * (features[:, 2] == 3)
    labels = rng.random(len(odds)) < 1 / (1 + np.exp(-odds))
    train, test = slice(None, 10_000), slice(10_000, None)
    ours = fit_trees(features[train], labels[train], TreeSettings()).scores(features[test])
    theirs = HistGradientBoostingClassifier(random_state=0).fit(features[train], labels[train])
    expected = roc_auc_score(labels[test], theirs.predict_proba(features[test])[:, 1])
    assert roc_auc_score(labels[test], ours) > expected - 0.005


def test_a_single_split_by_hand() -> None:
    # 3 of 4 rows below 2 are true and 1 of 4 above: gradients 1 and -1, curvatures 1 and 1, prior 1, rate 1
    features = np.array([[1.0], [1.0], [1.0], [1.0], [3.0], [3.0], [3.0], [3.0]])
    labels = np.array([True, True, True, False, True, False, False, False])
    trees = fit_trees(features, labels, TreeSettings(trees=1, depth=1, bins=4, rate=1.0, prior=1.0))
    np.testing.assert_allclose(trees.scores(np.array([[0.0], [1.0], [3.0]])), [0.5, 0.5, -0.5])
