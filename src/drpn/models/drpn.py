"""DRPN: clicked and skipped stories, each denoised by the other.

Hu, Qiu and Wu, "Denoising Neural Network for News Recommendation with Positive and Negative Implicit Feedback",
Findings of NAACL 2022. Section and equation numbers are the paper's; `docs/paper-map.md` lists them with their tests.

Vectors of stories, and all linear projections of them that the aggregators and the fusion nets need, are computed once
per story: W [a; b] as W_a a + W_b b, and (sum of alpha_i x_i) W as the sum of alpha_i (x_i W), with the same results.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from drpn.batches.batch import Context, NewsRows, Profiles
from drpn.layers.attention import Aggregated, GatedAggregate, MultiHeadAttention, aggregate, where_present
from drpn.layers.calibration import Calibration
from drpn.layers.denoising import Similarity, attend_opposite, attend_rest, similarities, similarity
from drpn.layers.fusion import interest_scores, interest_weights
from drpn.layers.graph import GraphNetwork
from drpn.layers.labels import LabelEvidence, Labels
from drpn.layers.linear import Weight, split_heads
from drpn.layers.news import ID_SPREAD, IdVectors, TitleEncoder
from drpn.layers.similar_start import start_as_similarity
from drpn.layers.tables import Table, TableRows, columns, concat_sequences, project, rows_at
from drpn.models.base import ClickModel, DataShape, ModelSettings, Trust
from drpn.models.checks import check_above_zero, check_divides, check_positive, check_share


@dataclass(frozen=True, kw_only=True)
class DrpnSettings(ModelSettings):
    """DRPN; the defaults are the paper's, except for `id_dropout`, which is ours."""

    size: int = 300
    """D: size of word, story and user vectors."""
    heads: int = 6
    """l_h: heads of each self-attention; divides `size`."""
    hidden: int = 200
    """d': hidden size of the gated aggregation."""
    graph_heads: int = 2
    """l_h': heads of the graph network; divides `size`."""
    dropout: float = 0.2
    """Dropout on words and after the self-attention of titles."""
    id_dropout: float = 0.1
    """Share of stories that get the "unknown" id vector at each training step."""
    id_spread: float = ID_SPREAD
    """Standard deviation of the first id vectors."""
    denoise: bool = True
    """Use the denoising aggregators (off: the paper's DRPN-D)."""
    similar_start: bool = False
    """Start the denoising aggregators with weights that compare stories (`layers.similar_start`). Off: random."""
    graph: bool = True
    """Use id vectors, the graph network and their collaborative view (off: DRPN-G)."""
    graph_network: bool = True
    """Let stories read their graph neighbours (off: the collaborative view has id vectors alone, DRPN-G + ids)."""
    clicked: bool = True
    """Read clicked stories (off: DRPN-P)."""
    skipped: bool = True
    """Read skipped stories (off: DRPN-N)."""

    def __post_init__(self) -> None:
        check_positive(self, "size", "heads", "hidden", "graph_heads")
        check_above_zero(self, "id_spread")
        check_share(self, "dropout", "id_dropout")
        check_divides(self, "heads", "graph_heads", size=self.size)
        if not (self.clicked or self.skipped):
            raise ValueError("clicked is False, and so is skipped; keep one of them")


ABLATIONS = {
    "drpn-d": DrpnSettings(denoise=False),
    "drpn-g": DrpnSettings(graph=False),
    "drpn-g-ids": DrpnSettings(graph_network=False),
    "drpn-dg": DrpnSettings(denoise=False, graph=False),
    "drpn-n": DrpnSettings(skipped=False),
    "drpn-p": DrpnSettings(clicked=False),
}
"""The variants of Table 3, each without one part of DRPN; drpn-g-ids is not in the paper."""

COLLABORATIVE_START = 1.5
"""Scale of `similar_start` times the spread of id vectors, from which graph vectors of about a third are made."""


