"""DFN against loops over its paper's description, which start again for every candidate."""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from baseline_cases import OTHER_CLICKS, OTHER_SKIPS, Case, close, moved, random_case
from batch_cases import leave_out_of_training, with_parts
from drpn.layers import chunks
from drpn.models.base import DataShape
from drpn.models.baselines.dfn import Dfn, DfnSettings, ExternalAttention, FeedbackTransformer, SequenceAttention
from reference import dfn_loops as loops
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
    scores,
)

SETTINGS = DfnSettings(size=3, heads=2, wider=2, hidden=4, deep=5, deepest=4)


def case(seed: int = 1, *, word_size: int = SETTINGS.size, **settings: Any) -> Case[Dfn]:
    """All weights are random, including those of padding and those that start at zero."""
    vectors = np.ones((WORDS, word_size), dtype=np.float32)
    shape = DataShape(len(NEWSROOM) + 1, WORDS, 3, CATEGORIES, SUBCATEGORIES, vectors)
    model = Dfn(replace(SETTINGS, **settings), shape)
    leave_out_of_training(model, UNSEEN)
    return random_case(model, seed, std=0.5)


@pytest.mark.parametrize(
    "settings",
    [{}, {"heads": 3}, {"places": 2}, {"word_size": 4}],
    ids=["two heads", "three heads", "two places", "word vectors of another size"],
)
@pytest.mark.parametrize("seed", [2, 3])
def test_scores(settings: dict[str, int], seed: int) -> None:
    model, weights = case(seed, **settings)
    expected = [
        [
            loops.score(
                weights,
                [NEWSROOM[name] for name in clicked],
                [NEWSROOM[name] for name in skipped],
                NEWSROOM[candidate],
                model.settings.heads,
            )
            for candidate in CANDIDATES
        ]
        for clicked, skipped in READERS.values()
    ]
    close(scores(model, everybody()), expected)


class Sequences(NamedTuple):
    """Queries, keys and values of sequences of five, two and no stories, with four candidates each."""

    items: Tensor
    mask: Tensor
    candidates: Tensor


def sequences(width: int, scale: float) -> Sequences:
    random = torch.Generator().manual_seed(4)
    items = torch.randn(3, 5, 3 * width, generator=random, dtype=torch.float64) * scale
    candidates = torch.randn(3, 4, 3 * width, generator=random, dtype=torch.float64) * scale
    mask = torch.tensor([[1, 1, 1, 1, 1], [0, 1, 0, 0, 1], [0, 0, 0, 0, 0]]).bool()
    return Sequences(items.requires_grad_(), mask, candidates.requires_grad_())


def plain(transformer: FeedbackTransformer, inputs: Sequences) -> Tensor:
    """The candidate is put before the sequence, and self-attention runs over all of it."""
    actual = []
    for user, mask in enumerate(inputs.mask):
        own = inputs.items[user][mask]
        for candidate in inputs.candidates[user]:
            together = torch.cat([candidate[None], own])
            query, key, value = (
                part.reshape(len(together), transformer.attention.heads, -1).transpose(0, 1)
                for part in together.chunk(3, dim=-1)
            )
            read = scaled_dot_product_attention(query, key, value).transpose(0, 1).flatten(1)
            actual.append(transformer.narrow(torch.relu(transformer.widen(read))).mean(0))
    return torch.stack(actual).view(*inputs.candidates.shape[:2], -1)


@pytest.mark.parametrize("scale", [0.3, 3.0, 30.0], ids=["even", "sharp", "as good as one-hot"])
def test_merging_the_candidate_gives_the_attention_over_the_whole_sequence(scale: float) -> None:
    """Values and gradients are those of a transformer over the candidate and the sequence."""
    transformer = case().model.clicked
    inputs = sequences(4 * SETTINGS.size, scale)
    actual = transformer.match(transformer.read(inputs.items, inputs.mask), inputs.candidates)
    expected = plain(transformer, inputs)
    torch.testing.assert_close(actual, expected, rtol=1e-9, atol=1e-12)
    weights = torch.randn(actual.shape, dtype=torch.float64)
    gradients = [
        torch.autograd.grad(
            (result * weights).sum(), [inputs.items, inputs.candidates, *transformer.widen.parameters()]
        )
        for result in (actual, expected)
    ]
    assert gradients[0][0].abs().max() > 1e-6
    torch.testing.assert_close(*gradients, rtol=1e-7, atol=1e-9)


def test_skips_change_the_scores() -> None:
    """No skips, other skips, and the same skips in another order give other scores."""
    assert moved(case().model, OTHER_SKIPS).min() > 1e-3


def test_clicks_change_the_scores() -> None:
    assert moved(case().model, OTHER_CLICKS).min() > 1e-3


def test_the_external_attention_over_skips_depends_on_the_clicks() -> None:
    """Other feedback gives other weights to the same items; without items the result is a learned vector."""
    random = torch.Generator().manual_seed(5)
    attention = ExternalAttention(6, 4).double()
    torch.nn.init.normal_(attention.nothing, generator=random)
    feedback = torch.randn(1, 3, 6, generator=random, dtype=torch.float64)
    items = torch.randn(1, 5, 6, generator=random, dtype=torch.float64)
    halves = items @ attention.weight().matrix.T
    mask = torch.tensor([[True, True, False, True, True]])
    actual = attention(feedback, items, halves, mask)
    assert (actual[0, 1:] - actual[0, 0]).abs().amax(1).min() > 1e-4
    # a weighted mean of the real items lies within their range
    assert (actual <= items[mask].amax(0)).all()
    assert (actual >= items[mask].amin(0)).all()
    close(attention(feedback, items, halves, mask & False), attention.nothing.detach().expand(1, 3, 6).tolist())


