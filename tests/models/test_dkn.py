"""DKN computes what loops over its paper's equations compute, and weighs clicks anew for each candidate."""

from functools import partial
from itertools import combinations

import numpy as np
import pytest
import torch
from torch import Tensor

import baseline_cases
from baseline_cases import (
    CLICKED,
    WORDS,
    Case,
    case_of,
    close,
    every_weight_learns,
    only_nothing_learns,
    padded,
    randomised,
    rows_of,
)
from batch_cases import with_parts
from drpn.batches.batch import Batch, NewsRows
from drpn.models.base import DataShape
from drpn.models.baselines.dkn import Dkn, DknSettings
from reference import dkn_loops as loops
from reference.dkn_loops import News
from reference.drpn_loops import Weights, part

SIZE, FILTERS, ATTENTION, HIDDEN, ENTITIES, WINDOW = 5, 3, 4, 6, 8, 3

NEWS = {
    "derby": News([3, 5, 7, 4], [1, 4]),
    "cup": News([3, 8, 6], [4]),
    "storm": News([9, 2, 10, 2], []),
    "bonds": News([11], [7, 2, 5]),
    "vote": News([4, 6, 1, 5, 3], [6, 6]),
    "untitled": News([], [3]),
    "bare": News([], []),
}
"""In the order of `baseline_cases.POSITION`."""
CANDIDATES = [*baseline_cases.CANDIDATES, "bare"]
batch_of = partial(baseline_cases.batch_of, candidates=CANDIDATES)

with_and_without_entities = pytest.mark.parametrize("entities", [False, True], ids=["words alone", "with entities"])


def case(
    seed: int = 1,
    *,
    entities: bool = False,
    window: int = WINDOW,
    word_size: int = SIZE,
    entity_size: int | None = SIZE,
) -> Case[Dkn]:
    """All weights are random, those of padding and those that start at zero too; so is what a training remembered."""
    settings = DknSettings(
        size=SIZE, filters=FILTERS, window=window, attention=ATTENTION, hidden=HIDDEN, entities=entities
    )
    vectors = np.ones((WORDS, word_size), dtype=np.float32)
    entity_vectors = None if entity_size is None else np.ones((ENTITIES, entity_size), dtype=np.float32)
    shape = DataShape(len(NEWS) + 1, WORDS, 3, 2, 2, vectors, entities=ENTITIES, entity_vectors=entity_vectors)
    random = torch.Generator().manual_seed(seed)
    model = randomised(Dkn(settings, shape), random)
    with torch.no_grad():
        for network in (model.attention, model.prediction):
            network.mean.normal_(generator=random)
            network.variance.uniform_(0.5, 2.0, generator=random)
    return case_of(model)


def news_rows(*, more: int = 1) -> NewsRows:
    """All news after the padding, which is given what nobody may read; so many words more are padding."""
    news = [News([1, 2], [1]), *NEWS.values()]
    entities = padded([one.entities or [] for one in news], more=more)
    return rows_of([one.words for one in news], more=more, entities=entities)


def as_read(name: str, *, entities: bool) -> News:
    return NEWS[name] if entities else NEWS[name]._replace(entities=None)


def scores(model: Dkn, batch: Batch, news: NewsRows | None = None) -> Tensor:
    return model.score(model.encode_news(news or news_rows()), batch)


def weights_of_clicks(model: Dkn, batch: Batch) -> Tensor:
    encoded = model.encode_news(news_rows())
    clicked, candidate = encoded.clicked[batch.profiles.clicked], encoded.candidate[batch.candidates]
    masks = batch.profiles.clicked_mask, batch.candidate_mask
    return model.click_weights(clicked[..., :ATTENTION], candidate[..., :ATTENTION], *masks)


def expected_scores(weights: Weights, *, entities: bool) -> list[list[float]]:
    news = {name: as_read(name, entities=entities) for name in NEWS}
    return [
        [loops.score(weights, [news[name] for name in names], news[candidate], WINDOW) for candidate in CANDIDATES]
        for names in CLICKED.values()
    ]


@pytest.mark.parametrize("word_size", [SIZE, 3], ids=["words of the model's size", "words of another size"])
@pytest.mark.parametrize("window", [1, 2, 3, 4])
def test_titles(window: int, word_size: int) -> None:
    model, weights = case(window=window, word_size=word_size)
    news = news_rows()
    found = model.title(model.words(news.words), news.words != 0)[1:]
    close(found, [loops.news(weights, News(one.words), window) for one in NEWS.values()])
    assert found.shape[1] == window * FILTERS


