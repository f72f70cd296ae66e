"""The quantiles of the features that a context view reads."""

import torch

from drpn.batches.samples import Clicks
from drpn.batches.tables import Tables
from drpn.layers.context import derive
from drpn.models.base import ClickModel

_SAMPLES = 200_000
"""Candidates whose features give the quantiles."""


def fit_counts(network: ClickModel, tables: Tables, clicks: Clicks, *, seed: int) -> None:
    """Give a context view the quantiles of some clicked and skipped candidates of training."""
    counts = tables.counts
    if network.context is None or counts is None:
        return
    generator = torch.Generator().manual_seed(seed)
    pairs = torch.cat([clicks.pair, clicks.skipped_pairs])
    readers = torch.cat([clicks.readers, clicks.skip_readers])
    chosen = torch.randperm(len(pairs), generator=generator)[:_SAMPLES].to(pairs.device)
    network.context.fit(derive(counts.pairs[pairs[chosen]].cpu().float(), counts.page[readers[chosen]].cpu().float()))
