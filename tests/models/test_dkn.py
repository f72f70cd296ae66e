"""DKN against loops over its paper's equations; clicks have other weights for each candidate."""

from functools import partial
from itertools import combinations
from typing import Any

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
from drpn.models.baselines.dkn import CHANNELS, Dkn, DknSettings
from reference import dkn_loops as loops
from reference.dkn_loops import Story
from reference.drpn_loops import Weights, part

SIZE, FILTERS, ATTENTION, HIDDEN, ENTITIES, WINDOW = 5, 3, 4, 6, 8, 3

NEWS = {
    "derby": Story([3, 5, 7, 4], [1, 0, 4, 4]),
    "cup": Story([3, 8, 6], [0, 4, 0]),
    "storm": Story([9, 2, 10, 2], [0, 0, 0, 0]),
    "bonds": Story([11], [7]),
    "vote": Story([4, 6, 1, 5, 3], [6, 6, 0, 2, 6]),
    "untitled": Story([], []),
    "bare": Story([], []),
}
"""In the order of `baseline_cases.POSITION`."""
CANDIDATES = [*baseline_cases.CANDIDATES, "bare"]
batch_of = partial(baseline_cases.batch_of, candidates=CANDIDATES)

all_channels = pytest.mark.parametrize("channels", CHANNELS)


def case(
    seed: int = 1,
    *,
    channels: str = "words",
    window: int = WINDOW,
    word_size: int = SIZE,
    entity_size: int | None = SIZE,
    context_size: int | None = SIZE,
    normalisation: bool = True,
    train: bool = True,
) -> Case[Dkn]:
    """All weights are random, including padding, weights that start at zero, and running statistics."""
    sizes: Any = {"size": SIZE, "filters": FILTERS, "attention": ATTENTION, "hidden": HIDDEN, "window": window}
    parts: Any = {"channels": channels, "normalisation": normalisation, "train_entities": train}
    settings = DknSettings(**sizes, **parts)
    random = torch.Generator().manual_seed(seed)
    model = randomised(Dkn(settings, shape(word_size, entity_size, context_size)), random)
    if normalisation:
        with torch.no_grad():
            for network in (model.attention, model.prediction):
                network.mean.normal_(generator=random)
                network.variance.uniform_(0.5, 2.0, generator=random)
    return case_of(model)


def shape(
    words: int | None = None, entities: int | None = None, contexts: int | None = None, *, rows: int = ENTITIES
) -> DataShape:
    """A dataset with vectors of these sizes, None for no vectors, and `rows` entities."""
    vectors = [
        None if size is None else np.ones((count, size), dtype=np.float32)
        for count, size in ((WORDS, words), (rows, entities), (rows, contexts))
    ]
    news = len(NEWS) + 1
    return DataShape(news, WORDS, 3, 2, 2, vectors[0], rows, entity_vectors=vectors[1], context_vectors=vectors[2])


def news_rows(*, more: int = 1) -> NewsRows:
    """The padding row, with features that must not be read, and all stories; `more` columns are padding."""
    news = [Story([1, 2], [1, 3]), *NEWS.values()]
    entities = padded([story.entities for story in news], more=more)
    return rows_of([story.words for story in news], more=more, entities=entities)


def titles(model: Dkn, news: NewsRows | None = None) -> Tensor:
    """e(t) of all stories."""
    news = news or news_rows()
    return (
        model._encode_title(news.words, news.entities)[1:] if model.knowledge else model._encode_title(news.words)[1:]
    )


def scores(model: Dkn, batch: Batch, news: NewsRows | None = None) -> Tensor:
    return model.score(model.encode_news(news or news_rows()), batch)


def weights_of_clicks(model: Dkn, batch: Batch) -> Tensor:
    encoded = model.encode_news(news_rows())
    clicked, candidate = encoded.clicked[batch.profiles.clicked], encoded.candidate[batch.candidates]
    masks = batch.profiles.clicked_mask, batch.candidate_mask
    return model.click_weights(clicked[..., :ATTENTION], candidate[..., :ATTENTION], *masks)


def expected_scores(weights: Weights) -> list[list[float]]:
    return [
        [loops.score(weights, [NEWS[name] for name in names], NEWS[candidate], WINDOW) for candidate in CANDIDATES]
        for names in CLICKED.values()
    ]


@all_channels
@pytest.mark.parametrize("word_size", [SIZE, 3], ids=["words of the model's size", "words of another size"])
@pytest.mark.parametrize("window", [1, 2, 3, 4])
def test_titles(window: int, word_size: int, channels: str) -> None:
    model, weights = case(window=window, word_size=word_size, channels=channels)
    actual = titles(model)
    close(actual, [loops.encode_story(weights, story, window) for story in NEWS.values()])
    assert actual.shape[1] == window * FILTERS