class ContentAggregator(nn.Module):
    """Section 4.3.1: Aggregate(LN(P + MH(P, P, P))); in the collaborative encoder only Aggregate(P)."""

    def __init__(self, size: int, heads: int, hidden: int, *, self_attention: bool) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(size, heads) if self_attention else None
        self.norm = nn.LayerNorm(size) if self_attention else None
        self.aggregate = GatedAggregate(size, hidden)
        self.nothing = nn.Parameter(torch.zeros(size))

    def forward(self, stories: TableRows, qkv: TableRows, logits: Float[Tensor, "B S"] | None) -> Aggregated:
        """p_s or n_s, and the weight of each story; without self-attention the logits are given."""
        mask = stories.mask
        if self.attention is None or self.norm is None:
            result = aggregate(cast(Tensor, logits), stories, mask)  # Eq. 3
        else:
            result = self.aggregate(self.norm(stories.gather() + self.attention(qkv, mask)), mask)  # Eqs. 2 and 3
        return Aggregated(where_present(result.vector, mask.any(-1), self.nothing), result.weight)


class DenoisingAggregator(nn.Module):
    """Section 4.3.2: a story counts more if it resembles the rest of its sequence, less if the opposite sequence."""

    def __init__(self, size: int, *, opposite: bool, start: float | None = None) -> None:
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
        if start is not None:
            heads = [(head.own, head.read, head.out) for head in self.heads()]
            values = [self.value, *([self.opposite_value] if opposite else [])]
            keys = [self.query, self.key, *([self.opposite_key] if opposite else [])]
            start_as_similarity(heads, values=values, keys=keys, scale=start)
        self.evidence: LabelEvidence | None = None  # these two are not in the paper: see models/drpn_planted.py
        self.calibration: Calibration | None = None

    def heads(self) -> list[Similarity]:
        """The similarity to the rest of the sequence, and to the opposite sequence if there is one."""
        return [self.similar, self.contrary] if self.opposite else [self.similar]

    def weights(self) -> list[Weight]:
        """Projections of a story for its own sequence; W^h_v is multiplied with the half of W^u_1 that reads it."""
        value = Weight(self.similar.read.weight @ self.value.weight)
        halves = [Weight.from_layer(head.own) for head in self.heads()]
        return [Weight(self.query.weight), Weight(self.key.weight), value, *halves]

    def opposite_weights(self) -> list[Weight]:
        """Projections of a story for the opposite sequence; W^h'_v is multiplied with its half of W^u_3."""
        return [Weight(self.opposite_key.weight), Weight(self.contrary.read.weight @ self.opposite_value.weight)]

    def trust(self, own: TableRows, other: TableRows | None, labels: Labels | None) -> Float[Tensor, "B S"]:
        """How far each story is trusted, from its projections by `weights` and `opposite_weights`."""
        trust = self.compare(own, other)
        if self.evidence is None or labels is None:
            return trust
        evidence: Tensor = self.evidence(labels, own.positions, None if other is None else other.positions)
        return self.evidence.similarity * trust + evidence

    def compare(self, own: TableRows, other: TableRows | None) -> Float[Tensor, "B S"]:
        """The trust in each story by Eq. 6."""
        # Eq. 4, intra-attention: every story reads the rest of its own sequence, never itself
        same = attend_rest(own)
        if other is None:
            return similarity(self.similar.head(), same)
        # Eq. 5, inter-attention: every story reads the opposite sequence
        opposite = attend_opposite(own, other, instead=self.contrary.read(self.unopposed))
        similar, contrary = similarities(self.similar.head(), same, self.contrary.head(), opposite)  # (B S) each
        # Eq. 6: s^p - ReLU(gamma) * s^n
        return similar - torch.relu(self.gamma) * contrary

    def forward(
        self, stories: TableRows, own: TableRows, other: TableRows | None, labels: Labels | None = None
    ) -> Aggregated:
        """p_h or n_h, and the weight of each story."""
        trust = self.trust(own, other, labels)
        logits = trust if self.calibration is None else self.calibration.log_probability(trust)
        # p_h = sum of alpha_i p_i with alpha = softmax(logits); in the paper the logits are the trust
        result = aggregate(logits, stories, own.mask)
        return Aggregated(where_present(result.vector, own.mask.any(-1), self.nothing), result.weight)


