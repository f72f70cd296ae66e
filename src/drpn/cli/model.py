"""Commands for one model: `models`, `train`, `evaluate`, `recommend`, `explain`."""

import sys
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import typer

from drpn import progress
from drpn.cli import printed_evaluation, printing
from drpn.cli.options import Config, DatasetFolder, Json, RunFolder, Sets
from drpn.errors import SettingsError
from drpn.escape import terminal


def models(json: Json = False) -> None:
    """List the available models with their papers and default sizes.

    Also shows which feedback each model reads, and which settings `drpn prepare` needs for it. With --json, all
    settings of each model. Writes nothing.

    Example: `drpn models --json | jq -r '.rows[].name'`
    """
    from drpn.models.catalogue import CATALOGUE
    from drpn.recipes.models import describe

    descriptions = [describe(name) for name in CATALOGUE]
    if json:
        printing.as_json({"rows": [asdict(description) for description in descriptions]})
    else:
        printing.catalogue(descriptions)


def train(
    folder: DatasetFolder,
    out: Annotated[Path, typer.Option("--out", metavar="RUN", help="Run folder to write.")],
    model: Annotated[str, typer.Option(metavar="NAME", help="Model to train; `drpn models` lists them.")] = "drpn",
    config: Config = None,
    sets: Sets = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume an interrupted run.")] = False,
    tensorboard: Annotated[
        bool,
        typer.Option("--tensorboard", help="Also write the learning curve for TensorBoard; needs `drpn[tensorboard]`."),
    ] = False,
) -> None:
    """Train a model on a dataset folder.

    Uses a GPU if there is one. Stops early when the validation AUC no longer improves. Ctrl-C saves a checkpoint;
    repeat the command with --resume to continue, which gives the same weights as an uninterrupted run.

    Writes a run folder: the settings (`run.json`), the learning curve (`curve.jsonl`, `curve.png`) and the trained
    model (`bundle/`), which `drpn evaluate`, `drpn recommend` and `drpn explain` read.

    Example: `drpn train mind --out run --set model.size=64 --set model.heads=4 --set training.epochs=3`
    """
    from drpn.dataset.folder import Dataset
    from drpn.recipes.data_settings import note_other_data_settings, refuse_data_settings
    from drpn.recipes.settings import load_settings
    from drpn.recipes.train import train as run
    from drpn.training.stopping import Stopped

    refuse_data_settings(sets or ())
    settings, shown = load_settings(config, sets or (), model=model), progress.for_terminal()
    note_other_data_settings(config, Dataset.open(folder, verify=False), shown)
    try:
        trained = run(
            folder,
            out,
            model=model,
            settings=settings.model,
            training=settings.training,
            resume=resume,
            tensorboard=tensorboard,
            progress=shown,
        )
    except Stopped:
        print("drpn: training stopped; repeat the command with --resume to continue", file=sys.stderr)
        raise
    printing.trained_run(trained)


