"""The commands and their options."""

import dataclasses
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import typer

import drpn
from drpn import progress
from drpn.cli import printing
from drpn.errors import SettingsError
from drpn.recipes.settings import load_data_settings, load_settings

app = typer.Typer(
    name="drpn",
    help="News recommendation from what readers clicked [bold]and[/] from what they were shown and skipped.",
    epilog="A first look, from nothing: [bold]drpn demo[/]. Each command explains itself with --help.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class LogFormat(StrEnum):
    """Formats of logs."""

    auto = "auto"
    mind = "mind"
    ebnerd = "ebnerd"
    events = "events"


Force = Annotated[bool, typer.Option("--force", help="Replace the folder if it exists.")]
Sets = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change one setting, such as data.clicked=50. May be repeated."),
]
Config = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="A TOML file of settings, or a shipped one by name, such as laptop."),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"drpn {drpn.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print it.")
    ] = False,
) -> None:
    del version


@app.command()
def simulate(
    out: Annotated[Path, typer.Argument(help="The folder to write, in MIND's layout.")],
    users: Annotated[int, typer.Option(min=1, help="Readers of the newsroom.")] = 2_000,
    news: Annotated[int | None, typer.Option(min=1, help="Stories; in proportion to the readers if not given.")] = None,
    days: Annotated[int, typer.Option(min=2, help="Days of logs; the last one is the dev part.")] = 7,
    seed: Annotated[int, typer.Option(help="Same seed, same bytes.")] = 0,
    accidents: Annotated[float, typer.Option(min=0, max=1, help="Share of clicks that mean nothing.")] = 0.15,
    titles: Annotated[Path | None, typer.Option(help="A MIND news.tsv whose titles the stories borrow.")] = None,
    force: Force = False,
) -> None:
    """Write the logs of a newsroom whose truth is known.

    The folder has MIND's train/ and dev/, and truth.parquet: what each reader really thought of each news shown.

    Example: [bold]drpn simulate newsroom --users 50000 --seed 1[/]
    """
    from drpn.logs.simulate import SimulationSettings
    from drpn.logs.simulate import simulate as run

    try:
        settings = SimulationSettings(users=users, news=news, days=days, seed=seed, accidents=accidents)
    except ValueError as error:
        raise SettingsError(f"--{error}") from error
    done = run(out, settings, titles=titles, replace=force, progress=progress.for_terminal())
    printing.simulated(done, out)


@app.command()
def prepare(
    logs: Annotated[Path, typer.Argument(help="A folder of logs.")],
    out: Annotated[Path, typer.Option("--out", help="The dataset folder to write.")],
    format: Annotated[LogFormat, typer.Option(help="Format of the logs; auto looks at the files.")] = LogFormat.auto,
    engine: Annotated[Literal["duckdb"], typer.Option(help="What runs the queries.")] = "duckdb",
    vectors: Annotated[
        Path | None,
        typer.Option(
            help="GloVe or word2vec text file, plain or .gz; without one, vectors are learnt from the titles."
        ),
    ] = None,
    entities: Annotated[
        Path | None,
        typer.Option(
            help="Vectors of entities, where data.entities asks for some; without one, those beside MIND's news."
        ),
    ] = None,
    skip_unknown_news: Annotated[
        bool, typer.Option("--skip-unknown-news", help="Leave out news that were shown but are not in the news table.")
    ] = False,
    memory: Annotated[str, typer.Option(help="What DuckDB may use; beyond it, it spills to disk.")] = "2GB",
    config: Config = None,
    sets: Sets = None,
    force: Force = False,
) -> None:
    """Turn logs into a dataset folder: profiles, graph, splits, words.

    Formats: [bold]mind[/] (train/ and dev/ with news.tsv and behaviors.tsv), [bold]ebnerd[/] (articles.parquet, train/,
    validation/), and [bold]events[/]: your own tables, news and impressions, as Parquet, CSV or JSON Lines.

    Example: [bold]drpn prepare MINDlarge --out mind --vectors glove.840B.300d.txt[/]
    """
    from drpn.recipes.prepare import prepare as run

    del engine  # one choice so far
    dataset = run(
        logs,
        out,
        load_data_settings(config, sets or ()),
        format=format.value,
        vectors=vectors,
        entities=entities,
        skip_unknown_news=skip_unknown_news,
        memory=memory,
        replace=force,
        progress=progress.for_terminal(),
    )
    printing.prepared(dataset, out)


@app.command()
def stats(
    folder: Annotated[Path, typer.Argument(help="A dataset folder, as written by drpn prepare.")],
    json: Json = False,
) -> None:
    """Print the paper's Table 1 for a dataset folder, and check every byte of it.

    Example: [bold]drpn stats mind --json | jq .mean_skipped[/]
    """
    from drpn.dataset.folder import Dataset

    dataset = Dataset.open(folder)
    if json:
        printing.as_json(dataset.statistics)
    else:
        printing.statistics(dataset.statistics)


@app.command()
def train(
    folder: Annotated[Path, typer.Argument(help="A dataset folder, as written by drpn prepare.")],
    out: Annotated[Path, typer.Option("--out", help="The run folder to write.")],
    model: Annotated[str, typer.Option(help="A model of the catalogue; drpn models lists them.")] = "drpn",
    config: Config = None,
    sets: Sets = None,
    resume: Annotated[bool, typer.Option("--resume", help="Take up a run that was stopped.")] = False,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Write the curve for TensorBoard too; needs drpn\\[tensorboard].")
    ] = False,
) -> None:
    """Train a model on a dataset folder.

    The run folder gets a checkpoint (Ctrl-C stops cleanly, --resume goes on to the very same weights), the learning
    curve, and the bundle: what is evaluated, explained and served.

    Example: [bold]drpn train mind --out run --set model.size=64 --set training.epochs=3[/]
    """
    from drpn.recipes.train import train as run
    from drpn.training.stopping import Stopped

    settings = load_settings(config, sets or (), model=model)
    try:
        done = run(
            folder,
            out,
            model=model,
            settings=settings.model,
            training=settings.training,
            resume=resume,
            tensorboard=tensorboard,
            progress=progress.for_terminal(),
        )
    except Stopped:
        print("drpn: go on with --resume", file=sys.stderr)
        raise
    printing.trained(done)


