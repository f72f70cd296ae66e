"""LSTUR against loops over the equations of its paper and of the official code; it reads nothing else."""

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
    share_of_unknown_users,
)
from batch_cases import with_parts
from drpn.batches.batch import Batch, NewsRows
from drpn.models.base import DataShape
from drpn.models.baselines.lstur import Lstur, LsturSettings
from reference import lstur_loops as loops
from reference.lstur_loops import Story

SETTINGS = LsturSettings(size=5, filters=4, window=3, hidden=3, category_size=2)
USERS, CATEGORIES, SUBCATEGORIES = 4, 3, 4

NEWSROOM = {
    "derby": Story([3, 5, 7, 4], 1, 2),
    "cup": Story([3, 8, 6], 1, 3),
    "storm": Story([9, 2, 10, 2], 2, 1),
    "bonds": Story([11], 2, 0),
    "vote": Story([4, 6, 1, 5, 3], 0, 0),
    "untitled": Story([], 1, 2),
    "bare": Story([], 0, 0),
}
"""In the order of `baseline_cases.POSITION`."""
both_ways = pytest.mark.parametrize("combine", ["ini", "con"])


def case(combine: Any, seed: int = 1, *, word_size: int = SETTINGS.size, **settings: Any) -> Case[Lstur]:
    """All weights are random, including those of padding and those that start at zero."""
    chosen = replace(SETTINGS, combine=combine, **settings)
    vectors = np.ones((WORDS, word_size), dtype=np.float32)
    shape = DataShape(len(NEWSROOM) + 1, WORDS, USERS, CATEGORIES, SUBCATEGORIES, vectors)
    return random_case(Lstur(chosen, shape), seed)


def news_rows() -> NewsRows:
    """The padding row, with a title and categories that must not be read, and all stories."""
    all_news = [Story([1, 2], 1, 1), *NEWSROOM.values()]
    return rows_of(
        [story.words for story in all_news],
        category=torch.tensor([story.category for story in all_news]),
        subcategory=torch.tensor([story.subcategory for story in all_news]),
    )


def scores(model: Lstur, batch: Batch) -> Tensor:
    return model.score(model.encode_news(news_rows()), batch)


both_references = pytest.mark.parametrize(
    "reference", [{}, {"logits": "code", "categories": False}], ids=["the paper", "the official code"]
)


@both_references
@pytest.mark.parametrize(("window", "word_size"), [(3, SETTINGS.size), (5, SETTINGS.size), (1, 3)])
def test_story_vectors(window: int, word_size: int, reference: dict[str, Any]) -> None:
    model, weights = case("ini", window=window, word_size=word_size, **reference)
    assert ("title.aggregate.hidden.weight" in weights) == ("logits" in reference)
    close(
        model.encode_news(news_rows()).vector[1:], [loops.encode_story(weights, story) for story in NEWSROOM.values()]
    )


@pytest.mark.parametrize("at_the_end", [True, False], ids=["padding at the end", "padding in front"])
@both_references
@both_ways
def test_scores(combine: str, at_the_end: bool, reference: dict[str, Any]) -> None:
    model, weights = case(combine, 2, **reference)
    clicked, users = list(CLICKED.values()), [1, 2, 3, 0, 1, 0]
    expected = [
        [
            loops.score(weights, user, [NEWSROOM[name] for name in names], NEWSROOM[candidate], combine)
            for candidate in CANDIDATES
        ]
        for user, names in zip(users, clicked, strict=True)
    ]
    close(scores(model, batch_of(clicked, users, at_the_end=at_the_end)), expected)


def test_with_ini_the_user_vector_is_the_first_state() -> None:
    """Another user vector gives another last state; without clicks the first state is the last."""
    model, weights = case("ini")
    encoded = model.encode_news(news_rows())
    names = CLICKED["ordinary"]
    actual = model.read(encoded, batch_of([names, names, []], [1, 2, 2]).profiles)
    items = [loops.encode_story(weights, NEWSROOM[name]) for name in names]
    recent = loops.part(weights, "recent")
    for row, user in ((0, 1), (1, 2)):
        close(actual[row], loops.gru(recent, weights["users.ids.table.weight"][user], items))
    assert (actual[0] - actual[1]).abs().min() > 1e-6
    close(actual[2], weights["users.ids.table.weight"][2])


