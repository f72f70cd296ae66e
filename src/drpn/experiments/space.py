"""The search space of `drpn tune`, the same for every model; it holds the defaults of each.

| setting | choices |
|---|---|
| `training.rate` | 1e-4 to 3e-3 on a log scale, two digits |
| `training.decay` | 0, 1, 5 |
| `model.dropout` | 0 to 0.5 in steps of 0.1, where the model has it |
| `training.tce_rate` | 0.05, 0.1, 0.2, where the loss is tce |
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from drpn.recipes.settings import Settings

if TYPE_CHECKING:  # Optuna is an optional dependency
    from optuna.distributions import BaseDistribution

RATES = (1e-4, 3e-3)
DECAYS = (0.0, 1.0, 5.0)
DROPOUTS = (0.0, 0.5)
DROPOUT_STEP = 0.1
TCE_RATES = (0.05, 0.1, 0.2)

DESCRIPTIONS = {
    "training.rate": f"training.rate from {RATES[0]:g} to {RATES[1]:g} on a log scale",
    "training.decay": f"training.decay of {', '.join(f'{decay:g}' for decay in DECAYS)}",
    "model.dropout": f"model.dropout from {DROPOUTS[0]:g} to {DROPOUTS[1]:g} in steps of {DROPOUT_STEP:g}",
    "training.tce_rate": f"training.tce_rate of {', '.join(f'{rate:g}' for rate in TCE_RATES)}",
}
"""The choices of each setting, as text."""

Values = dict[str, float]
"""One point of the space: values by `section.key`."""


def space_of(settings: Settings) -> "dict[str, BaseDistribution]":
    """Return the space as Optuna distributions, for the settings that the model has."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution

    space: dict[str, BaseDistribution] = {
        "training.rate": FloatDistribution(*RATES, log=True),
        "training.decay": CategoricalDistribution(DECAYS),
    }
    if hasattr(settings.model, "dropout"):
        space["model.dropout"] = FloatDistribution(*DROPOUTS, step=DROPOUT_STEP)
    if settings.training.loss == "tce":
        space["training.tce_rate"] = CategoricalDistribution(TCE_RATES)
    return space


def nearest(settings: Settings) -> Values:
    """Return the point of the space nearest to the settings."""
    values = {
        "training.rate": _clamp(settings.training.rate, *RATES),
        "training.decay": _closest(DECAYS, settings.training.decay),
    }
    if hasattr(settings.model, "dropout"):
        steps = round(_clamp(settings.model.dropout, *DROPOUTS) / DROPOUT_STEP)
        values["model.dropout"] = steps * DROPOUT_STEP
    if settings.training.loss == "tce":
        values["training.tce_rate"] = _closest(TCE_RATES, settings.training.tce_rate)
    return rounded(values)


def rounded(values: Values) -> Values:
    """Return the values with two significant digits, as they are used in training and written to the file."""
    return {name: float(f"{value:.2g}") for name, value in values.items()}


def with_values(settings: Settings, values: Values) -> Settings:
    """Return the settings with these values in place of their own."""
    tables: dict[str, dict[str, Any]] = {"model": {}, "training": {}}
    for name, value in values.items():
        section, _, key = name.partition(".")
        tables[section][key] = value
    return replace(
        settings,
        model=replace(settings.model, **tables["model"]),
        training=replace(settings.training, **tables["training"]),
    )


def _closest(choices: tuple[float, ...], value: float) -> float:
    return min(choices, key=lambda choice: abs(choice - value))


def _clamp(value: float, low: float, high: float) -> float:
    return min(max(value, low), high)
