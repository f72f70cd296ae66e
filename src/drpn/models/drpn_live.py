"""DRPN on a live site: a third view reads the counts of the moment.

The score is the sum of the views' scores, as in section 4.7 of the paper; those of the views of profiles are multiplied
by a learned factor. Each view can be left out.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from drpn.batches.batch import Context, NewsRows
from drpn.models.base import DataShape
from drpn.models.drpn import Drpn, DrpnSettings, Encoded, Readers


@dataclass(frozen=True, kw_only=True)
class DrpnLiveSettings(DrpnSettings):
    """DRPN with the context view; the other settings are DRPN's."""

    size: int = 60
    context: bool = True
    text: bool = True
    """Use titles: the semantic view, and the counts that compare texts if `context_text` is on."""
    graph: bool = False
    """Use id vectors, the graph network and their collaborative view. Off by default: on a small log they learn its
    clicks by heart, and most stories of tomorrow are new."""
    fixed_words: bool = True
    """Keep word vectors as they were at the start; trained further, they learn small logs by heart."""
    view_scale: float = 0.01
    """Factor of the scores of the semantic and the collaborative view at the start; it is learned further. A small one
    lets the counts learn first, and adds no noise where the two views have little time to learn."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.text or self.graph or self.context):
            raise ValueError("text is False, and so are graph and context; keep one of them")


LIVE_ABLATIONS = {
    "drpn-live-ids": DrpnLiveSettings(graph=True),
    "drpn-live-no-text": DrpnLiveSettings(text=False, context_text=False),
    "drpn-live-no-counts": DrpnLiveSettings(context=False),
    "drpn-live-no-user": DrpnLiveSettings(text=False, context_user=False),
}
"""drpn-live with ids and graph; without titles, without counts, and without anything that knows the user."""


class DrpnLive(Drpn):
    """DRPN whose score also knows the counts of the moment."""

    settings: DrpnLiveSettings

    def __init__(self, settings: DrpnLiveSettings, shape: DataShape) -> None:
        super().__init__(settings, shape)
        if not settings.text:
            del self.title, self.semantic
        elif settings.fixed_words:
            self.title.words.table.requires_grad_(False)
        if settings.context and (settings.text or settings.graph):
            self.scale = nn.Parameter(torch.tensor(settings.view_scale))

    @property
    def reads(self) -> tuple[str, ...]:
        """The sequences of a profile, if there is a view that reads them."""
        return super().reads if self.settings.text or self.settings.graph else ()

    @property
    def denoises(self) -> bool:
        """Whether there are views with denoising aggregators."""
        return super().denoises and bool(self.reads)

    def encode_news(self, news: NewsRows) -> Encoded:
        """The views that the settings keep."""
        if self.settings.text:
            return super().encode_news(news)
        return {"collaborative": self.encode_ids(news)} if self.settings.graph else {}

    def match(
        self, encoded: Encoded, readers: Readers, candidates: Int[Tensor, "B C"], context: Context
    ) -> Float[Tensor, "B C"]:
        """The scores of the views of profiles, times a learned factor if there are counts; zeros if both are off."""
        if not encoded:
            return torch.zeros(candidates.shape, device=candidates.device)
        scores = super().match(encoded, readers, candidates, context)
        return self.scale * scores if self.settings.context else scores
