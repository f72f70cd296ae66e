"""DRPN: clicked and skipped news, each denoised by the other.

Hu, Qiu and Wu, "Denoising Neural Network for News Recommendation with Positive and Negative Implicit Feedback",
Findings of NAACL 2022. Section and equation numbers are the paper's; `docs/paper-map.md` lists them with their tests.

What depends on a news alone is computed once for each news: its vectors, and every linear projection of them that the
aggregators and the fusion nets need. W [a; b] is computed as W_a a + W_b b, and (sum of alpha_i x_i) W as the sum of
alpha_i (x_i W): the numbers are those of the plain formulation.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from drpn.batches.batch import Batch, NewsRows
from drpn.layers.attention import (
    GatedAggregate,
    Weight,
    aggregate,
    concat_sequences,
    dot,
    inner_products,
    joint_linear,
    read_in_tables,
    split_heads,
    where_present,
)
from drpn.layers.gather import TableRows
from drpn.layers.news import IdVectors, TitleEncoder
from drpn.models.aggregators import ContentAggregator, DenoisingAggregator, GraphNetwork
from drpn.models.base import ClickModel, DataShape
from drpn.models.encoded import LazyProjection, at_positions


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


class SideRows(NamedTuple):
    """What a news brings as a clicked, or as a skipped, news."""

    content: Float[Tensor, "... QKV"] | TableRows
    denoise: Float[Tensor, "... all"] | TableRows
    """For the denoising of its own sequence; no columns where there is none."""
    opposite: Float[Tensor, "... all"] | TableRows
    """For that of the opposite sequence."""


class Side(nn.Module):
    """The two aggregators of one sequence."""

    def __init__(self, settings: DrpnSettings, *, self_attention: bool) -> None:
        super().__init__()
        self.size = settings.size
        both = settings.clicked and settings.skipped
        self.content = ContentAggregator(settings.size, settings.heads, settings.hidden, self_attention=self_attention)
        self.denoise = DenoisingAggregator(settings.size, opposite=both) if settings.denoise else None

    def weights(self, other: "Side | None") -> list[Weight]:
        """All that make what a news brings to this side, and to the other side's denoising."""
        own = [] if self.denoise is None else self.denoise.weights()
        opposite = [] if other is None or other.denoise is None else other.denoise.weights_opposite()
        return [*self.content.weights(), *own, *opposite]

    def unpack(self, packed: Float[Tensor, "... all"] | TableRows) -> SideRows:
        """What these weights made, side by side, by name."""
        own, opposite = (0, 0) if self.denoise is None else ((5, 2) if self.denoise.opposite else (4, 0))
        parts = [count * self.size for count in (len(self.content.weights()), own, opposite)]
        # one split: the gradients of its parts are joined in one go
        return SideRows(*(packed.split(parts) if isinstance(packed, TableRows) else torch.split(packed, parts, dim=-1)))


class Interests(NamedTuple):
    """The interest representations of users, F of them, and what each news counted in each aggregator."""

    vectors: Float[Tensor, "B F D"]
    weights: dict[str, Float[Tensor, "B S"]]


class Members(NamedTuple):
    """What the news of a sequence bring to one view."""

    news: Float[Tensor, "... D"] | TableRows
    plain: Float[Tensor, "... D"] | TableRows
    side: Float[Tensor, "... all"] | TableRows
    logits: Float[Tensor, "..."] | None
    reader: Float[Tensor, "..."]


class ViewRows(NamedTuple):
    """What a news brings to one view."""

    news: Float[Tensor, "U D"]
    """The vectors that are aggregated."""
    plain: Float[Tensor, "U D"]
    """Those that the fusion net reads and the score compares with."""
    sides: dict[str, Float[Tensor, "U all"] | LazyProjection]
    """What they bring to each sequence, as `Side.unpack` reads it."""
    logits: dict[str, Float[Tensor, "U"] | None]
    reader: Float[Tensor, "U"]
    candidate: Float[Tensor, "U FD"] | LazyProjection

    def members(self, name: str, positions: Int[Tensor, "B S"], *, gathered: bool) -> Members:
        """What those of a clicked or a skipped sequence bring; what is wide may be left in its table."""
        side, narrow = self.sides[name], (self.logits[name], self.reader)
        if gathered or isinstance(side, LazyProjection):
            return Members(*at_positions((self.news, self.plain, side, *narrow), positions))
        news, plain, placed = (TableRows(table, positions) for table in (self.news, self.plain, side))
        return Members(news, plain, placed, *at_positions(narrow, positions))


