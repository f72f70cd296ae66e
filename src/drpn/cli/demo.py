"""The command for a first look."""

from pathlib import Path
from typing import Annotated

import typer

from drpn import progress
from drpn.cli import printing


def demo(
    out: Annotated[
        Path, typer.Option("--out", metavar="FOLDER", help="Folder to write; replaced if an earlier demo made it.")
    ] = Path("demo"),
    users: Annotated[
        int | None, typer.Option(min=100, help="Simulated readers. Default: 20,000, or 2,000 with --quick.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Random seed of the simulation.")] = 7,
    quick: Annotated[bool, typer.Option("--quick", help="Only simulate and prepare the data; takes seconds.")] = False,
) -> None:
    """Try everything on simulated data, in minutes: prepare, train, evaluate, explain.

    Simulates a newsroom and its readers, prepares a dataset, and trains three small models: DRPN, DRPN-N (clicks only)
    and DRPN-D (no denoising). Then compares them with chance, popularity and the oracle, and shows which feedback of
    one reader DRPN trusted.

    Writes logs, dataset, the three runs, `results.json`, `readers.png` and `case.png` to `demo/`.

    Example: `drpn demo --quick`
    """
    from drpn.recipes.demo import demo as run

    if users is None:
        users = 2_000 if quick else 20_000
    printing.demo(run(out, users=users, seed=seed, train=not quick, progress=progress.for_terminal()))
