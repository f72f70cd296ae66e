"""Datasets in memory that hold the labels, titles and counts of a few stories."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from reference.diversity_loops import Story


def dataset_of(stories: Sequence[Story]) -> Any:
    """A dataset whose story of row n is stories[n - 1]."""
    every = [Story(0, 0, ()), *stories]
    titles = [" ".join(f"w{word}" for word in story.words if word > 1) for story in every]
    arrays = {
        f"news/{name}": np.array([getattr(story, name) for story in every], dtype=np.int32)
        for name in ("category", "subcategory", "times_shown")
    }
    return SimpleNamespace(titles=titles, arrays=SimpleNamespace(array=arrays.__getitem__))


def impressions_of(lists: Sequence[Sequence[int]], clicked: Sequence[Sequence[bool]] | None = None) -> Any:
    """Impressions of stories by row; without `clicked`, the first candidate of each is clicked."""
    labels = clicked or [[place == 0 for place in range(len(stories))] for stories in lists]
    return SimpleNamespace(
        offsets=np.cumsum([0, *map(len, lists)]),
        candidates=np.array([story for stories in lists for story in stories], dtype=np.int32),
        clicked=np.array([label for row in labels for label in row], dtype=np.bool_),
    )
