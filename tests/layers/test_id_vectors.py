"""Id vectors: only stories that training met have one of their own."""

import torch

from drpn.layers.news import IdVectors, forget_met


def some(dropped: float = 0.0) -> IdVectors:
    torch.manual_seed(1)
    vectors = IdVectors(9, 4, dropped)
    with torch.no_grad():
        vectors.unknown.fill_(3.0)
    return vectors


def test_a_story_that_training_never_met_is_unknown() -> None:
    vectors = some()
    forget_met(vectors)
    vectors.train()(torch.tensor([2, 5, 5]))
    actual = vectors.eval()(torch.tensor([2, 3, 5]))
    assert torch.equal(actual[[0, 2]], vectors.table.weight[[2, 5]])
    assert actual[1].eq(3).all()


def test_a_story_with_the_unknown_vector_in_its_only_batch_is_not_met() -> None:
    vectors = some(dropped=1.0)
    forget_met(vectors)
    assert vectors.train()(torch.tensor([2, 5])).eq(3).all()
    assert not vectors.met[1:].any()


def test_training_meets_graph_neighbours_too() -> None:
    vectors = some()
    forget_met(vectors)
    vectors.train().of_neighbours(torch.tensor([[4, 0], [6, 4]]))
    assert torch.equal(vectors.eval()(torch.tensor([4, 6])), vectors.table.weight[[4, 6]])
    neighbours = vectors.of_neighbours(torch.tensor([[4, 7, 0]]))
    assert torch.equal(neighbours[0, 0], vectors.table.weight[4])
    assert neighbours[0, 1].eq(3).all(), "a neighbour that training never met is unknown"
    assert not neighbours[0, 2].any(), "padding stays zero"


def test_in_a_training_batch_every_story_has_its_own_vector() -> None:
    vectors = some()
    forget_met(vectors)
    assert torch.equal(vectors.train()(torch.tensor([2, 7])), vectors.table.weight[[2, 7]])


def test_ranking_meets_nothing() -> None:
    vectors = some()
    forget_met(vectors)
    vectors.eval()(torch.tensor([2, 5]))
    vectors.of_neighbours(torch.tensor([[3, 4]]))
    assert not vectors.met.any()


def test_a_story_after_the_dataset_is_unknown_though_padding_was_in_every_batch() -> None:
    vectors = some()
    vectors.train()(torch.tensor([0, 1]))
    assert vectors.eval()(torch.tensor([0])).eq(3).all()


def test_all_vectors_of_a_model_that_was_never_trained_count() -> None:
    vectors = some(dropped=0.5).eval()
    assert torch.equal(vectors(torch.arange(1, 9)), vectors.table.weight[1:])
