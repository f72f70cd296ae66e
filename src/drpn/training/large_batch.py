"""Settings with which large batches learn as well as small ones, found on half a million clicks (docs/scale.md).

A large batch takes fewer steps, so each has to be longer. Adam's long first steps throw the matrices off, whose effects
add up over their whole width; tables of words and ids can take them. Scores start small, because few steps are too
valuable to be spent on making random scores smaller.
"""

from typing import Any

_SHORT = {"schedule": "one-cycle", "epochs": 3, "patience": 3}
_SETTINGS: dict[int, dict[str, Any]] = {
    1_024: _SHORT | {"rate": 2e-3, "decay": 2.0, "warm_up": 0.1, "beta2": 0.99},
    4_096: _SHORT
    | {
        "rate": 6e-3,
        "decay": 4.0,
        "warm_up": 0.3,
        "beta2": 0.95,
        "clip": 1.0,
        "matrix_rate": 0.25,
        "first_scores": 0.1,
    },
}
"""By the smallest batch that they are for; found with 2,048 and 8,192."""


def implied_by_batch(batch: int) -> dict[str, Any]:
    """Return the training settings that become the defaults with this batch; none with a small one."""
    return next((values for least, values in reversed(_SETTINGS.items()) if batch >= least), {})