class ViewReaders(NamedTuple):
    """What a view knows of users before any candidate comes in."""

    interests: Interests
    user: Float[Tensor, "B F D"]
    """The users' half of Eq. 9."""


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
        weights = {name: self._side(name).weights(self._opposite(name)) for name in self.sides}
        candidate = [Weight.of(self.fusion.candidate)]
        sides: Sequence[Tensor | LazyProjection]
        for_candidates: Tensor | LazyProjection
        if self.training and not news.is_cuda:
            sides, for_candidates = (
                [LazyProjection(news, some) for some in weights.values()],
                LazyProjection(plain, candidate),
            )
        else:
            together = plain is news
            packed = joint_linear(news, [*chain(*weights.values()), *(candidate if together else [])])
            sizes = [sum(len(one.matrix) for one in some) for some in weights.values()]
            *sides, rest = torch.split(packed, [*sizes, packed.shape[-1] - sum(sizes)], dim=-1)
            for_candidates = rest if together else joint_linear(plain, candidate)
        return ViewRows(
            news=news,
            plain=plain,
            sides=dict(zip(weights, sides, strict=True)),
            logits={name: self._side(name).content.logits(news) for name in weights},
            reader=self.fusion.reader.logits(plain),
            candidate=for_candidates,
        )

    def _side(self, name: str) -> Side:
        side = self.sides[name]
        assert isinstance(side, Side)
        return side

    def _opposite(self, name: str) -> Side | None:
        return next((self._side(other) for other in self.sides if other != name), None)

    def read(self, members: dict[str, Members], masks: dict[str, Bool[Tensor, "B S"]]) -> ViewReaders:
        """p_s, n_s, p_h and n_h, those of them that this view has, and what the fusion net makes of the user."""
        vectors, weights = {}, {}
        rows = {name: self._side(name).unpack(own.side) for name, own in members.items()}
        for name, own in members.items():
            side, mask = self._side(name), masks[name]
            found = {"content": side.content(own.news, rows[name].content, own.logits, mask)}
            if side.denoise is not None:
                other = next((key for key in members if key != name), None)
                opposite = None if other is None else rows[other].opposite
                found["denoise"] = side.denoise(own.news, rows[name].denoise, mask, opposite, masks[other or name])
            for kind, aggregated in found.items():
                vectors[f"{name} {kind}"], weights[f"{name} {kind}"] = aggregated
        interests = Interests(torch.stack([vectors[name] for name in self.interests], dim=1), weights)
        return ViewReaders(interests, self.fusion.read(list(members.values()), list(masks.values())))

    def match(
        self, readers: ViewReaders, plain: Float[Tensor, "B C D"], candidate: Float[Tensor, "B C FD"]
    ) -> "Viewed":
        """Eqs. 9 to 11 and this view's half of the score: sum over f of beta_f (interest_f . r)."""
        beta = self.fusion(readers.user, candidate)  # (B C F)
        # u . r with u = sum of beta_f interest_f
        match = inner_products(plain, readers.interests.vectors)  # (B C F)
        return Viewed((beta * match).sum(-1), readers.interests, beta)

    def score_quickly(
        self, rows: ViewRows, readers: ViewReaders, candidates: Int[Tensor, "B C"]
    ) -> Float[Tensor, "B C"]:
        """The score of `match` alone, on a GPU and without gradients."""
        from drpn.layers.kernels.scoring import fused_scores  # Triton comes with torch on GPU machines alone

        assert isinstance(rows.candidate, Tensor)
        fusion, interests = self.fusion, readers.interests.vectors
        scores: Tensor = fused_scores(
            candidates, rows.plain, rows.candidate, readers.user, interests, fusion.out, fusion.bias
        )
        return scores


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

    def read(self, members: list[Members], masks: list[Bool[Tensor, "B S"]]) -> Float[Tensor, "B F D"]:
        """The users' half of Eq. 9, from u_f = Aggregate([P | N])."""
        mask = torch.cat(masks, dim=1)
        logits = torch.cat([one.reader for one in members], dim=1)
        reader = aggregate(logits, concat_sequences([one.plain for one in members]), mask).vector
        reader = where_present(reader, mask.any(-1), self.nobody)
        return split_heads(self.user(reader), self.count)

    def forward(self, user: Float[Tensor, "B F D"], candidate: Float[Tensor, "B C FD"]) -> Float[Tensor, "B C F"]:
        """Eq. 9: beta = tanh([u_f; r_c] W_1 + b_1) W_2 + b_2, for each representation."""
        both = torch.tanh(user.unsqueeze(1) + split_heads(candidate, self.count))  # (B C F D)
        return dot(both, self.out) + self.bias


