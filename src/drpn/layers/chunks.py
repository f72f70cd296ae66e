"""Limits on the work done at once, so that it fits the cache of a CPU or the memory of a GPU."""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import pad

from drpn.layers.tables import map_tables

_STORIES = {"cpu": 512, "cuda": 8_192}
_NUMBERS = {"cpu": 2**20, "cuda": 2**29}


def stories_per_step(device: torch.device) -> int:
    """Stories to encode together: as many as stay in a CPU's cache or keep a GPU busy."""
    return _STORIES[device.type]


def encoding_order(words: Int[Tensor, "U W"], device: torch.device) -> Int[Tensor, "U"] | None:
    """Stories by the length of their titles on a CPU, where `encode_by_length` then trims padding; else None."""
    return (words != 0).sum(1).argsort(stable=True) if device.type == "cpu" else None


def score_in_chunks(
    score: Callable[[Any, Int[Tensor, "B C"]], Float[Tensor, "B C"]],
    readers: Any,
    candidates: Int[Tensor, "B C"],
    *,
    numbers: int,
    trim: Callable[[Any], Any],
) -> Float[Tensor, "B C"]:
    """`score(readers, candidates)`; without gradients for a few users at a time, to bound the memory.

    `numbers` is the size of the largest tensor for one user. On a CPU, `trim` cuts padding off each chunk of
    readers.
    """
    if torch.is_grad_enabled():
        return score(readers, candidates)
    device = candidates.device.type
    step = max(1, _NUMBERS[device] // max(1, numbers))
    parts = []
    for start in range(0, max(1, len(candidates)), step):
        chunk = map_tables(lambda table, start=start: table[start : start + step], readers)
        shown = candidates[start : start + step]
        if device == "cpu":  # a GPU would have to wait for the lengths
            chunk, shown = trim(chunk), shown[:, : max(1, filled_columns(shown != 0))]
        scores = score(chunk, shown)
        parts.append(pad(scores, (0, candidates.shape[1] - scores.shape[1])))
    return torch.cat(parts)


def filled_columns(mask: Bool[Tensor, "B S"]) -> int:
    """The number of columns up to the last that is True anywhere."""
    columns = mask.any(0).nonzero()
    return int(columns[-1]) + 1 if len(columns) else 0
