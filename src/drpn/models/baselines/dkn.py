"""DKN: titles read by filters of several widths, and a user who is another one for each candidate.

Wang, Zhang, Xie and Guo, "DKN: Deep Knowledge-Aware Network for News Recommendation", WWW 2018. Section numbers and
symbols are the paper's; `docs/paper-map.md` lists them with their tests.

Both networks begin with a layer W [a; b] over a clicked news, or a user, and a candidate. It is computed as
W_a a + W_b b, each half once for each news. The user being e(i) = sum of s_k e(t_k), the half W_a e(i) is computed as
the sum of s_k (W_a e(t_k)).

The paper says of both networks that they are deep; a hidden layer of ReLU in the one and of sigmoids in the other, with
batch normalisation before them, are those of microsoft/recommenders, which DRPN's authors compare with. Without it the
numbers of all news begin so much alike that the network hardly begins to learn.

Departs from the paper: words alone are read unless entities are asked for (`entities`). The paper stacks the vectors
of a word, of the entity that it names and of that entity's neighbours in the knowledge graph (its context) as channels
of one convolution. Here it is not known which word names an entity, so that entities have filters of their own, of
width 1 since they stand in no order, whose maxima stand beside those of the words; and neighbours of entities are not
known, so that there is no context channel.

Departs from the paper: a window may reach over the ends of a title, where words are zeros, so that titles shorter than
the widest window are read, too.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from drpn.batches.batch import Context, NewsRows, Profiles
from drpn.layers.attention import masked_softmax, where_present
from drpn.layers.convolution import WordConvolution, masked_max
from drpn.layers.gather import gather_rows
from drpn.layers.linear import Weight, aligned_linear, dot, joint_linear
from drpn.layers.news import Dropout, WordVectors, encode_by_length
from drpn.models.base import ClickModel, DataShape
from drpn.models.checks import check_positive, check_share

_LEAST_VARIANCE = 1e-4
"""Added to a variance before its root is divided by."""
_STEP = 0.05
"""How far one batch moves the mean and the variance that are used outside of training."""


@dataclass(frozen=True, kw_only=True)
class DknSettings:
    """DKN; the defaults are those of microsoft/recommenders, which DRPN's authors compare with."""

    size: int = 100
    """d: size of word vectors, and of entity vectors once they are transformed."""
    filters: int = 100
    """m: filters of each width."""
    window: int = 3
    """The widest window: there are filters of 1, 2, ... words up to this."""
    attention: int = 100
    """Hidden layer of the attention network H."""
    hidden: int = 300
    """Hidden layer of the prediction network G."""
    dropout: float = 0.0
    """On word and entity vectors."""
    entities: bool = False
    """Read the entities of titles, too; the folder must have been prepared with them."""

    def __post_init__(self) -> None:
        check_positive(self, "size", "filters", "window", "attention", "hidden")
        check_share(self, "dropout")


class Kcnn(nn.Module):
    """Filters of several widths and the maximum of each over a title (section 4.3)."""

    def __init__(self, size: int, filters: int, window: int) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList(WordConvolution(size, filters, width) for width in range(1, window + 1))
        self.nothing = nn.Parameter(torch.zeros(window * filters))

    def forward(self, items: Float[Tensor, "U W D"], mask: Bool[Tensor, "U W"]) -> Float[Tensor, "U F"]:
        """The vector of each title; a learned one where there is nothing in it."""
        # c^h_i = ReLU(h * W_[i:i+l-1] + b), and the maximum of c^h_i over i, for every filter h
        found = [masked_max(convolution(items, mask), mask) for convolution in self.convolutions]
        return where_present(torch.cat(found, dim=-1), mask.any(-1), self.nothing)


class Entities(nn.Module):
    """The entities of a title as one vector."""

    def __init__(self, settings: DknSettings, shape: DataShape) -> None:
        super().__init__()
        given = shape.entity_vectors
        width = settings.size if given is None else given.shape[1]
        self.vectors = WordVectors(shape.entities, width, given)
        self.dropout = Dropout(settings.dropout)
        self.transform = nn.Linear(width, settings.size)  # M and b of g
        self.kcnn = Kcnn(settings.size, settings.filters, window=1)

    def forward(self, entities: Int[Tensor, "U E"]) -> Float[Tensor, "U F"]:
        """The vector of each title; a learned one where it names nothing."""
        # g(e) = tanh(M e + b)
        vectors = self.dropout(self.vectors(entities))
        transformed = torch.tanh(aligned_linear(vectors, self.transform.weight, self.transform.bias))  # (U E D)
        found: Tensor = self.kcnn(transformed, entities != 0)
        return found


