"""Properties of every model of the catalogue."""

from collections.abc import Callable
from dataclasses import fields
from itertools import combinations

import pytest
import torch
from torch import Tensor, nn

from batch_cases import as_rows, make_batch, part_of, rows_of, with_parts
from contract_cases import (
    DRPNS,
    SHAPE,
    build,
    every_model,
    has_no_effect,
    impressions,
    newsroom,
    real_scores,
    same,
    scores,
    trained,
)
from drpn.batches.batch import NewsRows, distinct_stories
from drpn.models.catalogue import CATALOGUE
from drpn.models.drpn import GraphNetwork


@every_model
def test_every_candidate_gets_its_own_score(name: str) -> None:
    batch = impressions()
    actual = scores(trained(name), batch)
    assert actual.shape == batch.candidates.shape
    assert actual.isfinite().all()
    assert len(actual[5].unique()) == 4


@every_model
def test_the_order_of_candidates_does_not_matter(name: str) -> None:
    model, batch = trained(name), impressions()
    order = torch.tensor([2, 0, 3, 1])
    same(scores(model, with_parts(batch, candidates=batch.candidates[:, order])), scores(model, batch)[:, order])


def longer(positions: Tensor) -> Tensor:
    return torch.cat([positions, positions.new_zeros(len(positions), 3)], dim=1)


def shifted(positions: Tensor) -> Tensor:
    """Padding before the stories instead of after them."""
    return torch.stack([torch.cat([row[row == 0], row[row != 0]]) for row in positions])


def scattered(positions: Tensor) -> Tensor:
    """Padding after every column."""
    return torch.stack([positions, torch.zeros_like(positions)], dim=-1).flatten(1)


@pytest.mark.parametrize("pad", [longer, shifted, scattered])
@pytest.mark.parametrize("part", ["clicked", "skipped", "candidates", "neighbours"])
@every_model
def test_padding_never_changes_a_score(name: str, part: str, pad: Callable[[Tensor], Tensor]) -> None:
    model, batch = trained(name), impressions()
    other = with_parts(batch, **{part: pad(part_of(batch, part))})
    assert not torch.equal(part_of(other, part), part_of(batch, part))
    same(real_scores(model, other), real_scores(model, batch))


@every_model
def test_features_of_the_padding_row_are_not_read(name: str) -> None:
    model, batch, news = trained(name), impressions(), newsroom()
    filled = NewsRows(*(getattr(news, field.name).clone() for field in fields(news)))
    filled.words[0], filled.neighbours[0], filled.category[0], filled.subcategory[0] = 7, 7, 1, 1
    filled.entities[0], filled.abstract[0], filled.neighbour_positions[0] = 7, 7, 7
    actual, expected = scores(model, batch, filled), scores(model, batch, news)
    same(actual[batch.candidate_mask], expected[batch.candidate_mask])


@every_model
def test_users_of_a_batch_do_not_affect_each_other(name: str) -> None:
    model, batch = trained(name), impressions()
    together = scores(model, batch)
    for i, mask in enumerate(batch.candidate_mask):
        parts = (part_of(batch, name)[i] for name in ("clicked", "skipped", "candidates", "neighbours"))
        lists = (row[row != 0][None] for row in parts)
        same(scores(model, make_batch(batch.profiles.users[[i]], *lists))[0], together[i, mask])


@every_model
def test_encoding_all_stories_or_only_the_distinct_ones_gives_the_same_scores(name: str) -> None:
    model, news = trained(name), newsroom()
    batch = impressions()
    few = rows_of(batch, slice(3, 6))
    reach = news.neighbour_positions if "news_neighbours" in model.needs else None
    rows, pointing = distinct_stories(as_rows(few), news=SHAPE.news, reach=reach)
    assert len(rows) < len(news)
    same(scores(model, pointing, news.select(rows)), scores(model, few, news))


@pytest.mark.parametrize("width", [0, 3], ids=["no columns", "only padding"])
@every_model
def test_an_empty_profile_is_finite(name: str, width: int) -> None:
    model = build(name).train()
    nothing = torch.zeros(2, width, dtype=torch.long)
    actual = scores(model, make_batch(torch.tensor([1, 2]), nothing, nothing, torch.tensor([[1, 2, 20], [3, 4, 0]])))
    assert actual.isfinite().all()
    actual.sum().backward()
    assert all(parameter.grad is None or parameter.grad.isfinite().all() for parameter in model.parameters())


