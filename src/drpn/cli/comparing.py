"""The commands that run many models: the paper's tables."""

from pathlib import Path
from typing import Annotated

import typer

from drpn import progress
from drpn.cli import printing
from drpn.cli.app import Config, Json, Sets, app
from drpn.errors import SettingsError
from drpn.models.catalogue import CATALOGUE
from drpn.recipes.settings import SHIPPED, find_config, read_settings_file

Models = Annotated[
    str, typer.Option(help="Names with commas between them, such as drpn,nrms; all: every model of the catalogue.")
]
Seeds = Annotated[int, typer.Option(min=1, help="Trainings of each model, with the seeds 0, 1, …")]
Jobs = Annotated[int, typer.Option(min=1, help="Runs at once, each in a process; they may share one GPU.")]
Keep = Annotated[bool, typer.Option("--keep", help="Keep the weights of every run; else only what was measured.")]
Again = Annotated[bool, typer.Option("--again", help="Train anew the runs made with other settings or data.")]
OutDir = Annotated[Path, typer.Option("--out", help="The folder for runs, tables, picture and JSON.")]


@app.command()
def compare(
    folder: Annotated[Path, typer.Argument(help="A dataset folder, as written by drpn prepare.")],
    out: OutDir,
    models: Models = "all",
    seeds: Seeds = 3,
    config: Config = None,
    sets: Sets = None,
    configs: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Settings of each model, as drpn tune writes them, or a shipped file by name, such as ebnerd-week1; "
            "newsroom unless this or --config is given.",
        ),
    ] = None,
    jobs: Jobs = 1,
    keep: Keep = False,
    again: Again = False,
    json: Json = False,
) -> None:
    """Train many models, several seeds each, and print the paper's Tables 2 and 3 for any dataset folder.

    Every run has its folder under OUT/runs. A run that was stopped is taken up by the same command; one that is
    finished is not repeated: its result.json and metrics.npz are enough, also when copied from another machine on which
    it was trained on a copy of FOLDER.
    A setting model.KEY reaches the models that have it.

    OUT gets table2, table3 and claims (.md and .tex), compare.png, and compare.json with settings, curves, commit and
    machine. Of what the paper claims, each claim is held, failed or not separated by these data.

    Example: [bold]drpn compare mind --out tables --models drpn,drpn-n,nrms --seeds 3 --jobs 2[/]
    """
    from drpn.experiments.compare import compare as run

    names = _names(models)
    found = run(
        folder,
        out,
        models=names,
        seeds=seeds,
        config=config,
        sets=sets or (),
        configs=_tuned_file(configs, names) or (None if config else SHIPPED / "newsroom.toml"),
        jobs=jobs,
        keep=keep,
        again=again,
        progress=progress.for_terminal(),
    )
    if json:
        printing.as_json(found.as_dict())
    else:
        printing.comparison(found)


@app.command()
def reproduce(
    logs: Annotated[Path, typer.Argument(metavar="MIND_DIR", help="MIND: train/ and dev/ with their .tsv files.")],
    out: OutDir,
    vectors: Annotated[
        Path | None, typer.Option(help="The paper's glove.840B.300d.txt; else vectors are learnt from the titles.")
    ] = None,
    models: Models = "all",
    seeds: Seeds = 3,
    config: Config = None,
    sets: Sets = None,
    jobs: Jobs = 1,
    memory: Annotated[str, typer.Option(help="What DuckDB may use; beyond it, it spills to disk.")] = "2GB",
    keep: Keep = False,
    again: Again = False,
    json: Json = False,
) -> None:
    """The paper, whole: prepare MIND by its protocol, train all systems, put Tables 1 to 3 beside the paper's.

    And judge each of its claims: held, failed or not separated, with the numbers. Sizes are the papers' own, training
    is DRPN's for all: the shipped file mind-large.toml, which says how long it takes. The same command resumes a
    stopped one.

    OUT gets table1, table2, table3 and claims (.md and .tex), compare.png, compare.json and reproduce.json.

    Example: [bold]drpn reproduce MINDlarge --out paper --vectors glove.840B.300d.txt --jobs 2[/]
    """
    from drpn.experiments.reproduce import reproduce as run

    done = run(
        logs,
        out,
        vectors=vectors,
        models=_names(models),
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
        printing.as_json(done.as_dict())
    else:
        printing.reproduction(done)


def _names(models: str) -> list[str] | None:
    if models.strip() == "all":
        return None
    names = [name.strip() for name in models.split(",") if name.strip()]
    if not names:
        raise SettingsError("--models names no model; write names with commas between them, or all")
    return list(dict.fromkeys(names))


def _tuned_file(path: Path | None, names: list[str] | None) -> Path | None:
    if path is None:
        return None
    if path.is_dir():
        raise SettingsError(f"--configs {path} is a folder; name a TOML file with a table [models.NAME] for each model")
    try:
        models = read_settings_file(path).models
    except SettingsError as error:
        raise SettingsError(f"--configs {error}") from error
    if not any(name in models for name in names or CATALOGUE):
        raise SettingsError(f"--configs {path}: it has no table of a model that is asked for, such as [models.drpn]")
    return find_config(path)
