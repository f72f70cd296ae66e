"""Vectors of users; row 0 is for all unknown users."""

import pytest
import torch

from drpn.layers.news import ID_SPREAD, UserVectors


def some(dropped: float = 0.0) -> UserVectors:
    torch.manual_seed(1)
    vectors = UserVectors(400, 8, dropped)
    with torch.no_grad():
        vectors.ids.unknown.fill_(3.0)
    return vectors


def test_known_users_have_vectors_and_unknown_users_share_one() -> None:
    vectors = some().eval()
    actual = vectors(torch.tensor([7, 0, 8, 0]))
    assert actual[[1, 3]].eq(3).all()
    assert torch.equal(actual[[0, 2]], vectors.ids.table.weight[[7, 8]])
    assert not torch.equal(actual[0], actual[2])


def test_first_vectors_are_small() -> None:
    table = some().ids.table.weight.detach()
    assert float(table[1:].std()) == pytest.approx(ID_SPREAD, rel=0.1)
    assert not table[0].any()


def test_the_unknown_vector_gets_a_gradient_and_padding_does_not() -> None:
    vectors = some()
    vectors(torch.tensor([7, 0, 7])).sum().backward()
    table, unknown = vectors.ids.table.weight.grad, vectors.ids.unknown.grad
    assert unknown.tolist() == [1.0] * 8
    assert table.any(1).nonzero().flatten().tolist() == [7]
    assert table[7].tolist() == [2.0] * 8


def test_a_share_of_users_is_unknown_only_in_training() -> None:
    vectors, users = some(dropped=0.25), torch.arange(1, 400).repeat(10)
    assert not vectors.eval()(users).eq(3).any()
    unknown = vectors.train()(users).eq(3).all(1)
    assert 0.22 < float(unknown.double().mean()) < 0.28
    assert not torch.equal(unknown, vectors(users).eq(3).all(1))


def test_padding_among_neighbours_is_zero() -> None:
    vectors = some(dropped=0.5).train()
    actual = vectors.of_neighbours(torch.tensor([[3, 0], [0, 5]]))
    assert torch.equal(actual[0, 0], vectors.ids.table.weight[3])
    assert torch.equal(actual[1, 1], vectors.ids.table.weight[5])
    assert not actual[0, 1].any()
    assert not actual[1, 0].any()
