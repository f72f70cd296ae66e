"""DKN: convolutions over words and the entities they name, and attention over clicked stories for each candidate.

Wang, Zhang, Xie and Guo, "DKN: Deep Knowledge-Aware Network for News Recommendation", WWW 2018. Section numbers and
symbols are the paper's; `docs/paper-map.md` lists them with their tests.

Both networks start with a layer W [a; b], where b is a candidate and a is a clicked story or a user. It is computed as
W_a a + W_b b, each half once per story. Because the user is e(i) = sum of s_k e(t_k), its half W_a e(i) is computed as
the sum of s_k (W_a e(t_k)).

The paper only says that both networks are deep. As in microsoft/recommenders, with which DRPN's authors compare, each
has one hidden layer with batch normalisation, then ReLU in H and sigmoids in G. Without the normalisation the values of
all stories start so similar that training hardly makes progress.

The vectors of a word, of the entity that it names and of that entity's context (the mean of its neighbours in the
knowledge graph) are the channels of one convolution: they are concatenated, so a filter has a weight for each number of
each channel. A dataset without entities has the channel of words alone, one without context vectors those of words and
entities. A word that names no entity has e = 0.

Departs from the paper: a window may reach over the ends of a title, where words are zeros, so that titles shorter than
the widest window can be read.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import embedding

from drpn.batches.batch import Context, NewsRows, Profiles
from drpn.layers.attention import masked_softmax, where_present
from drpn.layers.convolution import WordConvolution, masked_max
from drpn.layers.gather import gather_rows
from drpn.layers.linear import Weight, aligned_linear, dot, joint_linear
from drpn.layers.news import Dropout, WordVectors, encode_by_length
from drpn.layers.normalisation import masked_moments
from drpn.layers.tables import weighted_sums
from drpn.models.base import ClickModel, DataShape, ModelSettings
from drpn.models.checks import check_positive, check_share

CHANNELS = ("words", "entities", "contexts")
"""Each has the channels before it, too."""
_EPSILON = 1e-4
"""Added to the variance in batch normalisation."""
_MOMENTUM = 0.05
"""The weight of a batch in the running mean and variance."""


@dataclass(frozen=True, kw_only=True)
class DknSettings(ModelSettings):
    """DKN; the defaults are those of microsoft/recommenders, which DRPN's authors compare with."""

    size: int = 100
    """d: size of word vectors, and of transformed entity and context vectors."""
    channels: Literal["auto", "words", "entities", "contexts"] = "auto"
    """Input of the convolution. words: words alone; entities: words and the entities that they name; contexts: words,
    entities and contexts of entities. auto: all that the dataset has."""
    filters: int = 100
    """m: filters of each width."""
    window: int = 3
    """Width of the widest filters; there are filters of 1, 2, ... words up to it."""
    attention: int = 100
    """Size of the hidden layer of the attention network H."""
    hidden: int = 300
    """Size of the hidden layer of the prediction network G."""
    train_entities: bool = False
    """Train the entity and context vectors of files further. Off: they stay as they are, and an entity that a file does
    not have has zeros. Vectors that no file gives are always trained."""
    normalisation: bool = True
    """Batch normalisation in H and G; the paper does not have it."""
    dropout: float = 0.0
    """Dropout on the channels of each word."""

    def __post_init__(self) -> None:
        check_positive(self, "size", "filters", "window", "attention", "hidden")
        check_share(self, "dropout")


class Kcnn(nn.Module):
    """Section 4.3: filters of several widths, and the maximum of each over a title."""

    def __init__(self, size: int, filters: int, window: int) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList(WordConvolution(size, filters, width) for width in range(1, window + 1))
        self.nothing = nn.Parameter(torch.zeros(window * filters))

    def forward(self, items: Float[Tensor, "U W D"], mask: Bool[Tensor, "U W"]) -> Float[Tensor, "U F"]:
        """The vector of each title; a learned one if it is empty."""
        # c^h_i = ReLU(h * W_[i:i+l-1] + b), and the maximum of c^h_i over i, for every filter h
        maxima = [masked_max(convolution(items, mask), mask) for convolution in self.convolutions]
        return where_present(torch.cat(maxima, dim=-1), mask.any(-1), self.nothing)


class FixedVectors(nn.Module):
    """Vectors of entities that training does not change."""

    table: Tensor

    def __init__(self, vectors: NDArray[np.float32]) -> None:
        super().__init__()
        self.register_buffer("table", torch.from_numpy(np.array(vectors)))

    def forward(self, entities: Int[Tensor, "U W"]) -> Float[Tensor, "U W D"]:
        """The vector of each entity."""
        return embedding(entities, self.table)


