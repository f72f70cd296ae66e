"""The profiles as of the end of the log, which a bundle has."""

from dataclasses import replace

import numpy as np
import torch

from drpn.batches.tables import Tables
from drpn.dataset.folder import Dataset


def latest_tables(dataset: Dataset) -> Tables:
    """The tables of a dataset folder with the profiles that its bundles have; those of a bundle as they are."""
    tables = Tables.from_dataset(dataset, torch.device("cpu"))
    if "latest/clicked" not in dataset.arrays:
        return tables
    clicked, skipped = (
        torch.from_numpy(np.array(dataset.arrays.array(f"latest/{side}"))) for side in ("clicked", "skipped")
    )
    return replace(tables, clicked=clicked, skipped=skipped)
