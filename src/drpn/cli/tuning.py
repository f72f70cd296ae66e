"""The command that searches for settings."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from drpn import progress
from drpn.cli import printing
from drpn.cli.app import Config, Sets, app


@app.command()
def tune(
    folder: Annotated[Path, typer.Argument(help="A dataset folder, as written by drpn prepare.")],
    model: Annotated[str, typer.Option(help="A model of the catalogue; drpn models lists them.")],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The TOML file to write or add to.")],
    trials: Annotated[int, typer.Option(min=1, help="Trainings, those of an earlier search counted.")] = 8,
    config: Config = None,
    sets: Sets = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the search; same seed, same trials (on CPU).")] = 0,
) -> None:
    """Search for how a model is best trained, by validation AUC alone.

    Tries training.rate from 1e-4 to 3e-3, training.decay of 0, 1 and 5, model.dropout from 0 to 0.4 where the model has
    it, and training.tce_rate of 0.05, 0.1 and 0.2 where training.loss is tce; all else is as given, and the same for
    every model. The first trial is the settings as given.

    FILE gets a table \\[models.NAME] with the best settings; tables of other models in it are kept. Use it with
    --config of drpn train and with --configs of drpn compare.

    Trials are kept in FILE.trials: a search that was stopped is resumed by the same command, finished trials are not
    repeated. Needs drpn\\[tune].

    Example: [bold]drpn tune mind --model nrms --out tuned.toml --trials 8 --set training.epochs=3[/]
    """
    from drpn.experiments.tune import tune as run

    try:
        found = run(
            folder,
            out,
            model=model,
            trials=trials,
            config=config,
            sets=sets or (),
            seed=seed,
            progress=progress.for_terminal(),
        )
    except KeyboardInterrupt:
        print("drpn: the same command goes on; finished trials are not repeated", file=sys.stderr)
        raise
    printing.tuned(found)
