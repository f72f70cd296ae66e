"""Similarity of a story to its attention output over the rest of its sequence, or over the opposite sequence.

On a GPU the attention and the similarity are one kernel, which never writes the attention output to memory. Therefore
`attend_rest` and `attend_opposite` only describe the attention, and `similarities` computes it.
"""

from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from drpn.layers.attention import SHORT, attend, where_present
from drpn.layers.gather import segment_sum, sort_positions
from drpn.layers.linear import dot
from drpn.layers.tables import TableRows


class Attention(NamedTuple):
    """Every story of a sequence reads by attention; computed by `similarities`."""

    own: TableRows
    """Query, key, value and one half for each similarity head, concatenated."""
    other: TableRows | None = None
    """Key and value of the opposite sequence; None if the story reads the rest of its own sequence."""
    instead: Float[Tensor, "D"] | None = None
    """The attention output over an empty opposite sequence."""


def attend_rest(own: TableRows) -> Attention:
    """Every story reads the rest of its own sequence, never itself."""
    return Attention(own)


def attend_opposite(own: TableRows, other: TableRows, *, instead: Float[Tensor, "D"]) -> Attention:
    """Every story reads the opposite sequence, or `instead` if that is empty."""
    return Attention(own, other, instead)


class SimilarityHead(NamedTuple):
    """tanh(half + read) W + b, where `half` depends on the story and `read` on what it reads."""

    direction: Float[Tensor, "D"]
    bias: Float[Tensor, "1"]


class Similarity(nn.Module):
    """A similarity head of Eq. 6: tanh([a; b] W_1 + b_1) W_2 + b_2, with W_1 as two halves."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.own = nn.Linear(size, size)  # the half of W_1 that reads the story, and b_1
        self.read = nn.Linear(size, size, bias=False)  # the half that reads the sequence
        self.out = nn.Linear(size, 1)  # W_2 and b_2

    def head(self) -> SimilarityHead:
        """W_2 and b_2."""
        return SimilarityHead(self.out.weight[0], self.out.bias)


def similarity(head: SimilarityHead, rest: Attention) -> Float[Tensor, "B S"]:
    """The similarity of each story to the rest of its sequence."""
    if _kernel_fits(rest.own):
        return _kernel_similarities(rest.own, None, head.direction, None, None)[0] + head.bias
    query, key, value, half = rest.own.gather().chunk(4, dim=-1)  # (B S D)
    return _similarity(head, half, _read_rest(rest.own, query, key, value))


def similarities(
    head: SimilarityHead, rest: Attention, opposite_head: SimilarityHead, opposite: Attention
) -> tuple[Float[Tensor, "B S"], Float[Tensor, "B S"]]:
    """The similarity of each story to the rest of its sequence, and to the opposite sequence."""
    own, other, instead = rest.own, opposite.other, opposite.instead
    assert other is not None
    assert instead is not None
    if _kernel_fits(own) and _kernel_fits(other):
        similar, contrary = _kernel_similarities(own, other, head.direction, opposite_head.direction, instead)
        return similar + head.bias, contrary + opposite_head.bias
    query, key, value, half, opposite_half = own.gather().chunk(5, dim=-1)  # (B S D)
    other_key, other_value = other.gather().chunk(2, dim=-1)  # (B T D)
    similar = _similarity(head, half, _read_rest(own, query, key, value))
    read = attend(query, other_key, other_value, other.mask.unsqueeze(1))  # (B S D)
    read = where_present(read, other.mask.any(-1, keepdim=True).expand(own.positions.shape), instead)
    return similar, _similarity(opposite_head, opposite_half, read)


def _similarity(head: SimilarityHead, half: Tensor, read: Tensor) -> Float[Tensor, "B S"]:
    return dot(torch.tanh(half + read), head.direction) + head.bias


def _read_rest(own: TableRows, query: Tensor, key: Tensor, value: Tensor) -> Float[Tensor, "B S D"]:
    """The attention output of each story over the others; zeros for the only story of a sequence, whose weight is 1."""
    mask = own.mask
    itself = torch.eye(mask.shape[1], dtype=torch.bool, device=mask.device)
    return attend(query, key, value, mask.unsqueeze(1) & ~itself)


def _kernel_fits(rows: TableRows) -> bool:
    """Whether the kernel can read the rows in their table; in float32, long sequences take minutes to compile."""
    if rows.table is None:
        return False
    return rows.positions.shape[1] <= (SHORT if rows.table.element_size() <= 2 else SHORT // 2)


def _kernel_similarities(
    own: TableRows,
    other: TableRows | None,
    similar: Float[Tensor, "D"],
    contrary: Float[Tensor, "D"] | None,
    instead: Float[Tensor, "D"] | None,
) -> tuple[Float[Tensor, "B S"], Float[Tensor, "B S"]]:
    """Both similarities without their biases, from the kernel."""
    table, positions = (None, own.positions) if other is None else (other.table, other.positions)
    pair: tuple[Tensor, Tensor] = _Similarities.apply(  # type: ignore[no-untyped-call]
        own.table, table, own.positions, positions, similar, contrary, instead
    )
    return pair


class _Similarities(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, own: Tensor, other: Tensor | None, *rest: Any) -> tuple[Tensor, Tensor]:
        from drpn.layers.kernels.denoising import similarities as kernel  # Triton comes with torch for GPUs alone

        ctx.save_for_backward(own, other, *rest)
        pair: tuple[Tensor, Tensor] = kernel(own, other, *rest)
        return pair

    @staticmethod
    def backward(ctx: Any, similar: Tensor, contrary: Tensor) -> tuple[Tensor | None, ...]:
        from drpn.layers.kernels.denoising import similarities_backward

        own, other, positions, other_positions, *vectors = ctx.saved_tensors
        own_gradient, other_gradient, *gradients = similarities_backward(*ctx.saved_tensors, similar, contrary)
        tables = (
            segment_sum(own_gradient, *sort_positions(positions), len(own)).to(own.dtype),
            None
            if other is None
            else segment_sum(other_gradient, *sort_positions(other_positions), len(other)).to(other.dtype),
        )
        summed = [
            None if vector is None else gradient.sum(0).to(vector.dtype)
            for vector, gradient in zip(vectors, gradients, strict=True)
        ]
        return (*tables, None, None, *summed)