def test_with_con_the_user_vector_is_concatenated_with_the_last_state() -> None:
    """The result is as wide as a story vector; one part depends on the clicks only, the other on the user only."""
    model, weights = case("con", category_size=3)
    encoded = model.encode_news(news_rows())
    names = CLICKED["ordinary"]
    actual = model.read(encoded, batch_of([names, names, ["cup"], []], [1, 2, 2, 0]).profiles)
    assert actual.shape[1] == encoded.vector.shape[1] == 4 + 3 + 3
    short, long = actual[:, :5], actual[:, 5:]
    assert torch.equal(short[0], short[1])
    assert torch.equal(long[1], long[2])
    items = [loops.encode_story(weights, NEWSROOM[name]) for name in names]
    close(short[0], loops.gru(loops.part(weights, "recent"), [0.0] * 5, items))
    close(short[3], weights["nothing"])
    close(long, [*(weights["users.ids.table.weight"][user] for user in (1, 2, 2)), weights["users.ids.unknown"]])


def test_an_odd_story_vector_is_divided_completely() -> None:
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
def test_skipped_stories_are_not_read(combine: str) -> None:
    model, _ = case(combine)
    assert model.reads == ("clicked",)
    close(scores(model, known_and_unknown(["bonds", "vote", "derby"])), scores(model, known_and_unknown()))


@both_ways
def test_a_share_of_users_is_masked_in_training(combine: str) -> None:
    """A masked user has the scores of an unknown user; the others keep theirs."""
    model, _ = case(combine, masking=0.25, dropout=0.0)
    share = share_of_unknown_users(model, lambda clicked, users: scores(model, batch_of(clicked, users)))
    assert share == pytest.approx(0.25, abs=0.03)


def test_user_vectors_can_start_at_zero() -> None:
    shape = DataShape(news=3, words=9, users=5, categories=2, subcategories=3)
    assert Lstur(SETTINGS, shape).users.ids.table.weight[1:].any(1).all()
    assert not Lstur(replace(SETTINGS, zero_users=True), shape).users.ids.table.weight.any()


def test_the_settings_of_the_official_code_give_its_sizes() -> None:
    """400 filters, states of 400, a hidden layer of 200, and no categories."""
    settings = LsturSettings(filters=400, logits="code", categories=False, masking=0.0, zero_users=True)
    model = Lstur(settings, DataShape(news=3, words=9, users=5, categories=2, subcategories=3))
    assert {name: tuple(parameter.shape) for name, parameter in model.named_parameters()} == {
        "words.table.weight": (9, 300),
        "title.convolution.filters.weight": (400, 900),
        "title.convolution.filters.bias": (400,),
        "title.aggregate.hidden.weight": (200, 400),
        "title.aggregate.hidden.bias": (200,),
        "title.aggregate.gate.weight": (1, 200),
        "title.nothing": (400,),
        "users.ids.table.weight": (5, 400),
        "users.ids.unknown": (400,),
        **{f"recent.{part}.weight": (1200, 400) for part in ("items", "state")},
        **{f"recent.{part}.bias": (1200,) for part in ("items", "state")},
    }


def test_the_defaults_are_those_of_the_paper() -> None:
    model = Lstur(LsturSettings(), DataShape(news=3, words=9, users=5, categories=2, subcategories=3))
    assert {name: tuple(parameter.shape) for name, parameter in model.named_parameters()} == {
        "words.table.weight": (9, 300),
        "title.convolution.filters.weight": (300, 900),
        "title.convolution.filters.bias": (300,),
        "title.aggregate.gate.weight": (1, 300),
        "title.aggregate.gate.bias": (1,),
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
        ({"logits": "books"}, "^logits is 'books'; it takes 'paper' or 'code'$"),
        ({"masking": 1.0}, "^masking is 1.0; it takes a share from 0 to below 1$"),
        ({"dropout": -0.1}, "^dropout is -0.1; it takes a share from 0 to below 1$"),
    ],
)
def test_invalid_settings_are_refused(setting: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LsturSettings(**setting)
