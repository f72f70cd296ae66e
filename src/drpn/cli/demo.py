"""The command for a first look."""

from pathlib import Path
from typing import Annotated

import typer

from drpn import progress
from drpn.cli import printed_demo


def demo(
    out: Annotated[
        Path, typer.Option("--out", metavar="FOLDER", help="Folder to write; replaced if an earlier demo made it.")
    ] = Path("demo"),
    users: Annotated[
        int | None,
        typer.Option(min=100, help="Simulated readers of each newsroom. Default: 3,000, or 1,000 with --quick."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Random seed of the simulation.")] = 17,
    quick: Annotated[bool, typer.Option("--quick", help="Only simulate and prepare the data; takes seconds.")] = False,
) -> None:
    """Try everything on simulated data, in minutes: prepare, train, evaluate, explain.

    Two newsrooms, small models. A live site: `drpn-live` ranks with what a site knows at that second, and is compared
    with its ablations, DRPN, chance, popularity, the running click rate and the oracle. Noise that is found:
    `drpn-planted` and DRPN weigh the clicks and skips of readers, whose true reasons are known; the picture shows which
    feedback of one reader was trusted.

    Writes logs, datasets and runs to `demo/live` and `demo/noise`, and `results.json`, `live.png`, `case.png` and
    `readers.png` to `demo`.

    Example: `drpn demo --quick`
    """
    from drpn.recipes.demo import USERS
    from drpn.recipes.demo import demo as run

    if users is None:
        users = 1_000 if quick else USERS
    printed_demo.demo(run(out, users=users, seed=seed, train=not quick, progress=progress.for_terminal()))
