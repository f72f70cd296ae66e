"""Check that a model can learn from planted feedback, choose the data for it, and say what it trains."""

from typing import Any

from drpn.batches.planted import clicks_per_profile, swappable_profiles
from drpn.batches.tables import Tables
from drpn.errors import SettingsError
from drpn.models.base import ClickModel
from drpn.models.catalogue import CATALOGUE
from drpn.recipes.needs import minimal_model
from drpn.training.planted import planted_from, trained_part
from drpn.training.settings import TrainingSettings

_PARTS = {
    "labels": "the evidence of categories, which alone makes the trust in a story",
    "weights": "the denoising weights",
    "vectors": "the denoising weights and the encoders of stories",
}
_SOURCES = {
    "skips": "skips of the same reader",
    "others": "clicks of other readers",
    "both": "skips of the same reader and clicks of other readers",
}


def check_planted(model: str, settings: Any, training: TrainingSettings) -> None:
    """Raise a SettingsError if feedback is to be planted for a model that has no denoising weights to train, or if a
    model needs planted feedback that is off."""
    network = minimal_model(model, settings)
    probabilities = network.denoises and getattr(settings, "weights", "") == "probability"
    if not training.plants:
        if probabilities:
            raise SettingsError(
                "model.weights is 'probability', which planted feedback trains, but training.planted and "
                "training.planted_passes are 0; set model.weights=softmax, or one of them above 0"
            )
        return
    if not network.denoises:
        asked = [name for name in ("planted", "planted_passes") if getattr(training, name)]
        able = [
            other for other, one in CATALOGUE.items() if other != model and minimal_model(other, one.settings).denoises
        ]
        raise SettingsError(
            f"{' and '.join(f'training.{name} is {getattr(training, name)}' for name in asked)}, but {model} has no "
            f"denoising weights to train; set {'both' if len(asked) > 1 else 'it'} to 0 or choose from "
            f"{', '.join(able)}"
        )
    if training.planted_trains == "labels" and not network.compares_labels:
        raise SettingsError(
            f"training.planted_trains is 'labels', but {model} does not compare labels; choose weights or "
            "vectors, or drpn-planted with model.compare_labels=true"
        )
    if "clicked" not in network.reads and not training.planted_skips:
        raise SettingsError(
            f"training.planted_skips is 0, but {model} reads skipped stories alone; set it to 2 or more"
        )
    if probabilities and "skipped" in network.reads:
        _check_planted_skips(settings.max_skipped, training)


def _check_planted_skips(most: int | None, training: TrainingSettings) -> None:
    """Raise a SettingsError if no skip is planted to which probabilities are fitted; `most` skips are read."""
    skips = training.planted_skips
    if not skips:
        problem = "training.planted_skips is 0; set it to 2 or more"
    elif training.planted_from in ("auto", "others") and most is not None and most <= skips:
        problem = (
            f"training.planted_skips is {skips}, not below model.max_skipped, {most}; lower it, set "
            "training.planted_from=skips"
        )
    else:
        return
    raise SettingsError(
        f"model.weights is 'probability', which is fitted to planted skips, but {problem}, or set model.weights=softmax"
    )


def planted_reads(reads: tuple[str, ...], training: TrainingSettings) -> tuple[str, ...]:
    """The sequences of profiles that a training needs: what is planted in one sequence comes from the other."""
    if not training.plants or (training.planted_from == "others" and "skipped" not in reads):
        return reads
    return ("clicked", "skipped")


def planted_note(training: TrainingSettings, tables: Tables, model: ClickModel) -> str:
    """One line that says what planted feedback trains, from where, and the facts behind what was not set."""
    part, source = _PARTS[trained_part(training, tables, model)], _SOURCES[planted_from(training, tables, model)]
    why = []
    if training.planted_trains == "auto":
        why.append(f"{clicks_per_profile(tables):.1f} clicks on average")
    if training.planted_from == "auto":
        able = swappable_profiles(tables, share=training.planted_share, skips=training.planted_skips)
        why.append(f"{100 * able:.0f} % of them with enough skips to trade")
    reasons = f"; profiles with two or more clicks: {', '.join(why)}" if why else ""
    return f"planted feedback, from {source}, trains {part}{reasons}"
