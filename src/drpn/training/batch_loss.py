"""The loss of the samples of one step: look up the model's inputs, plant feedback, score, compare."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from drpn.batches.batch import Batch, NewsRows, Profiles, distinct_stories
from drpn.batches.planted import Planted, click_odds, half_of_each, plant_clicks_of_others, swap_clicks_and_skips
from drpn.batches.tables import Tables
from drpn.layers.precision import matrix_precision
from drpn.models.base import ClickModel, Trust
from drpn.training.loss import click_loss, log_loss, taught_loss, truncated_loss
from drpn.training.planted import planted_from, planted_loss, trained_part
from drpn.training.settings import TrainingSettings

Inputs = tuple[NewsRows, Batch]
"""The distinct stories of a batch, and the batch with positions into them."""

_TAUGHT = 0.8
"""Share of the teachers' scores in the loss, if there are teachers; the rest is that of clicks."""


class Samples(NamedTuple):
    """The samples of one step, and the model's inputs if they have been looked up in advance."""

    readers: Int[Tensor, "B"]
    candidates: Int[Tensor, "B C"]
    moments: Int[Tensor, "B"]
    pairs: Int[Tensor, "B C"]
    inputs: Inputs | None = None

    @property
    def size(self) -> int:
        """The number of samples."""
        return len(self.readers)

    def part(self, which: slice) -> "Samples":
        """Some of the samples, without inputs."""
        return Samples(self.readers[which], self.candidates[which], self.moments[which], self.pairs[which])


@dataclass
class BatchLoss:
    """Computes the loss of a model on some samples."""

    model: ClickModel
    tables: Tables
    settings: TrainingSettings
    clicks: bool = True
    """Learn to predict clicks; without, only from planted feedback."""

    def __post_init__(self) -> None:
        # on the device, in one place: a captured step reads it there
        self._dropped = torch.zeros((), dtype=torch.int64, device=self.device)
        chosen = self.settings, self.tables, self.model
        self._part = trained_part(*chosen) if self.settings.plants else None
        self._from = planted_from(*chosen) if self.settings.plants else None
        self._odds = self._swap_odds().to(self.device) if self._from in ("skips", "both") else None

    @property
    def device(self) -> torch.device:
        """The device of the model."""
        return next(self.model.parameters()).device

    def look_up(self, samples: Samples, capacity: int | None = None) -> Inputs:
        """The model's inputs for some samples; with a capacity, nothing waits for a count."""
        all_news = self.tables.news
        batch = self.tables.batch(*samples[:4], trim=capacity is None)
        rows, local = distinct_stories(batch, news=len(all_news), capacity=capacity, reach=all_news.neighbour_positions)
        return all_news.select(rows), local

    def plant(self, news: NewsRows, batch: Batch) -> Planted | None:
        """The profiles of a batch with planted stories, all of them stories of the batch; None if that is off."""
        settings = self.settings
        if self.clicks and not settings.planted:
            return None
        share, skips = settings.planted_share, settings.planted_skips
        if self._from == "others":
            return plant_clicks_of_others(batch.profiles, share=share, skips=skips)
        assert self._odds is not None
        swapped = swap_clicks_and_skips(batch.profiles, self._odds[news.rows], share=share, skips=skips)
        if self._from == "skips":
            return swapped
        return half_of_each(swapped, plant_clicks_of_others(batch.profiles, share=share, skips=skips))

    def _swap_odds(self) -> Float[Tensor, "news"]:
        """How often each story is drawn among skips. Labels do not tell how popular a story is, so any may be drawn."""
        return torch.ones(len(self.tables.news)) if self._part == "labels" else click_odds(self.tables)

    def loss(self, news: NewsRows, batch: Batch, planted: Planted | None = None) -> Float[Tensor, ""]:
        """The loss of a batch with positions into the stories, which are encoded once."""
        device = batch.candidates.device
        fixed = self._encode_fixed(news, device) if self._part == "weights" and not self.clicks else None
        with matrix_precision(self.settings.precision, device):
            encoded = self.model.encode_news(news) if self.clicks or self._part == "vectors" else fixed
            scores = self.model.score(encoded, batch) if self.clicks else None
            trust = {} if planted is None else self._trust(news, encoded, planted.profiles)
        losses = [] if scores is None else [self._click_loss(scores, batch)]
        if planted is not None:
            losses.append((self.settings.planted if self.clicks else 1.0) * planted_loss(trust, planted))
        return losses[0] if len(losses) == 1 else losses[0] + losses[1]

    def _encode_fixed(self, news: NewsRows, device: torch.device) -> Any:
        """The encoded stories, where nothing trains their encoders."""
        # a context of its own: some versions of torch keep the weights that it casts, here without their gradients
        with matrix_precision(self.settings.precision, device), torch.no_grad():
            return self.model.encode_news(news)

    def _trust(self, news: NewsRows, encoded: Any, profiles: Profiles) -> Trust:
        """The part of the trust in planted profiles that planted feedback trains."""
        if self._part == "labels":
            return self.model.label_trust(news, profiles)
        return self.model.trust(encoded, profiles, vectors=self._part == "vectors")

    def _click_loss(self, scores: Float[Tensor, "B C"], batch: Batch) -> Float[Tensor, ""]:
        mask, taught = batch.candidate_mask, batch.context.taught
        if self.settings.loss == "tce":
            return self._truncated_loss(scores, mask)
        clicked = (log_loss if self.settings.loss == "log" else click_loss)(scores, mask)
        if not taught.numel():
            return clicked
        return (1 - _TAUGHT) * clicked + _TAUGHT * taught_loss(scores, taught, mask)

    def _truncated_loss(self, scores: Float[Tensor, "B C"], mask: Bool[Tensor, "B C"]) -> Float[Tensor, ""]:
        return truncated_loss(scores, mask, self._dropped)
