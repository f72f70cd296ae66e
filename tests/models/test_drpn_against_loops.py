"""Each part of DRPN, and the whole model, against loops over the paper's equations."""

from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from batch_cases import leave_out_of_training, make_batch
from contract_cases import LIVE, PLANTED_PARTS, draw_calibrations
from drpn.batches.batch import Batch, NewsRows
from drpn.explanation.views import match_views
from drpn.layers.attention import GatedAggregate, MultiHeadAttention, attend, masked_softmax
from drpn.layers.denoising import Similarity, attend_opposite, attend_rest, similarities
from drpn.layers.linear import joint_linear
from drpn.layers.news import TitleEncoder
from drpn.layers.tables import TableRows
from drpn.models.base import DataShape
from drpn.models.catalogue import CATALOGUE
from drpn.models.drpn import ContentAggregator, DenoisingAggregator, Drpn, GraphNetwork
from reference import drpn_loops as loops
from reference.drpn_loops import VARIANTS, Encoded, Heads, Story, Viewed, Weights

Module = TypeVar("Module", bound=nn.Module)

SIZE, HIDDEN, WORDS, ROWS = 6, 4, 12, 15
HEADS = Heads(attention=2, graph=2)

NEWS = {
    "derby": Story(words=[3, 5, 7, 4], row=1, neighbours=[2, 3, 4]),
    "cup": Story(words=[3, 8, 6], row=2, neighbours=[1, 5]),
    "storm": Story(words=[9, 2, 10, 2], row=3, neighbours=[1]),
    "bonds": Story(words=[11], row=4, neighbours=[6, 1, 2, 12]),
    "vote": Story(words=[4, 6, 1, 5, 3], row=5, neighbours=[2, 4]),
    "opera": Story(words=[5, 10], row=6, neighbours=[4, 5, 3, 1]),
    "untitled": Story(words=[], row=7, neighbours=[1, 6]),
    "lonely": Story(words=[8, 2, 1], row=8, neighbours=[]),
    "bare": Story(words=[], row=9, neighbours=[]),
    "unseen": Story(words=[7, 9, 3], row=10, neighbours=[], seen=False),
    "unseen with neighbours": Story(words=[6, 4], row=11, neighbours=[3, 12], seen=False),
    "neighbour of others, unseen": Story(words=[10, 3], row=12, neighbours=[4], seen=False),
    "later than the dataset": Story(words=[2, 6, 5], row=0, neighbours=[], seen=False),
}
NEWS = {name: story._replace(category=i % 3, subcategory=i % 4) for i, (name, story) in enumerate(NEWS.items())}
POSITION = {name: position for position, name in enumerate(NEWS, start=1)}
CANDIDATES = ["derby", "opera", "untitled", "lonely", "unseen with neighbours", "later than the dataset"]


class User(NamedTuple):
    """The clicked and skipped stories of a user."""

    clicked: list[str]
    skipped: list[str]


USERS = {
    "ordinary": User(["derby", "cup", "storm"], ["bonds", "vote", "opera", "lonely"]),
    "one click": User(["cup"], ["storm", "bonds", "vote"]),
    "one click, one skip": User(["opera"], ["vote"]),
    "no clicks": User([], ["derby", "storm", "opera"]),
    "no skips": User(["bonds", "vote", "cup"], []),
    "one click, no skips": User(["storm"], []),
    "neither": User([], []),
    "titles without words": User(["untitled", "derby", "bare"], ["bare", "cup", "untitled"]),
    "stories without neighbours": User(["lonely", "bare", "cup"], ["lonely", "vote"]),
    "stories not seen in training": User(
        ["unseen", "later than the dataset", "derby"],
        ["unseen with neighbours", "neighbour of others, unseen", "storm"],
    ),
    "duplicates": User(["cup", "derby", "cup", "cup"], ["storm", "derby", "storm"]),
}


def close(actual: Tensor, expected: Any) -> None:
    torch.testing.assert_close(actual, torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-9)


