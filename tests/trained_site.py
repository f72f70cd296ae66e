"""A small simulated live site with models that were trained on it."""

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from drpn.logs.simulate import SimulationSettings, simulate
from drpn.preparation.settings import DataSettings
from drpn.recipes.prepare import prepare
from drpn.recipes.settings import entry
from drpn.recipes.train import train
from drpn.training.settings import TrainingSettings

SIMULATED = SimulationSettings(users=700, news=1_000, days=7, seed=3, preset="live")


class TrainedSite(NamedTuple):
    """Logs, and runs of a model that reads counts and of one that does not."""

    logs: Path
    live: Path
    plain: Path


def make_trained_site(folder: Path) -> TrainedSite:
    """Simulate, prepare and train; takes about half a minute."""
    simulate(folder / "logs", SIMULATED)
    prepare(folder / "logs", folder / "dataset", DataSettings(vector_size=16, protocol="live"))
    runs = []
    for name, epochs in (("drpn-live", 3), ("drpn", 1)):
        known = entry(name)
        sizes = {"size": 16, "hidden": 16, "heads": 2} | ({"context_size": 32} if name == "drpn-live" else {})
        training = TrainingSettings(epochs=epochs, negatives=30, batch=64, schedule="one-cycle", device="cpu")
        settings = replace(known.settings, **sizes)
        runs.append(train(folder / "dataset", folder / name, model=name, settings=settings, training=training).path)
    return TrainedSite(folder / "logs", *runs)
