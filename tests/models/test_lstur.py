"""LSTUR computes what loops over its paper's equations compute, and reads nothing else than its paper does."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from baseline_cases import (
    CANDIDATES,
    CLICKED,
    WORDS,
    Case,
    batch_of,
    close,
    known_and_unknown,
    random_case,
    rows_of,
    share_not_known,
)
from batch_cases import with_parts
from drpn.batches.batch import Batch, NewsRows
from drpn.models.base import DataShape
from drpn.models.baselines.lstur import Lstur, LsturSettings
from reference import lstur_loops as loops
from reference.lstur_loops import News

SETTINGS = LsturSettings(size=5, filters=4, window=3, hidden=3, category_size=2)
USERS, CATEGORIES, SUBCATEGORIES = 4, 3, 4

NEWSROOM = {
    "derby": News([3, 5, 7, 4], 1, 2),
    "cup": News([3, 8, 6], 1, 3),
    "storm": News([9, 2, 10, 2], 2, 1),
    "bonds": News([11], 2, 0),
    "vote": News([4, 6, 1, 5, 3], 0, 0),
    "untitled": News([], 1, 2),
    "bare": News([], 0, 0),
}
"""In the order of `baseline_cases.POSITION`."""
both_ways = pytest.mark.parametrize("combine", ["ini", "con"])


def case(combine: Any, seed: int = 1, *, word_size: int = SETTINGS.size, **settings: Any) -> Case[Lstur]:
    """All weights are random, those of padding and those that start at zero too."""
    chosen = replace(SETTINGS, combine=combine, **settings)
    vectors = np.ones((WORDS, word_size), dtype=np.float32)
    shape = DataShape(len(NEWSROOM) + 1, WORDS, USERS, CATEGORIES, SUBCATEGORIES, vectors)
    return random_case(Lstur(chosen, shape), seed)


def news_rows() -> NewsRows:
    """All news after the padding, which is given a title and categories that nobody may read."""
    all_news = [News([1, 2], 1, 1), *NEWSROOM.values()]
    return rows_of(
        [one.words for one in all_news],
        category=torch.tensor([one.category for one in all_news]),
        subcategory=torch.tensor([one.subcategory for one in all_news]),
    )


def scores(model: Lstur, batch: Batch) -> Tensor:
    return model.score(model.encode_news(news_rows()), batch)


@pytest.mark.parametrize(("window", "word_size"), [(3, SETTINGS.size), (5, SETTINGS.size), (1, 3)])
def test_news(window: int, word_size: int) -> None:
    model, weights = case("ini", window=window, word_size=word_size)
    close(model.encode_news(news_rows()).vector[1:], [loops.news(weights, one) for one in NEWSROOM.values()])


@pytest.mark.parametrize("at_the_end", [True, False], ids=["padding at the end", "padding in front"])
@both_ways
def test_scores(combine: str, at_the_end: bool) -> None:
    model, weights = case(combine, 2)
    clicked, users = list(CLICKED.values()), [1, 2, 3, 0, 1, 0]
    expected = [
        [
            loops.score(weights, user, [NEWSROOM[name] for name in names], NEWSROOM[candidate], combine)
            for candidate in CANDIDATES
        ]
        for user, names in zip(users, clicked, strict=True)
    ]
    close(scores(model, batch_of(clicked, users, at_the_end=at_the_end)), expected)


def test_the_user_is_where_the_recurrent_network_begins_with_ini() -> None:
    """Started from another user's vector it ends elsewhere; without a click it has not left it."""
    model, weights = case("ini")
    encoded = model.encode_news(news_rows())
    names = CLICKED["ordinary"]
    found = model.read(encoded, batch_of([names, names, []], [1, 2, 2]).profiles)
    items = [loops.news(weights, NEWSROOM[name]) for name in names]
    recent = loops.part(weights, "recent")
    for row, user in ((0, 1), (1, 2)):
        close(found[row], loops.gru(recent, weights["users.ids.table.weight"][user], items))
    assert (found[0] - found[1]).abs().min() > 1e-6
    close(found[2], weights["users.ids.table.weight"][2])