@pytest.mark.parametrize("size", [SIZE, 4, None], ids=["vectors", "vectors of another size", "no vectors"])
def test_vectors_of_entities_and_contexts(size: int | None) -> None:
    """Contexts always have vectors: without them there is no such channel."""
    model, weights = case(channels="contexts", entity_size=size, context_size=size or SIZE)
    close(titles(model), [loops.encode_story(weights, story, WINDOW) for story in NEWS.values()])
    width = size or SIZE
    for channel in model.knowledge.values():
        assert channel.transform.weight.shape == (SIZE, width)


@pytest.mark.parametrize("entity_size", [4, None], ids=["vectors", "no entity vectors"])
def test_vectors_of_files_can_stay_as_they_are(entity_size: int | None) -> None:
    """They are no parameters, an entity without a vector has zeros, and vectors that no file gives are trained."""
    model, _ = case(channels="contexts", entity_size=entity_size, train=False)
    vectors = torch.randn(ENTITIES, SIZE, generator=torch.Generator().manual_seed(4)).double()
    model.knowledge["contexts"].vectors.table.copy_(vectors)
    weights = case_of(model).weights
    close(titles(model), [loops.encode_story(weights, story, WINDOW) for story in NEWS.values()])
    learned = {name for name, _ in model.knowledge.named_parameters() if "vectors" in name}
    assert learned == (set() if entity_size else {"entities.vectors.table.weight"})
    data = shape(entities=4)
    assert data.entity_vectors is not None
    data.entity_vectors[3] = 0
    fixed, trained = (Dkn(DknSettings(train_entities=train), data).knowledge["entities"] for train in (False, True))
    entities = torch.tensor([[3, 2]])
    assert fixed.vectors(entities).tolist() == [[[0] * 4, [1] * 4]]
    assert trained.vectors(entities)[0, 0].all()  # drawn at random


@all_channels
@pytest.mark.parametrize("normalisation", [True, False], ids=["normalised", "not normalised"])
@pytest.mark.parametrize("seed", [2, 3])
def test_scores(seed: int, channels: str, normalisation: bool) -> None:
    model, weights = case(seed, channels=channels, normalisation=normalisation)
    close(scores(model, batch_of(list(CLICKED.values()))), expected_scores(weights))


@all_channels
def test_weights_of_clicks_for_each_candidate(channels: str) -> None:
    model, weights = case(seed=2, channels=channels)
    batch = batch_of(list(CLICKED.values()))
    actual = weights_of_clicks(model, batch)
    vectors = {name: loops.encode_story(weights, NEWS[name], WINDOW) for name in NEWS}
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
    vectors = {name: loops.encode_story(weights, NEWS[name], WINDOW) for name in NEWS}
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
    close(actual, expected_scores(weights))
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


@pytest.mark.parametrize("channels", ["entities", "contexts"])
def test_entities_change_the_scores(channels: str) -> None:
    model, _ = case(channels=channels)
    batch, news = batch_of(list(CLICKED.values())), news_rows()
    before = scores(model, batch, news)
    news.entities[:] = torch.where(news.entities != 0, news.entities % (ENTITIES - 1) + 1, 0)
    titled = torch.tensor([name in ("derby", "bonds", "vote") for name in CANDIDATES])
    assert (scores(model, batch, news) - before).abs()[:, titled].min() > 1e-6


@pytest.mark.parametrize("channel", ["entities", "contexts"])
def test_each_channel_changes_the_vector_of_a_title(channel: str) -> None:
    model, _ = case(channels="contexts")
    before = titles(model)
    with torch.no_grad():
        model.knowledge[channel].vectors.table.weight[7] += 1
    moved = (titles(model) - before).abs().amax(1) > 1e-6
    assert moved.tolist() == [7 in story.entities for story in NEWS.values()]


def test_the_word_that_names_an_entity_matters() -> None:
    """An entity is read together with its word, so it matters which word names it."""
    model, _ = case(channels="entities")
    news = news_rows()
    before = titles(model, news)
    news.entities[1, :4] = news.entities[1, :4].roll(1)
    assert (titles(model, news) - before).abs()[0].max() > 1e-3
    assert torch.equal(titles(model, news)[1:], before[1:])


def test_the_order_of_words_matters() -> None:
    model, _ = case()
    news = news_rows()
    before = titles(model, news)[0]
    news.words[1, :4] = news.words[1, :4].flip(0)
    after = titles(model, news)[0]
    close(after[:FILTERS], before[:FILTERS])  # filters of one word do not depend on the order
    assert (after[FILTERS:] - before[FILTERS:]).abs().max() > 1e-3


