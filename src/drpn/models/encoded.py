"""What a model computed once per news, whatever its shape: tensors, or named tuples and dictionaries of them."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from drpn.batches.batch import NewsRows
from drpn.models.base import ClickModel, Encoded


def map_tensors(function: Callable[..., Tensor], *encoded: Encoded) -> Encoded:
    """`function` of the tensors that stand at the same place."""
    first = encoded[0]
    if first is None:
        return None
    if isinstance(first, Tensor):
        return function(*encoded)
    if isinstance(first, dict):
        return {name: map_tensors(function, *(one[name] for one in encoded)) for name in first}
    return type(first)(*(map_tensors(function, *parts) for parts in zip(*encoded, strict=True)))


def encode_in_steps(model: ClickModel, news: NewsRows, *, step: int = 4096) -> Encoded:
    """All news encoded, so many at a time."""
    parts: Sequence[Any] = [model.encode_news(news[start : start + step]) for start in range(0, len(news), step)]
    return map_tensors(lambda *tensors: torch.cat(tensors), *parts)
