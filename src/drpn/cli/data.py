"""Commands that write and describe data: `simulate`, `prepare`, `stats`."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import typer

from drpn import progress
from drpn.cli import printing
from drpn.cli.options import Config, DatasetFolder, Force, Json, Memory, Sets
from drpn.errors import SettingsError


class LogFormat(StrEnum):
    """Formats of logs."""

    auto = "auto"
    mind = "mind"
    ebnerd = "ebnerd"
    events = "events"


class PresetName(StrEnum):
    """Newsrooms of the simulator."""

    newsroom = "newsroom"
    personal = "personal"
    live = "live"


def simulate(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Folder to write.")],
    preset: Annotated[
        PresetName,
        typer.Option(
            help="The newsroom: newsroom resembles MIND; in personal, noise depends on the reader; in live, stories "
            "age and readers tire of them."
        ),
    ] = PresetName.newsroom,
    users: Annotated[int, typer.Option(min=1, help="Number of readers.")] = 2_000,
    news: Annotated[
        int | None, typer.Option(min=1, help="Number of stories, at least 300. Default: grows with the readers.")
    ] = None,
    days: Annotated[int, typer.Option(min=2, help="Days of logs; the last day becomes dev/.")] = 7,
    seed: Annotated[int, typer.Option(help="Random seed; the same seed and options write the same files.")] = 0,
    accidents: Annotated[
        float, typer.Option(min=0, max=1, help="Share of clicks that are noise: accidents and clickbait.")
    ] = 0.15,
    noise: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=0.5,
            help="Share of noise in clicks and in skips, instead of --accidents; not in live. Default: 0.3 in "
            "personal; elsewhere noise in skips arises from what readers see and click.",
        ),
    ] = None,
    titles: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="MIND news.tsv to take the titles from. Default: invented titles."),
    ] = None,
    force: Force = False,
) -> None:
    """Simulate the logs of a newsroom, with the true opinion of each reader.

    Writes a folder in MIND's layout (`train/` and `dev/` with `news.tsv` and `behaviors.tsv`) and `truth.parquet`,
    which records what each reader really thought of each story shown. With the truth known, `drpn evaluate` also
    measures how well a DRPN model tells real feedback from noise.

    Presets: `newsroom` has the statistics of MIND; whether feedback is noise depends more on the story than on the
    reader. In `personal` each reader has two to four topics and 30 % of clicks and of skips are noise: accidental
    clicks on other topics, and skipped stories of the reader's own topics. `live` has stories that age within hours,
    readers who tire of stories they were shown, sessions, devices and pages of stories; it is written in the events
    format, as `news.parquet` and `impressions.parquet`.

    Example: `drpn simulate newsroom --users 50000 --seed 1`
    """
    from drpn.logs.simulate import SimulationSettings
    from drpn.logs.simulate import simulate as run

    try:
        settings = SimulationSettings(
            users=users, news=news, days=days, seed=seed, accidents=accidents, preset=preset.value, noise=noise
        )
    except ValueError as error:
        raise SettingsError(f"--{error}") from error
    printing.simulation(run(out, settings, titles=titles, replace=force, progress=progress.for_terminal()), out)


def prepare(
    logs: Annotated[Path, typer.Argument(metavar="LOGS", help="Folder of logs.")],
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Dataset folder to write.")],
    format: Annotated[
        LogFormat, typer.Option(help="Format of the logs; auto recognises it by the file names.")
    ] = LogFormat.auto,
    engine: Annotated[
        Literal["duckdb", "spark"],
        typer.Option(
            help="Query engine that reads the logs; both write the same arrays. spark needs `drpn[spark]` and Java 17 "
            "or 21, see docs/scale.md."
        ),
    ] = "duckdb",
    master: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="With `--engine spark`: where Spark runs, such as spark://host:7077 or local[2]. Default: on all "
            "cores of this machine.",
        ),
    ] = None,
    protocol: Annotated[
        Literal["paper", "live"] | None,
        typer.Option(
            help="What is known of a user at an impression. paper: the profile of the profile window. live: also "
            "profiles and running counts as of each impression, for `--model drpn-live`, see docs/live.md. "
            "The same as `--set data.protocol=...`.",
        ),
    ] = None,
    vectors: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Word vectors: a GloVe or word2vec text file, plain or .gz. Default: learn them from the titles.",
        ),
    ] = None,
    entities: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Entity vectors, for use with `--set data.entities=5`. Default: entity_embedding.vec in the folder of "
            "each news.tsv, if there is one.",
        ),
    ] = None,
    contexts: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Context vectors of entities, in the format of the entity vectors. Default: context_embedding.vec in "
            "the folder of each news.tsv, if there is one.",
        ),
    ] = None,
    skip_unknown_news: Annotated[
        bool,
        typer.Option(
            "--skip-unknown-news",
            help="Ignore stories that were shown but are missing from the news table, instead of stopping.",
        ),
    ] = False,
    memory: Memory = "2GB",
    config: Config = None,
    sets: Sets = None,
    force: Force = False,
) -> None:
    """Convert logs into a dataset folder for training.

    Reads three formats: `mind` (`train/` and `dev/` with `news.tsv` and `behaviors.tsv`), `ebnerd` (`articles.parquet`,
    `train/`, `validation/`) and `events` (your own tables `news` and `impressions` as Parquet, CSV or JSON Lines, see
    docs/events.md).

    Writes user profiles, the story graph, title words with their vectors, and the train, validation and test
    impressions as NumPy arrays with a `manifest.json`. A failed or interrupted run leaves no folder behind.

    Prints which days make the profiles, train, validate and test, and warns if one of these is empty, tiny or stale.

    Example: `drpn prepare MINDlarge --out mind --vectors glove.840B.300d.txt`

    Example: `drpn prepare mylogs --out mydata --protocol live`
    """
    from drpn.recipes.data_settings import refuse_model_settings
    from drpn.recipes.prepare import prepare as run
    from drpn.recipes.settings import load_data_settings

    refuse_model_settings(sets or ())
    chosen = [*(sets or ()), *([f"data.protocol={protocol}"] if protocol else [])]
    dataset = run(
        logs,
        out,
        load_data_settings(config, chosen),
        format=format.value,
        vectors=vectors,
        entities=entities,
        contexts=contexts,
        skip_unknown_news=skip_unknown_news,
        engine=engine,
        master=master,
        memory=memory,
        replace=force,
        progress=progress.for_terminal(),
    )
    printing.prepared_dataset(dataset, out)


def stats(folder: DatasetFolder, json: Json = False) -> None:
    """Show the statistics of a dataset folder, next to MIND's in the paper.

    These are the numbers of the paper's Table 1 and a few more. Also verifies the checksum of every file in the folder.
    Writes nothing.

    Example: `drpn stats mind --json | jq .mean_skipped`
    """
    from drpn.dataset.folder import Dataset

    statistics = Dataset.open(folder).statistics
    if json:
        printing.as_json(statistics)
    else:
        printing.statistics(statistics)
