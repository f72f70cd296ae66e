"""A small simulated newsroom, prepared, and models for it with random weights."""

import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from drpn.batches.tables import Tables
from drpn.bundle.files import data_shape
from drpn.dataset.folder import Dataset
from drpn.logs.simulate import SimulationSettings, simulate
from drpn.models.catalogue import CATALOGUE
from drpn.models.drpn import Drpn
from drpn.recipes.prepare import prepare

Build = Callable[[str], Drpn]


@pytest.fixture(scope="session")
def newsroom(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    folder = tmp_path_factory.mktemp("newsroom")
    simulate(folder / "logs", SimulationSettings(users=150, news=600))
    return prepare(folder / "logs", folder / "dataset")


@pytest.fixture(scope="session")
def tables(newsroom: Dataset) -> Tables:
    return Tables.from_dataset(newsroom, torch.device("cpu"))


@pytest.fixture(scope="session")
def build(newsroom: Dataset) -> Build:
    """Return a function that builds a model in float64 and draws every weight with a seed from its name."""
    shape = data_shape(newsroom)

    def build_model(name: str) -> Drpn:
        settings = replace(CATALOGUE[name].settings, size=8, heads=2, hidden=8, graph_heads=2)
        model = Drpn(settings, shape).double().eval()
        with torch.no_grad():
            for key, parameter in model.named_parameters():
                values = np.random.default_rng(zlib.crc32(key.encode())).normal(scale=0.6, size=parameter.shape)
                parameter.copy_(torch.from_numpy(np.asarray(values)))
        return model

    return build_model


@pytest.fixture(scope="session")
def run_path(newsroom: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of one epoch."""
    from drpn.recipes.train import train
    from drpn.training.settings import TrainingSettings

    settings = replace(CATALOGUE["drpn"].settings, size=8, heads=2, hidden=8)
    path = tmp_path_factory.mktemp("runs") / "run"
    return train(newsroom.path, path, settings=settings, training=TrainingSettings(epochs=1, device="cpu")).path
