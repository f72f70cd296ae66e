"""NPA against loops over the equations of its paper and of the official code; it reads what the paper says."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import baseline_cases
from baseline_cases import (
    CANDIDATES,
    CLICKED,
    POSITION,
    TITLES,
    WORDS,
    Case,
    close,
    known_and_unknown,
    random_case,
    share_of_unknown_users,
    titles,
)
from batch_cases import with_parts
from drpn.batches.batch import Batch
from drpn.models.base import DataShape
from drpn.models.baselines.npa import Npa, NpaSettings
from drpn.models.encode import empty_like
from reference import npa_loops as loops

SETTINGS = NpaSettings(size=5, user_size=3, filters=4, window=3, hidden=6)
USERS = 4

batch_of = partial(baseline_cases.batch_of, at_the_end=False)
everybody = partial(known_and_unknown, at_the_end=False)


def case(seed: int = 1, *, word_size: int = SETTINGS.size, **settings: Any) -> Case[Npa]:
    """All weights are random, including those of padding and those that start at zero."""
    vectors = np.ones((WORDS, word_size), dtype=np.float32)
    shape = DataShape(len(TITLES) + 1, WORDS, USERS, 2, 2, vectors)
    return random_case(Npa(replace(SETTINGS, **settings), shape), seed)


def scores(model: Npa, batch: Batch) -> Tensor:
    return model.score(model.encode_news(titles()), batch)


both_logits = pytest.mark.parametrize("logits", ["paper", "code"])


@both_logits
@pytest.mark.parametrize(("window", "word_size"), [(3, SETTINGS.size), (5, SETTINGS.size), (1, 3)])
def test_story_vectors_of_each_user(window: int, word_size: int, logits: str) -> None:
    model, weights = case(window=window, word_size=word_size, logits=logits)
    users = range(USERS)
    everything = torch.tensor([list(POSITION.values())] * USERS)
    query = model.title.queries(model.users(torch.tensor(users)))
    actual = model.read_titles(model.encode_news(titles()), query, everything)
    for user in users:
        for place, words in enumerate(TITLES.values()):
            expected = loops.encode_story(weights, user, words)
            close(actual.vector[user, place], expected.vector)
            close(actual.weight[user, place, : len(words)], expected.weights)
            assert not actual.weight[user, place, len(words) :].any()


@both_logits
@pytest.mark.parametrize("seed", [2, 3])
def test_scores(seed: int, logits: str) -> None:
    model, weights = case(seed, logits=logits)
    batch = everybody()
    expected = [
        [loops.score(weights, user, [TITLES[name] for name in names], TITLES[candidate]) for candidate in CANDIDATES]
        for user, names in zip(batch.profiles.users.tolist(), [*CLICKED.values()] * 2, strict=True)
    ]
    close(scores(model, batch), expected)


@both_logits
def test_two_users_weigh_the_words_of_a_title_differently(logits: str) -> None:
    model, _ = case(logits=logits)
    query = model.title.queries(model.users(torch.tensor([1, 2])))
    title = torch.tensor([[POSITION["derby"]]] * 2)
    actual = model.read_titles(model.encode_news(titles()), query, title)
    weight = actual.weight[:, 0, : len(TITLES["derby"])]
    close(weight.sum(1), [1.0, 1.0])
    assert (weight[0] - weight[1]).abs().max() > 0.05
    assert (actual.vector[0] - actual.vector[1]).abs().max() > 0.01


@both_logits
@pytest.mark.parametrize("level", ["title", "clicks"])
def test_two_users_with_the_same_clicks_differ_at_either_level(level: str, logits: str) -> None:
    """If the queries of one level are the same for all users, those of the other level still distinguish them."""
    model, _ = case(4, logits=logits)
    other = {"title": model.clicks, "clicks": model.title}[level]
    with torch.no_grad():
        other.query.weight.zero_()
    names = [["derby", "cup", "storm"]] * 2
    actual = scores(model, batch_of(names, [1, 2]))
    assert (actual[0] - actual[1]).abs().min() > 1e-6
    with torch.no_grad():
        model.title.query.weight.zero_()
        model.clicks.query.weight.zero_()
    actual = scores(model, batch_of(names, [1, 2]))
    close(actual[0], actual[1])


def test_skipped_stories_are_not_read() -> None:
    model, _ = case()
    assert model.reads == ("clicked",)
    close(scores(model, everybody(["bonds", "vote", "derby"])), scores(model, everybody()))


def test_the_order_of_clicks_does_not_matter() -> None:
    model, _ = case()
    batch = everybody()
    close(scores(model, with_parts(batch, clicked=batch.profiles.clicked.flip(1))), scores(model, batch))


def test_a_share_of_users_is_unknown_in_training() -> None:
    """Such a user has the scores of an unknown user; the others keep theirs."""
    model, _ = case(id_dropout=0.25, dropout=0.0)
    share = share_of_unknown_users(model, lambda clicked, users: scores(model, batch_of(clicked, users)))
    assert share == pytest.approx(0.25, abs=0.03)


def test_users_who_clicked_nothing_share_a_user_vector_but_weigh_words_differently() -> None:
    model, weights = case()
    encoded = model.encode_news(titles())
    batch = batch_of([[], []], [1, 2])
    readers = model.read(encoded, batch.profiles)
    close(readers.vector, [weights["clicks.nothing"]] * 2)
    actual = model.match(encoded, readers, batch.candidates, batch.context)
    title = CANDIDATES.index("derby")
    assert (actual[0, title] - actual[1, title]).abs() > 1e-6


@pytest.mark.parametrize(("logits", "stored"), [("paper", 4), ("code", 4 + 6)])
def test_the_catalogue_holds_only_what_the_logits_need(logits: str, stored: int) -> None:
    """Per word: the four outputs of the convolution, and six keys where they are not the words themselves."""
    model, _ = case(logits=logits)
    encoded = model.encode_news(titles())
    tables = {id(table): table for table in empty_like((encoded.words, encoded.keys), 10)}
    assert sum(table.numel() for table in tables.values()) == 10 * encoded.mask.shape[1] * stored


@pytest.mark.parametrize(("pooled", "widths"), [(False, [5, 4]), (True, [5, 4, 4, 4])])
def test_dropout_on_words_after_the_convolution_and_on_pooled_items(pooled: bool, widths: list[int]) -> None:
    """Word vectors, the output of the convolution; on request the words and the stories that are summed."""
    model, _ = case(pooled_dropout=pooled, dropout=0.5)
    dropped: list[int] = []
    model.dropout.register_forward_hook(lambda _module, _given, result: dropped.append(result.shape[-1]))
    scores(model.train(), everybody())
    assert dropped == widths


def test_user_vectors_can_start_at_zero() -> None:
    shape = DataShape(news=3, words=9, users=5, categories=2, subcategories=3)
    assert Npa(NpaSettings(), shape).users.ids.table.weight[1:].any(1).all()
    assert not Npa(NpaSettings(zero_users=True), shape).users.ids.table.weight.any()


def test_the_defaults_are_those_of_the_paper() -> None:
    settings = NpaSettings()
    assert (settings.logits, settings.pooled_dropout, settings.zero_users) == ("paper", False, False)
    model = Npa(settings, DataShape(news=3, words=9, users=5, categories=2, subcategories=3))
    assert {name: tuple(parameter.shape) for name, parameter in model.named_parameters()} == {
        "words.table.weight": (9, 300),
        "convolution.filters.weight": (400, 900),
        "convolution.filters.bias": (400,),
        "users.ids.table.weight": (5, 50),
        "users.ids.unknown": (50,),
        **{f"{level}.preference.weight": (200, 50) for level in ("title", "clicks")},
        **{f"{level}.preference.bias": (200,) for level in ("title", "clicks")},
        **{f"{level}.query.weight": (400, 200) for level in ("title", "clicks")},
        **{f"{level}.query.bias": (400,) for level in ("title", "clicks")},
        **{f"{level}.nothing": (400,) for level in ("title", "clicks")},
    }
    assert (model.dropout.p, model.users.ids.dropped) == (0.2, 0.1)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"size": 0}, "^size is 0; it takes 1 or more$"),
        ({"user_size": 0}, "^user_size is 0; it takes 1 or more$"),
        ({"filters": 0}, "^filters is 0; it takes 1 or more$"),
        ({"window": -3}, "^window is -3; it takes 1 or more$"),
        ({"hidden": 0}, "^hidden is 0; it takes 1 or more$"),
        ({"logits": "books"}, "^logits is 'books'; it takes 'paper' or 'code'$"),
        ({"dropout": 1.0}, "^dropout is 1.0; it takes a share from 0 to below 1$"),
        ({"id_dropout": -0.5}, "^id_dropout is -0.5; it takes a share from 0 to below 1$"),
    ],
)
def test_invalid_settings_are_refused(setting: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        NpaSettings(**setting)
