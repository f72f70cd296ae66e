"""Linear layers: several at once, in the shapes that a GPU is fast with, and inner products."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import linear, pad

_ALIGNED = 8
"""Two-byte numbers in 16 bytes."""


class Weight(NamedTuple):
    """The matrix and the bias of a linear layer."""

    matrix: Float[Tensor, "out D"]
    bias: Float[Tensor, "out"] | None = None

    @classmethod
    def from_layer(cls, layer: nn.Linear) -> "Weight":
        """The weight of a layer."""
        return cls(layer.weight, layer.bias)


def joint_linear(items: Float[Tensor, "... D"], weights: Sequence[Weight]) -> Float[Tensor, "... all"]:
    """The outputs of several linear layers, concatenated, from one matrix product; no columns without layers."""
    if not weights:
        return items[..., :0]
    matrix = torch.cat([weight.matrix for weight in weights])
    if all(weight.bias is None for weight in weights):
        return aligned_linear(items, matrix)
    biases = [matrix.new_zeros(len(weight.matrix)) if weight.bias is None else weight.bias for weight in weights]
    return aligned_linear(items, matrix, torch.cat(biases))


def aligned_linear(
    items: Float[Tensor, "... D"], matrix: Float[Tensor, "out D"], bias: Float[Tensor, "out"] | None = None
) -> Float[Tensor, "... out"]:
    """A linear layer; on a GPU rows are padded to multiples of 16 bytes, without which matrix units are slow."""
    wide = padded_linear(items, matrix, bias)
    return wide if wide.shape[-1] == len(matrix) else wide[..., : len(matrix)]


def padded_linear(
    items: Float[Tensor, "... D"], matrix: Float[Tensor, "out D"], bias: Float[Tensor, "out"] | None = None
) -> Float[Tensor, "... wide"]:
    """`aligned_linear` with the padding columns kept, for kernels that only read the first columns."""
    if not items.is_cuda:
        return linear(items, matrix, bias)
    spare, behind = (-count % _ALIGNED for count in (items.shape[-1], len(matrix)))
    if bias is not None and behind:
        bias = pad(bias, (0, behind))
    matrix = pad(matrix, (0, spare, 0, behind)) if spare or behind else matrix
    return linear(pad(items, (0, spare)) if spare else items, matrix, bias)


def split_heads(values: Float[Tensor, "... hd"], count: int) -> Float[Tensor, "... h d"]:
    """The last axis split into `count` equal parts."""
    return values.reshape(*values.shape[:-1], count, values.shape[-1] // count)


def dot(items: Float[Tensor, "... D"], direction: Float[Tensor, "*#F D"]) -> Float[Tensor, "..."]:
    """The inner product of each item with one vector; on a GPU in float32 at least."""
    if items.is_cuda:  # the compiler fuses this with what made the items, which are then never written to memory
        return (items * direction).sum(-1, dtype=torch.promote_types(items.dtype, torch.float32))
    return items @ direction if direction.dim() == 1 else torch.einsum("...fd,fd->...f", items, direction)


def dot_per_user(items: Float[Tensor, "B S D"], users: Float[Tensor, "B D"]) -> Float[Tensor, "B S"]:
    """The inner product of each item with the vector of its user; on a GPU in float32 at least."""
    if items.is_cuda:  # fused by the compiler, as above
        return (items * users.unsqueeze(1)).sum(-1, dtype=torch.promote_types(items.dtype, torch.float32))
    return torch.einsum("bsd,bd->bs", items, users)


def inner_products(left: Float[Tensor, "B C D"], right: Float[Tensor, "B F D"]) -> Float[Tensor, "B C F"]:
    """The inner products of all pairs, in float32 at least: rounding must not tie scores that differ."""
    with torch.autocast(left.device.type, enabled=False):
        return at_least_float32(left) @ at_least_float32(right).transpose(-1, -2)


def dot_scores(stories: Float[Tensor, "B C D"], users: Float[Tensor, "B D"]) -> Float[Tensor, "B C"]:
    """The inner product of each story with the vector of its user, in float32 at least."""
    return inner_products(stories, users.unsqueeze(1)).squeeze(-1)


def dot_rowwise(left: Float[Tensor, "... D"], right: Float[Tensor, "... D"]) -> Float[Tensor, "..."]:
    """The inner product of each row with the same row of the other tensor, summed in float32 at least."""
    return (left * right).sum(-1, dtype=torch.promote_types(left.dtype, torch.float32))


def at_least_float32(values: Tensor) -> Tensor:
    """The values in float32, or in float64 if they are."""
    return values.to(torch.promote_types(values.dtype, torch.float32))


def cast_like(values: Tensor, like: Tensor) -> Tensor:
    """The values in the precision of another tensor."""
    return values.to(like.dtype)