def evaluate(
    run: RunFolder,
    split: Annotated[Literal["validation", "test"], typer.Option(help="Split to evaluate.")] = "test",
    scores: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the scores of all candidates to this file.")
    ] = None,
    scores_format: Annotated[
        Literal["mind", "jsonl"],
        typer.Option(
            help="Format of the --scores file. mind: impression id and the rank of each candidate, as submitted to the "
            "MIND competition. jsonl: one JSON object per impression, with labels and scores."
        ),
    ] = "mind",
    diversity_curve: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Draw nDCG@10 against diversity to this PNG or SVG file: each impression is re-ranked with several "
            "values of the `diversity` of `drpn recommend`. A JSON file of the same name gets the numbers.",
        ),
    ] = None,
    noise: Annotated[
        bool,
        typer.Option(
            "--noise",
            help="Measure whether the weights find noise, also by the read times of clicks; refused if the logs have "
            "neither read times nor a simulator's truth.",
        ),
    ] = False,
    seed: Annotated[int, typer.Option(help="Random seed of the bootstrap intervals.")] = 0,
    json: Json = False,
) -> None:
    """Measure how well a trained model ranks.

    Prints AUC, MRR, nDCG@5 and nDCG@10 with 95 % bootstrap intervals over users: for all impressions, for users with a
    profile (as in the paper) and for users without. Compares the model with chance and popularity and, on simulated
    logs, with an oracle that knows the true interests. For DRPN models it also measures whether the weights are
    faithful to the scores and, on simulated logs, whether they tell real feedback from noise, next to how well that
    can be told from the rest of the profile and from the story alone. With --noise it also measures, on logs with read
    times, whether clicks with large weights were read for 5 seconds or more.

    A second table tells how diverse the first ten stories of each impression are: the mean distance of two of them, the
    share of the candidates' categories they cover, the share of the ten stories shown most often, and their novelty.

    Writes files only with --scores and --diversity-curve.

    Example: `drpn evaluate run --scores ranks.txt`

    Example: `drpn evaluate run --diversity-curve diversity.png`
    """
    from drpn.recipes.evaluate import evaluate as measure

    evaluation = measure(
        run,
        split=split,
        scores=scores,
        scores_format=scores_format,
        diversity_curve=diversity_curve,
        noise=noise,
        seed=seed,
        progress=progress.for_terminal(),
    )
    if json:
        printing.as_json(evaluation.as_dict())
    else:
        printed_evaluation.evaluation(evaluation)
        if diversity_curve:
            print(f"picture: {terminal(str(diversity_curve))}")


