"""Metrics, noise AUC and the TF-IDF rule from their definitions, as loops over plain numbers.

There is no formula for ties: metrics are averaged over all orders that the scores allow.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import groupby, permutations, product
from statistics import fmean

Order = list[bool]
"""The labels of an impression's candidates, best rank first."""


def orders(scores: Sequence[float], clicked: Sequence[bool]) -> Iterator[Order]:
    """All orders from the highest score to the lowest, with tied candidates in every order."""
    best_first = sorted(zip(scores, clicked, strict=True), key=lambda pair: -pair[0])
    ties = [[label for _, label in tie] for _, tie in groupby(best_first, key=lambda pair: pair[0])]
    for arranged in product(*(permutations(tie) for tie in ties)):
        yield [label for tie in arranged for label in tie]


def auc(order: Order) -> Fraction:
    """The share of pairs of a clicked and a skipped candidate in which the clicked one is first."""
    pairs = [(i, j) for i, first in enumerate(order) for j, second in enumerate(order) if first and not second]
    return Fraction(sum(i < j for i, j in pairs), len(pairs))


def mrr(order: Order) -> Fraction:
    """The mean over clicks of 1/rank."""
    earned = [Fraction(1, rank) for rank, label in enumerate(order, start=1) if label]
    return sum(earned, Fraction(0)) / len(earned)


def ndcg(order: Order, k: int) -> float:
    """The discounted clicks within the first k ranks, divided by their best possible sum."""
    best = sorted(order, reverse=True)
    return _dcg(order, k) / _dcg(best, k)


def _dcg(order: Order, k: int) -> float:
    return sum((2**label - 1) / math.log2(rank + 1) for rank, label in enumerate(order[:k], start=1))


def expected(scores: Sequence[float], clicked: Sequence[bool]) -> dict[str, float] | None:
    """The mean of each metric over all orders that the scores allow; None without a click or without a skip."""
    if len(set(clicked)) < 2:
        return None
    tried = list(orders(scores, clicked))
    return {
        "auc": float(sum(map(auc, tried)) / len(tried)),
        "mrr": float(sum(map(mrr, tried)) / len(tried)),
        "ndcg@5": fmean(ndcg(order, 5) for order in tried),
        "ndcg@10": fmean(ndcg(order, 10) for order in tried),
    }


def noise_auc(weights: Sequence[Sequence[float]], kinds: Sequence[Sequence[int]]) -> float:
    """The share of pairs in which real feedback outweighs noise; the mean over users who have both kinds."""
    by_user = []
    for user_weights, user_kinds in zip(weights, kinds, strict=True):
        real = [weight for weight, kind in zip(user_weights, user_kinds, strict=True) if kind == 1]
        noise = [weight for weight, kind in zip(user_weights, user_kinds, strict=True) if kind == -1]
        wins = [1.0 if first > second else 0.5 if first == second else 0.0 for first in real for second in noise]
        if wins:
            by_user.append(fmean(wins))
    return fmean(by_user)


def tfidf_vectors(titles: Sequence[Sequence[int]]) -> list[dict[int, float]]:
    """Each title's words with count times ln((1 + titles) / (1 + titles with the word)) + 1, scaled to length 1.

    Words 0 and 1 are padding and the unknown word; titles without another word do not count.
    """
    counts = [Counter(word for word in title if word > 1) for title in titles]
    number = sum(bool(count) for count in counts)
    vectors = []
    for count in counts:
        vector = {
            word: times * (math.log((1 + number) / (1 + sum(word in other for other in counts))) + 1)
            for word, times in count.items()
        }
        length = math.sqrt(sum(value**2 for value in vector.values()))
        vectors.append({word: value / length for word, value in vector.items()})
    return vectors


def tfidf_rule(titles: Sequence[Sequence[int]], own: Sequence[int], opposite: Sequence[int]) -> list[float]:
    """For each story of `own`: mean cosine to the others of `own` minus mean cosine to `opposite`; padding gets 0."""
    vectors = tfidf_vectors(titles)

    def mean_similarity(story: int, others: list[int]) -> float:
        products = [
            sum(value * vectors[other].get(word, 0.0) for word, value in vectors[story].items()) for other in others
        ]
        return fmean(products) if products else 0.0

    trust = []
    for place, story in enumerate(own):
        others = [other for at, other in enumerate(own) if other and at != place]
        opposed = [other for other in opposite if other]
        trust.append(mean_similarity(story, others) - mean_similarity(story, opposed) if story else 0.0)
    return trust


def read_kinds(seconds: Sequence[Sequence[float]]) -> list[list[int]]:
    """1 for 5 seconds or more, -1 for less, 0 for an unknown time."""
    return [[0 if math.isnan(value) else 1 if value >= 5 else -1 for value in row] for row in seconds]


def rank_correlation(weights: Sequence[float], values: Sequence[float]) -> float | None:
    """Spearman's correlation of the pairs whose value is known; None if all weights or all values are equal."""
    pairs = [(weight, value) for weight, value in zip(weights, values, strict=True) if not math.isnan(value)]
    first, second = ([mean_rank(pair[side], [other[side] for other in pairs]) for pair in pairs] for side in (0, 1))
    if len(set(first)) < 2 or len(set(second)) < 2:
        return None
    means = fmean(first), fmean(second)
    covariance = sum((one - means[0]) * (other - means[1]) for one, other in zip(first, second, strict=True))
    lengths = (sum((rank - mean) ** 2 for rank in ranks) for ranks, mean in zip((first, second), means, strict=True))
    return covariance / math.sqrt(math.prod(lengths))


def mean_rank(number: float, numbers: Sequence[float]) -> float:
    """The mean of the places, from 1, that a number has in the sorted numbers."""
    return fmean(place for place, other in enumerate(sorted(numbers), start=1) if other == number)
