"""A small search for how a model is best trained: by validation AUC alone, the same space and budget for every model.

`space.py` says what is searched; all else is as given. The first trial is the settings as given, or what comes nearest
to them in the space; the next three are drawn at random; from then on Optuna's tree-structured Parzen estimator
proposes. A trial depends on the seed and on the trials before it, so that a search that was stopped goes on as if it
had not been.
"""

import dataclasses
import json
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import drpn
from drpn.dataset.folder import Dataset
from drpn.errors import DivergedError, OutputError, RunError, SettingsError, TrainingError
from drpn.experiments.results import fingerprint
from drpn.experiments.run_task import free_gpu_memory
from drpn.experiments.space import WORDS, Values, nearest, rounded, space_of, with_values
from drpn.output import atomic_file, explain_write_errors
from drpn.progress import Progress, Silent
from drpn.provenance import commit
from drpn.recipes.needs import check_requirements
from drpn.recipes.settings import Settings, entry, load_settings, training_defaults
from drpn.recipes.train import train
from drpn.training.settings import ignored_settings

if TYPE_CHECKING:  # an extra, which need not be installed
    from optuna import Study

NOT_GUIDED = 4
"""Trials before the estimator proposes: the settings as given, then random ones."""


@dataclass(frozen=True)
class Trial:
    """One training of a search."""

    number: int
    """From 1."""
    values: Values
    validation_auc: float | None
    """None: the training diverged."""
    commit: str


@dataclass(frozen=True)
class Search:
    """What is searched for."""

    model: str
    settings: Settings
    dataset: Dataset
    seed: int
    commit: str

    @property
    def data(self) -> str:
        """Tells one dataset from another."""
        return fingerprint(self.dataset.manifest["files"])[:12]

    @property
    def asked(self) -> dict[str, Any]:
        """What makes it another search, as it comes back from JSON."""
        asked: dict[str, Any] = {"--model": self.model, "--seed": self.seed, "the data": self.data}
        for section in ("model", "training"):
            values = dataclasses.asdict(getattr(self.settings, section))
            asked |= {f"{section}.{key}": value for key, value in values.items()}
        plain: dict[str, Any] = json.loads(json.dumps(asked))
        return plain


@dataclass(frozen=True)
class Tuned:
    """What a search found."""

    search: Search
    out: Path
    """The settings file."""
    trials: list[Trial]
    best: Trial


def tune(
    folder: Path,
    out: Path,
    *,
    model: str,
    trials: int = 8,
    config: Path | None = None,
    sets: Iterable[str] = (),
    seed: int = 0,
    progress: Progress | None = None,
) -> Tuned:
    """Train the model so many times, and write the settings of the best validation AUC to `out`, for `--config`.

    Trials are kept in a file beside `out`: those that are finished are not repeated, also when more are asked for.
    """
    progress = progress or Silent()
    _check_optuna()
    settings = load_settings(config, sets, model=model, of_several=True)
    dataset = Dataset.open(folder)
    check_requirements(model, settings.model, dataset)
    search = Search(model, settings, dataset, seed, commit())
    study = _open(out, search)
    done = len(_finished(study))
    if done:
        progress.note(f"{done} of {max(done, trials)} trials are finished already")
    for number in range(done + 1, trials + 1):
        _one_trial(search, study, number, trials, out.parent, progress)
    found = _finished(study)
    ended = [trial for trial in found if trial.validation_auc is not None]
    if not ended:
        raise TrainingError(f"all {len(found)} trials of {model} diverged; its settings or its data are at fault")
    best = max(ended, key=lambda trial: trial.validation_auc or 0.0)
    tuned = Tuned(search, out, found, best)
    with atomic_file(out) as scratch:
        scratch.write_text(_as_toml(tuned), encoding="utf-8")
    return tuned


def trials_of(out: Path) -> Path:
    """Where the trials of a search are kept: Optuna's journal, beside the settings file."""
    return out.with_name(f"{out.name}.trials")


def _check_optuna() -> None:
    try:
        import optuna
    except ImportError as error:
        raise SettingsError('tuning needs Optuna; install it with: pip install "drpn[tune]"') from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)


def _open(out: Path, search: Search) -> "Study":
    """The search whose trials are beside `out`, or a new one."""
    import optuna
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend
    from optuna.trial import TrialState

    file = trials_of(out)
    if out.is_dir():
        raise OutputError(f"{out} is a folder; name a file, such as {out / 'tuned.toml'}")
    if out.exists() and not file.exists():
        raise OutputError(f"{out} exists, and no trials beside it from which it came; choose another file")
    try:
        with explain_write_errors(out):
            out.parent.mkdir(parents=True, exist_ok=True)
            storage = JournalStorage(JournalFileBackend(str(file)))
            study = optuna.create_study(storage=storage, study_name="tune", direction="maximize", load_if_exists=True)
    except (ValueError, KeyError, TypeError) as error:
        raise RunError(f"{file} does not hold the trials of a search; remove it to search again") from error
    asked, known = search.asked, study.user_attrs.get("asked")
    if known is None:
        study.set_user_attr("asked", asked)
    elif other := _difference(known, search, study):
        raise RunError(f"{file} was made with {other}; choose another output file, or remove it to search again")
    for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
        study.tell(trial.number, state=TrialState.FAIL)  # it was stopped, and will be proposed again
    return study


