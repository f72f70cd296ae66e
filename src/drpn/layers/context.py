"""A score from what a site knows at the moment of ranking: running counts, the page and the reader.

Each feature enters as its quantile in training, as its standardised value, and by a learned function that is linear
between quantiles (Gorishniy et al., NeurIPS 2022). Residual blocks follow, each with a norm, a hidden layer and
dropout. With attention over the list, every candidate also reads the others of its page.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from drpn.layers.attention import masked_softmax
from drpn.state.count_columns import HALF_LIVES, PAGE, PAIR, USER_PAGE, USER_PAIR

_QUANTILES = 256
_MOST = 5.0
"""Standardised values are cut at this many standard deviations."""
_PIECES, _PIECE_SIZE = 12, 8
"""Pieces of the learned function of a feature, and how many numbers it has."""
_INPUT_DROPOUT = 0.1
"""Share of the features that training hides; on validation days of EB-NeRD 0.1 was better than none, 0.3 worse."""
_PAIR = {name: place for place, name in enumerate(PAIR)}
_PAGE = {name: place for place, name in enumerate(PAGE)}
_SURFACE_LIVES = ("2 h", "48 h")
TEXT = (
    "similarity to clicks",
    "similarity to recent clicks",
    "similarity to recent skips",
    "similarity to readers by text",
    "similarity to readers by taste",
    "similarity to taste",
    "similarity to page",
    "has text",
)
"""Features that read texts."""


@dataclass(frozen=True)
class LiveShape:
    """The sizes of a dataset of the live protocol."""

    user: tuple[int, ...] = ()
    """How many codes each column of the reader has."""


def derive(pair: Float[Tensor, "... P"], page: Float[Tensor, "... Q"]) -> Float[Tensor, "... F"]:
    """The features of candidates, from the columns of PAIR and, repeated for each candidate, of PAGE.

    Counts are stored as log(1 + count). Rates and shares are smoothed, so that a few events say little.
    """

    def of(name: str) -> Tensor:
        return pair[..., _PAIR[name]]

    def at(name: str) -> Tensor:
        return page[..., _PAGE[name]]

    def rate(clicks: Tensor, shows: Tensor, add: float, smooth: float) -> Tensor:
        return (torch.expm1(clicks) + add) / (torch.expm1(shows) + smooth)

    rates = [rate(of(f"clicks {life}"), of(f"shows {life}"), 0.45, 5) for life in HALF_LIVES]
    rates += [rate(of(f"surface clicks {life}"), of(f"surface shows {life}"), 0.45, 5) for life in _SURFACE_LIVES]
    shares = [rate(of(f"clicks {life}"), at(f"all clicks {life}"), 0.1, 10).log() for life in HALF_LIVES]
    shares += [rate(of(f"shows {life}"), at(f"all shows {life}"), 0.5, 50).log() for life in HALF_LIVES]
    shown, clicked = torch.expm1(of("times shown to user")), torch.expm1(of("times clicked by user"))
    others = [
        rate(of("category clicks"), of("category shows"), 1, 10),
        rate(of("clicks from page"), at("all clicks from page"), 0.2, 10),
    ]
    of_user = [
        rate(of("group clicks 8 h"), of("group shows 8 h"), 0.45, 5),
        rate(of("user category clicks"), of("user category shows"), 0.18, 2),
        rate(of("user category clicks 2 h"), of("user category shows 2 h"), 0.18, 2),
        rate(of("clicks after last click"), at("all clicks after last click"), 0.2, 10),
        rate(at("user clicks"), at("user shows"), 0.45, 5),
        shown / (torch.expm1(at("user page views")) + 1),
        shown - 3 * clicked,
    ]
    return torch.cat([pair, page, torch.stack([*rates, *shares, *others, *of_user], dim=-1)], dim=-1)


_DERIVED_OF_USER = 7
FEATURES = len(PAIR) + len(PAGE) + 3 * len(HALF_LIVES) + len(_SURFACE_LIVES) + 2 + _DERIVED_OF_USER
"""The number of features that `derive` returns; the last ones know who reads."""


class Quantiles(nn.Module):
    """Each feature as its quantile among the samples, from -1 to 1, and its standardised value."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.edges: Tensor
        self.mean: Tensor
        self.spread: Tensor
        self.register_buffer("edges", torch.zeros(features, _QUANTILES))
        self.register_buffer("mean", torch.zeros(features))
        self.register_buffer("spread", torch.ones(features))

    def fit(self, samples: Float[Tensor, "samples F"]) -> None:
        """Learn quantiles, means and standard deviations."""
        samples = samples.float().cpu()
        levels = (torch.arange(_QUANTILES, dtype=torch.float64) + 0.5) / _QUANTILES
        place = (levels * len(samples)).long()
        self.edges.copy_(samples.sort(0).values[place].T)
        self.mean.copy_(samples.mean(0))
        self.spread.copy_(samples.std(0).clamp_min(1e-6))

    def forward(self, values: Float[Tensor, "N F"]) -> Float[Tensor, "N 2F"]:
        """Both forms of each feature."""
        columns = values.T.contiguous()
        below = torch.searchsorted(self.edges, columns)
        upto = torch.searchsorted(self.edges, columns, right=True)
        quantile = (below + upto).to(values.dtype).T / _QUANTILES - 1  # the middle of equal values
        standard = ((values - self.mean) / self.spread).clamp(-_MOST, _MOST)
        return torch.cat([quantile, standard], dim=-1)


