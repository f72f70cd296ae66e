"""Commands that train many models: `tune`, `compare`, `reproduce`."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from drpn import progress
from drpn.cli import printing
from drpn.cli.options import Config, DatasetFolder, Json, Memory, Sets
from drpn.errors import SettingsError

Models = Annotated[
    str, typer.Option(metavar="NAMES", help="Models to train, separated by commas, for example `drpn,nrms`; or `all`.")
]
Seeds = Annotated[int, typer.Option(min=1, help="Runs per model, with seeds 0, 1, 2, …")]
Jobs = Annotated[int, typer.Option(min=1, help="Runs at the same time, each in its own process; they share the GPU.")]
Keep = Annotated[bool, typer.Option("--keep", help="Keep the weights of every run, not only its results.")]
Again = Annotated[
    bool, typer.Option("--again", help="Train again the runs that were made with different settings or data.")
]
OutFolder = Annotated[
    Path, typer.Option("--out", metavar="OUT", help="Folder to write runs, tables, picture and JSON to.")
]


def tune(
    folder: DatasetFolder,
    model: Annotated[str, typer.Option(metavar="NAME", help="Model to tune; `drpn models` lists them.")],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="TOML file to write, or to add to.")],
    trials: Annotated[
        int, typer.Option(min=1, help="Runs in total, including those of an earlier, interrupted search.")
    ] = 8,
    config: Config = None,
    sets: Sets = None,
    seed: Annotated[
        int,
        typer.Option(
            min=0, help="Random seed of the search; the same seed and number of threads give the same trials on a CPU."
        ),
    ] = 0,
) -> None:
    """Search for the best training settings of a model.

    Chooses by validation AUC; the test split is not used. Searches `training.rate` (1e-4 to 3e-3), `training.decay`
    (0, 1 or 5), `model.dropout` (0 to 0.5, if the model has it) and, with `training.loss=tce`, `training.tce_rate`
    (0.05, 0.1 or 0.2). All other settings stay as given. The first trial uses the settings as given. Needs
    `drpn[tune]`.

    Writes a table `[models.NAME]` with the settings of the best trial to FILE, and keeps the tables of other models in
    it. Use FILE with `--config` of `drpn train` and with `--configs` of `drpn compare`. All trials go to FILE.trials.
    After an interruption, repeat the
    command: it continues and does not repeat finished trials.

    Example: `drpn tune mind --model nrms --out tuned.toml --trials 8 --set training.epochs=3`
    """
    from drpn.experiments.tune import tune as run

    try:
        tuned = run(
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
        print("drpn: repeat the command to continue; finished trials are not repeated", file=sys.stderr)
        raise
    printing.tuned(tuned)


def compare(
    folder: DatasetFolder,
    out: OutFolder,
    models: Models = "all",
    seeds: Seeds = 3,
    config: Config = None,
    sets: Sets = None,
    configs: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="TOML file with settings for each model, as written by `drpn tune`, or a shipped one by name, such as "
            "`ebnerd-week1`. Default: `newsroom`, unless --config is given.",
        ),
    ] = None,
    jobs: Jobs = 1,
    keep: Keep = False,
    again: Again = False,
    trees: Annotated[
        bool, typer.Option("--trees", help="Add LightGBM on the counts of the live protocol (extra `trees`).")
    ] = False,
    json: Json = False,
) -> None:
    """Train several models with several seeds, and compare them in tables.

    Prints the paper's Tables 2 and 3 for your dataset, with paired 95 % intervals against DRPN, and judges each claim
    of the paper: held, failed or not separated. A `--set model.KEY` applies to the models that have this setting.

    Writes to OUT: `table2`, `table3` and `claims` (.md and .tex), `compare.png`, `compare.json`, and a folder per run
    in `OUT/runs`. After an interruption, repeat the command: it continues and does not repeat finished runs. A run is
    finished if its folder has `result.json` and `metrics.npz`, so runs can also be copied here from a machine that
    trained them on a copy of FOLDER.

    Example: `drpn compare mind --out tables --models drpn,drpn-n,nrms --seeds 3 --jobs 2`
    """
    from drpn.experiments.compare import compare as run
    from drpn.recipes.settings import SHIPPED

    names = _parse_models(models)
    compared = run(
        folder,
        out,
        models=names,
        seeds=seeds,
        config=config,
        sets=sets or (),
        configs=_check_configs(configs, names) or (None if config else SHIPPED / "newsroom.toml"),
        jobs=jobs,
        keep=keep,
        again=again,
        trees=trees,
        progress=progress.for_terminal(),
    )
    if json:
        printing.as_json(compared.as_dict())
    else:
        printing.comparison(compared)


def reproduce(
    logs: Annotated[
        Path, typer.Argument(metavar="MIND_DIR", help="MIND logs: train/ and dev/ with news.tsv and behaviors.tsv.")
    ],
    out: OutFolder,
    vectors: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Word vectors, in the paper glove.840B.300d.txt. Default: learn them from the titles."
        ),
    ] = None,
    models: Models = "all",
    seeds: Seeds = 3,
    config: Config = None,
    sets: Sets = None,
    jobs: Jobs = 1,
    memory: Memory = "2GB",
    keep: Keep = False,
    again: Again = False,
    json: Json = False,
) -> None:
    """Reproduce the paper on MIND: prepare the data, train all models, write Tables 1 to 3.

    Prepares MIND as the paper does, trains each model at the sizes of its own paper with DRPN's training settings, and
    judges each claim of the paper: held, failed or not separated. Without --config the settings are those of the
    shipped file `mind-large`, which also says how long it takes. After an interruption, repeat the command: it
    continues.

    Writes to OUT: `table1`, `table2`, `table3` and `claims` (.md and .tex), `compare.png`, `compare.json` and
    `reproduce.json`. If the logs are MIND-large, the tables show the paper's numbers next to ours.
    Users without a profile are left out, as the paper's authors do; `--set data.users=all` keeps them.

    Example: `drpn reproduce MINDlarge --out paper --vectors glove.840B.300d.txt --jobs 2`
    """
    from drpn.experiments.reproduce import reproduce as run

    reproduced = run(
        logs,
        out,
        vectors=vectors,
        models=_parse_models(models),
        seeds=seeds,
        config=config,
        sets=sets or (),
        jobs=jobs,
        memory=memory,
        keep=keep,
        again=again,
        progress=progress.for_terminal(),
    )
    if json:
        printing.as_json(reproduced.as_dict())
    else:
        printing.reproduction(reproduced)


def _parse_models(models: str) -> list[str] | None:
    """The names in `drpn, nrms` without duplicates; None for `all`."""
    if models.strip() == "all":
        return None
    names = [name.strip() for name in models.split(",") if name.strip()]
    if not names:
        raise SettingsError("--models names no model; write names separated by commas, or all")
    return list(dict.fromkeys(names))


def _check_configs(file: Path | None, names: list[str] | None) -> Path | None:
    """The file of --configs, or the shipped one of that name; refuse one without a table for any of the models."""
    from drpn.models.catalogue import CATALOGUE
    from drpn.recipes.settings import find_config, read_settings_file

    if file is None:
        return None
    if file.is_dir():
        raise SettingsError(f"--configs {file} is a folder; name a TOML file with a table [models.NAME] for each model")
    try:
        models = read_settings_file(file).models
    except SettingsError as error:
        raise SettingsError(f"--configs {error}") from error
    if not any(name in models for name in names or CATALOGUE):
        raise SettingsError(f"--configs {file} has no table of any of the models, such as [models.drpn]")
    return find_config(file)
