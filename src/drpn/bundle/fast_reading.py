"""DRPN's interests of one user, without padding and masks, for serving on a CPU.

`Drpn.read` reads many users of any length together. A service reads few at a time, and the many small steps of that
code then take longer than the arithmetic. Here the rows of a user's stories are gathered once and changed in place.
The mathematics is that of `models/drpn.py`, with two shortcuts: tanh(x) is written as 2 sigmoid(2x) - 1, which takes a
fifth of the time, and constants are left out where a softmax does not see them.
"""

import math
from typing import NamedTuple, cast

import torch
from torch import Tensor
from torch.nn.functional import layer_norm

from drpn.bundle.fast_fusion import view_names
from drpn.layers.attention import GatedAggregate
from drpn.layers.calibration import Calibration
from drpn.layers.labels import LabelEvidence
from drpn.layers.linear import split_heads
from drpn.models.drpn import Drpn, Encoded, Readers, Side, View, ViewReaders, ViewRows


class _Content(NamedTuple):
    """Constants of a content aggregator with self-attention."""

    heads: int
    join: Tensor
    """The transpose of W^I."""
    norm: torch.nn.LayerNorm
    hidden: Tensor
    """The transpose of 2 W_a."""
    bias: Tensor
    """2 b_a"""
    gate: Tensor
    """2 W_g"""


class _Denoise(NamedTuple):
    """Constants of a denoising aggregator."""

    out: Tensor
    """2 W^u_2 and, for the opposite sequence, -2 ReLU(gamma) W^u_4, times the factor of similarities."""
    unopposed: Tensor | None
    """The attention output over an empty opposite sequence; None if the model reads one sequence."""
    constant: Tensor
    """Added to the similarities of every story."""
    evidence: LabelEvidence | None
    labels_alone: bool
    """The evidence of labels alone is the trust in a story, without similarities."""
    calibration: Calibration | None


class _Side(NamedTuple):
    name: str
    opposite: str | None
    content: _Content | None
    """None without self-attention."""
    no_content: Tensor
    denoise: _Denoise | None
    no_denoise: Tensor | None
    columns: dict[str, int]


class FastReader:
    """Reads users with one model."""

    def __init__(self, model: Drpn) -> None:
        self._model = model
        with torch.no_grad():
            self._views = {name: [_side(model.view(name), side) for side in model.reads] for name in view_names(model)}

    def read(self, encoded: Encoded, positions: dict[str, Tensor]) -> Readers:
        """The interests of one user, for each view, from the positions of the user's stories by sequence."""
        return {name: self._view(name, rows, positions) for name, rows in encoded.items()}

    def _view(self, name: str, rows: ViewRows, positions: dict[str, Tensor]) -> ViewReaders:
        view = self._model.view(name)
        stories = {side: rows.stories.index_select(0, at) for side, at in positions.items()}
        parts = {
            side: cast(Tensor, rows.sides[side]).index_select(0, at) if len(at) else None
            for side, at in positions.items()
        }
        interests: dict[str, Tensor] = {}
        for side in self._views[name]:
            own, other = parts[side.name], None if side.opposite is None else parts[side.opposite]
            content, denoise = f"{side.name} content", f"{side.name} denoise"
            if own is None:
                interests[content] = side.no_content
                if side.no_denoise is not None:
                    interests[denoise] = side.no_denoise
                continue
            logits = rows.logits[side.name].index_select(0, positions[side.name]) if side.content is None else None
            interests[content] = _content(side, stories[side.name], own, logits)
            if side.denoise is not None:
                evidence = _evidence(side, side.denoise.evidence, rows, positions)
                interests[denoise] = _denoise(side, stories[side.name], own, other, evidence)
        at = torch.cat(list(positions.values()))
        return ViewReaders(
            torch.stack([interests[interest] for interest in view.interests])[None],
            {},
            self._fusion(view, rows, at, list(stories.values())),
        )

    def _fusion(self, view: View, rows: ViewRows, at: Tensor, stories: list[Tensor]) -> Tensor:
        """The half of Eq. 9 that depends on the user, from u_f = Aggregate([P | N])."""
        fusion = view.fusion
        if len(at):
            plain = torch.cat(stories) if rows.plain is rows.stories else rows.plain.index_select(0, at)
            user = torch.softmax(rows.reader_logits.index_select(0, at), 0) @ plain
        else:
            user = fusion.nobody
        return split_heads(torch.addmv(fusion.user.bias, fusion.user.weight, user)[None], len(fusion.out))


def _side(view: View, name: str) -> _Side:
    side = view.side(name)
    own = side.denoise
    return _Side(
        name,
        view.opposite.get(name),
        _content_constants(side),
        side.content.nothing,
        None if own is None else _denoise_constants(side),
        None if own is None else own.nothing,
        view.columns[name],
    )


