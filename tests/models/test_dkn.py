"""DKN against loops over its paper's equations; clicks have other weights for each candidate."""

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
    check_every_weight_learns,
    check_only_nothing_learns,
    close,
    padded,
    randomised,
    rows_of,
)
from batch_cases import with_parts
from drpn.batches.batch import Batch, NewsRows
from drpn.models.base import DataShape
from drpn.models.baselines.dkn import Dkn, DknSettings
from reference import dkn_loops as loops
from reference.dkn_loops import Story
from reference.drpn_loops import Weights, part

SIZE, FILTERS, ATTENTION, HIDDEN, ENTITIES, WINDOW = 5, 3, 4, 6, 8, 3

NEWS = {
    "derby": Story([3, 5, 7, 4], [1, 4]),
    "cup": Story([3, 8, 6], [4]),
    "storm": Story([9, 2, 10, 2], []),
    "bonds": Story([11], [7, 2, 5]),
    "vote": Story([4, 6, 1, 5, 3], [6, 6]),
    "untitled": Story([], [3]),
    "bare": Story([], []),
}
"""In the order of `baseline_cases.POSITION`."""
CANDIDATES = [*baseline_cases.CANDIDATES, "bare"]
batch_of = partial(baseline_cases.batch_of, candidates=CANDIDATES)

with_and_without_entities = pytest.mark.parametrize("entities", [False, True], ids=["words only", "with entities"])


def case(
    seed: int = 1,
    *,
    entities: bool = False,
    window: int = WINDOW,
    word_size: int = SIZE,
    entity_size: int | None = SIZE,
) -> Case[Dkn]:
    """All weights are random, including padding, weights that start at zero, and running statistics."""
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
    """The padding row, with features that must not be read, and all stories; `more` columns are padding."""
    news = [Story([1, 2], [1]), *NEWS.values()]
    entities = padded([story.entities or [] for story in news], more=more)
    return rows_of([story.words for story in news], more=more, entities=entities)


def as_read(name: str, *, entities: bool) -> Story:
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
    actual = model.title(model.words(news.words), news.words != 0)[1:]
    close(actual, [loops.encode_story(weights, Story(story.words), window) for story in NEWS.values()])
    assert actual.shape[1] == window * FILTERS


@pytest.mark.parametrize("entity_size", [SIZE, 4, None], ids=["vectors", "vectors of another size", "no vectors"])
def test_entities(entity_size: int | None) -> None:
    model, weights = case(entities=True, entity_size=entity_size)
    assert model.entities is not None
    actual = model.entities(news_rows().entities)[1:]
    close(actual, [loops.encode_story(weights, story, WINDOW)[-FILTERS:] for story in NEWS.values()])


@with_and_without_entities
@pytest.mark.parametrize("seed", [2, 3])
def test_scores(seed: int, entities: bool) -> None:
    model, weights = case(seed, entities=entities)
    close(scores(model, batch_of(list(CLICKED.values()))), expected_scores(weights, entities=entities))


@with_and_without_entities
def test_weights_of_clicks_for_each_candidate(entities: bool) -> None:
    model, weights = case(seed=2, entities=entities)
    batch = batch_of(list(CLICKED.values()))
    actual = weights_of_clicks(model, batch)
    vectors = {name: loops.encode_story(weights, as_read(name, entities=entities), WINDOW) for name in NEWS}
    for user, names in zip(actual, CLICKED.values(), strict=True):
        for candidate, weight in zip(CANDIDATES, user, strict=True):
            close(
                weight[: len(names)],
                loops.clicks(weights, [vectors[name] for name in names], vectors[candidate]),
            )
            assert not weight[len(names) :].any()


def test_weights_of_clicks_differ_between_candidates() -> None:
    model, _ = case(seed=2)
    actual = weights_of_clicks(model, batch_of([CLICKED["ordinary"]]))[0]
    close(actual.sum(1), torch.ones(len(CANDIDATES)))
    for one, other in combinations(actual[: CANDIDATES.index("bare")], 2):  # "bare" and "untitled" have the same vector
        assert (one - other).abs().max() > 1e-3


