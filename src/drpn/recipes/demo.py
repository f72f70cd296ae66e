"""The main job from nothing: a simulated newsroom, prepared, and three of its readers."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drpn.explain.pictures import draw_readers
from drpn.explain.profiles import Reader, reader, typical_readers
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
        readers = tuple(reader(dataset, user) for user in typical_readers(dataset))
        with progress.stage("picture"):
            draw_readers(readers, folder / "readers.png")
        return Demo(out, dataset.statistics, readers)
