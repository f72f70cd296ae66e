"""Vectors of users: row 0 is everybody whom training does not know."""

import pytest
import torch

from drpn.layers.news import ID_SPREAD, UserVectors


def some(dropped: float = 0.0) -> UserVectors:
    torch.manual_seed(1)
    vectors = UserVectors(400, 8, dropped)
    with torch.no_grad():
        vectors.ids.unknown.fill_(3.0)
    return vectors


def test_every_user_has_a_vector_and_the_unknown_share_one() -> None:
    vectors = some().eval()
    found = vectors(torch.tensor([7, 0, 8, 0]))
    assert found[[1, 3]].eq(3).all()
    assert torch.equal(found[[0, 2]], vectors.ids.table.weight[[7, 8]])
    assert not torch.equal(found[0], found[2])


def test_vectors_begin_small() -> None:
    table = some().ids.table.weight.detach()
    assert float(table[1:].std()) == pytest.approx(ID_SPREAD, rel=0.1)
    assert not table[0].any()


def test_the_unknown_vector_learns_and_padding_does_not() -> None:
    vectors = some()
    vectors(torch.tensor([7, 0, 7])).sum().backward()
    table, unknown = vectors.ids.table.weight.grad, vectors.ids.unknown.grad
    assert unknown.tolist() == [1.0] * 8
    assert table.any(1).nonzero().flatten().tolist() == [7]
    assert table[7].tolist() == [2.0] * 8


def test_a_share_of_users_is_unknown_in_training_alone() -> None:
    vectors, users = some(dropped=0.25), torch.arange(1, 400).repeat(10)
    assert not vectors.eval()(users).eq(3).any()
    unknown = vectors.train()(users).eq(3).all(1)
    assert 0.22 < float(unknown.double().mean()) < 0.28
    assert not torch.equal(unknown, vectors(users).eq(3).all(1))


def test_padding_among_neighbours_is_zero() -> None:
    vectors = some(dropped=0.5).train()
    found = vectors.of_neighbours(torch.tensor([[3, 0], [0, 5]]))
    assert torch.equal(found[0, 0], vectors.ids.table.weight[3])
    assert torch.equal(found[1, 1], vectors.ids.table.weight[5])
    assert not found[0, 1].any()
    assert not found[1, 0].any()
