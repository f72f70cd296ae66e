"""A small hyperparameter search by validation AUC alone, with the same space and budget for every model.

`space.py` defines the space; all other settings stay as given. The first trial uses the given settings, or the nearest
point of the space; the next three are random; from then on Optuna's tree-structured Parzen estimator proposes.
A trial depends only on the seed, the earlier trials and the number of threads, so a stopped search continues as if it
had not been stopped.
"""

import dataclasses
import fcntl
import json
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from drpn.dataset.folder import Dataset
from drpn.errors import DivergedError, OutputError, RunError, SettingsError, TrainingError
from drpn.experiments.results import fingerprint
from drpn.experiments.run_task import free_gpu_memory
from drpn.experiments.space import Values, nearest, rounded, space_of, with_values
from drpn.experiments.tuned_file import header, trial_lines, with_model_table
from drpn.output import atomic_file, explain_write_errors, lock_target
from drpn.progress import Progress, Silent
from drpn.provenance import commit
from drpn.recipes.data_settings import note_other_data_settings, refuse_data_settings
from drpn.recipes.needs import check_requirements
from drpn.recipes.settings import Settings, entry, load_settings, read_settings_file, training_defaults
from drpn.recipes.train import train
from drpn.training.devices import choose_device
from drpn.training.settings import ignored_settings
from drpn.training.threads import choose_threads
from drpn.version import VERSION

if TYPE_CHECKING:  # Optuna is an optional dependency
    from optuna import Study
    from optuna.storages import JournalStorage

UNGUIDED_TRIALS = 4
"""Trials before the estimator proposes: the given settings, then random ones."""


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
    """The model, its given settings and the dataset of a search."""

    model: str
    settings: Settings
    dataset: Dataset
    seed: int
    commit: str

    @property
    def data(self) -> str:
        """A short fingerprint of the dataset."""
        return fingerprint(self.dataset.manifest["files"])[:12]

    @property
    def identity(self) -> dict[str, Any]:
        """Everything that distinguishes this search from another, as plain JSON values."""
        identity: dict[str, Any] = {"model": self.model, "seed": self.seed, "the data": self.data}
        for section in ("model", "training"):
            values = dataclasses.asdict(getattr(self.settings, section))
            identity |= {f"{section}.{key}": value for key, value in values.items()}
        plain: dict[str, Any] = json.loads(json.dumps(identity))
        return plain


@dataclass(frozen=True)
class Tuned:
    """The result of a search."""

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
    """Train the model `trials` times and write the settings with the best validation AUC to the file `out`.

    They become the table `[models.NAME]` of that file, for `--config` and `--configs`; tables of other models are kept.
    Trials are stored next to `out`: finished trials are not repeated, even if more are asked for later.
    """
    progress = progress or Silent()
    _check_optuna()
    sets = list(sets)
    refuse_data_settings(sets)
    settings = load_settings(config, sets, model=model, of_several=True)
    dataset = Dataset.open(folder)
    note_other_data_settings(config, dataset, progress)
    check_requirements(model, settings.model, dataset)
    if choose_device(settings.training).type == "cpu":  # once: every trial has the same number of threads
        threads = choose_threads(settings.training.threads)
        settings = dataclasses.replace(settings, training=dataclasses.replace(settings.training, threads=threads))
    search = Search(model, settings, dataset, seed, commit())
    with lock_target(out.with_name(f"{out.name}.{model}")):  # searches for other models may write to the same file
        return _run_search(search, out, trials, progress)


def _run_search(search: Search, out: Path, trials: int, progress: Progress) -> Tuned:
    model, study = search.model, _open_study(out, search)
    done = len(_finished(study))
    if done:
        progress.note(f"{done} of {max(done, trials)} trials are finished already")
    for number in range(done + 1, trials + 1):
        _run_trial(search, study, number, trials, out.parent, progress)
    finished = _finished(study)
    converged = [trial for trial in finished if trial.validation_auc is not None]
    if not converged:
        raise TrainingError(f"all {len(finished)} trials of {model} diverged; its settings or its data are at fault")
    best = max(converged, key=lambda trial: trial.validation_auc or 0.0)
    tuned = Tuned(search, out, finished, best)
    _write(tuned)
    return tuned


def trials_of(out: Path) -> Path:
    """Return the file that stores the trials of a search: Optuna's journal, next to the settings file."""
    return out.with_name(f"{out.name}.trials")


def _check_optuna() -> None:
    try:
        import optuna
    except ImportError as error:
        raise SettingsError('tuning needs Optuna; install it with: pip install "drpn[tune]"') from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)


def _open_study(out: Path, search: Search) -> "Study":
    """Return the search of this model whose trials are stored next to `out`, or a new one."""
    import optuna
    from optuna.trial import TrialState

    file = trials_of(out)
    if out.is_dir():
        raise OutputError(f"{out} is a folder; name a file, such as {out / 'tuned.toml'}")
    _check_table_is_ours(out, search.model)
    with explain_write_errors(out):
        out.parent.mkdir(parents=True, exist_ok=True)
    study = optuna.create_study(
        storage=_open_journal(file), study_name=search.model, direction="maximize", load_if_exists=True
    )
    stored = study.user_attrs.get("search")
    if stored is None:
        study.set_user_attr("search", search.identity)
    elif other := _difference(stored, search, study):
        raise RunError(f"{file} was made with {other}; choose another output file, or remove it to start a new search")
    for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
        study.tell(trial.number, state=TrialState.FAIL)  # it was stopped; the same values are proposed again
    return study