def _difference(known: dict[str, Any], search: Search, study: "Study") -> str | None:
    """How the search whose trials are there differs from the one that is asked for, if it does."""
    asked, idle = search.asked, {f"training.{key}" for key in ignored_settings(search.settings.training.loss)}
    for name in known | asked:
        if name not in idle and known.get(name) != asked.get(name):
            return f"{name.removeprefix('--')} = {known.get(name)}, and {asked.get(name)} is asked for now"
    space = list(space_of(search.settings))
    for trial in study.get_trials(deepcopy=False):
        if trial.params and set(trial.params) != set(space):
            return f"a search of {', '.join(trial.params)}, and now {', '.join(space)} are searched"
    return None


def _finished(study: "Study") -> list[Trial]:
    from optuna.trial import TrialState

    found = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE, TrialState.PRUNED))
    return [
        Trial(number, rounded(one.params), one.value, one.user_attrs["commit"])
        for number, one in enumerate(found, start=1)
    ]


def _one_trial(search: Search, study: "Study", number: int, trials: int, place: Path, progress: Progress) -> None:
    """Propose, train in a scratch folder at `place`, and write down what came of it."""
    from optuna.samplers import TPESampler
    from optuna.trial import TrialState

    # a seed for each trial: one for all would be at its beginning again when a search is taken up
    seed = int(np.random.SeedSequence([search.seed, number]).generate_state(1)[0])
    study.sampler = TPESampler(seed=seed, n_startup_trials=NOT_GUIDED)
    if number == 1:
        study.enqueue_trial(nearest(search.settings))
    trial, start = study.ask(space_of(search.settings)), time.monotonic()
    trial.set_user_attr("commit", search.commit)
    values = rounded(trial.params)
    title = f"trial {number} of {trials}"
    progress.note(f"{title}: " + ", ".join(f"{name}={value:g}" for name, value in values.items()))
    try:
        auc = _validation_auc(search, with_values(search.settings, values), place, progress)
    except DivergedError as error:
        study.tell(trial, state=TrialState.PRUNED)  # to the estimator worse than any that ended
        progress.note(f"{title}: {error}")
    else:
        study.tell(trial, auc)
        progress.note(f"{title}: validation AUC {auc:.4f}, {time.monotonic() - start:.0f} s")
    free_gpu_memory()


def _validation_auc(search: Search, settings: Settings, place: Path, progress: Progress) -> float:
    """That of the best pass of a training of which nothing else is kept."""
    with tempfile.TemporaryDirectory(prefix=".tune.", suffix=".partial", dir=place) as scratch:
        run = train(
            search.dataset.path,
            Path(scratch),
            model=search.model,
            settings=settings.model,
            training=settings.training,
            picture=False,
            progress=progress,
        )
        auc: float = run.bundle().manifest["metrics"]["validation_auc"]
        return auc


def _as_toml(tuned: Tuned) -> str:
    """The settings of the best trial, and above them as comments how they were found."""
    search, names = tuned.search, list(tuned.best.values)
    commits = ", ".join(dict.fromkeys(trial.commit for trial in tuned.trials))
    comments = [
        f"{search.model}, as found by drpn tune: the best validation AUC of {len(tuned.trials)} trials.",
        "No trial was measured on the test split. What was searched, all else being as given:",
        *(f"  {WORDS[name]}" for name in names),
        f"Data: {search.dataset.path.resolve().name}, fingerprint {search.data}. "
        f"Seed of the search {search.seed}, of each training {search.settings.training.seed}.",
        f"drpn {drpn.__version__}, commit {commits}.",
        "",
        "  ".join(["trial", "validation AUC", *names]),
        *(_row(trial, names) + ("  best" if trial == tuned.best else "") for trial in tuned.trials),
        "",
        f"  drpn train FOLDER --out run --model {search.model} --config {tuned.out.name}",
    ]
    text = "".join(f"# {line}".rstrip() + "\n" for line in comments)
    for section, table in _to_write(tuned).items():
        if table:
            text += f"\n[{section}]\n" + "".join(f"{key} = {_in_file(value)}\n" for key, value in table.items())
    return text


def _row(trial: Trial, names: list[str]) -> str:
    auc = "diverged" if trial.validation_auc is None else f"{trial.validation_auc:.4f}"
    cells = (f"{trial.values[name]:g}".rjust(len(name)) for name in names)
    return "  ".join([f"{trial.number:5}", auc.rjust(len("validation AUC")), *cells])


def _to_write(tuned: Tuned) -> dict[str, dict[str, Any]]:
    """What was searched and what else is not the model's default, but for what has no effect and the seed."""
    best = with_values(tuned.search.settings, tuned.best.values)
    idle = (*ignored_settings(best.training.loss), "seed")
    defaults = {"model": entry(tuned.search.model).settings, "training": training_defaults(tuned.search.model)}
    return {
        section: {
            key: value
            for key, value in dataclasses.asdict(getattr(best, section)).items()
            if f"{section}.{key}" in tuned.best.values or (value != getattr(plain, key) and key not in idle)
        }
        for section, plain in defaults.items()
    }


def _in_file(value: Any) -> str:
    return json.dumps(value) if isinstance(value, bool | str) else repr(value)
