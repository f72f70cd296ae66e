"""Similarities of stories to what they read by attention; the GPU kernel for them is tested in tests/gpu."""

import math

import pytest
import torch
from torch import Tensor

from drpn.layers.attention import attend
from drpn.layers.denoising import (
    SimilarityHead,
    _kernel_fits,
    attend_opposite,
    attend_rest,
    similarities,
    similarity,
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
