"""Scores of candidates from several interest vectors, whose weights depend on user and candidate."""

import torch
from jaxtyping import Float
from torch import Tensor

from drpn.layers.linear import dot, inner_products, split_heads
from drpn.layers.tables import TableRows


def interest_weights(
    user: Float[Tensor, "B F D"],
    candidate: TableRows,
    out: Float[Tensor, "F D"],
    bias: Float[Tensor, "F"],
) -> Float[Tensor, "B C F"]:
    """tanh(user + candidate) . out + bias, for each of F interests; a candidate's row holds F vectors."""
    both = torch.tanh(user.unsqueeze(1) + split_heads(candidate.gather(), len(out)))  # (B C F D)
    return dot(both, out) + bias


def interest_scores(
    user: Float[Tensor, "B F D"],
    candidate: TableRows,
    out: Float[Tensor, "F D"],
    bias: Float[Tensor, "F"],
    interests: Float[Tensor, "B F D"],
    stories: TableRows,
) -> Float[Tensor, "B C"]:
    """The sum over interests f of beta_f (interest_f . story), with beta from `interest_weights`."""
    if candidate.table is not None and stories.table is not None:  # one kernel; rows_at checked that it fits
        from drpn.layers.kernels.scoring import fused_scores  # Triton comes with torch for GPUs alone

        scores: Tensor = fused_scores(candidate.positions, stories.table, candidate.table, user, interests, out, bias)
        return scores
    beta = interest_weights(user, candidate, out, bias)
    return (beta * inner_products(stories.gather(), interests)).sum(-1)
