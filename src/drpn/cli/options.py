"""Arguments and options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

DatasetFolder = Annotated[Path, typer.Argument(metavar="FOLDER", help="Dataset folder written by `drpn prepare`.")]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="Run folder written by `drpn train`.")]
Force = Annotated[bool, typer.Option("--force", help="Replace the output folder if it exists and drpn made it.")]
Sets = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Change one setting, for example `training.epochs=3`; overrides --config. Can be repeated.",
    ),
]
Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="TOML file with `[data]`, `[model]`, `[training]`, or a shipped one by name, such as `laptop`.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document to standard output instead of tables.")]
Memory = Annotated[
    str,
    typer.Option(
        metavar="SIZE", help="Memory limit of the query engine, for example 4GB; beyond it, it uses the disk."
    ),
]
