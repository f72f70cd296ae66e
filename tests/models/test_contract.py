"""Facts true of every model of the catalogue."""

import zlib
from collections.abc import Callable
from dataclasses import fields, replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from drpn.batches.batch import Batch, NewsRows, distinct
from drpn.models.aggregators import GraphNetwork
from drpn.models.base import ClickModel, DataShape
from drpn.models.catalogue import CATALOGUE
from drpn.models.drpn import ABLATIONS

SHAPE = DataShape(news=24, words=30, users=8, categories=4, subcategories=6, entities=9)

SMALL: dict[str, Any] = {
    "size": 12,
    "hidden": 8,
    "heads": 2,
    "head_size": 5,
    "graph_heads": 2,
    "filters": 6,
    "attention": 6,
    "category_size": 5,
    "user_size": 5,
}
"""Settings that make a network small, of whichever model has them."""

DRPNS = ["drpn", *ABLATIONS]

WITHOUT_EFFECT = (
    # added to every logit of a softmax, and so to none
    "similar.out.bias",
    "contrary.out.bias",
)
"""Ends of the names of parameters that no score depends on."""

every_model = pytest.mark.parametrize("name", CATALOGUE)


def small_settings(name: str, **settings: Any) -> Any:
    defaults = CATALOGUE[name].settings
    known = {field.name for field in fields(defaults)}
    return replace(defaults, **{key: value for key, value in {**SMALL, **settings}.items() if key in known})


def build(name: str, **settings: Any) -> ClickModel:
    return CATALOGUE[name].model(small_settings(name, **settings), SHAPE).double()


def trained(name: str, **settings: Any) -> ClickModel:
    """A model none of whose weights is zero, but for padding; weights of one name are alike in all models."""
    model = build(name, **settings).eval()
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            values = np.random.default_rng(zlib.crc32(key.encode())).normal(scale=0.4, size=parameter.shape)
            parameter.copy_(torch.from_numpy(np.asarray(values)))
            if key.endswith("gamma"):
                parameter.abs_()
        for module in model.modules():
            if isinstance(module, nn.Embedding) and module.padding_idx is not None:
                module.weight[module.padding_idx] = 0
    return model


def newsroom() -> NewsRows:
    """Every news of the dataset; 2 and 3 without words, 3 and 4 without neighbours, the last five not seen.

    2 and 4 have no entity, 3 and 4 no abstract.
    """
    random = torch.Generator().manual_seed(5)
    words = torch.randint(1, SHAPE.words, (SHAPE.news, 6), generator=random)
    neighbours = torch.randint(1, SHAPE.news, (SHAPE.news, 5), generator=random)
    words[torch.rand(words.shape, generator=random) < 0.3] = 0
    neighbours[torch.rand(neighbours.shape, generator=random) < 0.3] = 0
    words[[0, 2, 3]] = 0
    neighbours[[0, 3, 4]] = 0
    category = torch.randint(1, SHAPE.categories, (SHAPE.news,), generator=random)
    subcategory = torch.randint(1, SHAPE.subcategories, (SHAPE.news,), generator=random)
    category[0] = subcategory[0] = 0
    rows = torch.arange(SHAPE.news)
    entities = torch.randint(0, SHAPE.entities, (SHAPE.news, 3), generator=random)
    abstract = torch.randint(0, SHAPE.words, (SHAPE.news, 7), generator=random)
    entities[[0, 2, 4]] = abstract[[0, 3, 4]] = 0
    seen = rows < SHAPE.news - 5
    return NewsRows(rows, words, neighbours, category, subcategory, seen, entities, abstract, places=neighbours)


def impressions() -> Batch:
    """Users of every kind: many news, one, none of either sort, none at all; positions are rows of the newsroom.

    The last is a user whom training does not know.
    """
    clicked = [[1, 2, 3, 4, 20], [5], [], [6, 7, 8], [], [9, 22, 5], [10]]
    skipped = [[9, 10, 11, 21], [12, 3, 4], [13, 14, 2], [], [], [15], [16]]
    candidates = [[17, 1, 23], [2, 3, 18, 4], [19, 7], [1, 13], [21, 5, 6], [7, 8, 17, 22], [3, 9]]
    neighbours = [[2, 3, 5], [1], [], [6, 7], [], [4, 1], [3, 2]]
    users = torch.tensor([1, 2, 3, 4, 5, 6, 0])
    return Batch(users, *map(padded, (clicked, skipped, candidates, neighbours)))


def padded(lists: list[list[int]]) -> Tensor:
    width = max(map(len, lists))
    return torch.tensor([row + [0] * (width - len(row)) for row in lists])


def scores(model: ClickModel, batch: Batch, news: NewsRows | None = None) -> Tensor:
    return model.score(model.encode_news(newsroom() if news is None else news), batch)


def real_scores(model: ClickModel, batch: Batch) -> Tensor:
    """The scores of real candidates, user by user."""
    return scores(model, batch)[batch.candidate_mask]


