"""Defaults come from the paper, else from its authors' code, else they are our choice."""

from typing import Any

import pytest

from drpn.models.catalogue import CATALOGUE
from drpn.models.drpn import DrpnSettings
from drpn.preparation.settings import DataSettings
from drpn.training.settings import TrainingSettings

STATED: list[tuple[Any, str, Any, str]] = [
    (DrpnSettings, "size", 300, "Section 5.3: the representation dimension d"),
    (DrpnSettings, "heads", 6, "appendix A: the head number l_h"),
    (DrpnSettings, "hidden", 200, "appendix A: the hidden size d'"),
    (DrpnSettings, "graph_heads", 2, "appendix A: the head number l_h'"),
    (DataSettings, "words", 15, "Section 5.3: the maximum title length"),
    (DataSettings, "clicked", 30, "Section 5.3: the length l_p"),
    (DataSettings, "skipped", 60, "Section 5.3: the length l_n"),
    (DataSettings, "neighbours", 5, "appendix A: the maximum of neighbour nodes"),
    (DataSettings, "graph", "co-click", "Section 4.4: neighbours have been clicked by the same user"),
    (DataSettings, "history", False, "Section 5.1: the profile is built in step (1) alone"),
    (TrainingSettings, "negatives", 4, "appendix A: the negative sampling ratio l_k"),
]

UNSTATED: list[tuple[Any, str, Any, str]] = [
    (DrpnSettings, "dropout", 0.2, "the authors' code, on words and after the attention of titles"),
    (DataSettings, "category_words", True, "the authors' code; Section 5.3 lets every method use both"),
    (TrainingSettings, "rate", 1e-3, "the authors' code"),
    (TrainingSettings, "decay", 0.0, "the authors' code: plain Adam"),
    (TrainingSettings, "batch", 128, "the authors' code"),
    (DataSettings, "profile_days", None, "ours: in MIND's two parts all days before the 6th, the paper's five"),
    (DataSettings, "train_days", None, "ours: in MIND's two parts the 6th day, as in Section 5.1"),
    (DataSettings, "validation", None, "ours: in MIND's two parts the first 10 %, as in Section 5.1"),
    (DataSettings, "users", "all", "ours: the authors leave out users without a profile; drpn reproduce does too"),
    (DrpnSettings, "id_dropout", 0.1, "ours: trains the vector of stories without a known id"),
]


@pytest.mark.parametrize(("settings", "name", "value", "source"), [*STATED, *UNSTATED])
def test_default_matches_its_source(settings: Any, name: str, value: Any, source: str) -> None:
    assert getattr(settings(), name) == value, source


def test_drpn_has_every_part_by_default() -> None:
    """Section 4 describes all parts; the models of Section 5.5, without some of them, are ablations."""
    assert CATALOGUE["drpn"].settings == DrpnSettings(denoise=True, graph=True, clicked=True, skipped=True)
