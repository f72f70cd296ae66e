"""The public Python API: one function for each job, and the types that they take and return.

Paths may be strings, ids may be integers. Settings are a dictionary such as `{"model.size": 60, "training.epochs": 2}`.
`progress` takes a function that is called with one line of text, such as `print`, or an object with the methods of
`Progress`. Nothing here imports a library that only some jobs need before the job is run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from drpn.bundle.recommender import Recommender
from drpn.bundle.requests import RankedStory, Ranking, UserId
from drpn.bundle.stories import NewStory
from drpn.dataset.folder import Dataset, SplitName
from drpn.dataset.mentions import Mention
from drpn.errors import DrpnError, SettingsError
from drpn.explanation.trace import Trace
from drpn.progress import Lines, Progress, Silent
from drpn.recipes.evaluate import Evaluation
from drpn.recipes.runs import RUN, Run
from drpn.state.profile import Entry, Event, Profile, ProfileState

if TYPE_CHECKING:
    from drpn.experiments.compare import Compared

__all__ = [
    "Compared", "Dataset", "DrpnError", "Entry", "Evaluation", "Event", "Mention", "NewStory", "Profile",
    "ProfileState", "Progress", "RankedStory", "Ranking", "Recommender", "Run", "Trace", "compare", "evaluate",
    "explain", "load", "open_dataset", "prepare", "simulate", "train",
]  # fmt: skip

StrPath = str | PathLike[str]
Settings = Mapping[str, Any]
LogFormat = Literal["auto", "mind", "ebnerd", "events"]
EngineName = Literal["duckdb", "spark"]
ScoresFormat = Literal["mind", "jsonl"]
ProgressLike = Progress | Callable[[str], object] | None


def simulate(
    out: StrPath,
    *,
    users: int = 2_000,
    news: int | None = None,
    days: int = 7,
    seed: int = 0,
    preset: str = "newsroom",
    accidents: float = 0.15,
    noise: float | None = None,
    replace: bool = False,
    progress: ProgressLike = None,
) -> Path:
    """Write the logs of a simulated newsroom, whose truth is known, and return their folder.

    docs/simulator.md describes the presets, `accidents` and `noise`.
    """
    from drpn.logs.simulate import SimulationSettings
    from drpn.logs.simulate import simulate as run

    try:
        settings = SimulationSettings(
            users=users, news=news, days=days, seed=seed, accidents=accidents, preset=preset, noise=noise
        )
    except ValueError as error:
        raise SettingsError(str(error)) from error
    run(Path(out), settings, replace=replace, progress=_progress(progress) or Silent())
    return Path(out)


def prepare(
    logs: StrPath,
    out: StrPath,
    *,
    settings: Settings | None = None,
    config: StrPath | None = None,
    format: LogFormat = "auto",
    vectors: StrPath | None = None,
    entities: StrPath | None = None,
    contexts: StrPath | None = None,
    skip_unknown_news: bool = False,
    engine: EngineName = "duckdb",
    master: str | None = None,
    memory: str = "2GB",
    replace: bool = False,
    progress: ProgressLike = None,
) -> Dataset:
    """Turn a folder of logs into a dataset folder, and open it; `master` is the URL of a Spark cluster."""
    from drpn.recipes.data_settings import refuse_model_settings
    from drpn.recipes.prepare import prepare as run
    from drpn.recipes.settings import load_data_settings

    refuse_model_settings(_assignments(settings, "data"))
    _check_choice("format", format, LogFormat)
    _check_choice("engine", engine, EngineName)
    return run(
        Path(logs),
        Path(out),
        load_data_settings(_path(config), _assignments(settings, "data")),
        format=format,
        vectors=_path(vectors),
        entities=_path(entities),
        contexts=_path(contexts),
        skip_unknown_news=skip_unknown_news,
        engine=engine,
        master=master,
        memory=memory,
        replace=replace,
        progress=_progress(progress),
    )


def open_dataset(folder: StrPath) -> Dataset:
    """Open a dataset folder and check every byte of it."""
    return Dataset.open(Path(folder))


def train(
    data: Dataset | StrPath,
    out: StrPath,
    *,
    model: str = "drpn",
    settings: Settings | None = None,
    config: StrPath | None = None,
    resume: bool = False,
    progress: ProgressLike = None,
) -> Run:
    """Train a model on a dataset; the run folder `out` gets checkpoints, the learning curve and the bundle."""
    from drpn.recipes.data_settings import note_other_data_settings, refuse_data_settings
    from drpn.recipes.settings import load_settings
    from drpn.recipes.train import train as run

    refuse_data_settings(_assignments(settings))
    chosen = load_settings(_path(config), _assignments(settings), model=model)
    note_other_data_settings(_path(config), Dataset.open(_folder(data), verify=False), _progress(progress) or Silent())
    return run(
        _folder(data),
        Path(out),
        model=model,
        settings=chosen.model,
        training=chosen.training,
        resume=resume,
        progress=_progress(progress),
    )


def evaluate(
    run: Run | StrPath,
    *,
    split: SplitName = "test",
    scores: StrPath | None = None,
    scores_format: ScoresFormat = "mind",
    diversity_curve: StrPath | None = None,
    noise: bool = False,
    seed: int = 0,
    progress: ProgressLike = None,
) -> Evaluation:
    """Measure a run on a split of its dataset, with chance, popularity and, on simulated logs, an oracle.

    `diversity_curve` gets a picture of accuracy against diversity (PNG or SVG), and its points as JSON next to it.
    `noise=True` also measures whether the weights of a DRPN predict the read times of clicks, and is refused if the
    logs have neither read times nor a simulator's truth.
    """
    from drpn.recipes.evaluate import evaluate as measure

    _check_choice("split", split, SplitName)
    _check_choice("scores_format", scores_format, ScoresFormat)
    _check_least("seed", seed, 0)
    return measure(
        _run_path(run),
        split=split,
        scores=_path(scores),
        scores_format=scores_format,
        diversity_curve=_path(diversity_curve),
        noise=noise,
        seed=seed,
        progress=_progress(progress),
    )


def compare(
    data: Dataset | StrPath,
    out: StrPath,
    *,
    models: Sequence[str] | None = None,
    seeds: int = 3,
    settings: Settings | None = None,
    config: StrPath | None = None,
    configs: StrPath | None = None,
    jobs: int = 1,
    keep: bool = False,
    again: bool = False,
    progress: ProgressLike = None,
) -> Compared:
    """Train several models with several seeds, and write the paper's tables into `out`.

    Without `models` these are all models that the dataset has the data for. Without `config` and `configs` each model
    has the shipped settings that were tuned on a simulated newsroom, as with `drpn compare`.
    """
    from drpn.experiments.compare import compare as run
    from drpn.recipes.settings import SHIPPED, find_config

    if isinstance(models, str) or (models is not None and not models):
        raise SettingsError(f"models is {models!r}; it takes a list of names, such as ['drpn', 'nrms']")
    _check_least("seeds", seeds, 1)
    _check_least("jobs", jobs, 1)
    tuned = find_config(Path(configs)) if configs else (None if config else SHIPPED / "newsroom.toml")
    return run(
        _folder(data),
        Path(out),
        models=models,
        seeds=seeds,
        config=_path(config),
        sets=_assignments(settings),
        configs=tuned,
        jobs=jobs,
        keep=keep,
        again=again,
        progress=_progress(progress),
    )


def load(run: Run | StrPath) -> Recommender:
    """Load the recommender of a run, or of a bundle folder."""
    from drpn.bundle.files import WEIGHTS, Bundle

    path = _run_path(run)
    is_bundle = (path / WEIGHTS).is_file() and not (path / RUN).is_file()
    return Recommender(Bundle.open(path) if is_bundle else Run.open(path).bundle())


def explain(run: Run | StrPath, user_id: UserId, out: StrPath | None = None, *, progress: ProgressLike = None) -> Trace:
    """Return the weights and scores behind the ranking for one user; `out` gets the paper's case-study figure."""
    from drpn.recipes.explain import explain as trace

    return trace(_run_path(run), str(user_id), _path(out), progress=_progress(progress))