class Knowledge(nn.Module):
    """One channel: g(e) = tanh(M e + b) of the entity that each word names, or of that entity's context."""

    def __init__(self, size: int, entities: int, vectors: NDArray[np.float32] | None, *, train: bool) -> None:
        super().__init__()
        width = size if vectors is None else vectors.shape[1]
        if train or vectors is None:
            self.vectors: nn.Module = WordVectors(max(entities, 1), width, vectors)  # at least the row of padding
        else:
            self.vectors = FixedVectors(vectors)
        self.transform = nn.Linear(width, size)  # M and b

    def forward(self, entities: Int[Tensor, "U W"]) -> Float[Tensor, "U W D"]:
        """The channel's vector of each word; e is 0 for a word that names no entity."""
        vectors = self.vectors(entities) * (entities != 0).unsqueeze(-1)
        return torch.tanh(aligned_linear(vectors, self.transform.weight, self.transform.bias))


class PairNet(nn.Module):
    """v^T f(N(W [a; b])), where W [a; b] is W_a a + W_b b, and N is batch normalisation over all real pairs.

    Without normalisation, N adds a bias. There is no bias after v: it changes no softmax, and with
    the log loss the hidden layer can give a constant.
    """

    mean: Tensor
    variance: Tensor

    def __init__(
        self, size: int, hidden: int, activation: Callable[[Tensor], Tensor], *, normalisation: bool = True
    ) -> None:
        super().__init__()
        self.normalisation = normalisation
        self.clicked = nn.Linear(size, hidden, bias=False)
        self.candidate = nn.Linear(size, hidden, bias=False)
        if normalisation:
            self.scale = nn.Parameter(torch.ones(hidden))
            self.register_buffer("mean", torch.zeros(hidden))
            self.register_buffer("variance", torch.ones(hidden))
        self.shift = nn.Parameter(torch.zeros(hidden))
        self.out = nn.Linear(hidden, 1, bias=False)
        self.activation = activation

    def forward(
        self, clicked: Float[Tensor, "... A"], candidate: Float[Tensor, "... A"], mask: Bool[Tensor, "..."]
    ) -> Float[Tensor, "..."]:
        """The output for each pair, from its two halves W_a a and W_b b."""
        normal = self._normalise if self.normalisation else self._add_bias
        return dot(self.activation(normal(clicked, candidate, mask)), self.out.weight[0])

    def _add_bias(
        self, clicked: Float[Tensor, "... A"], candidate: Float[Tensor, "... A"], mask: Bool[Tensor, "..."]
    ) -> Float[Tensor, "... A"]:
        del mask  # only statistics depend on it
        return clicked + (candidate + self.shift)

    def _normalise(
        self, clicked: Float[Tensor, "... A"], candidate: Float[Tensor, "... A"], mask: Bool[Tensor, "..."]
    ) -> Float[Tensor, "... A"]:
        mean, variance = self.mean, self.variance
        if self.training:
            mean, variance = masked_moments(clicked + candidate, mask)
            self._update(mean, variance, mask)
        slope = self.scale * torch.rsqrt(variance + _EPSILON)
        # N(x) = slope (x - mean) + shift, applied to each half
        return clicked * slope + ((candidate - mean) * slope + self.shift)

    def _update(self, mean: Float[Tensor, "A"], variance: Float[Tensor, "A"], mask: Bool[Tensor, "..."]) -> None:
        """Move the running mean and variance towards those of a batch, unless it has no pairs."""
        with torch.no_grad():
            for running, current in ((self.mean, mean), (self.variance, variance)):
                running.lerp_(torch.where(mask.any(), current, running), _MOMENTUM)


class Halves(NamedTuple):
    """A story's half of the first layer of each network."""

    attention: Float[Tensor, "... A"]
    prediction: Float[Tensor, "... P"]


class DknRows(NamedTuple):
    """The stored values of each story: its halves of both networks, concatenated, in each role."""

    clicked: Float[Tensor, "U AP"]
    candidate: Float[Tensor, "U AP"]


class DknReaders(NamedTuple):
    """The clicked stories of each user; a user vector depends on the candidate."""

    clicked: Float[Tensor, "B H AP"]
    mask: Bool[Tensor, "B H"]


