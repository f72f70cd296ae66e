"""DEERS against loops over its paper's description; clicks and skips are both read in order."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from baseline_cases import OTHER_CLICKS, OTHER_SKIPS, Case, close, moved, random_case
from batch_cases import leave_out_of_training
from drpn.models.base import DataShape
from drpn.models.baselines.deers import Deers, DeersSettings
from reference import deers_loops as loops
from small_newsroom import (
    CANDIDATES,
    CATEGORIES,
    NEWSROOM,
    READERS,
    SUBCATEGORIES,
    UNSEEN,
    WORDS,
    batch_of,
    everybody,
    news_rows,
    scores,
)

SETTINGS = DeersSettings(size=3, hidden=5)


def case(seed: int = 1, *, word_size: int = SETTINGS.size, **settings: Any) -> Case[Deers]:
    """All weights are random, including those of padding and those that start at zero."""
    vectors = np.ones((WORDS, word_size), dtype=np.float32)
    shape = DataShape(len(NEWSROOM) + 1, WORDS, 3, CATEGORIES, SUBCATEGORIES, vectors)
    model = Deers(replace(SETTINGS, **settings), shape)
    leave_out_of_training(model, UNSEEN)
    return random_case(model, seed)


@pytest.mark.parametrize(
    "settings",
    [{}, {"apart": 1}, {"joined": 1}, {"apart": 2, "joined": 3}, {"word_size": 4}],
    ids=["as in the paper", "one layer apart", "one joined", "two and three", "word vectors of another size"],
)
@pytest.mark.parametrize("seed", [2, 3])
def test_scores(settings: dict[str, int], seed: int) -> None:
    model, weights = case(seed, **settings)
    expected = [
        [
            loops.score(
                weights, [NEWSROOM[name] for name in clicked], [NEWSROOM[name] for name in skipped], NEWSROOM[candidate]
            )
            for candidate in CANDIDATES
        ]
        for clicked, skipped in READERS.values()
    ]
    actual = scores(model, everybody())
    close(actual, expected)
    assert len(actual.unique()) > actual.numel() / 2  # the ReLUs are not all zero


def test_skips_change_the_scores() -> None:
    """No skips, other skips, and the same skips in another order give other scores."""
    assert moved(case().model, OTHER_SKIPS).min() > 1e-3


def test_clicks_change_the_scores() -> None:
    assert moved(case().model, OTHER_CLICKS).min() > 1e-3


def test_a_click_is_not_a_skip() -> None:
    clicked, skipped = READERS["ordinary"]
    assert moved(case().model, [(clicked, skipped), (skipped, clicked)]).min() > 1e-3


def test_the_state_is_computed_once_for_all_candidates() -> None:
    """`read` returns the half of both first layers that depends on the state."""
    model, weights = case()
    encoded = model.encode_news(news_rows())
    for side, actual in zip(("clicked", "skipped"), model.read(encoded, everybody().profiles), strict=True):
        own = loops.part(weights, side)
        for row, names in zip(actual, (reader[side == "skipped"] for reader in READERS.values()), strict=True):
            items = [loops.item(weights, NEWSROOM[name]) for name in names]
            state = loops.gru(loops.part(own, "gru"), items) if items else own["nothing"]
            close(row, loops.linear(own, "state", state))


def test_users_with_an_empty_profile_share_a_learned_state() -> None:
    model, _ = case()
    actual = scores(model, batch_of([([], []), ([], [])]))
    assert torch.equal(actual[0], actual[1])
    actual.sum().backward()
    for side in (model.clicked, model.skipped):
        assert side.nothing.grad is not None
        assert side.nothing.grad.any()
        assert side.gru.state.weight.grad is None or not side.gru.state.weight.grad.any()


def test_the_defaults() -> None:
    model = Deers(DeersSettings(), DataShape(news=3, words=9, users=3, categories=2, subcategories=4))
    assert {name: tuple(parameter.shape) for name, parameter in model.named_parameters()} == {
        "fields.words.table.weight": (9, 300),
        "fields.untitled": (300,),
        "fields.ids.table.weight": (3, 300),
        "fields.ids.unknown": (300,),
        "fields.category.weight": (2, 300),
        "fields.subcategory.weight": (4, 300),
        **{
            f"{side}.{name}": shape
            for side in ("clicked", "skipped")
            for name, shape in {
                "gru.items.weight": (384, 1200),
                "gru.items.bias": (384,),
                "gru.state.weight": (384, 128),
                "gru.state.bias": (384,),
                "nothing": (128,),
                "state.weight": (128, 128),
                "state.bias": (128,),
                "action.weight": (128, 1200),
                "deeper.0.weight": (128, 128),
                "deeper.0.bias": (128,),
                "deeper.1.weight": (128, 128),
                "deeper.1.bias": (128,),
            }.items()
        },
        "joined.0.weight": (128, 256),
        "joined.0.bias": (128,),
        "out.weight": (1, 128),
    }
    assert (model.dropout.p, model.fields.ids.dropped) == (0.2, 0.1)
    assert model.reads == ("clicked", "skipped")


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"size": 0}, "^size is 0; it takes 1 or more$"),
        ({"hidden": 0}, "^hidden is 0; it takes 1 or more$"),
        ({"apart": 0}, "^apart is 0; it takes 1 or more$"),
        ({"joined": -1}, "^joined is -1; it takes 1 or more$"),
        ({"dropout": 1.0}, "^dropout is 1.0; it takes a share from 0 to below 1$"),
        ({"id_dropout": -0.5}, "^id_dropout is -0.5; it takes a share from 0 to below 1$"),
    ],
)
def test_invalid_settings_are_refused(setting: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DeersSettings(**setting)
