"""A model's scores for every candidate of a split."""

from contextlib import AbstractContextManager, nullcontext

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from drpn.batches.ranking import user_pages
from drpn.batches.tables import Tables
from drpn.dataset.folder import Impressions
from drpn.models.base import ClickModel, Encoded
from drpn.models.encoded import encode_all, map_tensors
from drpn.progress import Progress

USERS = {"cpu": 32, "cuda": 4_096}
"""Users read at once: on a CPU as many as stay in its cache."""
CANDIDATES = {"cpu": 8_192, "cuda": 131_072}
"""Candidates scored at once, padding counted."""


def score_impressions(
    model: ClickModel, tables: Tables, impressions: Impressions, progress: Progress, *, encoded: Encoded | None = None
) -> NDArray[np.float32]:
    """One score for each candidate, in the order of the impressions."""
    scores: NDArray[np.float32] = score_on_device(model, tables, impressions, progress, encoded=encoded).cpu().numpy()
    return scores


@torch.no_grad()
def score_on_device(
    model: ClickModel, tables: Tables, impressions: Impressions, progress: Progress, *, encoded: Encoded | None = None
) -> Tensor:
    """The same, left where the tables are; every news is encoded once, and every user is read once."""
    model.eval()
    device = next(model.parameters()).device
    home = tables.clicked.device  # the host's memory, where the data are too large for a GPU
    with _precision(device):
        with progress.stage("encoding news"):
            rows = encode_all(model, tables.news) if encoded is None else encoded
        scores = torch.zeros(len(impressions.candidates) + 1, dtype=torch.float32, device=device)  # the last: padding
        with progress.stage("scoring", len(impressions)) as advance:
            chunks = user_pages(impressions, home, users=USERS[device.type], candidates=CANDIDATES[device.type])
            for users, pages in chunks:
                nothing = users.new_zeros(len(users), 1)
                readers = model.read(rows, tables.batch(users, nothing).to(device))
                for page in pages:
                    which, candidates, places = (part.to(device) for part in page)
                    own = map_tensors(lambda table, which=which: table[which], readers)
                    scores[places] = model.match(rows, own, candidates).float()
                    advance(len(which))
    return scores[:-1]


def _precision(device: torch.device) -> AbstractContextManager[object]:
    """bf16 on a GPU, whatever training was in; the last inner products are in float32."""
    return torch.autocast("cuda", dtype=torch.bfloat16) if device.type == "cuda" else nullcontext()
