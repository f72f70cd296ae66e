"""The main job from nothing: a simulated newsroom, prepared, and three of its readers."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq

from drpn.explain.pictures import draw_readers
from drpn.explain.profiles import Reader, reader, typical_readers, with_causes
from drpn.logs.simulate import SimulationSettings, simulate
from drpn.output import new_folder
from drpn.progress import Progress, Silent
from drpn.recipes.prepare import prepare


@dataclass(frozen=True)
class Demo:
    """What the demo made and found."""

    out: Path
    statistics: dict[str, Any]
    readers: tuple[Reader, ...]


def demo(out: Path, *, users: int = 2_000, seed: int = 0, progress: Progress | None = None) -> Demo:
    """Simulate into `out/logs`, prepare into `out/dataset`, read three profiles and draw them."""
    progress = progress or Silent()
    with new_folder(out, replace=True) as folder:
        simulate(folder / "logs", SimulationSettings(users=users, seed=seed), progress=progress)
        dataset = prepare(folder / "logs", folder / "dataset", progress=progress)
        truth = folder / "logs" / "truth.parquet"
        readers = tuple(_knowing(truth, reader(dataset, user)) for user in typical_readers(dataset))
        with progress.stage("picture"):
            draw_readers(readers, folder / "readers.png")
        return Demo(out, dataset.statistics, readers)


def _knowing(truth: Path, of: Reader) -> Reader:
    """The profile with what the simulator knows of each click and skip."""
    rows = pq.read_table(truth, columns=["news_id", "clicked", "cause"], filters=pc.field("user_id") == of.user_id)
    causes: dict[bool, dict[str, str]] = {True: {}, False: {}}
    for row in rows.to_pylist():
        causes[row["clicked"]][row["news_id"]] = row["cause"]
    return with_causes(of, causes[True], causes[False])
