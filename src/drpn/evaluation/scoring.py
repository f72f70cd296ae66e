"""A model's score for every candidate of a split."""

from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from drpn.batches.batch import all_stories
from drpn.batches.ranking import user_pages
from drpn.batches.tables import Tables
from drpn.dataset.folder import Impressions
from drpn.layers.precision import Precision, matrix_precision
from drpn.layers.tables import map_tables
from drpn.models.base import ClickModel
from drpn.models.encode import encode_all
from drpn.progress import Progress
from drpn.ranks import current

USERS = {"cpu": 32, "cuda": 4_096}
"""Users read at once: on a CPU as many as stay in its cache."""
CANDIDATES = {"cpu": 8_192, "cuda": 131_072}
"""Candidates scored at once, padding included."""


def score_impressions(
    model: ClickModel,
    tables: Tables,
    impressions: Impressions,
    progress: Progress,
    *,
    precision: Precision = "auto",
    encoded: Any = None,
) -> NDArray[np.float32]:
    """The score of each candidate, in the order of the impressions."""
    scores = score_on_device(model, tables, impressions, progress, precision=precision, encoded=encoded)
    return cast(NDArray[np.float32], scores.cpu().numpy())


@torch.no_grad()
def score_on_device(
    model: ClickModel,
    tables: Tables,
    impressions: Impressions,
    progress: Progress,
    *,
    precision: Precision = "auto",
    encoded: Any = None,
) -> Tensor:
    """The same on the device of the model; every story is encoded once, and every user is read once.

    The last inner products are in float32 whatever the precision. Processes that run together share the users in the
    chunks in which one process would read them, so that the scores are the same to the last bit.
    """
    model.eval()
    ranks = current()
    device = next(model.parameters()).device
    data_device = tables.clicked.device  # the host's memory if the data are too large for the GPU
    with matrix_precision(precision, device):
        with progress.stage("encoding stories"):
            stories = encode_all(model, tables.news) if encoded is None else encoded
        scores = torch.zeros(len(impressions.candidates) + 1, dtype=torch.float32, device=device)  # last: padding
        with progress.stage("scoring", len(impressions)) as advance:
            chunks = user_pages(impressions, data_device, users=USERS[device.type], candidates=CANDIDATES[device.type])
            for number, (users, pages) in enumerate(chunks):
                if number % ranks.size != ranks.rank:
                    continue
                readers = model.read(stories, all_stories(tables.profiles(users)).to(device))
                for page in pages:
                    pairs = (page.flat_index + impressions.first_pair).clamp_min(0)
                    context = tables.context(users[page.readers], page.moments, pairs).to(device)
                    which, candidates, index, _ = (part.to(device) for part in page)
                    page_readers = map_tables(lambda table, which=which: table[which], readers)
                    scores[index] = model.rank(stories, page_readers, candidates, context).float()
                    advance(len(which))
    return ranks.add(scores[:-1])