@every_model
def test_every_parameter_gets_a_gradient(name: str) -> None:
    model = trained(name)
    mask = impressions().candidate_mask
    actual = scores(model, impressions()).masked_fill(~mask, -torch.inf)
    # the first candidate is the one that was clicked
    (-actual.log_softmax(dim=1)[:, 0]).sum().backward()
    gradients = {key: parameter.grad for key, parameter in model.named_parameters() if parameter.requires_grad}
    assert all(gradient is None or gradient.isfinite().all() for gradient in gradients.values())
    idle = {key for key, gradient in gradients.items() if gradient is None or gradient.abs().max() < 1e-12}
    assert idle == {key for key in gradients if has_no_effect(model, key)}


@every_model
def test_padding_rows_get_no_gradient(name: str) -> None:
    model = trained(name)
    real_scores(model, impressions()).sum().backward()
    tables = [module for module in model.modules() if isinstance(module, nn.Embedding)]
    for table in tables:
        assert table.padding_idx == 0
        if not table.weight.requires_grad:
            continue  # word vectors that stay as they are
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
def test_evaluation_is_deterministic(name: str) -> None:
    model = trained(name, dropout=0.5, id_dropout=0.5)
    assert torch.equal(scores(model, impressions()), scores(model, impressions()))


@pytest.mark.parametrize("name", [name for name in CATALOGUE if hasattr(CATALOGUE[name].settings, "dropout")])
def test_dropout_is_random_in_training(name: str) -> None:
    model = trained(name, dropout=0.5).train()
    assert not torch.equal(scores(model, impressions()), scores(model, impressions()))


@pytest.mark.parametrize(("first", "second"), list(combinations(DRPNS, 2)))
def test_no_two_variants_are_the_same_network(first: str, second: str) -> None:
    models = trained(first), trained(second)
    first_parameters, second_parameters = (
        {(key, value.shape) for key, value in model.named_parameters()} for model in models
    )
    assert first_parameters != second_parameters
    # an ordinary user; weights of the same name are equal in both models, so the networks themselves differ
    actual, expected = (real_scores(model, impressions())[:3] for model in models)
    assert (actual - expected).abs().min() > 1e-3


@pytest.mark.parametrize("name", DRPNS)
def test_the_order_of_a_profile_does_not_change_the_scores_of_drpn(name: str) -> None:
    model, batch = trained(name), impressions()
    turned = with_parts(batch, clicked=batch.profiles.clicked.flip(1), skipped=batch.profiles.skipped.flip(1))
    same(real_scores(model, turned), real_scores(model, batch))


@pytest.mark.parametrize("name", CATALOGUE)
def test_without_dropout_training_and_evaluation_give_the_same_scores(name: str) -> None:
    """Training projects rows late; the gradients are the same, too."""
    none = {key: 0.0 for key in ("dropout", "id_dropout", "user_dropout") if hasattr(CATALOGUE[name].settings, key)}
    model, results = trained(name, **none), []
    for mode in (model.train(), model.eval()):
        for module in mode.modules():
            if isinstance(module, torch.nn.BatchNorm1d):
                module.eval()  # training would use statistics of the batch
        mode.zero_grad()
        result = real_scores(mode, impressions())
        result.square().sum().backward()
        results.append(
            (
                result.detach(),
                *(parameter.grad.clone() for parameter in mode.parameters() if parameter.grad is not None),
            )
        )
    for in_training, in_evaluation in zip(*results, strict=True):
        same(in_training, in_evaluation)


@pytest.mark.parametrize(("name", "unread"), [("drpn-n", "skipped"), ("drpn-p", "clicked")])
def test_a_variant_of_one_sequence_does_not_read_the_other(name: str, unread: str) -> None:
    batch = impressions()
    changed = with_parts(batch, **{unread: part_of(batch, unread).flip(0)})
    same(real_scores(trained(name), changed), real_scores(trained(name), batch))
    assert (real_scores(trained("drpn"), changed) - real_scores(trained("drpn"), batch)).abs().max() > 1e-3


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
@pytest.mark.parametrize("heads", [1, 2, 3])
def test_the_graph_network_against_the_transformer_of_pyg(heads: int) -> None:
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
            if layer.bias is not None:  # PyG adds a bias even with bias=False
                layer.bias.zero_()
    # an edge from each neighbour, a separate node, to the story that reads it
    target, place = mask.nonzero(as_tuple=True)
    edges = torch.stack([target * neighbours + place, target])
    same(graph.read_neighbours(own, others, mask), conv((others.flatten(0, 1), own), edges))