def recommend(
    run: RunFolder,
    user: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="User id from the logs; an unknown id is a new user. Can be repeated."),
    ] = None,
    clicked: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ID",
            help="Story of a given history that was clicked, oldest first. Can be repeated. Replaces "
            "the history in the logs.",
        ),
    ] = None,
    skipped: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="Story of a given history that was shown and skipped. Can be repeated."),
    ] = None,
    candidate: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="Story to rank, instead of those of the last day. Can be repeated."),
    ] = None,
    exclude: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="Story to leave out. Can be repeated.")
    ] = None,
    max_age: Annotated[
        float | None,
        typer.Option(min=0, metavar="HOURS", help="Leave out stories that were older at the end of the logs."),
    ] = None,
    page: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Story on whose page the list is shown, for models that read counts."),
    ] = None,
    about: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="What is known of the users, such as device=phone, for models that read counts; otherwise what the "
            "logs said last. Can be repeated.",
        ),
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="Number of stories to list.")] = 10,
    diversity: Annotated[
        float,
        typer.Option(min=0, max=1, help="From 0, the plain ranking, to 1, the most diverse list."),
    ] = 0.0,
    diversity_method: Annotated[
        Literal["mmr", "calibrated"],
        typer.Option(
            help="mmr: stories that differ from each other (maximal marginal relevance). calibrated: categories in the "
            "shares that the user clicked."
        ),
    ] = "mmr",
    fresh: Annotated[
        float, typer.Option(min=0, max=1, metavar="SHARE", help="Share of places for the newest stories.")
    ] = 0.0,
    popular: Annotated[
        float,
        typer.Option(
            min=0,
            max=1,
            metavar="SHARE",
            help="Share of places for the stories clicked most in the last day of the logs.",
        ),
    ] = 0.0,
    title: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", help="Title of a new story to rank together with the others. Can be repeated."),
    ] = None,
    category: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Category of a new story; give one for each --title, in the same order."),
    ] = None,
    subcategory: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Subcategory of a new story; give one for each --title, in the same order."),
    ] = None,
    json: Json = False,
) -> None:
    """Rank stories for one user, for many users, or for a history that you give.

    Ranks the stories of the last day of the logs that the user has not clicked, or the given candidates, and any new
    titles you give. The profile of a user is as of the end of the logs. Prints a table for each user; writes nothing.

    With --diversity, --fresh or --popular, the table says why each story is in its place: `ranked` by its score,
    `diverse` (placed above stories of higher scores), `fresh` or `popular`, and which rank its score alone gives it.

    Example: `drpn recommend run --user U42 --diversity 0.3 --fresh 0.1`

    Example: `drpn recommend run --user U42 --title "Chess champion loses to a newcomer" --category sports`

    Example: `drpn recommend run --clicked N17 --clicked N23 --skipped N5 --top 3`

    Example: `drpn recommend run --user U42 --page N17 --about device=phone`
    """
    from drpn.bundle.recommender import Recommender
    from drpn.bundle.stories import new_stories
    from drpn.recipes.runs import Run
    from drpn.state.profile import Profile

    try:
        history = Profile(clicked or (), skipped or ()) if clicked or skipped else None
    except ValueError as error:
        raise SettingsError(f"the history cannot be used: {error}") from error
    users = user or []
    if history is not None and len(users) > 1:
        raise SettingsError("--clicked and --skipped are the history of one user; name one --user, or none")
    if history is None and not users:
        raise SettingsError(
            "there is nobody to rank for; name a --user, or give a history with --clicked and --skipped"
        )
    new = new_stories(title or (), category or (), subcategory or ())
    bundle = Run.open(run).bundle()
    everyone_had_a_profile = bundle.manifest["data"]["settings"].get("users") == "with-profile"
    rankings = Recommender(bundle).recommend_many(
        users if history is None else [(users or [""])[0]],
        histories=None if history is None else [history],
        candidates=candidate,
        new=new,
        exclude=exclude or (),
        max_age_hours=max_age,
        page=page,
        about=_facts(about or ()),
        top=top,
        diversity=diversity,
        diversity_method=diversity_method,
        fresh=fresh,
        popular=popular,
    )
    for ranking in rankings:
        for note in ranking.notes:
            print(f"drpn: {terminal(note)}", file=sys.stderr)
        if not ranking.known:
            who = f"user {ranking.user_id} has no profile" if history is None else "the history holds no known story"
            untrained = ", which this model was not trained for" if everyone_had_a_profile else ""
            print(f"drpn: {terminal(who)}; this is the ranking for a new user{untrained}", file=sys.stderr)
        if not ranking.rows:
            empty = "no story is left to rank: the recent ones are clicked or excluded; name others by --candidate"
            print(f"drpn: {empty}", file=sys.stderr)
    if json:
        documents = [
            {"user_id": ranking.user_id, "known": ranking.known, "rows": [asdict(row) for row in ranking.rows]}
            for ranking in rankings
        ]
        printing.as_json(documents[0] if len(documents) == 1 else {"rankings": documents})
    else:
        for ranking in rankings:
            if len(rankings) > 1:
                print(f"user {terminal(ranking.user_id)}")
            printing.ranking(ranking)


def _facts(texts: Iterable[str]) -> dict[str, str | float]:
    """Facts about users that were given as NAME=VALUE."""
    facts: dict[str, str | float] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise SettingsError(f"--about is '{text}'; it takes NAME=VALUE, such as device=phone")
        facts[name] = value
    return facts


def explain(
    run: RunFolder,
    user: Annotated[str, typer.Option(metavar="ID", help="User id from the logs.")],
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Also draw it to this PNG or SVG file.")
    ] = None,
    json: Json = False,
) -> None:
    """Show why a DRPN model ranks stories as it does for one user.

    Lists the user's clicked and skipped stories by the weight the model gave them, and the ranked candidates with the
    parts of each score, as in the paper's case study. Works for `drpn` and its variants.

    Writes a picture only with --out.

    Example: `drpn explain run --user U42 --out case.png`
    """
    from drpn.cli.case import print_case
    from drpn.recipes.explain import explain as trace_user

    trace = trace_user(run, user, out, progress=progress.for_terminal())
    if json:
        printing.as_json(trace.as_dict())
    else:
        print_case(trace)
        if out:
            print(f"picture: {terminal(str(out))}")