def same(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)


@every_model
def test_every_candidate_gets_a_score_of_its_own(name: str) -> None:
    batch = impressions()
    found = scores(trained(name), batch)
    assert found.shape == batch.candidates.shape
    assert found.isfinite().all()
    assert len(found[5].unique()) == 4


@every_model
def test_the_order_of_candidates_does_not_matter(name: str) -> None:
    model, batch = trained(name), impressions()
    order = torch.tensor([2, 0, 3, 1])
    same(scores(model, replace(batch, candidates=batch.candidates[:, order])), scores(model, batch)[:, order])


def longer(positions: Tensor) -> Tensor:
    return torch.cat([positions, positions.new_zeros(len(positions), 3)], dim=1)


def shifted(positions: Tensor) -> Tensor:
    """Padding in front of the news and not behind them."""
    return torch.stack([torch.cat([row[row == 0], row[row != 0]]) for row in positions])


def scattered(positions: Tensor) -> Tensor:
    """Padding after each news and each padding."""
    return torch.stack([positions, torch.zeros_like(positions)], dim=-1).flatten(1)


@pytest.mark.parametrize("pad", [longer, shifted, scattered])
@pytest.mark.parametrize("part", ["clicked", "skipped", "candidates", "neighbours"])
@every_model
def test_padding_never_changes_a_score(name: str, part: str, pad: Callable[[Tensor], Tensor]) -> None:
    model, batch = trained(name), impressions()
    other = replace(batch, **{part: pad(getattr(batch, part))})
    assert not torch.equal(getattr(other, part), getattr(batch, part))
    same(real_scores(model, other), real_scores(model, batch))


@every_model
def test_what_stands_in_the_padding_row_of_the_news_is_not_read(name: str) -> None:
    model, batch, news = trained(name), impressions(), newsroom()
    filled = NewsRows(*(getattr(news, field.name).clone() for field in fields(news)))
    filled.words[0], filled.neighbours[0], filled.category[0], filled.subcategory[0] = 7, 7, 1, 1
    filled.entities[0], filled.abstract[0], filled.places[0] = 7, 7, 7
    found, expected = scores(model, batch, filled), scores(model, batch, news)
    same(found[batch.candidate_mask], expected[batch.candidate_mask])


@every_model
def test_users_do_not_see_each_other(name: str) -> None:
    model, batch = trained(name), impressions()
    together = scores(model, batch)
    for i, mask in enumerate(batch.candidate_mask):
        parts = (batch.clicked[i], batch.skipped[i], batch.candidates[i], batch.neighbours[i])
        lists = (row[row != 0][None] for row in parts)
        same(scores(model, Batch(batch.users[[i]], *lists))[0], together[i, mask])


@every_model
def test_all_news_or_only_the_distinct_ones_of_the_batch(name: str) -> None:
    model, news = trained(name), newsroom()
    batch = impressions()
    few = Batch(*(getattr(batch, field.name)[3:6] for field in fields(batch)))
    reach = news.places if "news_neighbours" in model.needs else None
    rows, pointing = distinct(few, news=SHAPE.news, reach=reach)
    assert len(rows) < len(news)
    same(scores(model, pointing, news[rows]), scores(model, few, news))


@pytest.mark.parametrize("width", [0, 3], ids=["no room for news", "padding alone"])
@every_model
def test_an_empty_profile_is_finite(name: str, width: int) -> None:
    model = build(name).train()
    nothing = torch.zeros(2, width, dtype=torch.long)
    found = scores(model, Batch(torch.tensor([1, 2]), nothing, nothing, torch.tensor([[1, 2, 20], [3, 4, 0]])))
    assert found.isfinite().all()
    found.sum().backward()
    assert all(parameter.grad is None or parameter.grad.isfinite().all() for parameter in model.parameters())


@every_model
def test_every_parameter_learns(name: str) -> None:
    model = trained(name)
    mask = impressions().candidate_mask
    found = scores(model, impressions()).masked_fill(~mask, -torch.inf)
    # the first candidate is the one that was clicked
    (-found.log_softmax(dim=1)[:, 0]).sum().backward()
    gradients = {key: parameter.grad for key, parameter in model.named_parameters()}
    assert all(gradient is None or gradient.isfinite().all() for gradient in gradients.values())
    idle = {key for key, gradient in gradients.items() if gradient is None or gradient.abs().max() < 1e-12}
    assert idle == {key for key in gradients if key.endswith(WITHOUT_EFFECT)}


@every_model
def test_padding_does_not_learn(name: str) -> None:
    model = trained(name)
    real_scores(model, impressions()).sum().backward()
    tables = [module for module in model.modules() if isinstance(module, nn.Embedding)]
    for table in tables:
        assert table.padding_idx == 0
        assert table.weight.grad is not None
        assert not table.weight.grad[0].any()