class FusionNet(nn.Module):
    """Section 4.6: how much each interest vector counts for a user and a candidate."""

    def __init__(self, size: int, hidden: int, interests: int) -> None:
        super().__init__()
        self.reader = GatedAggregate(size, hidden)
        self.nobody = nn.Parameter(torch.zeros(size))
        self.user = nn.Linear(size, interests * size)  # the halves of each W_1 that read u_f, and each b_1
        self.candidate = nn.Linear(size, interests * size, bias=False)  # the halves that read r_c
        self.out = nn.Parameter(torch.empty(interests, size).uniform_(-1, 1) / math.sqrt(size))  # each W_2
        self.bias = nn.Parameter(torch.full((interests,), 1 / interests))  # each b_2

    def read(self, members: "list[Members]") -> Float[Tensor, "B F D"]:
        """The half of Eq. 9 that depends on the user, from u_f = Aggregate([P | N])."""
        both = concat_sequences([member.plain for member in members])
        logits = torch.cat([member.reader_logits for member in members], dim=1)
        user = where_present(aggregate(logits, both, both.mask).vector, both.mask.any(-1), self.nobody)
        return split_heads(self.user(user), len(self.out))

    def forward(self, user: Float[Tensor, "B F D"], candidate: TableRows) -> Float[Tensor, "B C F"]:
        """Eq. 9: beta = tanh([u_f; r_c] W_1 + b_1) W_2 + b_2, the weight of each interest vector."""
        return interest_weights(user, candidate, self.out, self.bias)

    def score(self, readers: "ViewReaders", candidate: TableRows, plain: TableRows) -> Float[Tensor, "B C"]:
        """Eqs. 10 and 11: u . r with u = sum over f of beta_f interest_f, for each candidate."""
        return interest_scores(readers.user, candidate, self.out, self.bias, readers.interests, plain)


Positions = dict[str, Int[Tensor, "B S"]]
"""The stories of each user, by sequence."""


class ViewRows(NamedTuple):
    """The stored values of each story for one view."""

    stories: Float[Tensor, "U D"]
    """The vectors that are aggregated."""
    plain: Float[Tensor, "U D"]
    """The vectors that the fusion net reads and the score compares with."""
    candidate: Table
    """The half of Eq. 9 that depends on the candidate."""
    sides: dict[str, Table]
    """The projections that each sequence needs: those of its content, denoise and opposite layers."""
    logits: dict[str, Float[Tensor, "U"]]
    """Logits of the content aggregators without self-attention; empty with it."""
    reader_logits: Float[Tensor, "U"]
    labels: Labels | None = None
    """Category and subcategory, if the denoising aggregators compare them."""


class Members(NamedTuple):
    """The stories of one sequence of each user, as one view sees them."""

    stories: TableRows
    plain: TableRows
    projected: TableRows
    logits: Float[Tensor, "B S"] | None
    reader_logits: Float[Tensor, "B S"]


class ViewReaders(NamedTuple):
    """The stored values of each user for one view."""

    interests: Float[Tensor, "B F D"]
    weights: dict[str, Float[Tensor, "B S"]]
    """The weight of each story, by aggregator, such as "clicked denoise"."""
    user: Float[Tensor, "B F D"]
    """The half of Eq. 9 that depends on the user."""


class Side(nn.Module):
    """The two aggregators of one sequence."""

    def __init__(self, settings: DrpnSettings, *, self_attention: bool) -> None:
        super().__init__()
        size, both = settings.size, settings.clicked and settings.skipped  # there is an opposite sequence
        self.content = ContentAggregator(size, settings.heads, settings.hidden, self_attention=self_attention)
        scale = 1.0 if self_attention else COLLABORATIVE_START / settings.id_spread
        start = scale if settings.similar_start else None
        self.denoise = DenoisingAggregator(size, opposite=both, start=start) if settings.denoise else None


