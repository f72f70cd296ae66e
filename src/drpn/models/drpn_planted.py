"""DRPN that is trained to find noise: it also compares labels, and weighs stories by how likely they are real.

The training loss behind it is planted feedback (`training/planted.py`); docs/denoising.md tells what each part gives.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

import torch

from drpn.batches.batch import NewsRows, Profiles
from drpn.layers.calibration import Calibration
from drpn.layers.labels import LabelEvidence, Labels
from drpn.models.base import DataShape, Trust
from drpn.models.drpn import DenoisingAggregator, Drpn, DrpnSettings, Encoded

DenoisingWeights = Literal["softmax", "probability"]


@dataclass(frozen=True, kw_only=True)
class DrpnPlantedSettings(DrpnSettings):
    """DRPN that finds noise; the other settings are DRPN's."""

    similar_start: bool = True
    compare_labels: bool = True
    """Let the denoising aggregators of both views compare stories by category and subcategory, too."""
    weights: DenoisingWeights = "probability"
    """How trust becomes the weights of the denoising aggregators: by softmax, as in the paper, or in proportion to the
    probability that a story was not planted. Such weights leave out noise and are otherwise even. They need planted
    feedback."""
    former: ClassVar[dict[str, Any]] = DrpnSettings.former | {"compare_labels": False, "weights": "softmax"}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.weights not in get_args(DenoisingWeights):
            raise ValueError(f"weights is {self.weights!r}; it takes {' or '.join(get_args(DenoisingWeights))}")


class DrpnPlanted(Drpn):
    """DRPN with denoising weights that planted feedback can train well."""

    settings: DrpnPlantedSettings

    def __init__(self, settings: DrpnPlantedSettings, shape: DataShape) -> None:
        super().__init__(settings, shape)
        for _, _, denoise in self.aggregators():
            if settings.compare_labels:
                # Departs from the paper: labels are evidence for the trust, besides or instead of s^p and s^n of Eq. 6
                denoise.evidence = LabelEvidence(opposite=denoise.opposite)
            if settings.weights == "probability":
                # Departs from the paper: alpha is in proportion to sigmoid(a trust + b)
                denoise.calibration = Calibration()

    def aggregators(self) -> list[tuple[str, str, DenoisingAggregator]]:
        """The denoising aggregators, each after the names of its view and sequence."""
        present = []
        for view in ("semantic", "collaborative") if self.settings.graph else ("semantic",):
            for sequence in self.reads:
                denoise = self.view(view).side(sequence).denoise
                if denoise is not None:
                    present.append((view, sequence, denoise))
        return present

    def encode_news(self, news: NewsRows) -> Encoded:
        """As DRPN, with the labels of the stories."""
        encoded = super().encode_news(news)
        if not self.compares_labels:
            return encoded
        return {view: rows._replace(labels=labels_of(news)) for view, rows in encoded.items()}

    @property
    def compares_labels(self) -> bool:
        """Whether labels are evidence for the trust in a story."""
        return self.denoises and self.settings.compare_labels

    def label_trust(self, news: NewsRows, profiles: Profiles) -> Trust:
        """The part of the trust in each story that comes from labels, by view and sequence."""
        labels, sequences = labels_of(news), profiles.sequences(self.reads)
        trust: Trust = {}
        for view, sequence, denoise in self.aggregators():
            if denoise.evidence is not None:
                other = self.view(view).opposite.get(sequence)
                opposite = None if other is None else sequences[other]
                trust.setdefault(view, {})[sequence] = denoise.evidence(labels, sequences[sequence], opposite)
        return trust

    def calibrations(self) -> dict[str, dict[str, Calibration]]:
        """The calibration of each denoising aggregator, by view and sequence."""
        fitted: dict[str, dict[str, Calibration]] = {}
        for view, sequence, denoise in self.aggregators():
            if denoise.calibration is not None:
                fitted.setdefault(view, {})[sequence] = denoise.calibration
        return fitted


def labels_of(news: NewsRows) -> Labels:
    """Category and subcategory of each story."""
    return torch.stack([news.category, news.subcategory], dim=1)