@pytest.mark.parametrize("entity_size", [SIZE, 4, None], ids=["vectors", "vectors of another size", "no vectors"])
def test_entities(entity_size: int | None) -> None:
    model, weights = case(entities=True, entity_size=entity_size)
    assert model.entities is not None
    found = model.entities(news_rows().entities)[1:]
    close(found, [loops.news(weights, one, WINDOW)[-FILTERS:] for one in NEWS.values()])


@with_and_without_entities
@pytest.mark.parametrize("seed", [2, 3])
def test_scores(seed: int, entities: bool) -> None:
    model, weights = case(seed, entities=entities)
    close(scores(model, batch_of(list(CLICKED.values()))), expected_scores(weights, entities=entities))


@with_and_without_entities
def test_how_much_each_click_counts_for_each_candidate(entities: bool) -> None:
    model, weights = case(seed=2, entities=entities)
    batch = batch_of(list(CLICKED.values()))
    found = weights_of_clicks(model, batch)
    vectors = {name: loops.news(weights, as_read(name, entities=entities), WINDOW) for name in NEWS}
    for user, names in zip(found, CLICKED.values(), strict=True):
        for candidate, weight in zip(CANDIDATES, user, strict=True):
            close(
                weight[: len(names)],
                loops.clicks(weights, [vectors[name] for name in names], vectors[candidate]),
            )
            assert not weight[len(names) :].any()


def test_the_same_clicks_count_otherwise_for_another_candidate() -> None:
    model, _ = case(seed=2)
    found = weights_of_clicks(model, batch_of([CLICKED["ordinary"]]))[0]
    close(found.sum(1), torch.ones(len(CANDIDATES)))
    for one, other in combinations(found[: CANDIDATES.index("bare")], 2):  # "bare" is read as "untitled" is
        assert (one - other).abs().max() > 1e-3


def real_pairs(weights: Weights) -> dict[str, list[list[float]]]:
    """W [a; b] of every pair that is there, of both networks, by loops."""
    vectors = {name: loops.news(weights, as_read(name, entities=False), WINDOW) for name in NEWS}
    users = [[vectors[name] for name in names] for names in CLICKED.values()]
    candidates = [vectors[name] for name in CANDIDATES]
    own = part(weights, "attention")
    return {
        "attention": [loops.first_layer(own, one, other) for names in users for one in names for other in candidates],
        "prediction": [loops.prediction_layer(weights, names, other) for names in users for other in candidates],
    }


def test_in_training_pairs_are_normalised_by_what_is_there() -> None:
    model, weights = case(seed=2)
    before = {name: value.clone() for name, value in model.named_buffers()}
    found = scores(model.train(), batch_of(list(CLICKED.values())))
    for name in ("attention", "prediction"):  # the weights of clicks, and with them the users, follow the first
        pairs = torch.tensor(real_pairs(weights)[name], dtype=torch.float64)
        weights[f"{name}.mean"] = pairs.mean(0).tolist()
        weights[f"{name}.variance"] = pairs.var(0, correction=0).tolist()
    close(found, expected_scores(weights, entities=False))
    for name, value in model.named_buffers():  # a twentieth of the way
        close(value, 0.95 * before[name] + 0.05 * torch.tensor(weights[name], dtype=torch.float64))


def test_padding_changes_no_score_in_training_either() -> None:
    batch = batch_of(list(CLICKED.values()))
    longer = with_parts(
        batch,
        clicked=torch.cat([batch.profiles.clicked, torch.zeros(len(batch), 3, dtype=torch.long)], dim=1),
        candidates=torch.cat([batch.candidates, torch.zeros(len(batch), 2, dtype=torch.long)], dim=1),
    )
    first, second = case().model.train(), case().model.train()
    close(scores(second, longer)[:, : len(CANDIDATES)], scores(first, batch))
    for one, other in zip(first.buffers(), second.buffers(), strict=True):
        close(one, other)


def test_a_batch_without_clicks_is_nothing_to_remember() -> None:
    model = case().model.train()
    before = {name: value.clone() for name, value in model.named_buffers()}
    assert scores(model, batch_of([[], []])).isfinite().all()
    moved = {name for name, value in model.named_buffers() if not torch.equal(value, before[name])}
    assert moved == {"prediction.mean", "prediction.variance"}