class View(nn.Module):
    """An interest encoder (section 4.3 or 4.5) and its fusion net (4.6)."""

    def __init__(self, settings: DrpnSettings, *, self_attention: bool) -> None:
        super().__init__()
        names = [name for name in ("clicked", "skipped") if getattr(settings, name)]
        self.sides = nn.ModuleDict({name: Side(settings, self_attention=self_attention) for name in names})
        kinds = ("content", "denoise") if settings.denoise else ("content",)
        self.interests = [f"{side} {kind}" for kind in kinds for side in names]
        self.fusion = FusionNet(settings.size, settings.hidden, len(self.interests))
        self.opposite = dict(zip(names, reversed(names), strict=True)) if len(names) == 2 else {}
        self.columns = {name: columns(self.weights(name)) for name in names}

    def side(self, name: str) -> Side:
        """The aggregators of the clicked or the skipped sequence."""
        return cast(Side, self.sides[name])

    def weights(self, name: str) -> dict[str, list[Weight]]:
        """Linear layers that are applied to each story of a sequence, by the part that reads the result."""
        attention, own = self.side(name).content.attention, self.side(name).denoise
        opposite = self.side(self.opposite[name]).denoise if name in self.opposite else None
        return {
            "content": [] if attention is None else attention.weights(),
            "denoise": [] if own is None else own.weights(),
            "opposite": [] if opposite is None else opposite.opposite_weights(),
        }

    def project(self, stories: Float[Tensor, "U D"], plain: Float[Tensor, "U D"]) -> ViewRows:
        """`stories` are the vectors that are aggregated, `plain` those that the fusion net reads."""
        layers = {name: (stories, self.weights(name)) for name in self.sides}
        candidate = plain, {"fusion": [Weight.from_layer(self.fusion.candidate)]}
        sides = project({**layers, "candidate": candidate}, training=self.training)
        content = {name: self.side(name).content for name in self.sides}
        logits = {name: own.aggregate.logits(stories) for name, own in content.items() if own.attention is None}
        return ViewRows(stories, plain, sides.pop("candidate"), sides, logits, self.fusion.reader.logits(plain))

    def read(self, rows: ViewRows, positions: Positions) -> ViewReaders:
        """p_s, n_s, p_h and n_h, as far as this view has them, and what the fusion net knows of the user."""
        members, parts, aggregated = {}, {}, {}
        for name, at in positions.items():
            tables = rows.stories, rows.plain, rows.sides[name], rows.logits.get(name), rows.reader_logits
            members[name] = Members(*rows_at(tables, at))
            parts[name] = members[name].projected.split(self.columns[name])
        for name, member in members.items():
            side, other, own = self.side(name), self.opposite.get(name), parts[name]
            aggregated[f"{name} content"] = side.content(member.stories, own["content"], member.logits)
            if side.denoise is not None:
                opposite = None if other is None else parts[other]["opposite"]
                aggregated[f"{name} denoise"] = side.denoise(member.stories, own["denoise"], opposite, rows.labels)
        return ViewReaders(
            interests=torch.stack([aggregated[name].vector for name in self.interests], dim=1),
            weights={name: result.weight for name, result in aggregated.items()},
            user=self.fusion.read(list(members.values())),
        )

    def trust(self, rows: ViewRows, positions: Positions, *, vectors: bool) -> dict[str, Float[Tensor, "B S"]]:
        """The trust in each story, by sequence; without `vectors`, gradients do not reach the vectors of stories."""
        sides, columns = rows.sides, self.columns
        if not vectors:
            fixed, read = rows.stories.detach(), ("denoise", "opposite")
            columns = {name: {part: columns[name][part] for part in read} for name in sides}
            weights = {name: self.weights(name) for name in sides}
            layers = {name: (fixed, {part: own[part] for part in read}) for name, own in weights.items()}
            sides = project(layers, training=self.training)
        parts = {name: rows_at(sides[name], at).split(columns[name]) for name, at in positions.items()}
        trust = {}
        for name, own in parts.items():
            denoise, other = self.side(name).denoise, self.opposite.get(name)
            if denoise is not None:
                opposite = None if other is None else parts[other]["opposite"]
                trust[name] = denoise.trust(own["denoise"], opposite, rows.labels)
        return trust


