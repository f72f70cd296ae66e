"""A model's scores for every candidate of a split."""

import numpy as np
import torch
from numpy.typing import NDArray

from drpn.batches.ranking import ranking_batches
from drpn.batches.tables import Tables
from drpn.dataset.folder import Impressions
from drpn.models.base import ClickModel, Encoded
from drpn.models.encoded import encode_in_steps
from drpn.progress import Progress

CANDIDATES = {"cpu": 8_192, "cuda": 131_072}
"""Candidates of one batch, padding counted."""


@torch.no_grad()
def score_impressions(
    model: ClickModel, tables: Tables, impressions: Impressions, progress: Progress, *, encoded: Encoded | None = None
) -> NDArray[np.float32]:
    """One score for each candidate, in the order of the impressions; all news are encoded once."""
    model.eval()
    device = tables.clicked.device
    with progress.stage("encoding news"):
        rows = encode_in_steps(model, tables.news) if encoded is None else encoded
    scores = torch.zeros(len(impressions.candidates), dtype=torch.float32, device=device)
    with progress.stage("scoring", len(impressions)) as advance:
        for batch, places in ranking_batches(impressions, tables, candidates=CANDIDATES[device.type]):
            real = places >= 0
            scores[places[real]] = model.score(rows, batch).float()[real]
            advance(len(batch))
    return scores.cpu().numpy()
