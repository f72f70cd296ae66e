"""Vectors of stories from clicks: stories that the same users clicked get similar vectors.

The matrix of users and the stories that they clicked, weighed by TF-IDF, times these vectors is the best description of
its users in so few numbers: the sum of the vectors of a user's clicks tells which users read alike.
"""

import numpy as np
from numpy.typing import NDArray

from drpn.preparation.singular import rarity, right_singular_vectors, unit_rows

SIZE = 32


def story_factors(users: NDArray[np.int64], clicked: NDArray[np.int64], *, news: int) -> NDArray[np.float32]:
    """(news, size) from clicks, given by user and story; zeros for stories without a click. Fewer columns for few."""
    pairs = np.unique(users * np.int64(news) + clicked)
    reader, story = np.unique(pairs // news, return_inverse=True)[1], pairs % news
    readers = int(reader.max(initial=-1)) + 1
    rank = min(SIZE, readers, news)
    if rank == 0:
        return np.zeros((news, 1), np.float32)
    weight = rarity(story, rows=readers, columns=news)
    scaled = right_singular_vectors(unit_rows(reader, story, weight[story], (readers, news)), rank).numpy()
    lengths = np.linalg.norm(scaled, axis=0)  # the singular values
    directions = scaled / np.where(lengths > 1e-6 * lengths.max(), lengths, np.inf)
    result: NDArray[np.float32] = (directions * weight[:, None]).astype(np.float32)
    return result
