"""Settings that have no effect on a job: they are refused, or mentioned if a file also serves other jobs."""

from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from drpn.dataset.folder import Dataset
from drpn.errors import SettingsError
from drpn.preparation.settings import DataSettings
from drpn.progress import Progress
from drpn.recipes.settings import find_config, load_data_settings, read_settings_file


def refuse_data_settings(sets: Iterable[str]) -> None:
    """Refuse data settings for a job that reads a dataset folder: they are fixed when logs are prepared."""
    for assignment in filter(is_data_setting, sets):
        raise SettingsError(
            f"{assignment.strip()} has no effect on a dataset that is prepared already; prepare the logs again with it",
            hint=f"run: drpn prepare LOGS --out FOLDER --set {assignment.strip()}",
        )


def refuse_model_settings(sets: Iterable[str]) -> None:
    """Refuse settings of models and of training for a job that prepares logs."""
    for assignment in sets:
        if assignment.strip().startswith(("model.", "training.")):
            raise SettingsError(
                f"{assignment.strip()} has no effect on the preparation of logs; set it when you train",
                hint="pass it to drpn train",
            )


def is_data_setting(assignment: str) -> bool:
    """Tell whether a `section.key=value` is of the section `data`."""
    return assignment.strip().startswith("data.")


def note_other_data_settings(file: Path | None, dataset: Dataset, progress: Progress) -> None:
    """Note every data setting of a file that differs from those the dataset was prepared with.

    This is not an error, because one file serves all jobs, and the dataset folder alone decides what a model reads.
    """
    if file is None:
        return
    wanted, prepared = asdict(load_data_settings(file)), asdict(DataSettings()) | dataset.manifest["settings"]
    for key in read_settings_file(file).common["data"]:
        if wanted[key] != prepared[key]:
            progress.note(
                f"{find_config(file).name} has data.{key} = {wanted[key]}, but {dataset.path} was prepared with "
                f"{prepared[key]}, which counts"
            )