def _check_table_is_ours(out: Path, model: str) -> None:
    """Refuse to replace a table of settings that does not come from the stored trials."""
    import optuna

    if not out.exists() or model not in read_settings_file(out).models:
        return
    file = trials_of(out)
    if not file.exists() or model not in optuna.get_all_study_names(_open_journal(file)):
        raise OutputError(
            f"{out} has a table [models.{model}], and {file.name} next to it has no trials of {model}; "
            "choose another file, or remove the table"
        )


def _open_journal(file: Path) -> "JournalStorage":
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    try:
        with explain_write_errors(file):
            return JournalStorage(JournalFileBackend(str(file)))
    except (ValueError, KeyError, TypeError) as error:
        raise RunError(f"{file} does not hold the trials of a search; remove it to start a new search") from error


def _difference(stored: dict[str, Any], search: Search, study: "Study") -> str | None:
    """Return how the stored search differs from this one, or None."""
    current, ignored = (
        search.identity,
        {f"training.{key}" for key in ignored_settings(search.settings.training.loss, 1, planted=True)},
    )
    for name in stored | current:
        if name not in ignored and stored.get(name) != current.get(name):
            return f"{name} = {stored.get(name)}, and {current.get(name)} is asked for now"
    space = list(space_of(search.settings))
    for trial in study.get_trials(deepcopy=False):
        if trial.params and set(trial.params) != set(space):
            return f"a search of {', '.join(trial.params)}, and now {', '.join(space)} are searched"
    return None


def _finished(study: "Study") -> list[Trial]:
    from optuna.trial import TrialState

    finished = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE, TrialState.PRUNED))
    return [
        Trial(number, rounded(trial.params), trial.value, trial.user_attrs["commit"])
        for number, trial in enumerate(finished, start=1)
    ]


def _run_trial(search: Search, study: "Study", number: int, trials: int, parent: Path, progress: Progress) -> None:
    """Propose values, train with them in a scratch folder under `parent`, and store the validation AUC."""
    from optuna.samplers import TPESampler
    from optuna.trial import TrialState

    # one seed per trial: a single seed for all would start over when a search is resumed
    seed = int(np.random.SeedSequence([search.seed, number]).generate_state(1)[0])
    study.sampler = TPESampler(seed=seed, n_startup_trials=UNGUIDED_TRIALS)
    if number == 1:
        study.enqueue_trial(nearest(search.settings))
    trial, start = study.ask(space_of(search.settings)), time.monotonic()
    trial.set_user_attr("commit", search.commit)
    values = rounded(trial.params)
    title = f"trial {number} of {trials}"
    progress.note(f"{title}: " + ", ".join(f"{name}={value:g}" for name, value in values.items()))
    try:
        auc = _validation_auc(search, with_values(search.settings, values), parent, progress)
    except DivergedError as error:
        study.tell(trial, state=TrialState.PRUNED)  # the estimator ranks it below every trial that converged
        progress.note(f"{title}: {error}")
    else:
        study.tell(trial, auc)
        progress.note(f"{title}: validation AUC {auc:.4f}, {time.monotonic() - start:.0f} s")
    free_gpu_memory()


def _validation_auc(search: Search, settings: Settings, parent: Path, progress: Progress) -> float:
    """Train in a temporary folder and return the validation AUC of the best pass."""
    with tempfile.TemporaryDirectory(prefix=".tune.", suffix=".partial", dir=parent) as scratch:
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


def _write(tuned: Tuned) -> None:
    """Write the settings of the best trial into the model's table, and its trials above it as comments."""
    out = tuned.out
    with trials_of(out).open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # searches for other models may write to the same file
        text = out.read_text(encoding="utf-8") if out.exists() else header(out.name)
        text = with_model_table(text, tuned.search.model, _provenance(tuned), _values_to_write(tuned), file=out)
        with atomic_file(out) as scratch:
            scratch.write_text(text, encoding="utf-8")


def _provenance(tuned: Tuned) -> list[str]:
    """Return the origin of the settings and a column of numbers for each trial."""
    search = tuned.search
    commits = ", ".join(dict.fromkeys(trial.commit for trial in tuned.trials))
    aucs = ["diverged" if trial.validation_auc is None else f"{trial.validation_auc:.4f}" for trial in tuned.trials]
    aucs[tuned.best.number - 1] += "*"
    return [
        f"{search.dataset.path.resolve().name}, fingerprint {search.data}; seed of the search {search.seed}, "
        f"of each training {search.settings.training.seed}; drpn {VERSION}, commit {commits}",
        *trial_lines(
            {
                "validation AUC": aucs,
                **{name: [f"{trial.values[name]:g}" for trial in tuned.trials] for name in tuned.best.values},
            }
        ),
    ]


def _values_to_write(tuned: Tuned) -> dict[str, Any]:
    """Return the searched settings and every other setting that the file does not imply already.

    The seed and settings without effect are left out.
    """
    model, out = tuned.search.model, tuned.out
    best = with_values(tuned.search.settings, tuned.best.values)
    common = read_settings_file(out if out.exists() else None).common
    ignored = (*ignored_settings(best.training.loss, best.training.decay, planted=best.training.plants), "seed")
    values = {}
    for section, defaults in (
        ("model", entry(model).settings),
        ("training", training_defaults(model, best.training.batch)),
    ):
        implied = dataclasses.asdict(defaults) | common[section]
        for key, value in dataclasses.asdict(getattr(best, section)).items():
            name = f"{section}.{key}"
            if name in tuned.best.values or (value != implied[key] and key not in ignored):
                values[name] = value
    return values