Encoded = dict[str, ViewRows]
Readers = dict[str, ViewReaders]


class Drpn(ClickModel[Encoded, Readers]):
    """Reads clicked and skipped stories, by their titles and by who else clicked them."""

    score_weights = ("fusion.out", "fusion.bias")  # of each interest vector in the score

    def __init__(self, settings: DrpnSettings, shape: DataShape) -> None:
        super().__init__()
        self.settings: DrpnSettings = settings
        size, heads, hidden = settings.size, settings.heads, settings.hidden
        self.title = TitleEncoder(shape.words, size, heads, hidden, settings.dropout, shape.vectors)
        self.semantic = View(settings, self_attention=True)
        if settings.graph:
            self.id = IdVectors(shape.news, size, settings.id_dropout, settings.id_spread)
            self.graph = GraphNetwork(size, settings.graph_heads) if settings.graph_network else None
            self.collaborative = View(settings, self_attention=False)

    @property
    def reads(self) -> tuple[str, ...]:
        """The sequences that this variant reads."""
        return tuple(name for name in ("clicked", "skipped") if getattr(self.settings, name))

    @property
    def denoises(self) -> bool:
        """Whether this variant has denoising aggregators."""
        return self.settings.denoise

    def encode_news(self, news: NewsRows) -> Encoded:
        """Title, id and graph vectors, and the projections that the second stage needs, for each view."""
        title = self.title(news.words)
        encoded = {"semantic": self.semantic.project(title, title)}
        return {**encoded, "collaborative": self.encode_ids(news)} if self.settings.graph else encoded

    def encode_ids(self, news: NewsRows) -> ViewRows:
        """The collaborative half of `encode_news`."""
        own = graph = self.id(news.rows)
        if self.graph is not None:
            graph = self.graph(own, self.id.of_neighbours(news.neighbours), news.neighbours != 0)
        return self.collaborative.project(graph, own)

    def read(self, encoded: Encoded, profiles: Profiles) -> Readers:
        """The interests of each user, for each view."""
        return {view: self.view(view).read(rows, profiles.sequences(self.reads)) for view, rows in encoded.items()}

    def trust(self, encoded: Encoded, profiles: Profiles, *, vectors: bool = True) -> Trust:
        """The trust in each story (Eq. 6), by view and sequence."""
        sequences = profiles.sequences(self.reads)
        return {view: self.view(view).trust(rows, sequences, vectors=vectors) for view, rows in encoded.items()}

    def match(
        self, encoded: Encoded, readers: Readers, candidates: Int[Tensor, "B C"], context: Context
    ) -> Float[Tensor, "B C"]:
        """Section 4.7: u^t . r^t + u^o . r^o, the score of each candidate."""
        rows = self.candidates(encoded, candidates)
        scores = [self.view(name).fusion.score(reader, *rows[name]) for name, reader in readers.items()]
        return torch.stack(scores).sum(0)

    def candidates(self, encoded: Encoded, candidates: Int[Tensor, "B C"]) -> dict[str, tuple[TableRows, TableRows]]:
        """The rows of the candidates for each view: their half of Eq. 9, and their vectors."""
        tables = {view: (rows.candidate, rows.plain) for view, rows in encoded.items()}
        return cast(dict[str, tuple[TableRows, TableRows]], rows_at(tables, candidates, without_gradient=True))

    def view(self, name: str) -> View:
        """The semantic or the collaborative view."""
        return self.semantic if name == "semantic" else self.collaborative
