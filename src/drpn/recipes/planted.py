"""Check that a model can learn from planted feedback, and choose the data that it needs for that."""

from typing import Any

from drpn.errors import SettingsError
from drpn.models.catalogue import CATALOGUE
from drpn.recipes.needs import minimal_model
from drpn.training.settings import TrainingSettings


def check_planted(model: str, settings: Any, training: TrainingSettings) -> None:
    """Raise a SettingsError if feedback is to be planted for a model that has no denoising weights to train."""
    if not training.plants:
        return
    network, name = minimal_model(model, settings), "planted" if training.planted else "planted_passes"
    if not network.denoises:
        able = [other for other, one in CATALOGUE.items() if minimal_model(other, one.settings).denoises]
        raise SettingsError(
            f"training.{name} is {getattr(training, name)}, but {model} has no denoising weights to train; "
            f"set it to 0 or choose from {', '.join(able)}"
        )
    if "clicked" not in network.reads and not training.planted_skips:
        raise SettingsError(
            f"training.planted_skips is 0, but {model} reads skipped stories alone; set it to 2 or more"
        )


def planted_reads(reads: tuple[str, ...], training: TrainingSettings) -> tuple[str, ...]:
    """The sequences of profiles that a training needs: what is planted in one sequence comes from the other."""
    if not training.plants or (training.planted_from == "others" and "skipped" not in reads):
        return reads
    return ("clicked", "skipped")
