"""Modules of `recommenders`, which is written for the Keras of TensorFlow 2.15 and older."""

from typing import Any

import pytest


def module_of(path: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module; without it, or without the older Keras, the test is skipped."""
    monkeypatch.setenv("TF_USE_LEGACY_KERAS", "1")
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "3")
    for needed in ("tensorflow", "tf_keras", "recommenders"):
        pytest.importorskip(needed, reason=f"{needed} is not installed")
    return pytest.importorskip(f"recommenders.models.{path}")