def real_pairs(weights: Weights) -> dict[str, list[list[float]]]:
    """W [a; b] of every real pair, for both networks, by loops."""
    vectors = {name: loops.encode_story(weights, as_read(name, entities=False), WINDOW) for name in NEWS}
    users = [[vectors[name] for name in names] for names in CLICKED.values()]
    candidates = [vectors[name] for name in CANDIDATES]
    own = part(weights, "attention")
    return {
        "attention": [
            loops.first_layer(own, click, candidate) for names in users for click in names for candidate in candidates
        ],
        "prediction": [loops.prediction_layer(weights, names, other) for names in users for other in candidates],
    }


def test_batch_normalisation_in_training_leaves_out_padding() -> None:
    model, weights = case(seed=2)
    before = {name: value.clone() for name, value in model.named_buffers()}
    actual = scores(model.train(), batch_of(list(CLICKED.values())))
    for name in ("attention", "prediction"):  # the users depend on the statistics of the attention
        pairs = torch.tensor(real_pairs(weights)[name], dtype=torch.float64)
        weights[f"{name}.mean"] = pairs.mean(0).tolist()
        weights[f"{name}.variance"] = pairs.var(0, correction=0).tolist()
    close(actual, expected_scores(weights, entities=False))
    for name, value in model.named_buffers():  # momentum 0.05
        close(value, 0.95 * before[name] + 0.05 * torch.tensor(weights[name], dtype=torch.float64))


def test_padding_does_not_change_scores_in_training() -> None:
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


def test_a_batch_without_clicks_does_not_change_the_attention_statistics() -> None:
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


def test_the_order_of_entities_does_not_matter() -> None:
    model, _ = case(entities=True)
    batch, news = batch_of(list(CLICKED.values())), news_rows()
    before = scores(model, batch, news)
    news.entities[:] = news.entities.flip(1)
    close(scores(model, batch, news), before)


def test_the_order_of_words_matters() -> None:
    model, _ = case()
    news = news_rows()
    before = model.title(model.words(news.words), news.words != 0)[1]
    news.words[1, :4] = news.words[1, :4].flip(0)
    after = model.title(model.words(news.words), news.words != 0)[1]
    close(after[:FILTERS], before[:FILTERS])  # filters of one word do not depend on the order
    assert (after[FILTERS:] - before[FILTERS:]).abs().max() > 1e-3


def test_entities_are_optional() -> None:
    without, with_them = case().model, case(entities=True).model
    assert without.entities is None
    assert without.needs == ()
    assert with_them.needs == ("entities",)


def test_padding_of_titles_does_not_change_scores() -> None:
    model, _ = case(entities=True)
    batch = batch_of(list(CLICKED.values()))
    close(scores(model, batch, news_rows(more=5)), scores(model, batch, news_rows(more=0)))


def test_skipped_stories_are_not_read() -> None:
    model, _ = case()
    users = list(CLICKED.values())
    assert model.reads == ("clicked",)
    close(scores(model, batch_of(users, skipped=["bonds", "vote", "derby"])), scores(model, batch_of(users)))


def test_users_who_clicked_nothing_share_a_learned_vector() -> None:
    model, _ = case()
    actual = scores(model, batch_of([[], []], skipped=["storm"]))
    check_only_nothing_learns(actual, model.nothing, model.attention.out.weight)


def test_every_weight_of_entities_gets_a_gradient() -> None:
    model, _ = case(entities=True)
    check_every_weight_learns(scores(model, batch_of(list(CLICKED.values()))), model.entities)
    assert not model.entities.vectors.table.weight.grad[0].any()


@with_and_without_entities
def test_dropout_is_random_in_training(entities: bool) -> None:
    settings = DknSettings(size=SIZE, filters=FILTERS, dropout=0.5, entities=entities)
    model = Dkn(settings, DataShape(len(NEWS) + 1, WORDS, 3, 2, 2, entities=ENTITIES))
    batch = batch_of(list(CLICKED.values()))
    assert not torch.equal(scores(model, batch), scores(model, batch))
    model.eval()
    assert torch.equal(scores(model, batch), scores(model, batch))


def test_the_defaults_are_those_of_microsoft_recommenders() -> None:
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
def test_invalid_settings_are_refused(setting: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DknSettings(**setting)