class Pieces(nn.Module):
    """A learned function of each feature: linear between quantiles of training, then rectified."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(0.1 * torch.randn(features, _PIECES, _PIECE_SIZE))

    def forward(self, values: Float[Tensor, "... F"], edges: Float[Tensor, "F Q"]) -> Float[Tensor, "... G"]:
        """The values of the functions; `edges` are quantiles of the features."""
        ends = edges[:, torch.linspace(0, edges.shape[1] - 1, _PIECES + 1, device=edges.device).long()]
        low, high = ends[:, :-1], ends[:, 1:]
        along = ((values.unsqueeze(-1) - low) / (high - low).clamp_min(1e-6)).clamp(0, 1)  # of each piece
        read: Tensor = torch.einsum("...fp,fpe->...fe", along, self.weight).relu().flatten(-2)
        return read


class Residual(nn.Module):
    """x + a hidden layer of norm(x)."""

    def __init__(self, size: int, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(size)
        self.inner = nn.Linear(size, 2 * size)
        self.outer = nn.Linear(2 * size, size)
        self.dropout = nn.Dropout(dropout)

    def forward(self, values: Float[Tensor, "... D"]) -> Float[Tensor, "... D"]:
        """The values with what the layer adds."""
        hidden = torch.nn.functional.gelu(self.inner(self.norm(values)))
        added: Tensor = self.dropout(self.outer(self.dropout(hidden)))
        return values + added


class ListAttention(nn.Module):
    """Every candidate reads the others of its page."""

    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(size)
        self.project = nn.Linear(size, 3 * size)
        self.out = nn.Linear(size, size)

    def forward(self, values: Float[Tensor, "B C D"], mask: Bool[Tensor, "B C"]) -> Float[Tensor, "B C D"]:
        """The candidates with what they read."""
        parts = self.project(self.norm(values)).chunk(3, dim=-1)
        query, key, value = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts)  # (B h C d)
        logits = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
        read = masked_softmax(logits, mask[:, None, None, :]) @ value
        added: Tensor = self.out(read.transpose(1, 2).flatten(-2))
        return values + added


class ContextView(nn.Module):
    """Scores candidates by counts, page and reader."""

    def __init__(
        self,
        shape: LiveShape,
        *,
        size: int = 256,
        blocks: int = 3,
        dropout: float = 0.3,
        attention: bool = False,
        user: bool = True,
        text: bool = True,
    ) -> None:
        super().__init__()
        self.places: Tensor
        self.register_buffer("places", _places(user=user, text=text), persistent=False)
        features = len(self.places)
        self.quantiles = Quantiles(features)
        self.pieces = Pieces(features)
        self.columns = nn.ModuleList([nn.Embedding(codes, 8) for codes in shape.user] if user else [])
        relative = features + 1 if attention else 0
        width = (2 + _PIECE_SIZE) * features + 8 * len(self.columns) + relative
        self.first = nn.Linear(width, size)
        self.blocks = nn.ModuleList([Residual(size, dropout) for _ in range(blocks)])
        self.attention = ListAttention(size, 8) if attention else None
        self.norm = nn.LayerNorm(size, bias=False)  # a constant of all scores has no effect
        self.out = nn.Linear(size, 1, bias=False)
        self.dropout = nn.Dropout(_INPUT_DROPOUT)

    def fit(self, features: Float[Tensor, "samples F"]) -> None:
        """Learn the quantiles of the features from samples."""
        self.quantiles.fit(features[:, self.places.cpu()])

    def forward(
        self,
        pair: Float[Tensor, "B C P"],
        page: Float[Tensor, "B Q"],
        codes: Int[Tensor, "B K"],
        mask: Bool[Tensor, "B C"],
    ) -> Float[Tensor, "B C"]:
        """The score of each candidate, from the counts and the codes of the reader's columns."""
        kind = self.first.weight.dtype
        features = derive(pair.to(kind), page.to(kind).unsqueeze(1).expand(-1, pair.shape[1], -1))[..., self.places]
        values = self.quantiles(features.flatten(0, 1)).unflatten(0, features.shape[:2])
        parts = [self.dropout(values), self.pieces(features, self.quantiles.edges)]
        if len(self.columns):
            reader = torch.cat([table(codes[:, place].long()) for place, table in enumerate(self.columns)], dim=-1)
            parts.append(reader.unsqueeze(1).expand(-1, values.shape[1], -1))
        if self.attention is not None:
            # in view: how each candidate differs from its page, and how long the page is
            quantile, present = values[..., : len(self.places)], mask.unsqueeze(-1).to(values.dtype)
            length = present.sum(1, keepdim=True).clamp_min(1)
            mean = (quantile * present).sum(1, keepdim=True) / length
            parts += [quantile - mean, length.log().expand(-1, values.shape[1], -1) / 4]
        hidden = self.first(torch.cat(parts, dim=-1))
        for place, block in enumerate(self.blocks):
            hidden = block(hidden)
            if self.attention is not None and place == 0:
                hidden = self.attention(hidden, mask)
        score: Tensor = self.out(self.norm(hidden)).squeeze(-1)
        return score


def _places(*, user: bool, text: bool) -> Int[Tensor, "F"]:
    """The places of the features that a view reads."""
    left_out = {*(() if user else (*USER_PAIR, *USER_PAGE)), *(() if text else TEXT)}
    places = [place for place, name in enumerate((*PAIR, *PAGE)) if name not in left_out]
    return torch.tensor([*places, *range(len(PAIR) + len(PAGE), FEATURES - (0 if user else _DERIVED_OF_USER))])
