"""Similarity, diversity of lists, maximal marginal relevance and calibration from their definitions, as plain loops.

There is no formula for ties: values are averaged over all orders that the scores allow.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, groupby, permutations, product
from statistics import fmean


@dataclass(frozen=True)
class Story:
    """A story; label 0 and words 0 (padding) and 1 (unknown) stand for none."""

    category: int
    subcategory: int
    words: tuple[int, ...]
    times_shown: int = 0


def similarity(first: Story, second: Story, every: Sequence[Story]) -> float:
    """The mean of the parts: same category, same subcategory, cosine of TF-IDF."""
    labels = [name for name in ("category", "subcategory") if any(getattr(story, name) for story in every)]
    same = [float(getattr(first, name) == getattr(second, name) != 0) for name in labels]
    return fmean([_cosine(first, second, every), *same])


def _cosine(first: Story, second: Story, every: Sequence[Story]) -> float:
    def known(story: Story) -> set[int]:
        return {word for word in story.words if word > 1}

    def idf(word: int) -> float:
        return math.log((len(every) + 1) / (sum(word in known(story) for story in every) + 1)) + 1

    def norm(story: Story) -> float:
        return math.sqrt(sum(idf(word) ** 2 for word in known(story)))

    if not known(first) or not known(second):
        return 0.0
    return sum(idf(word) ** 2 for word in known(first) & known(second)) / (norm(first) * norm(second))


def orders(scores: Sequence[float]) -> Iterator[list[int]]:
    """All orders of the candidates from the highest score to the lowest, with ties in every order."""
    best_first = sorted(range(len(scores)), key=lambda place: -scores[place])
    ties = [list(tie) for _, tie in groupby(best_first, key=lambda place: scores[place])]
    for arranged in product(*(permutations(tie) for tie in ties)):
        yield [place for tie in arranged for place in tie]


def diversity(
    lists: Sequence[tuple[Sequence[float], Sequence[int]]], every: Sequence[Story], top: int, most_shown: int
):
    """Return distance, coverage, concentration and novelty of each list of (scores, stories)."""
    total = sum(story.times_shown + 1 for story in every)
    firsts = [[[stories[place] for place in order[:top]] for order in orders(scores)] for scores, stories in lists]
    placed: Counter[int] = Counter()
    for tried in firsts:
        for first in tried:
            for story in first:
                placed[story] += 1 / len(tried)
    most = sorted(range(len(every)), key=lambda story: (-round(placed[story], 9), story))[:most_shown]
    result = []
    for (_, stories), tried in zip(lists, firsts, strict=True):
        categories = {every[story].category for story in stories}
        values = []
        for first in tried:
            pairs = [1 - similarity(every[one], every[two], every) for one, two in combinations(first, 2)]
            novelty = [-math.log2((every[story].times_shown + 1) / total) for story in first]
            covered = {every[story].category for story in first}
            values.append(
                (fmean(pairs), len(covered) / len(categories), fmean(s in most for s in first), fmean(novelty))
            )
        result.append([fmean(column) for column in zip(*values, strict=True)])
    return result


def relevance(scores: Sequence[float]) -> list[float]:
    """Scores from 0 to 1; all 0 if they are equal."""
    low, high = min(scores), max(scores)
    return [(score - low) / (high - low) if high > low else 0.0 for score in scores]


def mmr(scores: Sequence[float], similar: Sequence[Sequence[float]], diversity: float) -> list[int]:
    """Place stories one by one: relevance less the similarity to the nearest placed story; the scores do not rise."""
    worth, placed = relevance(scores), []
    while len(placed) < len(scores):
        best, best_value = -1, -math.inf
        for story in range(len(scores)):
            nearest = max([similar[story][other] for other in placed], default=0.0)
            value = (1 - diversity) * worth[story] - diversity * nearest
            if story not in placed and value > best_value + 1e-12:
                best, best_value = story, value
        placed.append(best)
    return placed


def divergence(target: Sequence[float], categories: Sequence[int], share: float) -> float:
    """The Kullback-Leibler divergence of the categories of a list from the target mix."""
    total = 0.0
    for category, wanted in enumerate(target):
        mix = categories.count(category) / len(categories)
        smoothed = (1 - share) * mix + share * wanted
        if wanted:
            total += wanted * math.log(wanted / smoothed)
    return total


def calibrated(scores: Sequence[float], categories: Sequence[int], target: Sequence[float], diversity: float) -> list:
    """Place stories one by one: relevance less the divergence of the list that they would make."""
    worth, placed = relevance(scores), []
    while len(placed) < len(scores):
        best, best_value = -1, -math.inf
        for story in range(len(scores)):
            list_categories = [categories[other] for other in [*placed, story]]
            value = (1 - diversity) * worth[story] - diversity * divergence(target, list_categories, 0.01)
            if story not in placed and value > best_value + 1e-12:
                best, best_value = story, value
        placed.append(best)
    return placed