def test_entities_change_the_scores() -> None:
    model, _ = case(entities=True)
    batch, news = batch_of(list(CLICKED.values())), news_rows()
    before = scores(model, batch, news)
    news.entities[:] = news.entities.roll(1, dims=0)
    assert (scores(model, batch, news) - before).abs().min() > 1e-6


def test_entities_stand_in_no_order() -> None:
    model, _ = case(entities=True)
    batch, news = batch_of(list(CLICKED.values())), news_rows()
    before = scores(model, batch, news)
    news.entities[:] = news.entities.flip(1)
    close(scores(model, batch, news), before)


def test_words_stand_in_an_order() -> None:
    model, _ = case()
    news = news_rows()
    before = model.title(model.words(news.words), news.words != 0)[1]
    news.words[1, :4] = news.words[1, :4].flip(0)
    after = model.title(model.words(news.words), news.words != 0)[1]
    close(after[:FILTERS], before[:FILTERS])  # filters of one word do not see it, those of more do
    assert (after[FILTERS:] - before[FILTERS:]).abs().max() > 1e-3


def test_without_their_setting_entities_are_not_read_and_not_needed() -> None:
    without, with_them = case().model, case(entities=True).model
    assert without.entities is None
    assert without.needs == ()
    assert with_them.needs == ("entities",)


def test_padding_of_titles_changes_no_score() -> None:
    model, _ = case(entities=True)
    batch = batch_of(list(CLICKED.values()))
    close(scores(model, batch, news_rows(more=5)), scores(model, batch, news_rows(more=0)))


def test_what_was_skipped_is_not_read() -> None:
    model, _ = case()
    users = list(CLICKED.values())
    assert model.reads == ("clicked",)
    close(scores(model, batch_of(users, skipped=["bonds", "vote", "derby"])), scores(model, batch_of(users)))


def test_a_user_who_clicked_nothing_learns_one_vector_with_all_others_who_did_not() -> None:
    model, _ = case()
    found = scores(model, batch_of([[], []], skipped=["storm"]))
    only_nothing_learns(found, model.nothing, model.attention.out.weight)


def test_every_weight_of_entities_learns() -> None:
    model, _ = case(entities=True)
    every_weight_learns(scores(model, batch_of(list(CLICKED.values()))), model.entities)
    assert not model.entities.vectors.table.weight.grad[0].any()


@with_and_without_entities
def test_dropout_is_drawn_in_training(entities: bool) -> None:
    settings = DknSettings(size=SIZE, filters=FILTERS, dropout=0.5, entities=entities)
    model = Dkn(settings, DataShape(len(NEWS) + 1, WORDS, 3, 2, 2, entities=ENTITIES))
    batch = batch_of(list(CLICKED.values()))
    assert not torch.equal(scores(model, batch), scores(model, batch))
    model.eval()
    assert torch.equal(scores(model, batch), scores(model, batch))


def test_the_defaults_are_those_of_the_code_that_drpn_is_compared_with() -> None:
    shape = DataShape(news=3, words=9, users=3, categories=4, subcategories=5, entities=7)
    model = Dkn(DknSettings(), shape)
    shapes = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
    assert shapes == {
        "words.table.weight": (9, 100),
        **{f"title.convolutions.{i}.filters.weight": (100, 100 * (i + 1)) for i in range(3)},
        **{f"title.convolutions.{i}.filters.bias": (100,) for i in range(3)},
        "title.nothing": (300,),
        "attention.clicked.weight": (100, 300),
        "attention.candidate.weight": (100, 300),
        "attention.scale": (100,),
        "attention.shift": (100,),
        "attention.out.weight": (1, 100),
        "prediction.clicked.weight": (300, 300),
        "prediction.candidate.weight": (300, 300),
        "prediction.scale": (300,),
        "prediction.shift": (300,),
        "prediction.out.weight": (1, 300),
        "nothing": (300,),
    }
    assert model.dropout.p == 0.0


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        *(({name: 0}, f"^{name} is 0; it takes 1 or more$") for name in ("size", "filters", "window", "attention")),
        ({"hidden": -1}, "^hidden is -1; it takes 1 or more$"),
        ({"dropout": 1.0}, "^dropout is 1.0; it takes a share from 0 to below 1$"),
    ],
)
def test_settings_that_make_no_network(setting: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DknSettings(**setting)
