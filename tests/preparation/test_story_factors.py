"""Vectors of stories from clicks, against a dense singular value decomposition."""

import numpy as np
from numpy.typing import NDArray

from drpn.preparation.story_factors import SIZE, story_factors


def described(user: NDArray[np.int64], story: NDArray[np.int64], factors: NDArray[np.float32]) -> NDArray[np.float64]:
    """(users, size): the sum of the factors of each user's clicks, in units of the user's row of weights."""
    matrix = weights(user, story, len(factors))
    result: NDArray[np.float64] = (matrix > 0) @ factors / np.linalg.norm(matrix, axis=1, keepdims=True)
    return result


def weights(user: NDArray[np.int64], story: NDArray[np.int64], news: int) -> NDArray[np.float64]:
    """(users, news): TF-IDF; users are numbered from 1 on."""
    users, clicks = int(user.max()), np.bincount(story, minlength=news)
    matrix = np.zeros((users, news))
    matrix[user - 1, story] = np.log((users + 1) / (clicks[story] + 1)) + 1
    return matrix


def test_sums_of_factors_describe_users_as_the_singular_vectors_do() -> None:
    user, story = np.array([(user, 1 + (user * 5 + click) % 8) for user in range(1, 13) for click in range(3)]).T
    factors = story_factors(np.append(user, user[:5]), np.append(story, story[:5]), news=9)  # repeats count once
    matrix = weights(user, story, 9)
    left, values, _ = np.linalg.svd(matrix / np.linalg.norm(matrix, axis=1, keepdims=True), full_matrices=False)
    expected, actual = left * values, described(user, story, factors)
    np.testing.assert_allclose(actual @ actual.T, expected @ expected.T, atol=1e-4)


def test_users_of_many_stories_are_similar_if_they_click_alike() -> None:
    """More users and stories than dimensions: two groups of users, each with stories of its own."""
    random = np.random.default_rng(0)
    pairs = [(user, 1 + user % 2 * 100 + story) for user in range(1, 301) for story in random.permutation(99)[:6]]
    user, story = np.array(pairs).T
    factors = story_factors(user, story, news=201)
    assert factors.shape == (201, SIZE)
    users = described(user, story, factors)
    similar, alike = users @ users.T, np.equal.outer(np.arange(300) % 2, np.arange(300) % 2)
    assert similar[alike].mean() > 10 * abs(similar[~alike].mean())
    assert similar[alike].mean() > 0.02


def test_stories_without_a_click_have_no_vector() -> None:
    factors = story_factors(np.array([1, 1, 2, 2, 3]), np.array([1, 2, 1, 2, 4]), news=6)
    assert not factors[[0, 3, 5]].any()
    assert factors[[1, 2, 4]].any(1).all()
    one, two, other = factors[1], factors[2], factors[4]
    assert one @ two > 0.9 * np.linalg.norm(one) * np.linalg.norm(two)
    assert abs(one @ other) < 1e-5


def test_without_clicks_there_is_one_empty_column() -> None:
    nothing = np.zeros(0, np.int64)
    factors = story_factors(nothing, nothing, news=4)
    assert factors.shape == (4, 1)
    assert not factors.any()