def _path(path: StrPath | None) -> Path | None:
    return None if path is None else Path(path)


def _folder(data: Dataset | StrPath) -> Path:
    return data.path if isinstance(data, Dataset) else Path(data)


def _run_path(run: Run | StrPath) -> Path:
    return run.path if isinstance(run, Run) else Path(run)


def _assignments(settings: Settings | None, section: str | None = None) -> list[str]:
    """Settings as `section.key=value`; with a `section`, keys may leave it out."""
    from drpn.recipes.needs import toml_value

    if settings is not None and not isinstance(settings, Mapping):
        raise SettingsError(f"settings is {settings!r}; it takes a dictionary, such as {{'model.size': 60}}")
    assignments: Iterable[tuple[str, Any]] = (settings or {}).items()
    return [
        f"{key if '.' in key or section is None else f'{section}.{key}'}={toml_value(value)}"
        for key, value in assignments
    ]


def _check_choice(name: str, value: object, choices: Any) -> None:
    if value not in get_args(choices):
        raise SettingsError(f"{name} is {value!r}; choose from {', '.join(get_args(choices))}")


def _check_least(name: str, value: int, least: int) -> None:
    if value < least:
        raise SettingsError(f"{name} is {value}; it takes {least} or more")


def _progress(progress: ProgressLike) -> Progress | None:
    if progress is None or (hasattr(progress, "stage") and hasattr(progress, "note")):
        return progress
    if callable(progress):
        return Lines(progress)
    raise SettingsError(f"progress is {progress!r}; it takes a function of one text, such as print, or a Progress")


def __getattr__(name: str) -> Any:
    if name == "Compared":
        from drpn.experiments.compare import Compared

        return Compared
    raise AttributeError(f"module 'drpn.api' has no attribute '{name}'")
