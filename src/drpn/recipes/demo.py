"""The main job from nothing: a simulated newsroom, prepared, and three of its readers."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq

from drpn.logs.simulate import SimulationSettings, simulate
from drpn.output import new_folder
from drpn.progress import Progress, Silent
from drpn.recipes.prepare import prepare
from drpn.recipes.readers import Reader, reader, typical_readers

Truth = dict[str, str]
"""Why each news of a profile was clicked or skipped, by its id."""


@dataclass(frozen=True)
class Demo:
    """What the demo made and found."""

    out: Path
    statistics: dict[str, Any]
    readers: tuple[tuple[Reader, Truth], ...]


def demo(out: Path, *, users: int = 2_000, seed: int = 0, progress: Progress | None = None) -> Demo:
    """Simulate into `out/logs`, prepare into `out/dataset`, and read three profiles."""
    progress = progress or Silent()
    with new_folder(out, replace=True) as folder:
        simulate(folder / "logs", SimulationSettings(users=users, seed=seed), progress=progress)
        dataset = prepare(folder / "logs", folder / "dataset", progress=progress)
        readers = [reader(dataset, user) for user in typical_readers(dataset)]
        truths = [_truth(folder / "logs" / "truth.parquet", one) for one in readers]
        return Demo(out, dataset.statistics, tuple(zip(readers, truths, strict=True)))


def _truth(file: Path, of: Reader) -> Truth:
    """Why the reader clicked or skipped each news of the profile, as the simulator knows it."""
    rows = pq.read_table(file, columns=["news_id", "clicked", "cause"], filters=pc.field("user_id") == of.user_id)
    clicked = {news.news_id for news in of.clicked}
    return {row["news_id"]: row["cause"] for row in rows.to_pylist() if row["clicked"] == (row["news_id"] in clicked)}