def _content_constants(side: Side) -> _Content | None:
    content = side.content
    if content.attention is None or content.norm is None:
        return None
    gated: GatedAggregate = content.aggregate
    return _Content(
        content.attention.heads,
        cast(Tensor, content.attention.join.weight).T.contiguous(),
        content.norm,
        (2 * gated.hidden.weight).T.contiguous(),
        2 * gated.hidden.bias,
        2 * gated.gate.weight[0],
    )


def _denoise_constants(side: Side) -> _Denoise:
    own = side.denoise
    assert own is not None
    out, constant = 2 * own.similar.out.weight[0], own.similar.out.bias[0]
    unopposed: Tensor | None = None
    if own.opposite:
        gamma = torch.relu(own.gamma)
        out = torch.cat([out, -2 * gamma * own.contrary.out.weight[0]])
        constant = constant - gamma * own.contrary.out.bias[0]
        unopposed = own.contrary.read(own.unopposed)
    factor = torch.ones(()) if own.evidence is None else own.evidence.similarity
    constant = factor * (constant - out.sum() / 2)
    return _Denoise(factor * out, unopposed, constant, own.evidence, not factor, own.calibration)


def _content(side: _Side, stories: Tensor, rows: Tensor, logits: Tensor | None) -> Tensor:
    """p_s or n_s: Eqs. 2 and 3, or Eq. 3 alone without self-attention."""
    if side.content is None:
        assert logits is not None
        return torch.softmax(logits, 0) @ stories
    heads, join, norm, hidden, bias, gate = side.content
    count, size = len(stories), stories.shape[1]
    query, key, value = rows[:, : 3 * size].view(count, 3, heads, size // heads).permute(1, 2, 0, 3)  # (h S d) each
    weights = torch.softmax(torch.bmm(query, key.transpose(1, 2)).mul_(1 / math.sqrt(size // heads)), -1)
    read = torch.bmm(weights, value).transpose(0, 1).reshape(count, size)
    items = layer_norm(torch.addmm(stories, read, join), norm.normalized_shape, norm.weight, norm.bias, norm.eps)
    gated = torch.addmm(bias, items, hidden).sigmoid_() @ gate
    return torch.softmax(gated, 0) @ items


def _evidence(
    side: _Side, evidence: LabelEvidence | None, rows: ViewRows, positions: dict[str, Tensor]
) -> Tensor | None:
    """What labels add to the trust of each story; None if they are not compared."""
    if evidence is None or rows.labels is None or len(positions[side.name]) < 2:  # the weight of an only story is 1
        return None
    other = None if side.opposite is None else positions[side.opposite][None]
    result: Tensor = evidence(rows.labels, positions[side.name][None], other)[0]
    return result


def _denoise(side: _Side, stories: Tensor, rows: Tensor, other: Tensor | None, evidence: Tensor | None) -> Tensor:
    """p_h or n_h: Eqs. 4 to 6, or the evidence of labels in place of the similarities."""
    own = side.denoise
    assert own is not None
    if len(stories) == 1:  # its weight is 1
        return stories[0]
    if own.labels_alone and evidence is not None:
        trust = evidence
    else:
        trust = _similarities(side, own, rows, other, stories.shape[1])
        trust = trust if evidence is None else trust + evidence
    logits = trust if own.calibration is None else own.calibration.log_probability(trust)
    return torch.softmax(logits, 0) @ stories


def _similarities(side: _Side, own: _Denoise, rows: Tensor, other: Tensor | None, size: int) -> Tensor:
    """s^p - ReLU(gamma) * s^n of Eq. 6 for each story of a sequence. The halves of them in `rows` are replaced."""
    start, scale = side.columns["content"], 1 / math.sqrt(size)
    query, key, value = (rows[:, start + part * size : start + (part + 1) * size] for part in range(3))
    halves = rows[:, start + 3 * size : start + side.columns["denoise"]]
    # Eq. 4, intra-attention: every story reads the rest of its own sequence, never itself
    logits = torch.mm(query, key.T).mul_(scale).fill_diagonal_(-math.inf)
    halves[:, :size].addmm_(torch.softmax(logits, -1), value)
    if own.unopposed is not None:
        if other is None:
            halves[:, size:].add_(own.unopposed)
        else:
            # Eq. 5, inter-attention: every story reads the opposite sequence
            other_key, other_value = other[:, -2 * size : -size], other[:, -size:]
            weights = torch.softmax(torch.mm(query, other_key.T).mul_(scale), -1)
            halves[:, size:].addmm_(weights, other_value)
    return halves.mul_(2).sigmoid_() @ own.out + own.constant