@app.command()
def evaluate(
    run: Annotated[Path, typer.Argument(help="A run folder, as written by drpn train.")],
    split: Annotated[Literal["validation", "test"], typer.Option(help="Which impressions.")] = "test",
    scores: Annotated[Path | None, typer.Option(help="Write the scores of every candidate to this file.")] = None,
    scores_format: Annotated[
        Literal["mind", "jsonl"], typer.Option(help="mind: ranks, as in its competition.")
    ] = "mind",
    seed: Annotated[int, typer.Option(help="Seed of the bootstrap.")] = 0,
    json: Json = False,
) -> None:
    """Measure a trained model beside chance, popularity and, on simulated logs, the oracle.

    AUC, MRR, nDCG@5 and nDCG@10 with 95 % intervals over users: of all impressions, of users with a profile (what the
    paper measures) and without. On simulated logs also how well the weights find the noise.

    Example: [bold]drpn evaluate run --scores ranks.txt[/]
    """
    from drpn.recipes.evaluate import evaluate as measure

    found = measure(
        run, split=split, scores=scores, scores_format=scores_format, seed=seed, progress=progress.for_terminal()
    )
    if json:
        printing.as_json(found.as_dict())
    else:
        printing.evaluation(found)


@app.command()
def recommend(
    run: Annotated[Path, typer.Argument(help="A run folder, as written by drpn train.")],
    user: Annotated[str, typer.Option(help="Whom to recommend to.")],
    top: Annotated[int, typer.Option(min=1, help="How many news.")] = 10,
    title: Annotated[
        list[str] | None, typer.Option(help="A story that training never saw, ranked with the rest. May be repeated.")
    ] = None,
    category: Annotated[
        list[str] | None, typer.Option(help="The category of a --title; one for each, in their order.")
    ] = None,
    subcategory: Annotated[list[str] | None, typer.Option(help="Likewise its subcategory.")] = None,
    json: Json = False,
) -> None:
    """Rank the news of the log's last day for a user, and titles of your own among them.

    Example: [bold]drpn recommend run --user U42 --title "Chess champion loses to a newcomer" --category sports[/]
    """
    from drpn.bundle.recommender import Recommender, new_titles
    from drpn.recipes.runs import Run

    new = new_titles(title or (), category or (), subcategory or ())
    ranking = Recommender(Run.open(run).bundle()).rank(user, top=top, new=new)
    for note in ranking.notes:
        print(f"drpn: {note}", file=sys.stderr)
    if not ranking.known:
        print(f"drpn: user {user} has no profile here; this is the ranking for a newcomer", file=sys.stderr)
    if json:
        printing.as_json(
            {"user_id": user, "known": ranking.known, "rows": [dataclasses.asdict(row) for row in ranking.rows]}
        )
    else:
        printing.ranking(ranking)


@app.command()
def explain(
    run: Annotated[Path, typer.Argument(help="A run folder, as written by drpn train.")],
    user: Annotated[str, typer.Option(help="Whose ranking to explain.")],
    out: Annotated[Path | None, typer.Option("--out", help="Draw it as PNG or SVG.")] = None,
    json: Json = False,
) -> None:
    """Show which feedback of a user the model trusted, and what it made of it: the paper's case study.

    Example: [bold]drpn explain run --user U42 --out case.png[/]
    """
    from drpn.cli.case import print_case
    from drpn.recipes.explain import explain as tell

    found = tell(run, user, out, progress=progress.for_terminal())
    if json:
        printing.as_json(found.as_dict())
    else:
        print_case(found)
        if out:
            print(f"picture: {out}")


@app.command()
def models(json: Json = False) -> None:
    """List the catalogue: every model with its paper, its sizes, what it reads and what the folder must hold for it.

    With --json all settings of each.

    Example: [bold]drpn models --json | jq -r '.rows[].name'[/]
    """
    from drpn.models.catalogue import CATALOGUE
    from drpn.recipes.models import describe

    found = [describe(name) for name in CATALOGUE]
    if json:
        printing.as_json({"rows": [dataclasses.asdict(one) for one in found]})
    else:
        printing.catalogue(found)


@app.command()
def demo(
    out: Annotated[Path, typer.Option("--out", help="Where the demo works; replaced if a demo made it.")] = Path(
        "demo"
    ),
    users: Annotated[
        int | None, typer.Option(min=100, help="Readers of the newsroom; 20,000, or 2,000 if --quick.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the newsroom.")] = 7,
    quick: Annotated[bool, typer.Option("--quick", help="The data alone, nothing trained; seconds.")] = False,
) -> None:
    """Everything from nothing, in minutes: logs, dataset, DRPN trained, measured and explained.

    Simulates a newsroom, prepares it, trains DRPN, DRPN-N (clicks alone) and DRPN-D (no denoising), small, measures
    them beside chance, popularity and the oracle, and draws what DRPN trusted of one reader.

    Example: [bold]drpn demo --quick[/]
    """
    from drpn.recipes.demo import demo as run

    given = users or (2_000 if quick else 20_000)
    printing.demo(run(out, users=given, seed=seed, train=not quick, progress=progress.for_terminal()))
