"""DRPN: clicked and skipped news, each denoised by the other.

Hu, Qiu and Wu, "Denoising Neural Network for News Recommendation with Positive and Negative Implicit Feedback",
Findings of NAACL 2022. Section and equation numbers are the paper's; `docs/paper-map.md` lists them with their tests.

What depends on a news alone is computed once for each news: its vectors, and every linear projection of them that the
aggregators and the fusion nets need. W [a; b] is computed as W_a a + W_b b, and (sum of alpha_i x_i) W as the sum of
alpha_i (x_i W): the numbers are those of the plain formulation.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from drpn.batches.batch import Batch, NewsRows
from drpn.layers.attention import (
    Aggregated,
    GatedAggregate,
    MultiHeadAttention,
    QueryKeyValue,
    aggregate,
    attend,
    in_parts,
    masked_softmax,
    or_else,
    rows,
    weighted_sum,
)
from drpn.layers.news import IdVectors, TitleEncoder
from drpn.models.base import ClickModel, DataShape


@dataclass(frozen=True, kw_only=True)
class DrpnSettings:
    """DRPN; the defaults are the paper's."""

    size: int = 300
    """D: size of word, news and user vectors."""
    heads: int = 6
    """l_h: heads of each self-attention; divides `size`."""
    hidden: int = 200
    """d': hidden size of the gated aggregation."""
    graph_heads: int = 2
    """l_h': heads of the graph network; divides `size`."""
    dropout: float = 0.2
    """On words and after the attention of titles."""
    id_dropout: float = 0.1
    """Share of news that are given the "unknown" id vector at each step of training."""
    denoise: bool = True
    """Use the denoising aggregators (off: the paper's DRPN-D)."""
    graph: bool = True
    """Use the graph network and its collaborative view (off: DRPN-G)."""
    clicked: bool = True
    """Read what was clicked (off: DRPN-P)."""
    skipped: bool = True
    """Read what was skipped (off: DRPN-N)."""

    def __post_init__(self) -> None:
        for name in ("size", "heads", "hidden", "graph_heads"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it takes 1 or more")
        for name in ("dropout", "id_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it takes a share from 0 to below 1")
        for name in ("heads", "graph_heads"):
            if self.size % getattr(self, name):
                raise ValueError(f"{name} is {getattr(self, name)}; it takes a divisor of size, which is {self.size}")
        if not (self.clicked or self.skipped):
            raise ValueError("clicked is False, and so is skipped; keep one of them")


ABLATIONS = {
    "drpn-d": DrpnSettings(denoise=False),
    "drpn-g": DrpnSettings(graph=False),
    "drpn-dg": DrpnSettings(denoise=False, graph=False),
    "drpn-n": DrpnSettings(skipped=False),
    "drpn-p": DrpnSettings(clicked=False),
}
"""Table 3: each without one part of the whole."""


class GraphNetwork(nn.Module):
    """Section 4.4: every news reads its neighbours, and a gate fuses what it read with what it is."""

    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(size, size, bias=False)  # W^g_{m,1}, all heads
        self.key = nn.Linear(size, size, bias=False)  # W^g_{m,2}
        self.value = nn.Linear(size, size, bias=False)  # W^g_{m,3}
        self.lonely = nn.Parameter(torch.zeros(size))
        self.gate = nn.Linear(2 * size, size, bias=False)  # W^f_1
        self.content = nn.Linear(2 * size, size, bias=False)  # W^f_2

    def read_neighbours(
        self, own: Float[Tensor, "U D"], others: Float[Tensor, "U K D"], mask: Bool[Tensor, "U K"]
    ) -> Float[Tensor, "U D"]:
        """The unnumbered equation and Eq. 7: attention over the neighbours, head by head."""
        query = in_parts(self.query(own), self.heads)  # (U m d)
        key = in_parts(self.key(others), self.heads)  # (U K m d)
        value = in_parts(self.value(others), self.heads)
        # alpha^m_k = softmax((r W^g_{m,1}) (r_k W^g_{m,2})^T / sqrt(d / l_h'))
        logits = torch.einsum("umd,ukmd->umk", query, key) / math.sqrt(query.shape[-1])
        weight = masked_softmax(logits, mask.unsqueeze(1))  # (U m K)
        # Eq. 7: the heads' sums of alpha^m_k r_k W^g_{m,3}, side by side
        return torch.einsum("umk,ukmd->umd", weight, value).flatten(-2)

    def forward(
        self, own: Float[Tensor, "U D"], others: Float[Tensor, "U K D"], mask: Bool[Tensor, "U K"]
    ) -> Float[Tensor, "U D"]:
        """The graph vector of each news."""
        read = or_else(self.read_neighbours(own, others, mask), mask.any(-1), self.lonely)
        both = torch.cat([own, read], dim=-1)
        # Eq. 8: sigma([r; r^] W^f_1) * tanh([r; r^] W^f_2)
        return torch.sigmoid(self.gate(both)) * torch.tanh(self.content(both))


class ContentRows(NamedTuple):
    """What a news brings to a content-based aggregator."""

    attention: QueryKeyValue | None
    logit: Float[Tensor, "U"] | None


class ContentAggregator(nn.Module):
    """Section 4.3.1: Aggregate(LN(P + MH(P, P, P))); in the collaborative encoder Aggregate(P) alone."""

    def __init__(self, size: int, heads: int, hidden: int, *, self_attention: bool) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(size, heads) if self_attention else None
        self.norm = nn.LayerNorm(size) if self_attention else None
        self.aggregate = GatedAggregate(size, hidden)
        self.nothing = nn.Parameter(torch.zeros(size))

    def project(self, news: Float[Tensor, "U D"]) -> ContentRows:
        """What depends on the news alone: the attention's projections, or the very logit of the gate."""
        if self.attention is None:
            return ContentRows(None, self.aggregate.logits(news))
        return ContentRows(self.attention.project(news), None)

    def forward(self, news: Float[Tensor, "B S D"], rows: ContentRows, mask: Bool[Tensor, "B S"]) -> Aggregated:
        """p_s or n_s."""
        if rows.attention is not None and self.attention is not None and self.norm is not None:
            found = self.aggregate(self.norm(news + self.attention(rows.attention, mask)), mask)
        else:
            assert rows.logit is not None
            found = aggregate(rows.logit, news, mask)
        return Aggregated(or_else(found.vector, mask.any(-1), self.nothing), found.weight)


class Similarity(nn.Module):
    """The two similarity heads of Eq. 6: tanh([a; b] W_1 + b_1) W_2 + b_2, with W_1 as its two halves."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.own = nn.Linear(size, size)  # the half of W_1 that reads the news itself, and b_1
        self.read = nn.Linear(size, size, bias=False)  # the half that reads the sequence
        self.out = nn.Linear(size, 1)  # W_2 and b_2

    def forward(self, own: Float[Tensor, "B S D"], read: Float[Tensor, "B S D"]) -> Float[Tensor, "B S"]:
        """From what `self.own` and `self.read` gave."""
        similarity: Tensor = self.out(torch.tanh(own + read))
        return similarity.squeeze(-1)


class DenoiseRows(NamedTuple):
    """What a news brings to the denoising aggregator of its own sequence."""

    query: Float[Tensor, "U D"]
    key: Float[Tensor, "U D"]
    value: Float[Tensor, "U D"]
    own_similar: Float[Tensor, "U D"]
    own_contrary: Float[Tensor, "U D"]


class OppositeRows(NamedTuple):
    """What a news brings to the denoising aggregator of the opposite sequence."""

    key: Float[Tensor, "U D"]
    value: Float[Tensor, "U D"]


class DenoisingAggregator(nn.Module):
    """Section 4.3.2: a news counts if it resembles the rest of its sequence, and less if it resembles the opposite."""

    def __init__(self, size: int, *, opposite: bool) -> None:
        super().__init__()
        self.query = nn.Linear(size, size, bias=False)  # W^h_q
        self.key = nn.Linear(size, size, bias=False)  # W^h_k
        self.value = nn.Linear(size, size, bias=False)  # W^h_v
        self.similar = Similarity(size)  # W^u_1, b^u_1, W^u_2, b^u_2
        self.nothing = nn.Parameter(torch.zeros(size))
        self.opposite = opposite
        if opposite:
            self.opposite_key = nn.Linear(size, size, bias=False)  # W^h'_k
            self.opposite_value = nn.Linear(size, size, bias=False)  # W^h'_v
            self.contrary = Similarity(size)  # W^u_3, b^u_3, W^u_4, b^u_4
            self.unopposed = nn.Parameter(torch.zeros(size))
            self.gamma = nn.Parameter(torch.tensor(0.5))

    def project(self, news: Float[Tensor, "U D"]) -> DenoiseRows:
        """A news as a member of its own sequence; the value is taken through W^h_v and its half of W^u_1."""
        return DenoiseRows(
            query=self.query(news),
            key=self.key(news),
            value=self.similar.read(self.value(news)),
            own_similar=self.similar.own(news),
            own_contrary=self.contrary.own(news) if self.opposite else news.new_zeros(len(news), 0),
        )

    def project_opposite(self, news: Float[Tensor, "U D"]) -> OppositeRows:
        """A news as a member of the opposite sequence; the value is taken through W^h'_v and its half of W^u_3."""
        return OppositeRows(self.opposite_key(news), self.contrary.read(self.opposite_value(news)))

    def forward(
        self,
        news: Float[Tensor, "B S D"],
        own: DenoiseRows,
        mask: Bool[Tensor, "B S"],
        other: OppositeRows | None,
        other_mask: Bool[Tensor, "B T"],
    ) -> Aggregated:
        """p_h or n_h, and the weight of each news."""
        others = mask.unsqueeze(1) & ~torch.eye(mask.shape[1], dtype=torch.bool, device=mask.device)  # (B S S)
        # Eq. 4, intra-attention: every news reads the rest of its own sequence, never itself; where there is no rest,
        # the only news has weight 1 whatever it reads
        same = attend(own.query, own.key, own.value, others)  # (B S D)
        # Eq. 6: s^p
        trust = self.similar(own.own_similar, same)  # (B S)
        if other is not None:
            # Eq. 5, inter-attention: every news reads the opposite sequence
            opposite = attend(own.query, other.key, other.value, other_mask.unsqueeze(1))  # (B S D)
            there = other_mask.any(-1, keepdim=True).expand(mask.shape)
            opposite = or_else(opposite, there, self.contrary.read(self.unopposed))
            # Eq. 6: s^p - ReLU(gamma) * s^n
            trust = trust - torch.relu(self.gamma) * self.contrary(own.own_contrary, opposite)
        weight = masked_softmax(trust, mask)
        return Aggregated(or_else(weighted_sum(weight, news), mask.any(-1), self.nothing), weight)


def _at(table: Any, positions: Int[Tensor, "B S"]) -> Any:
    """The rows of every tensor in a named tuple of tensors at some positions."""
    if table is None:
        return None
    if isinstance(table, Tensor):
        return rows(table.unsqueeze(-1), positions).squeeze(-1) if table.dim() == 1 else rows(table, positions)
    return type(table)(*(_at(part, positions) for part in table))


class SideRows(NamedTuple):
    """What a news brings as a clicked, or as a skipped, news."""

    content: ContentRows
    denoise: DenoiseRows | None
    opposite: OppositeRows | None


class Side(nn.Module):
    """The two aggregators of one sequence."""

    def __init__(self, settings: DrpnSettings, *, self_attention: bool) -> None:
        super().__init__()
        size = settings.size
        both = settings.clicked and settings.skipped
        self.content = ContentAggregator(size, settings.heads, settings.hidden, self_attention=self_attention)
        self.denoise = DenoisingAggregator(size, opposite=both) if settings.denoise else None

    def project(self, news: Float[Tensor, "U D"], other: "Side | None") -> SideRows:
        """What the news bring to this side, and to the other side's denoising."""
        return SideRows(
            content=self.content.project(news),
            denoise=None if self.denoise is None else self.denoise.project(news),
            opposite=None if other is None or other.denoise is None else other.denoise.project_opposite(news),
        )


class Interests(NamedTuple):
    """The interest representations of users, F of them, and what each news counted in each aggregator."""

    vectors: Float[Tensor, "B F D"]
    weights: dict[str, Float[Tensor, "B S"]]


class ViewRows(NamedTuple):
    """What a news brings to one view."""

    sides: dict[str, SideRows]
    reader: Float[Tensor, "U"]
    candidate: Float[Tensor, "U FD"]


class View(nn.Module):
    """An interest encoder (4.3 or 4.5) and its fusion net (4.6)."""

    def __init__(self, settings: DrpnSettings, *, self_attention: bool) -> None:
        super().__init__()
        names = [name for name in ("clicked", "skipped") if getattr(settings, name)]
        self.sides = nn.ModuleDict({name: Side(settings, self_attention=self_attention) for name in names})
        kinds = ("content", "denoise") if settings.denoise else ("content",)
        self.interests = [f"{side} {kind}" for kind in kinds for side in names]
        self.fusion = FusionNet(settings.size, settings.hidden, len(self.interests))

    def project(self, news: Float[Tensor, "U D"], plain: Float[Tensor, "U D"]) -> ViewRows:
        """`news` are the vectors that are aggregated, `plain` those that the fusion net reads."""
        sides = {name: self._side(name).project(news, self._opposite(name)) for name in self.sides}
        return ViewRows(sides, self.fusion.reader.logits(plain), self.fusion.candidate(plain))

    def forward(
        self,
        news: Float[Tensor, "U D"],
        plain: Float[Tensor, "U D"],
        encoded: ViewRows,
        positions: dict[str, Int[Tensor, "B S"]],
        candidates: Int[Tensor, "B C"],
    ) -> "Viewed":
        """Eqs. 9 to 11 and this view's half of the score: sum over f of beta_f (interest_f . r)."""
        interests = self.read(news, encoded, positions)
        beta = self.fusion(plain, encoded, positions, candidates)  # (B C F)
        # u . r with u = sum of beta_f interest_f
        match = torch.einsum("bfd,bcd->bcf", interests.vectors, rows(plain, candidates))
        return Viewed((beta * match).sum(-1), interests, beta)

    def _side(self, name: str) -> Side:
        side = self.sides[name]
        assert isinstance(side, Side)
        return side

    def _opposite(self, name: str) -> Side | None:
        return next((self._side(other) for other in self.sides if other != name), None)

    def read(
        self, news: Float[Tensor, "U D"], encoded: ViewRows, positions: dict[str, Int[Tensor, "B S"]]
    ) -> Interests:
        """p_s, n_s, p_h and n_h, those of them that this view has."""
        masks = {name: at != 0 for name, at in positions.items()}
        vectors, weights = {}, {}
        for name in self.sides:
            side, at, mask = self._side(name), positions[name], masks[name]
            own = encoded.sides[name]
            items = rows(news, at)  # (B S D)
            found = {"content": side.content(items, _at(own.content, at), mask)}
            if side.denoise is not None:
                other = next((key for key in self.sides if key != name), None)
                opposite = None if other is None else _at(encoded.sides[other].opposite, positions[other])
                other_mask = mask if other is None else masks[other]
                found["denoise"] = side.denoise(items, _at(own.denoise, at), mask, opposite, other_mask)
            for kind, aggregated in found.items():
                vectors[f"{name} {kind}"], weights[f"{name} {kind}"] = aggregated
        return Interests(torch.stack([vectors[name] for name in self.interests], dim=1), weights)


class FusionNet(nn.Module):
    """Section 4.6: how much each interest representation counts for a user and a candidate."""

    def __init__(self, size: int, hidden: int, interests: int) -> None:
        super().__init__()
        self.count = interests
        self.reader = GatedAggregate(size, hidden)
        self.nobody = nn.Parameter(torch.zeros(size))
        self.user = nn.Linear(size, interests * size)  # the halves of each W_1 that read u_f, and each b_1
        self.candidate = nn.Linear(size, interests * size, bias=False)  # the halves that read r_c
        self.out = nn.Parameter(torch.empty(interests, size).uniform_(-1, 1) / math.sqrt(size))  # each W_2
        self.bias = nn.Parameter(torch.full((interests,), 1 / interests))  # each b_2

    def forward(
        self,
        plain: Float[Tensor, "U D"],
        encoded: ViewRows,
        positions: dict[str, Int[Tensor, "B S"]],
        candidates: Int[Tensor, "B C"],
    ) -> Float[Tensor, "B C F"]:
        """Eq. 9: beta = tanh([u_f; r_c] W_1 + b_1) W_2 + b_2, for each representation."""
        both = torch.cat(list(positions.values()), dim=1)  # (B S)
        mask = both != 0
        # u_f = Aggregate([P | N])
        reader = aggregate(_at(encoded.reader, both), rows(plain, both), mask).vector
        reader = or_else(reader, mask.any(-1), self.nobody)
        user = in_parts(self.user(reader), self.count)  # (B F D)
        candidate = in_parts(rows(encoded.candidate, candidates), self.count)  # (B C F D)
        return torch.einsum("bcfd,fd->bcf", torch.tanh(user.unsqueeze(1) + candidate), self.out) + self.bias


class Viewed(NamedTuple):
    """One view's half of the score, and what it came from."""

    score: Float[Tensor, "B C"]
    interests: Interests
    beta: Float[Tensor, "B C F"]


class DrpnRows(NamedTuple):
    """What DRPN computes once per news."""

    title: Float[Tensor, "U D"]
    id: Float[Tensor, "U D"] | None
    graph: Float[Tensor, "U D"] | None
    semantic: ViewRows
    collaborative: ViewRows | None


class Drpn(ClickModel):
    """Reads what was clicked and what was skipped, by title and by who else clicked it."""

    def __init__(self, settings: DrpnSettings, shape: DataShape) -> None:
        super().__init__()
        self.settings = settings
        self.title = TitleEncoder(
            shape.words, settings.size, settings.heads, settings.hidden, settings.dropout, shape.vectors
        )
        self.semantic = View(settings, self_attention=True)
        if settings.graph:
            self.id = IdVectors(shape.news, settings.size, settings.id_dropout)
            self.graph = GraphNetwork(settings.size, settings.graph_heads)
            self.collaborative = View(settings, self_attention=False)

    def encode_news(self, news: NewsRows) -> DrpnRows:
        """Title, id and graph vectors, and the projections that the second stage needs."""
        title = self.title(news.words)
        semantic = self.semantic.project(title, title)
        if not self.settings.graph:
            return DrpnRows(title, None, None, semantic, None)
        own = self.id(news.rows, news.seen)
        graph = self.graph(own, self.id.of_neighbours(news.neighbours), news.neighbours != 0)
        return DrpnRows(title, own, graph, semantic, self.collaborative.project(graph, own))

    def score(self, encoded: DrpnRows, batch: Batch) -> Float[Tensor, "B C"]:
        """Section 4.7: u^t . r^t + u^o . r^o."""
        score = torch.zeros_like(batch.candidates, dtype=encoded.title.dtype)
        for view in self.views(encoded, batch).values():
            score = score + view.score
        return score

    def views(self, encoded: DrpnRows, batch: Batch) -> dict[str, Viewed]:
        """The semantic and the collaborative view of a batch, with every weight that made its score."""
        positions = {name: getattr(batch, name) for name in self.semantic.sides}
        found = {"semantic": self.semantic(encoded.title, encoded.title, encoded.semantic, positions, batch.candidates)}
        if encoded.collaborative is not None and encoded.graph is not None and encoded.id is not None:
            found["collaborative"] = self.collaborative(
                encoded.graph, encoded.id, encoded.collaborative, positions, batch.candidates
            )
        return found
