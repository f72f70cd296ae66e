"""Similarities of stories to what they read by attention; the GPU kernel for them is tested in tests/gpu."""

import math

import pytest
import torch
from torch import Tensor, nn

from drpn.layers.attention import attend
from drpn.layers.denoising import (
    SimilarityHead,
    _kernel_fits,
    attend_opposite,
    attend_rest,
    similarities,
    similarity,
    start_as_similarity,
)
from drpn.layers.tables import TableRows

SIZE, WIDTH = 3, 5
LENGTHS = [0, 1, 2, 4]
"""Stories of each sequence; the rest is padding."""


def numbers(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def sequences(lengths: list[int], parts: int, seed: int) -> TableRows:
    """Sequences of these lengths, with values at padding, too; a story has `parts` vectors."""
    positions = (torch.arange(WIDTH) < torch.tensor(lengths).unsqueeze(1)).long()
    return TableRows(positions, None, numbers(len(lengths), WIDTH, parts * SIZE, seed=seed))


def head(seed: int) -> SimilarityHead:
    return SimilarityHead(numbers(SIZE, seed=seed), numbers(1, seed=seed + 1))


def softmax(logits: list[float]) -> list[float]:
    raised = [math.exp(logit) for logit in logits]
    return [value / sum(raised) for value in raised]


def read(query: Tensor, keys: list[Tensor], values: list[Tensor]) -> Tensor:
    """Attention of one query, by a loop; zeros if there is nothing to read."""
    weights = softmax([float(query @ key) / math.sqrt(SIZE) for key in keys])
    return sum((weight * value for weight, value in zip(weights, values, strict=True)), torch.zeros(SIZE).double())


def compare(half: Tensor, other: Tensor, similar: SimilarityHead) -> float:
    return float(torch.tanh(half + other) @ similar.direction + similar.bias)


def expected_rest(own: TableRows, similar: SimilarityHead, half: int) -> list[list[float]]:
    """The similarity of each story to the rest of its sequence; its half of the head is in one of the parts."""
    expected = []
    for values, mask in zip(own.gather(), own.mask, strict=True):
        stories = [story.split(SIZE) for story in values[mask]]
        expected.append([])
        for i, story in enumerate(stories):
            rest = [other for j, other in enumerate(stories) if j != i]
            seen = read(story[0], [other[1] for other in rest], [other[2] for other in rest])
            expected[-1].append(compare(story[half], seen, similar))
    return expected


def check(actual: Tensor, mask: Tensor, expected: list[list[float]]) -> None:
    flat = [value for row in expected for value in row]
    torch.testing.assert_close(actual[mask], torch.tensor(flat, dtype=torch.float64), rtol=1e-9, atol=1e-12)


def test_similarity_to_the_rest_of_the_sequence() -> None:
    own, similar = sequences(LENGTHS, 4, seed=1), head(2)
    check(similarity(similar, attend_rest(own)), own.mask, expected_rest(own, similar, half=3))


@pytest.mark.parametrize("opposites", [0, 1, 2, 5])
def test_similarities_to_the_rest_and_to_the_opposite_sequence(opposites: int) -> None:
    own, other = sequences(LENGTHS, 5, seed=1), sequences([opposites] * len(LENGTHS), 2, seed=3)
    similar, contrary, instead = head(4), head(6), numbers(SIZE, seed=8)
    rest, opposite = similarities(similar, attend_rest(own), contrary, attend_opposite(own, other, instead=instead))
    check(rest, own.mask, expected_rest(own, similar, half=3))
    expected = []
    for values, mask, others in zip(own.gather(), own.mask, other.gather(), strict=True):
        pairs = [story.split(SIZE) for story in others[:opposites]]
        keys, contents = [key for key, _ in pairs], [value for _, value in pairs]
        stories = [story.split(SIZE) for story in values[mask]]
        expected.append(
            [compare(story[4], read(story[0], keys, contents) if pairs else instead, contrary) for story in stories]
        )
    check(opposite, own.mask, expected)


def test_attention_of_a_sequence_that_is_not_empty_is_attend() -> None:
    own, other = sequences([4], 5, seed=1), sequences([3], 2, seed=3)
    similar, contrary, instead = head(4), head(6), numbers(SIZE, seed=8)
    _, opposite = similarities(similar, attend_rest(own), contrary, attend_opposite(own, other, instead=instead))
    query, half = own.gather().split(SIZE, dim=-1)[0], own.gather().split(SIZE, dim=-1)[4]
    seen = attend(query, *other.gather().split(SIZE, dim=-1), other.mask.unsqueeze(1))
    expected = torch.tanh(half + seen) @ contrary.direction + contrary.bias
    torch.testing.assert_close(opposite, expected)


@pytest.mark.parametrize(
    ("dtype", "length", "fits"),
    [
        (torch.bfloat16, 60, True),
        (torch.bfloat16, 64, True),
        (torch.bfloat16, 65, False),
        (torch.float32, 30, True),
        (torch.float32, 32, True),
        (torch.float32, 33, False),
        (torch.float32, 60, False),
    ],
)
def test_the_kernel_reads_short_sequences_in_their_table(dtype: torch.dtype, length: int, fits: bool) -> None:
    positions = torch.ones(2, length, dtype=torch.long)
    table = torch.zeros(3, SIZE, dtype=dtype)
    assert _kernel_fits(TableRows(positions, table, None)) == fits
    assert not _kernel_fits(TableRows(positions, None, table[positions]))


@pytest.mark.parametrize("size", [32, 33])
def test_a_head_that_starts_as_similarity_grows_with_the_inner_product(size: int) -> None:
    """Also for small vectors; a head with other random weights does not."""
    torch.manual_seed(0)
    a, b = (0.5 * torch.randn(2_000, size) for _ in range(2))
    b += torch.randn(2_000, 1) * a  # from opposite to equal
    products = torch.stack([(a * b).sum(1), (a * a).sum(1) + (b * b).sum(1)])

    def agreement() -> float:
        """The correlation with a.b of what |a|^2 + |b|^2 does not explain."""
        values = layers[2](torch.tanh(layers[0](a) + layers[1](b))).squeeze(1)
        basis = torch.stack([torch.ones(2_000), products[1]], 1)
        rest = values - basis @ torch.linalg.lstsq(basis, values[:, None]).solution.squeeze(1)
        own = products[0] - basis @ torch.linalg.lstsq(basis, products[0][:, None]).solution.squeeze(1)
        return float(torch.corrcoef(torch.stack([rest, own]))[0, 1])

    layers = nn.Linear(size, size), nn.Linear(size, size, bias=False), nn.Linear(size, 1)
    value, *keys = (nn.Linear(size, size, bias=False) for _ in range(4))
    with torch.no_grad():
        assert abs(agreement()) < 0.4
        start_as_similarity([layers], values=[value], keys=keys)
        assert agreement() > 0.7
        assert torch.equal(value(a), a)
        assert all(torch.equal(key.weight, keys[0].weight) for key in keys)
        torch.testing.assert_close(keys[0](a).norm(dim=1), a.norm(dim=1))  # a rotation keeps lengths
