"""The parts of DRPN's score, for explanations."""

from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor

from drpn.batches.batch import Batch
from drpn.models.drpn import Drpn, Encoded


class ViewMatch(NamedTuple):
    """One view's part of the scores, and the weights behind it."""

    score: Float[Tensor, "B C"]
    weights: dict[str, Float[Tensor, "B S"]]
    beta: Float[Tensor, "B C F"]


def match_views(model: Drpn, encoded: Encoded, batch: Batch) -> dict[str, ViewMatch]:
    """Each view's part of the scores of a batch, with all weights."""
    matches, rows = {}, model.candidates(encoded, batch.candidates)
    for name, reader in model.read(encoded, batch.profiles).items():
        fusion, (candidate, plain) = model.view(name).fusion, rows[name]
        score, beta = fusion.score(reader, candidate, plain), fusion(reader.user, candidate)
        matches[name] = ViewMatch(score, reader.weights, beta)
    return matches
