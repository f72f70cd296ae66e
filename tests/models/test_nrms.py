"""NRMS against loops over its paper's equations; it reads what the paper says and nothing else."""

from functools import partial

import numpy as np
import pytest
from torch import Tensor

import baseline_cases
from baseline_cases import CANDIDATES, CLICKED, TITLES, WORDS, Case, check_only_nothing_learns, random_case, titles
from batch_cases import with_parts
from drpn.batches.batch import Batch
from drpn.errors import ExplainError
from drpn.explanation.trace import require_drpn
from drpn.layers.news import Dropout
from drpn.models.base import DataShape
from drpn.models.baselines.nrms import Nrms, NrmsSettings
from drpn.models.catalogue import CATALOGUE
from reference import nrms_loops as loops

HEADS, HEAD_SIZE, SIZE, HIDDEN = 3, 2, 5, 4

batch_of = partial(baseline_cases.batch_of, at_the_end=False)
close = partial(baseline_cases.close, rtol=0, atol=1e-9)


def case(seed: int = 1, *, word_size: int = SIZE) -> Case[Nrms]:
    """All weights are random, including those of padding and those that start at zero."""
    settings = NrmsSettings(size=SIZE, heads=HEADS, head_size=HEAD_SIZE, hidden=HIDDEN)
    vectors = np.ones((WORDS, word_size), dtype=np.float32)
    return random_case(Nrms(settings, DataShape(len(TITLES) + 1, WORDS, 3, 2, 2, vectors)), seed)


def scores(model: Nrms, batch: Batch) -> Tensor:
    return model.score(model.encode_news(titles()), batch)


@pytest.mark.parametrize(
    "word_size", [SIZE, 3], ids=["word vectors of the model's size", "word vectors of another size"]
)
def test_story_vectors(word_size: int) -> None:
    model, weights = case(word_size=word_size)
    expected = [loops.encode_story(weights, words, HEADS) for words in TITLES.values()]
    close(model.encode_news(titles()).vector[1:], expected)


@pytest.mark.parametrize("seed", [2, 3])
def test_scores(seed: int) -> None:
    model, weights = case(seed)
    expected = [
        [loops.score(weights, [TITLES[name] for name in names], TITLES[candidate], HEADS) for candidate in CANDIDATES]
        for names in CLICKED.values()
    ]
    close(scores(model, batch_of(list(CLICKED.values()))), expected)


def test_weights_of_clicks_sum_to_1() -> None:
    model, _ = case()
    batch = batch_of(list(CLICKED.values()))
    clicked = model.user.project(model.encode_news(titles()).vector[batch.profiles.clicked])
    weight = model.user(clicked, batch.profiles.clicked_mask).weight
    assert not weight[~batch.profiles.clicked_mask].any()
    close(weight.sum(1), batch.profiles.clicked_mask.any(1).double())


def test_skipped_stories_are_not_read() -> None:
    model, _ = case()
    users = list(CLICKED.values())
    close(scores(model, batch_of(users, skipped=["bonds", "vote", "derby"])), scores(model, batch_of(users)))


def test_the_order_of_clicks_does_not_matter() -> None:
    model, _ = case()
    batch = batch_of(list(CLICKED.values()))
    turned = with_parts(batch, clicked=batch.profiles.clicked.flip(1))
    close(scores(model, turned), scores(model, batch))
    other = with_parts(batch, clicked=batch.profiles.clicked.roll(1, dims=0))
    assert (scores(model, other) - scores(model, batch)).abs().min() > 1e-6  # other stories give other scores


def test_users_who_clicked_nothing_share_a_learned_vector() -> None:
    model, _ = case()
    actual = scores(model, batch_of([[], []], skipped=["storm"]))
    check_only_nothing_learns(actual, model.user.nothing, model.user.attention.query.weight)


def test_the_case_study_refuses_nrms() -> None:
    with pytest.raises(
        ExplainError, match=r"^Nrms has no weights to show; choose a run of drpn or of one of its variants$"
    ):
        require_drpn(case().model)


@pytest.mark.parametrize(("attention_dropout", "places"), [(True, ["dropout", "title.dropout"]), (False, ["dropout"])])
def test_dropout_on_words_and_after_their_self_attention(attention_dropout: bool, places: list[str]) -> None:
    """As in the official code there is none in the user encoder; in the paper there is none after self-attention."""
    settings = NrmsSettings(size=SIZE, heads=HEADS, hidden=HIDDEN, attention_dropout=attention_dropout)
    model = Nrms(settings, DataShape(len(TITLES) + 1, WORDS, 3, 2, 2)).train()
    dropped: list[str] = []
    for name, module in model.named_modules():
        if isinstance(module, Dropout):
            assert module.p == settings.dropout
            module.register_forward_hook(lambda _module, _given, _result, name=name: dropped.append(name))
    scores(model, batch_of(list(CLICKED.values())))
    assert dropped == places


def test_the_defaults_are_those_of_the_paper_and_dropout_that_of_the_official_code() -> None:
    settings = CATALOGUE["nrms"].settings
    assert settings == NrmsSettings()
    assert settings.attention_dropout
    model = Nrms(settings, DataShape(news=3, words=9, users=3, categories=2, subcategories=2))
    shapes = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
    attention = ("query", "key", "value")
    assert shapes == {
        "words.table.weight": (9, 300),
        **{f"title.attention.{name}.weight": (256, 300) for name in attention},
        **{f"user.attention.{name}.weight": (256, 256) for name in attention},
        **{f"{part}.aggregate.hidden.weight": (200, 256) for part in ("title", "user")},
        **{f"{part}.aggregate.hidden.bias": (200,) for part in ("title", "user")},
        **{f"{part}.aggregate.gate.weight": (1, 200) for part in ("title", "user")},
        **{f"{part}.nothing": (256,) for part in ("title", "user")},
    }
    assert model.dropout.p == 0.2


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"size": 0}, "^size is 0; it takes 1 or more$"),
        ({"heads": 0}, "^heads is 0; it takes 1 or more$"),
        ({"head_size": -1}, "^head_size is -1; it takes 1 or more$"),
        ({"hidden": 0}, "^hidden is 0; it takes 1 or more$"),
        ({"dropout": 1.0}, "^dropout is 1.0; it takes a share from 0 to below 1$"),
    ],
)
def test_invalid_settings_are_refused(setting: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        NrmsSettings(**setting)
