"""Titles of similar length are encoded together on a CPU."""

import pytest
import torch
from torch import Tensor

from drpn.layers import news
from drpn.layers.news import encode_by_length, trim_padding

WORDS = torch.tensor([[1, 2, 3, 0, 0], [0, 0, 0, 0, 0], [4, 0, 0, 0, 0], [5, 6, 7, 8, 0], [0, 9, 0, 0, 0]])


@pytest.mark.parametrize("at_once", [1, 2, 3, 512])
def test_encoding_by_length_keeps_the_order_of_titles(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Tensor] = []

    def encode(words: Tensor) -> Tensor:
        seen.append(words)
        return torch.stack([words.sum(1), (words != 0).sum(1)], dim=1).double()

    monkeypatch.setattr(news, "_TITLES_PER_STEP", at_once)
    expected = torch.stack([WORDS.sum(1), (WORDS != 0).sum(1)], dim=1).double()
    assert torch.equal(encode_by_length(encode, WORDS), expected)
    assert all(len(words) <= at_once for words in seen)
    assert all(words.shape[1] == 1 or words[:, -1].any() for words in seen)
    counts = [int((words != 0).sum(1).max()) for words in seen]
    assert counts == sorted(counts)


def test_trimming_keeps_one_column() -> None:
    assert trim_padding(WORDS).shape == (5, 4)
    assert trim_padding(WORDS[1:2]).shape == (1, 1)
    assert encode_by_length(lambda words: words.double(), WORDS[:0, :1]).shape == (0, 1)