class PairNet(nn.Module):
    """v^T f(N(W [a; b])), where W [a; b] is W_a a + W_b b, and N is batch normalisation over the pairs that are there.

    There is no bias after v: it would be added to every logit of a softmax, and so to none.
    """

    mean: Tensor
    variance: Tensor

    def __init__(self, size: int, hidden: int, activation: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.clicked = nn.Linear(size, hidden, bias=False)
        self.candidate = nn.Linear(size, hidden, bias=False)
        self.scale = nn.Parameter(torch.ones(hidden))
        self.shift = nn.Parameter(torch.zeros(hidden))
        self.out = nn.Linear(hidden, 1, bias=False)
        self.activation = activation
        self.register_buffer("mean", torch.zeros(hidden))
        self.register_buffer("variance", torch.ones(hidden))

    def forward(
        self, clicked: Float[Tensor, "... A"], candidate: Float[Tensor, "... A"], there: Bool[Tensor, "..."]
    ) -> Float[Tensor, "..."]:
        """The number of each pair, given by its two halves W_a a and W_b b."""
        mean, variance = self._learn(clicked + candidate, there) if self.training else (self.mean, self.variance)
        slope = self.scale * torch.rsqrt(variance + _LEAST_VARIANCE)
        # N(x) = slope (x - mean) + shift, of each half by itself; in float32, as the slope is, whatever the halves are
        hidden = clicked * slope + ((candidate - mean) * slope + self.shift)
        return dot(self.activation(hidden), self.out.weight[0])

    def _learn(self, pairs: Float[Tensor, "... A"], there: Bool[Tensor, "..."]) -> tuple[Tensor, Tensor]:
        """Mean and variance of a batch, by which those that are used outside of training are moved."""
        count, kept, axes = there.sum(), there.unsqueeze(-1), tuple(range(there.dim()))
        wide = torch.promote_types(pairs.dtype, torch.float32)
        mean = torch.where(kept, pairs, 0).sum(axes, dtype=wide) / count.clamp(min=1)
        variance = torch.where(kept, pairs - mean, 0).square().sum(axes) / count.clamp(min=1)
        with torch.no_grad():
            for remembered, found in ((self.mean, mean), (self.variance, variance)):
                remembered.lerp_(torch.where(count > 0, found, remembered), _STEP)
        return mean, variance


class Halves(NamedTuple):
    """What a news brings to the first layer of each network."""

    attention: Float[Tensor, "... A"]
    prediction: Float[Tensor, "... P"]


class DknRows(NamedTuple):
    """What is known of some news before any user comes in: their halves of both networks, side by side."""

    clicked: Float[Tensor, "U AP"]
    candidate: Float[Tensor, "U AP"]


class DknReaders(NamedTuple):
    """What each user clicked; a vector there is only once a candidate is known."""

    clicked: Float[Tensor, "B H AP"]
    mask: Bool[Tensor, "B H"]


class Dkn(ClickModel):
    """Reads those clicked titles that have to do with the candidate; ignores what was skipped, and in which order."""

    def __init__(self, settings: DknSettings, shape: DataShape) -> None:
        super().__init__()
        self.settings = settings
        width = settings.filters * (settings.window + settings.entities)
        self.words = WordVectors(shape.words, settings.size, shape.vectors)
        self.dropout = Dropout(settings.dropout)
        self.title = Kcnn(settings.size, settings.filters, settings.window)
        self.entities = Entities(settings, shape) if settings.entities else None
        self.attention = PairNet(width, settings.attention, torch.relu)
        self.prediction = PairNet(width, settings.hidden, torch.sigmoid)
        self.nothing = nn.Parameter(torch.zeros(settings.hidden))

    @property
    def reads(self) -> tuple[str, ...]:
        """Clicked news alone."""
        return ("clicked",)

    @property
    def needs(self) -> tuple[str, ...]:
        """Entities, when they are read."""
        return ("entities",) if self.settings.entities else ()

    def encode_news(self, news: NewsRows) -> DknRows:
        """Section 4.3: e(t), of which the two networks take their halves."""
        vector = encode_by_length(self._read_title, news.words)
        if self.entities is not None:
            vector = torch.cat([vector, self.entities(news.entities)], dim=-1)
        networks = self.attention, self.prediction
        return DknRows(
            clicked=joint_linear(vector, [Weight.from_layer(network.clicked) for network in networks]),
            candidate=joint_linear(vector, [Weight.from_layer(network.candidate) for network in networks]),
        )

    def _read_title(self, words: Int[Tensor, "U W"]) -> Float[Tensor, "U F"]:
        found: Tensor = self.title(self.dropout(self.words(words)), words != 0)
        return found

    def read(self, encoded: DknRows, profiles: Profiles) -> DknReaders:
        """The clicked news."""
        return DknReaders(gather_rows(encoded.clicked, profiles.clicked), profiles.clicked_mask)

    def match(
        self, encoded: DknRows, readers: DknReaders, candidates: Int[Tensor, "B C"], context: Context
    ) -> Float[Tensor, "B C"]:
        """Section 4.4: the user for each candidate, then the score of the two."""
        own = self._halves(readers.clicked)
        candidate = self._halves(gather_rows(encoded.candidate, candidates))
        # W_a e(i) with e(i) = sum over k of s_k e(t_k)
        weight = self.weigh(own.attention, candidate.attention, readers.mask, candidates != 0)
        user = weight.to(own.prediction.dtype) @ own.prediction  # (B C P)
        user = where_present(user, readers.mask.any(-1, keepdim=True), self.nothing)
        # G(e(i), e(t_j))
        score: Tensor = self.prediction(user, candidate.prediction, candidates != 0)
        return score

    def weigh(
        self,
        clicked: Float[Tensor, "B H A"],
        candidate: Float[Tensor, "B C A"],
        clicked_mask: Bool[Tensor, "B H"],
        candidate_mask: Bool[Tensor, "B C"],
    ) -> Float[Tensor, "B C H"]:
        """How much each clicked news counts for each candidate."""
        there = clicked_mask.unsqueeze(1) & candidate_mask.unsqueeze(2)  # (B C H)
        # s_k = softmax over k of H(e(t_k), e(t_j))
        logits = self.attention(clicked.unsqueeze(1), candidate.unsqueeze(2), there)
        return masked_softmax(logits, clicked_mask.unsqueeze(1))

    def _halves(self, both: Float[Tensor, "... AP"]) -> Halves:
        return Halves(*torch.split(both, [self.settings.attention, self.settings.hidden], dim=-1))
