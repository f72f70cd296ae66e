"""What may be chosen about training."""

from dataclasses import dataclass
from typing import Literal

DEVICE_SETTINGS = ("device", "compile", "record", "data", "save_seconds")
"""Settings of how a training is run, and not of what it is."""
_OF_TCE = ("tce_rate", "tce_steps")


def ignored_settings(loss: str) -> tuple[str, ...]:
    """Settings that change nothing of what is learnt with that loss."""
    return DEVICE_SETTINGS if loss == "tce" else (*DEVICE_SETTINGS, *_OF_TCE)


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """How a model is trained; the defaults are those of the paper and of its authors' code."""

    epochs: int = 5
    """Passes over the clicks, at most."""
    batch: int = 128
    """Samples of a step; a sample is one click with its negatives."""
    rate: float = 1e-3
    """Learning rate of Adam."""
    decay: float = 0.0
    """Weight decay (AdamW); 0 is plain Adam."""
    optimiser: Literal["adam", "lazy-adam"] = "adam"
    """lazy-adam moves of the word and id tables only the rows that a batch used: quicker on a CPU, another Adam."""
    negatives: int = 4
    """l_k: skipped news drawn for each click from its own impression."""
    loss: Literal["softmax", "tce"] = "softmax"
    """softmax: every sample counts; tce: those that cost the most are left out, as noise (Wang et al., WSDM 2021)."""
    tce_rate: float = 0.2
    """epsilon_max: the largest share of a batch that tce leaves out; the default of its authors' code."""
    tce_steps: int = 30_000
    """Steps in which that share rises from nothing to `tce_rate`, evenly; the default of its authors' code."""
    patience: int = 2
    """Stop after so many passes without a better validation AUC."""
    seed: int = 0
    """Same seed and settings, same weights (on CPU)."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """auto: a GPU where there is one."""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """auto: bf16 on a GPU, fp32 on a CPU."""
    compile: bool = True
    """On a GPU, where steps are recorded: compile the model first (a minute); pays when training takes several."""
    record: bool = True
    """On a GPU: record a step once and play it again; off, each step runs as it comes."""
    data: Literal["auto", "device", "host"] = "auto"
    """With a GPU, where profiles and impressions lie: in its memory, or in the host's, from where batches are fetched
    ahead; auto: in its own unless they take more than half of what is free."""
    save_seconds: float = 60.0
    """A checkpoint at least this often, and after every pass."""

    def __post_init__(self) -> None:
        for name in ("epochs", "batch", "negatives", "patience", "tce_steps"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it takes 1 or more")
        if self.seed < 0:
            raise ValueError(f"seed is {self.seed}; it takes 0 or more")
        if self.decay < 0:
            raise ValueError(f"decay is {self.decay}; it takes 0 or more")
        if not self.rate > 0:
            raise ValueError(f"rate is {self.rate}; it takes a number above 0")
        if not 0 < self.tce_rate < 1:
            raise ValueError(f"tce_rate is {self.tce_rate}; it takes a share above 0 and below 1")