class Dkn(ClickModel[DknRows, DknReaders]):
    """Reads clicked titles, in any order, weighted for each candidate; does not read skipped stories."""

    def __init__(self, settings: DknSettings, shape: DataShape) -> None:
        super().__init__()
        self.settings: DknSettings = settings
        self.channels = _channels(settings, shape)
        width = settings.filters * settings.window
        self.words = WordVectors(shape.words, settings.size, shape.vectors)
        tables = {"entities": shape.entity_vectors, "contexts": shape.context_vectors}
        self.knowledge = nn.ModuleDict(
            {
                name: Knowledge(settings.size, shape.entities, tables[name], train=settings.train_entities)
                for name in self.channels[1:]
            }
        )
        self.dropout = Dropout(settings.dropout)
        self.title = Kcnn(settings.size * len(self.channels), settings.filters, settings.window)
        normalisation = settings.normalisation
        self.attention = PairNet(width, settings.attention, torch.relu, normalisation=normalisation)
        self.prediction = PairNet(width, settings.hidden, torch.sigmoid, normalisation=normalisation)
        self.nothing = nn.Parameter(torch.zeros(settings.hidden))

    @property
    def reads(self) -> tuple[str, ...]:
        """Clicked stories only."""
        return ("clicked",)

    @property
    def needs(self) -> tuple[str, ...]:
        """Entities and contexts, if the model reads them."""
        return self.channels[1:]

    @property
    def content(self) -> str:
        """The channels."""
        return " + ".join(self.channels)

    def encode_news(self, news: NewsRows) -> DknRows:
        """Section 4.3: e(t), and its halves of the two networks."""
        vector = encode_by_length(self._encode_title, news.words, *([news.entities] if self.knowledge else []))
        networks = self.attention, self.prediction
        return DknRows(
            clicked=joint_linear(vector, [Weight.from_layer(network.clicked) for network in networks]),
            candidate=joint_linear(vector, [Weight.from_layer(network.candidate) for network in networks]),
        )

    def _encode_title(self, words: Int[Tensor, "U W"], *entities: Int[Tensor, "U W"]) -> Float[Tensor, "U F"]:
        # W = [[w_1; g(e_1); g(e-bar_1)] ... [w_n; g(e_n); g(e-bar_n)]]
        channels = [self.words(words), *(channel(*entities) for channel in self.knowledge.values())]
        title: Tensor = self.title(self.dropout(torch.cat(channels, dim=-1)), words != 0)
        return title

    def read(self, encoded: DknRows, profiles: Profiles) -> DknReaders:
        """The clicked stories."""
        return DknReaders(gather_rows(encoded.clicked, profiles.clicked), profiles.clicked_mask)

    def match(
        self, encoded: DknRows, readers: DknReaders, candidates: Int[Tensor, "B C"], context: Context
    ) -> Float[Tensor, "B C"]:
        """Section 4.4: the user vector for each candidate, then the score."""
        clicked = self._halves(readers.clicked)
        candidate = self._halves(gather_rows(encoded.candidate, candidates))
        # W_a e(i) with e(i) = sum over k of s_k e(t_k)
        weight = self.click_weights(clicked.attention, candidate.attention, readers.mask, candidates != 0)
        user = weighted_sums(weight, clicked.prediction)  # (B C P)
        user = where_present(user, readers.mask.any(-1, keepdim=True), self.nothing)
        # G(e(i), e(t_j))
        score: Tensor = self.prediction(user, candidate.prediction, candidates != 0)
        return score

    def click_weights(
        self,
        clicked: Float[Tensor, "B H A"],
        candidate: Float[Tensor, "B C A"],
        clicked_mask: Bool[Tensor, "B H"],
        candidate_mask: Bool[Tensor, "B C"],
    ) -> Float[Tensor, "B C H"]:
        """The weight of each clicked story for each candidate."""
        pairs = clicked_mask.unsqueeze(1) & candidate_mask.unsqueeze(2)  # (B C H)
        # s_k = softmax over k of H(e(t_k), e(t_j))
        logits = self.attention(clicked.unsqueeze(1), candidate.unsqueeze(2), pairs)
        return masked_softmax(logits, clicked_mask.unsqueeze(1))

    def _halves(self, both: Float[Tensor, "... AP"]) -> Halves:
        return Halves(*torch.split(both, [self.settings.attention, self.settings.hidden], dim=-1))


def _channels(settings: DknSettings, shape: DataShape) -> tuple[str, ...]:
    """The channels that the settings ask for; with `auto`, those that the dataset has."""
    if settings.channels == "auto":
        has_contexts = shape.entities > 0 and shape.context_vectors is not None
        return CHANNELS[: 1 + (shape.entities > 0) + has_contexts]
    return CHANNELS[: 1 + CHANNELS.index(settings.channels)]