class Viewed(NamedTuple):
    """One view's half of the score, and what it came from."""

    score: Float[Tensor, "B C"]
    interests: Interests
    beta: Float[Tensor, "B C F"]


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

    @property
    def reads(self) -> tuple[str, ...]:
        """The sequences that the variant looks at."""
        return tuple(self.semantic.sides)

    def encode_news(self, news: NewsRows) -> dict[str, ViewRows]:
        """Title, id and graph vectors, and the projections that the second stage needs, for each view."""
        title = self.title(news.words)
        encoded = {"semantic": self.semantic.project(title, title)}
        if self.settings.graph:
            own = self.id(news.rows, news.seen)
            graph = self.graph(own, self.id.of_neighbours(news.neighbours), news.neighbours != 0)
            encoded["collaborative"] = self.collaborative.project(graph, own)
        return encoded

    def read(self, encoded: dict[str, ViewRows], batch: Batch) -> dict[str, ViewReaders]:
        """The interests of each user, for each view."""
        positions = {name: getattr(batch, name) for name in self.reads}
        masks = {name: at != 0 for name, at in positions.items()}
        head = self.settings.size // self.settings.heads
        longest = max(head, *(at.shape[1] for at in positions.values()))
        # not the news themselves: after a norm they are in float32 whatever the projections are in
        side = encoded["semantic"].sides[self.reads[0]]
        gathered = isinstance(side, LazyProjection) or not read_in_tables(side, longest)
        return {
            view: self._view(view).read(
                {name: rows.members(name, at, gathered=gathered) for name, at in positions.items()}, masks
            )
            for view, rows in encoded.items()
        }

    def match(
        self, encoded: dict[str, ViewRows], readers: dict[str, ViewReaders], candidates: Int[Tensor, "B C"]
    ) -> Float[Tensor, "B C"]:
        """Section 4.7: u^t . r^t + u^o . r^o."""
        double = next(self.parameters()).dtype == torch.float64
        if candidates.is_cuda and not torch.is_grad_enabled() and not double:
            scores = [self._view(view).score_quickly(rows, readers[view], candidates) for view, rows in encoded.items()]
        else:
            scores = [view.score for view in self.matched(encoded, readers, candidates).values()]
        return torch.stack(scores).sum(0)

    def matched(
        self, encoded: dict[str, ViewRows], readers: dict[str, ViewReaders], candidates: Int[Tensor, "B C"]
    ) -> dict[str, Viewed]:
        """The semantic and the collaborative half of the scores, with every weight that made them."""
        rows = at_positions({view: (rows.plain, rows.candidate) for view, rows in encoded.items()}, candidates)
        return {view: self._view(view).match(readers[view], *rows[view]) for view in encoded}

    def views(self, encoded: dict[str, ViewRows], batch: Batch) -> dict[str, Viewed]:
        """Both views of a batch, for whoever wants the weights."""
        return self.matched(encoded, self.read(encoded, batch), batch.candidates)

    def _view(self, name: str) -> View:
        return self.semantic if name == "semantic" else self.collaborative
