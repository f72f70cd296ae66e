"""How much a news resembles the rest of its sequence, and the opposite one, on a GPU.

The plain formulation is that of `drpn.models.aggregators.DenoisingAggregator`, which is the kernels' tested reference.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from drpn.layers.gather import TableRows, segment_sum, sort_positions

Pair = tuple[Float[Tensor, "B S"], Float[Tensor, "B S"]]


def similarities(
    own: TableRows,
    other: TableRows | None,
    to_similar: Float[Tensor, "D"],
    to_contrary: Float[Tensor, "D"] | None,
    unopposed: Float[Tensor, "D"] | None,
) -> Pair:
    """Eqs. 4 to 6: tanh(own half + what the news reads) W_2, for the rest of the sequence and for the opposite one.

    `own` has of each news W^h_q, W^h_k, W^h_v and the own halves of the similarity heads side by side, `other` W^h'_k
    and W^h'_v; `unopposed` stands for what is read of an empty opposite sequence.
    """
    table, others = (None, own.positions) if other is None else other
    found: Pair = _Similarities.apply(  # type: ignore[no-untyped-call]
        own.table, table, own.positions, others, to_similar, to_contrary, unopposed
    )
    return found


class _Similarities(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, own: Tensor, other: Tensor | None, *rest: Any) -> tuple[Tensor, Tensor]:
        from drpn.layers.kernels.denoising import similarities as kernel

        ctx.save_for_backward(own, other, *rest)
        found: tuple[Tensor, Tensor] = kernel(own, other, *rest)
        return found

    @staticmethod
    def backward(ctx: Any, of_similar: Tensor, of_contrary: Tensor) -> tuple[Tensor | None, ...]:
        from drpn.layers.kernels.denoising import similarities_backward

        own, other, positions, others, to_similar, to_contrary, unopposed = ctx.saved_tensors
        of_own, of_other, *vectors = similarities_backward(*ctx.saved_tensors, of_similar, of_contrary)
        tables = (
            segment_sum(of_own, *sort_positions(positions), len(own)).to(own.dtype),
            None if other is None else segment_sum(of_other, *sort_positions(others), len(other)).to(other.dtype),
        )
        used = [None if one is None else each.sum(0).to(one.dtype)
                for one, each in zip((to_similar, to_contrary, unopposed), vectors, strict=True)]  # fmt: skip
        return (*tables, None, None, *used)