@pytest.mark.parametrize(
    ("chosen", "data", "channels"),
    [
        ("auto", shape(rows=0), ("words",)),
        ("auto", shape(), ("words", "entities")),
        ("auto", shape(contexts=4), ("words", "entities", "contexts")),
        ("words", shape(contexts=4), ("words",)),
        ("entities", shape(contexts=4), ("words", "entities")),
        ("entities", shape(rows=0), ("words", "entities")),
        ("contexts", shape(contexts=4), ("words", "entities", "contexts")),
    ],
)
def test_channels_are_those_of_the_settings_or_of_the_dataset(
    chosen: Any, data: DataShape, channels: tuple[str, ...]
) -> None:
    model = Dkn(DknSettings(size=SIZE, filters=FILTERS, channels=chosen), data)
    assert tuple(model.knowledge) == model.needs == channels[1:]
    assert model.content == " + ".join(channels)
    assert model.title.convolutions[0].filters.weight.shape == (FILTERS, SIZE * len(channels))


@all_channels
def test_padding_of_titles_does_not_change_scores(channels: str) -> None:
    model, _ = case(channels=channels)
    batch = batch_of(list(CLICKED.values()))
    before = scores(model, batch, news_rows(more=0))
    close(scores(model, batch, news_rows(more=5)), before)
    filled = news_rows(more=5)
    filled.entities[filled.words == 0] = 3  # where there is no word, no entity is read
    close(scores(model, batch, filled), before)


def test_skipped_stories_are_not_read() -> None:
    model, _ = case()
    users = list(CLICKED.values())
    assert model.reads == ("clicked",)
    close(scores(model, batch_of(users, skipped=["bonds", "vote", "derby"])), scores(model, batch_of(users)))


def test_users_who_clicked_nothing_share_a_learned_vector() -> None:
    model, _ = case()
    actual = scores(model, batch_of([[], []], skipped=["storm"]))
    check_only_nothing_learns(actual, model.nothing, model.attention.out.weight)


def test_every_weight_of_the_channels_gets_a_gradient() -> None:
    model, _ = case(channels="contexts")
    check_every_weight_learns(scores(model, batch_of(list(CLICKED.values()))), model.knowledge)
    for channel in model.knowledge.values():
        assert not channel.vectors.table.weight.grad[0].any()


def test_without_normalisation_there_are_no_statistics() -> None:
    model, _ = case(normalisation=False)
    assert not list(model.buffers())
    assert {"attention.scale", "prediction.scale"}.isdisjoint(dict(model.named_parameters()))
    batch = batch_of(list(CLICKED.values()))
    close(scores(model.train(), batch), scores(model.eval(), batch))
    check_every_weight_learns(scores(model, batch), model.prediction)


@all_channels
def test_dropout_is_random_in_training(channels: Any) -> None:
    settings = DknSettings(size=SIZE, filters=FILTERS, dropout=0.5, channels=channels)
    model = Dkn(settings, shape(contexts=SIZE))
    batch = batch_of(list(CLICKED.values()))
    assert not torch.equal(scores(model, batch), scores(model, batch))
    model.eval()
    assert torch.equal(scores(model, batch), scores(model, batch))


@pytest.mark.parametrize("channel", CHANNELS)
def test_dropout_reaches_every_channel(channel: str) -> None:
    """Half of the numbers of each channel become zero, the others twice as large, before the convolution."""
    model, _ = case(channels="contexts")
    model.dropout.p = 0.5
    seen: list[Tensor] = []
    model.train().title.register_forward_pre_hook(lambda _module, inputs: seen.append(inputs[0]))
    torch.manual_seed(1)
    for _ in range(40):
        titles(model)
    model.eval()
    titles(model)
    *in_training, plain = [
        values.unflatten(-1, (len(CHANNELS), SIZE))[..., CHANNELS.index(channel), :] for values in seen
    ]
    real = (news_rows().words != 0) & (plain != 0).all(-1)
    dropped = torch.stack(in_training)[:, real] == 0
    assert 0.4 < dropped.double().mean() < 0.6
    kept = torch.stack(in_training)[:, real][~dropped]
    close(kept, 2 * plain[real].expand(40, -1, -1)[~dropped])


def test_the_defaults_are_those_of_microsoft_recommenders() -> None:
    vectors = np.ones((7, 60), dtype=np.float32)
    data = DataShape(news=3, words=9, users=3, categories=4, subcategories=5, entities=7, context_vectors=vectors)
    model = Dkn(DknSettings(), data)
    shapes = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
    assert shapes == {
        "words.table.weight": (9, 100),
        "knowledge.entities.vectors.table.weight": (7, 100),
        "knowledge.entities.transform.weight": (100, 100),
        "knowledge.contexts.transform.weight": (100, 60),
        **{f"knowledge.{name}.transform.bias": (100,) for name in ("entities", "contexts")},
        **{f"title.convolutions.{i}.filters.weight": (100, 300 * (i + 1)) for i in range(3)},
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