def test_the_user_stands_beside_the_last_state_with_con() -> None:
    """A user vector is as wide as a news vector; one part of it is of the clicks alone, the other of the user."""
    model, weights = case("con", category_size=3)
    encoded = model.encode_news(news_rows())
    names = CLICKED["ordinary"]
    found = model.read(encoded, batch_of([names, names, ["cup"], []], [1, 2, 2, 0]).profiles)
    assert found.shape[1] == encoded.vector.shape[1] == 4 + 3 + 3
    short, long = found[:, :5], found[:, 5:]
    assert torch.equal(short[0], short[1])
    assert torch.equal(long[1], long[2])
    items = [loops.news(weights, NEWSROOM[name]) for name in names]
    close(short[0], loops.gru(loops.part(weights, "recent"), [0.0] * 5, items))
    close(short[3], weights["nothing"])
    close(long, [*(weights["users.ids.table.weight"][user] for user in (1, 2, 2)), weights["users.ids.unknown"]])


def test_an_odd_news_vector_is_shared_out_whole() -> None:
    model, _ = case("con", filters=5)
    assert (model.recent.hidden, model.users.ids.unknown.numel()) == (5, 4)
    assert scores(model, known_and_unknown()).isfinite().all()


@both_ways
def test_the_order_of_clicks_matters(combine: str) -> None:
    model, _ = case(combine)
    batch = known_and_unknown()
    turned = scores(model, with_parts(batch, clicked=batch.profiles.clicked.flip(1)))
    moved = (turned - scores(model, batch)).abs().amax(1)
    several = torch.tensor([len(names) > 1 for names in [*CLICKED.values()] * 2])
    assert moved[several].min() > 1e-6
    assert moved[~several].max() < 1e-12


@both_ways
def test_what_was_skipped_is_not_read(combine: str) -> None:
    model, _ = case(combine)
    assert model.reads == ("clicked",)
    close(scores(model, known_and_unknown(["bonds", "vote", "derby"])), scores(model, known_and_unknown()))


@both_ways
def test_a_share_of_users_is_masked_in_training(combine: str) -> None:
    """A masked user is one whom training does not know; the others are themselves."""
    model, _ = case(combine, masking=0.25, dropout=0.0)
    share = share_not_known(model, lambda clicked, users: scores(model, batch_of(clicked, users)))
    assert share == pytest.approx(0.25, abs=0.03)


def test_the_defaults_are_the_paper_s() -> None:
    model = Lstur(LsturSettings(), DataShape(news=3, words=9, users=5, categories=2, subcategories=3))
    assert {name: tuple(parameter.shape) for name, parameter in model.named_parameters()} == {
        "words.table.weight": (9, 300),
        "title.convolution.filters.weight": (300, 900),
        "title.convolution.filters.bias": (300,),
        "title.aggregate.hidden.weight": (200, 300),
        "title.aggregate.hidden.bias": (200,),
        "title.aggregate.gate.weight": (1, 200),
        "title.nothing": (300,),
        "category.table.weight": (2, 100),
        "subcategory.table.weight": (3, 100),
        "users.ids.table.weight": (5, 500),
        "users.ids.unknown": (500,),
        "recent.items.weight": (1500, 500),
        "recent.items.bias": (1500,),
        "recent.state.weight": (1500, 500),
        "recent.state.bias": (1500,),
    }
    assert (model.title.dropout.p, model.users.ids.dropped) == (0.2, 0.5)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"size": 0}, "^size is 0; it takes 1 or more$"),
        ({"filters": 0}, "^filters is 0; it takes 1 or more$"),
        ({"window": 0}, "^window is 0; it takes 1 or more$"),
        ({"hidden": -1}, "^hidden is -1; it takes 1 or more$"),
        ({"category_size": 0}, "^category_size is 0; it takes 1 or more$"),
        ({"combine": "sum"}, "^combine is 'sum'; it takes 'ini' or 'con'$"),
        ({"masking": 1.0}, "^masking is 1.0; it takes a share from 0 to below 1$"),
        ({"dropout": -0.1}, "^dropout is -0.1; it takes a share from 0 to below 1$"),
    ],
)
def test_settings_that_make_no_network(setting: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LsturSettings(**setting)
