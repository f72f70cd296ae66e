"""What `drpn tune` chooses from: the same for every model.

| setting | from what it is chosen |
|---|---|
| `training.rate` | 1e-4 to 3e-3, by its logarithm, two digits |
| `training.decay` | 0, 1, 5 |
| `model.dropout` | 0 to 0.4 in steps of 0.1, where the model has it |
| `training.tce_rate` | 0.05, 0.1, 0.2, where the loss is tce |
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from drpn.recipes.settings import Settings

if TYPE_CHECKING:  # an extra, which need not be installed
    from optuna.distributions import BaseDistribution

RATES = (1e-4, 3e-3)
DECAYS = (0.0, 1.0, 5.0)
DROPOUTS = (0.0, 0.4)
DROPOUT_STEP = 0.1
TCE_RATES = (0.05, 0.1, 0.2)

WORDS = {
    "training.rate": f"training.rate from {RATES[0]:g} to {RATES[1]:g} by its logarithm",
    "training.decay": f"training.decay of {', '.join(f'{decay:g}' for decay in DECAYS)}",
    "training.tce_rate": f"training.tce_rate of {', '.join(f'{rate:g}' for rate in TCE_RATES)}",
    "model.dropout": f"model.dropout from {DROPOUTS[0]:g} to {DROPOUTS[1]:g} in steps of {DROPOUT_STEP:g}",
}
"""The same for people, setting by setting."""

Values = dict[str, float]
"""One choice: `section.key` and its value."""


def space_of(settings: Settings) -> "dict[str, BaseDistribution]":
    """The same for Optuna, as far as the model has it."""
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
    """The settings as they are, or what comes nearest to them here."""
    values = {
        "training.rate": _within(settings.training.rate, *RATES),
        "training.decay": _closest(DECAYS, settings.training.decay),
    }
    if hasattr(settings.model, "dropout"):
        steps = round(_within(settings.model.dropout, *DROPOUTS) / DROPOUT_STEP)
        values["model.dropout"] = steps * DROPOUT_STEP
    if settings.training.loss == "tce":
        values["training.tce_rate"] = _closest(TCE_RATES, settings.training.tce_rate)
    return rounded(values)


def rounded(values: Values) -> Values:
    """As they are trained with and written down."""
    return {name: float(f"{value:.2g}") for name, value in values.items()}


def with_values(settings: Settings, values: Values) -> Settings:
    """The settings with a choice in their place."""
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


def _within(value: float, low: float, high: float) -> float:
    return min(max(value, low), high)