def test_the_oldest_stories_share_a_place() -> None:
    """With three places, swapping the third and fourth newest changes nothing; other swaps do."""
    model, _ = case(places=3)
    skipped = READERS["ordinary"][1]
    orders = [
        ["derby", "cup", "storm", "vote"],
        ["cup", "derby", "storm", "vote"],
        ["derby", "cup", "vote", "storm"],
        ["derby", "storm", "cup", "vote"],
    ]
    actual = moved(model, [(order, skipped) for order in orders])
    assert actual[0] < 1e-9
    assert actual[1:].min() > 1e-3


@pytest.mark.parametrize("numbers", [1, 2_000, 10**9], ids=["one user", "some users", "all users"])
def test_without_gradients_users_are_scored_in_chunks(numbers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns that are padding for the whole chunk are cut off; one candidate column stays."""
    model, _ = case()
    batch = everybody()
    candidates = torch.cat([batch.candidates, torch.zeros(6, 2, dtype=torch.long)], dim=1)
    candidates[1, 1:] = 0
    candidates[4] = 0
    batch = with_parts(batch, candidates=candidates)
    expected = scores(model, batch).detach()
    shapes: list[tuple[int, ...]] = []
    in_part = model.clicked.match

    def seen(own: SequenceAttention, target: Tensor) -> Tensor:
        shapes.append((*own.mask.shape, target.shape[1]))
        return in_part(own, target)

    monkeypatch.setattr(model.clicked, "match", seen)
    monkeypatch.setitem(chunks._NUMBERS, "cpu", numbers)
    with torch.no_grad():
        actual = scores(model, batch)
    close(actual[batch.candidate_mask], expected[batch.candidate_mask].tolist())
    assert not actual[:, 4:].any()  # columns of padding
    # users, columns up to the newest click, candidates; padding is before the clicks. Per user: six candidates,
    # sequences of up to six, a layer of 24 numbers: 864
    clicks = [5, 5, 0, 5, 0, 5]
    assert (
        shapes
        == {
            1: [(1, width, shown) for width, shown in zip(clicks, [4, 1, 4, 4, 1, 4], strict=True)],
            2_000: [(2, 5, 4)] * 3,
            10**9: [(6, 5, 4)],
        }[numbers]
    )


def test_with_an_empty_profile_only_the_candidate_is_read() -> None:
    model, _ = case()
    actual = scores(model, batch_of([([], []), ([], [])]))
    assert torch.equal(actual[0], actual[1])
    actual.sum().backward()
    assert model.external.nothing.grad is not None
    assert model.external.nothing.grad.any()
    for transformer in (model.clicked, model.skipped):
        assert transformer.attention.value.weight.grad is not None
        assert transformer.attention.value.weight.grad.any()
        assert not transformer.attention.query.weight.grad.any()  # attention over one item does not depend on the query
        assert not transformer.places.weight.grad.any()


def test_the_defaults_are_those_of_the_paper() -> None:
    model = Dfn(DfnSettings(), DataShape(news=3, words=9, users=3, categories=2, subcategories=4))
    assert {name: tuple(parameter.shape) for name, parameter in model.named_parameters()} == {
        "fields.words.table.weight": (9, 64),
        "fields.word_weights.weight": (9, 1),
        "fields.untitled": (65,),
        "fields.ids.table.weight": (3, 65),
        "fields.ids.unknown": (65,),
        "fields.category.weight": (2, 65),
        "fields.subcategory.weight": (4, 65),
        **{
            f"{side}.{name}": shape
            for side in ("clicked", "skipped")
            for name, shape in {
                "item.weight": (256, 256),
                "place.weight": (256, 64),
                "places.weight": (61, 64),
                "attention.query.weight": (256, 256),
                "attention.key.weight": (256, 256),
                "attention.value.weight": (256, 256),
                "widen.weight": (1024, 256),
                "widen.bias": (1024,),
                "narrow.weight": (256, 1024),
                "narrow.bias": (256,),
            }.items()
        },
        "external.hidden.weight": (32, 1024),
        "external.hidden.bias": (32,),
        "external.gate.weight": (1, 32),
        "external.nothing": (256,),
        "deep_target.weight": (32, 256),
        "deep_target.bias": (32,),
        "deep_feedback.weight": (32, 768),
        "deepest.weight": (16, 32),
        "deepest.bias": (16,),
        "out_wide.weight": (1, 4),
        "out.weight": (1, 80),
    }
    assert (model.clicked.attention.heads, model.dropout.p, model.fields.ids.dropped) == (4, 0.2, 0.1)
    assert model.reads == ("clicked", "skipped")


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        *(({name: 0}, f"^{name} is 0; it takes 1 or more$") for name in ("size", "heads", "wider", "places", "hidden")),
        ({"deep": -1}, "^deep is -1; it takes 1 or more$"),
        ({"deepest": 0}, "^deepest is 0; it takes 1 or more$"),
        ({"dropout": 1.0}, "^dropout is 1.0; it takes a share from 0 to below 1$"),
        ({"id_dropout": -0.5}, "^id_dropout is -0.5; it takes a share from 0 to below 1$"),
        ({"size": 3, "heads": 5}, "^heads is 5; it takes a divisor of 4 times size, which is 12$"),
    ],
)
def test_invalid_settings_are_refused(setting: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DfnSettings(**setting)