def randomise(module: Module, seed: int) -> Module:
    """Make all weights random, including padding and those that start at zero; every other gamma is negative."""
    random = torch.Generator().manual_seed(seed)
    module.double().eval()
    sign = 1
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            parameter.normal_(std=0.7, generator=random)
            if name.endswith("gamma"):
                parameter.copy_(parameter.abs() * sign)
                sign = -sign
    draw_calibrations(module)
    return module


def weights_of(module: nn.Module) -> Weights:
    return {name: tensor.tolist() for name, tensor in module.state_dict().items()}


def vectors(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, SIZE, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def spread(count: int) -> tuple[Tensor, Tensor]:
    """The vectors of `count` stories between two padding vectors that are not zero, and the mask."""
    mask = torch.tensor([False] + [True] * count + [False])
    return vectors(count + 2, seed=count), mask


def as_rows(values: Tensor, mask: Tensor) -> TableRows:
    """One sequence with its values, as a batch."""
    return TableRows(mask.long()[None], None, values[None])


def test_attention() -> None:
    query, key, value = vectors(3, seed=1), vectors(4, seed=2), vectors(4, seed=3)
    mask = torch.tensor([True, False, True, True])
    actual = attend(query[None], key[None], value[None], mask[None, None])[0]
    close(actual, [loops.attn(q, key[mask].tolist(), value[mask].tolist()) for q in query.tolist()])


def test_masked_softmax() -> None:
    logits, mask = torch.tensor([3.0, -1.0, 0.5, 2.0], dtype=torch.float64), torch.tensor([False, True, True, False])
    close(masked_softmax(logits, mask), [0, *loops.softmax([-1.0, 0.5]), 0])


@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.parametrize("heads", [1, 2, 3])
def test_multi_head_attention(heads: int, count: int) -> None:
    attention = randomise(MultiHeadAttention(SIZE, heads), seed=1)
    items, mask = spread(count)
    actual = attention(attention.project(items)[None], mask[None])[0]
    close(actual[mask], loops.multi_head(weights_of(attention), items[mask].tolist(), heads))


@pytest.mark.parametrize("count", [1, 4])
def test_gated_aggregation(count: int) -> None:
    aggregate = randomise(GatedAggregate(SIZE, HIDDEN), seed=2)
    items, mask = spread(count)
    actual = aggregate(items[None], mask[None])
    expected = loops.aggregate(weights_of(aggregate), items[mask].tolist())
    close(actual.vector[0], expected.vector)
    close(actual.weight[0], [0, *expected.weights, 0])


@pytest.mark.parametrize("width", [SIZE, 4], ids=["word vectors of the model's size", "word vectors of another size"])
def test_titles(width: int) -> None:
    pretrained = np.ones((WORDS, width), dtype=np.float32)
    encoder = randomise(TitleEncoder(WORDS, SIZE, HEADS.attention, HIDDEN, 0.2, pretrained), seed=3)
    titles = [[3, 5, 7, 4], [2, 0, 0, 0], [0, 6, 0, 6], [0, 0, 0, 0], [0, 9, 1, 8]]
    words = [[word for word in title if word] for title in titles]
    expected = [loops.encode_title(weights_of(encoder), title, HEADS.attention) for title in words]
    close(encoder(torch.tensor(titles)), expected)


@pytest.mark.parametrize("count", [0, 1, 4])
@pytest.mark.parametrize("heads", [HEADS.attention, None], ids=["with self-attention", "without"])
def test_content_based_aggregator(heads: int | None, count: int) -> None:
    aggregator = randomise(ContentAggregator(SIZE, HEADS.attention, HIDDEN, self_attention=heads is not None), seed=4)
    stories, mask = spread(count)
    qkv = joint_linear(stories, [] if aggregator.attention is None else aggregator.attention.weights())
    logits = aggregator.aggregate.logits(stories)[None] if heads is None else None
    actual = aggregator(as_rows(stories, mask), as_rows(qkv, mask), logits)
    expected = loops.content_aggregator(weights_of(aggregator), stories[mask].tolist(), heads)
    close(actual.vector[0], expected.vector)
    close(actual.weight[0], [0, *expected.weights, 0])


def test_similarity() -> None:
    """A sequence of one story whose opposite sequence has one story, too: it reads exactly the value of that story."""
    similarity = randomise(Similarity(SIZE), seed=5)
    own, read = vectors(3, seed=1), vectors(3, seed=2)
    anything, half, value = vectors(3, seed=3), similarity.own(own), similarity.read(read)
    positions = torch.ones(3, 1, dtype=torch.long)
    stories = TableRows(positions, None, torch.cat([anything] * 3 + [half, half], dim=-1)[:, None])
    opposite = attend_opposite(
        stories, TableRows(positions, None, torch.cat([anything, value], dim=-1)[:, None]), instead=anything[0]
    )
    actual = similarities(similarity.head(), attend_rest(stories), similarity.head(), opposite)[1]
    weights = weights_of(similarity)
    expected = [[loops.similarity(weights, a, b)] for a, b in zip(own.tolist(), read.tolist(), strict=True)]
    close(actual, expected)


@pytest.mark.parametrize("opposites", [0, 1, 3, None], ids=lambda count: f"opposite {count}")
@pytest.mark.parametrize("count", [0, 1, 2, 4], ids=lambda count: f"own {count}")
@pytest.mark.parametrize("gamma", [0.8, -0.8], ids=lambda gamma: f"gamma {gamma}")
def test_denoising_aggregator(gamma: float, count: int, opposites: int | None) -> None:
    aggregator = randomise(DenoisingAggregator(SIZE, opposite=opposites is not None), seed=6)
    stories, mask = spread(count)
    other, expected_others = None, None
    if opposites is not None:
        others, others_mask = spread(opposites)
        nn.init.constant_(aggregator.gamma, gamma)
        other = as_rows(joint_linear(others, aggregator.opposite_weights()), others_mask)
        expected_others = others[others_mask].tolist()
    own = as_rows(joint_linear(stories, aggregator.weights()), mask)
    actual = aggregator(as_rows(stories, mask), own, other)
    expected = loops.denoising_aggregator(weights_of(aggregator), stories[mask].tolist(), expected_others)
    close(actual.vector[0], expected.vector)
    close(actual.weight[0], [0, *expected.weights, 0])


@pytest.mark.parametrize("heads", [1, 2, 3])
def test_graph_network(heads: int) -> None:
    graph = randomise(GraphNetwork(SIZE, heads), seed=7)
    own, others = vectors(4, seed=1), vectors(4, 3, seed=2)
    mask = torch.tensor([[True, True, True], [True, False, True], [False, True, False], [False, False, False]])
    weights = weights_of(graph)
    nodes = [(own[i].tolist(), others[i][mask[i]].tolist()) for i in range(4)]
    expected = [loops.read_neighbours(weights, story, around, heads) for story, around in nodes if around]
    close(graph.read_neighbours(own, others, mask)[:3], expected)
    close(graph(own, others, mask), [loops.graph_network(weights, story, around, heads) for story, around in nodes])


class Case(NamedTuple):
    """A variant with random weights, the same weights for the loops, and the stories that they encode."""

    model: Drpn
    weights: Weights
    encoded: dict[str, Encoded]


@cache
def case(name: str, seed: int) -> Case:
    entry = CATALOGUE["drpn-planted" if name in PLANTED_PARTS else name]
    sizes = {"size": SIZE, "hidden": HIDDEN, "heads": HEADS.attention, "graph_heads": HEADS.graph, "dropout": 0.2}
    settings = replace(entry.settings, **sizes, **PLANTED_PARTS.get(name, {}))
    shape = DataShape(news=ROWS, words=WORDS, users=3, categories=2, subcategories=2)
    model = randomise(entry.model(settings, shape), seed)
    leave_out_of_training(model, [story.row for story in NEWS.values() if not story.seen])
    weights = weights_of(model)
    return Case(
        model, weights, {key: loops.encode(weights, story, VARIANTS[name], HEADS) for key, story in NEWS.items()}
    )


def padded(lists: list[list[int]], *, at_the_end: bool) -> Tensor:
    width = max(map(len, lists)) + 1
    return torch.tensor(
        [[*row, *[0] * (width - len(row))] if at_the_end else [*[0] * (width - len(row)), *row] for row in lists]
    )


def news_rows() -> NewsRows:
    """The padding row, with a title and neighbours that must not be read, and all stories."""
    padding = Story(words=[1, 2], row=0, neighbours=[1, 2], category=1, subcategory=1)
    news = [padding, *NEWS.values()]
    return NewsRows(
        rows=torch.tensor([story.row for story in news]),
        words=padded([story.words for story in news], at_the_end=True),
        neighbours=padded([story.neighbours for story in news], at_the_end=False),
        category=torch.tensor([story.category for story in news]),
        subcategory=torch.tensor([story.subcategory for story in news]),
    )


def batch_of(users: list[User]) -> Batch:
    """The users, each with all candidates."""
    clicked, skipped = ([[POSITION[name] for name in user[side]] for user in users] for side in (0, 1))
    return make_batch(
        users=torch.ones(len(users), dtype=torch.long),
        clicked=padded(clicked, at_the_end=False),
        skipped=padded(skipped, at_the_end=True),
        candidates=torch.tensor([[POSITION[name] for name in CANDIDATES]] * len(users)),
    )


def profile(case: Case, user: User) -> dict[str, list[Encoded]]:
    return {side: [case.encoded[name] for name in getattr(user, side)] for side in ("clicked", "skipped")}


@pytest.mark.parametrize("name", VARIANTS)
def test_story_vectors(name: str) -> None:
    model, _, encoded = case(name, seed=1)
    actual = model.encode_news(news_rows())
    close(actual["semantic"].stories[1:], [story.title for story in encoded.values()])
    assert actual["semantic"].plain is actual["semantic"].stories
    assert ("collaborative" in actual) == VARIANTS[name].graph
    if VARIANTS[name].graph:
        close(actual["collaborative"].plain[1:], [story.id for story in encoded.values()])
        close(actual["collaborative"].stories[1:], [story.graph for story in encoded.values()])


def expected_views(name: str, case: Case, user: User) -> list[dict[str, Viewed]]:
    """The views of a user by the loops, for each candidate."""
    return [
        loops.views(case.weights, profile(case, user), case.encoded[candidate], VARIANTS[name], HEADS)
        for candidate in CANDIDATES
    ]


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("name", VARIANTS)
def test_interests_and_their_fusion(name: str, user: str) -> None:
    drawn = case(name, seed=2)
    batch = batch_of([USERS[user]])
    encoded = drawn.model.encode_news(news_rows())
    readers, actual = drawn.model.read(encoded, batch.profiles), match_views(drawn.model, encoded, batch)
    expected = expected_views(name, drawn, USERS[user])
    assert actual.keys() == expected[0].keys()
    for view in actual:
        of_candidates = [views[view] for views in expected]
        interests = of_candidates[0].interests  # they do not depend on the candidate
        close(readers[view].interests[0], [interest.vector for interest in interests.values()])
        assert actual[view].weights.keys() == interests.keys()
        for interest, weights in actual[view].weights.items():
            mask = batch.profiles.clicked_mask if interest.startswith("clicked") else batch.profiles.skipped_mask
            close(weights[mask], interests[interest].weights)
            assert not weights[~mask].any()
        close(actual[view].beta[0], [of_candidate.beta for of_candidate in of_candidates])
        # the model has no u: it multiplies each interest with the candidate before the sum
        close(actual[view].score[0], [of_candidate.score for of_candidate in of_candidates])


@pytest.mark.parametrize("seed", [3, 4])
@pytest.mark.parametrize("name", VARIANTS)
def test_scores(name: str, seed: int) -> None:
    model, weights, encoded = drawn = case(name, seed)
    actual = model.score(model.encode_news(news_rows()), batch_of(list(USERS.values())))
    expected = [
        [
            loops.score(weights, profile(drawn, user), encoded[candidate], VARIANTS[name], HEADS)
            for candidate in CANDIDATES
        ]
        for user in USERS.values()
    ]
    close(actual, expected)


def test_every_variant_of_the_paper_is_in_the_catalogue() -> None:
    assert {name for name in CATALOGUE if name.startswith("drpn") and name not in LIVE} | {*PLANTED_PARTS} == {
        *VARIANTS
    }