@every_model
def test_the_same_seed_gives_the_same_weights(name: str) -> None:
    def drawn(seed: int) -> dict[str, Tensor]:
        torch.manual_seed(seed)
        return build(name).state_dict()

    first, again, other = drawn(1), drawn(1), drawn(2)
    assert first.keys() == again.keys()
    assert all(torch.equal(first[key], again[key]) for key in first)
    assert any(not torch.equal(first[key], other[key]) for key in first)


@every_model
def test_nothing_is_drawn_in_evaluation(name: str) -> None:
    model = trained(name, dropout=0.5, id_dropout=0.5)
    assert torch.equal(scores(model, impressions()), scores(model, impressions()))


@pytest.mark.parametrize("name", [name for name in CATALOGUE if hasattr(CATALOGUE[name].settings, "dropout")])
def test_dropout_is_drawn_in_training(name: str) -> None:
    model = trained(name, dropout=0.5).train()
    assert not torch.equal(scores(model, impressions()), scores(model, impressions()))


@pytest.mark.parametrize(("first", "second"), list(combinations(DRPNS, 2)))
def test_no_two_variants_are_the_same_network(first: str, second: str) -> None:
    models = trained(first), trained(second)
    one, other = ({(key, value.shape) for key, value in model.named_parameters()} for model in models)
    assert one != other
    # an ordinary user; weights of one name begin alike in both, so that it is the networks that differ
    found, expected = (real_scores(model, impressions())[:3] for model in models)
    assert (found - expected).abs().min() > 1e-3


@pytest.mark.parametrize("name", DRPNS)
def test_drpn_reads_sets(name: str) -> None:
    model, batch = trained(name), impressions()
    turned = replace(batch, clicked=batch.clicked.flip(1), skipped=batch.skipped.flip(1))
    same(real_scores(model, turned), real_scores(model, batch))


@pytest.mark.parametrize("name", CATALOGUE)
def test_training_scores_as_evaluation_does_where_nothing_is_dropped(name: str) -> None:
    """In training news are taken by length, and projected in the roles they have; the gradients are the same, too."""
    none = {key: 0.0 for key in ("dropout", "id_dropout", "user_dropout") if hasattr(CATALOGUE[name].settings, key)}
    model, found = trained(name, **none), []
    for mode in (model.train(), model.eval()):
        for module in mode.modules():
            if isinstance(module, torch.nn.BatchNorm1d):
                module.eval()  # which has statistics of its own in training
        mode.zero_grad()
        own = real_scores(mode, impressions())
        own.square().sum().backward()
        found.append((own.detach(), *(one.grad.clone() for one in mode.parameters() if one.grad is not None)))
    for one, other in zip(*found, strict=True):
        same(one, other)


@pytest.mark.parametrize("name", DRPNS)
def test_whether_kernels_are_used_is_told_by_the_projections(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are in bf16 where products are; the vectors of news, which come from a norm, are not."""
    model, asked = trained(name), []
    monkeypatch.setattr("drpn.models.drpn.read_in_tables", lambda table, _: bool(asked.append(table.shape[1])))
    scores(model, impressions())
    assert asked == [asked[0]]
    assert asked[0] > model.settings.size


@pytest.mark.parametrize(("name", "unread"), [("drpn-n", "skipped"), ("drpn-p", "clicked")])
def test_a_variant_of_one_sequence_does_not_read_the_other(name: str, unread: str) -> None:
    batch = impressions()
    changed = replace(batch, **{unread: getattr(batch, unread).flip(0)})
    same(real_scores(trained(name), changed), real_scores(trained(name), batch))
    assert (real_scores(trained("drpn"), changed) - real_scores(trained("drpn"), batch)).abs().max() > 1e-3


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
@pytest.mark.parametrize("heads", [1, 2, 3])
def test_the_graph_network_reads_neighbours_as_the_transformer_of_pyg_does(heads: int) -> None:
    geometric = pytest.importorskip("torch_geometric.nn", reason="PyTorch Geometric is not installed")
    size, nodes, neighbours = 12, 7, 5
    torch.manual_seed(3)
    graph = GraphNetwork(size, heads).double()
    own, others = torch.randn(nodes, size).double(), torch.randn(nodes, neighbours, size).double()
    mask = torch.rand(nodes, neighbours) < 0.6
    mask[:, 0] = True
    conv = geometric.TransformerConv(
        (size, size), size // heads, heads=heads, concat=True, bias=False, root_weight=False
    ).double()
    with torch.no_grad():
        for name in ("query", "key", "value"):
            layer = getattr(conv, f"lin_{name}")
            layer.weight.copy_(getattr(graph, name).weight)
            if layer.bias is not None:  # PyG gives these a bias whatever `bias` says
                layer.bias.zero_()
    # an edge from each neighbour, a node of its own, to the news that reads it
    target, place = mask.nonzero(as_tuple=True)
    edges = torch.stack([target * neighbours + place, target])
    same(graph.read_neighbours(own, others, mask), conv((others.flatten(0, 1), own), edges))
