"""Settings of a training."""

from dataclasses import dataclass
from typing import Literal, cast, get_args

from drpn.layers.precision import Precision

DEVICE_SETTINGS = ("device", "threads", "compile", "record", "data", "save_seconds")
"""Settings that change how a training runs, not what it learns, up to rounding; a run can be resumed with others."""
WeightKind = Literal["tables", "matrices", "norms", "biases", "missing", "scalars"]
"""The kinds of weights of a model that decay can spare."""
WEIGHT_KINDS: tuple[WeightKind, ...] = get_args(WeightKind)
_TCE_SETTINGS = ("tce_rate", "tce_steps")
PlantedPart = Literal["labels", "weights", "vectors"]
"""What planted feedback trains, the larger part after the smaller."""
PlantedFrom = Literal["skips", "others", "both"]
"""Where planted clicks come from."""
_PLANTED_SETTINGS = ("planted_from", "planted_share", "planted_skips", "planted_trains")


def ignored_settings(loss: str, decay: float, *, planted: bool) -> tuple[str, ...]:
    """Return the settings that do not affect a model trained with this loss, decay and use of planted feedback."""
    unused = (() if loss == "tce" else _TCE_SETTINGS) + (() if decay else ("undecayed",))
    return (*DEVICE_SETTINGS, *unused, *(() if planted else _PLANTED_SETTINGS))


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """How a model is trained.

    `negatives` is the paper's. The paper does not state the learning rate, the batch size or the optimiser. Rate and
    optimiser are those of its authors' code; `batch` is what that code gives to each of four GPUs. `epochs` and
    `patience` are our choice: the authors' code trains ten epochs and keeps the best.
    """

    epochs: int = 5
    """Maximum number of passes over the training clicks."""
    batch: int = 128
    """Samples per step. A sample is one click with its negatives. In commands and settings files 1,024 or more changes
    the defaults of rate, matrix_rate, schedule, warm_up, decay, beta2, clip, epochs and patience: see
    docs/scale.md."""
    rate: float = 1e-3
    """Learning rate of Adam."""
    view_rate: float = 1.0
    """With `model.context`: learning rate of all weights outside of the context view, as a share of `rate`. A view that
    reads profiles learns a small log by heart before the context view has learned enough; a small share prevents it."""
    matrix_rate: float = 1.0
    """Learning rate of matrices, as a share of `rate`."""
    schedule: Literal["constant", "one-cycle"] = "constant"
    """How the learning rate goes: constant, or one-cycle: from a 25th up to `rate` over the first part of all `epochs`,
    then down to almost 0 (Smith and Topin, 2019). With one-cycle let `patience` be as long as `epochs`."""
    first_scores: float = 1.0
    """Factor of the scores of DRPN before training. Random scores are far too large, so that many first steps only make
    them smaller; a training of few steps, with large batches, learns more if they start small."""
    warm_up: float = 0.3
    """With one-cycle: the share of all steps over which the learning rate goes up."""
    decay: float = 0.0
    """Weight decay, decoupled as in AdamW. 0 is plain Adam."""
    undecayed: str = "scalars"
    """Kinds of weights that decay leaves alone, separated by spaces: tables (of word and id vectors), matrices, norms,
    biases, missing (learned vectors for something missing, such as an empty history) and scalars (DRPN's gamma)."""
    optimiser: Literal["adam", "lazy-adam"] = "adam"
    """lazy-adam updates only those rows of the word and ID tables that a batch uses. It is faster on a CPU but not
    equivalent to Adam, so the trained weights differ."""
    beta2: float = 0.999
    """How slowly Adam forgets the squares of earlier gradients."""
    clip: float = 0.0
    """Scale a gradient down to this norm, that of all weights together, if it is larger. 0: never."""
    negatives: int = 4
    """l_k: skipped stories sampled for each click from the same impression."""
    loss: Literal["softmax", "log", "tce"] = "softmax"
    """softmax: of the click among its negatives. log: log loss of each click and each negative alone. tce: truncated
    cross-entropy, the softmax without the samples of largest loss, which count as noise (Wang et al., WSDM 2021)."""
    tce_rate: float = 0.2
    """epsilon_max: the largest share of the samples of a batch, so of its clicks, that tce drops. The number is that of
    the TCE authors' code, where it is a share of clicks and negatives together, though only clicks are dropped: with
    their one negative a click it drops up to 0.4 of the clicks."""
    tce_steps: int = 30_000
    """Steps over which the dropped share rises linearly from 0 to `tce_rate`. The default is that of the TCE authors'
    code."""
    planted: float = 0.0
    """Weight of the loss of planted feedback: some stories of each profile are put where they do not belong, and the
    denoising weights must find them. 0: off. Only for models with denoising weights."""
    planted_from: Literal["auto", "skips", "others", "both"] = "auto"
    """Where planted clicks come from. skips: clicks trade places with skips of the same reader; unless labels alone are
    trained, they are drawn so that they are as popular. others: clicks of other readers, whose visits may have been at
    another time. both: half of the profiles of each batch by each rule. auto: others if most profiles have too few
    skips to trade, or if there are labels and more than their evidence is trained; otherwise skips."""
    planted_share: float = 0.2
    """Share of the clicks of a profile that planted feedback replaces: at least one click, never all."""
    planted_skips: int = 3
    """Skips of a profile that planted feedback compares, besides those that trade places with clicks, plus 1. With
    planted_from others or both: skips that are overwritten, one by a click of the reader, the others by clicks of other
    readers. 0: no skips; otherwise 2 or more."""
    planted_passes: int = 0
    """Passes over the profiles of all users, with the live protocol of training's impressions, before the first epoch,
    with the loss of planted feedback alone."""
    planted_trains: Literal["auto", "labels", "weights", "vectors"] = "auto"
    """What planted feedback trains. labels: only the evidence of categories; the trust in a story is then this evidence
    alone. weights: the denoising weights. vectors: also the encoders of stories. auto: vectors if profiles with two or
    more clicks have at least eight on average; otherwise labels or, if there are fewer than two categories or the model
    does not compare them, weights."""
    teachers: int = 0
    """With `model.context`: train this many context views first, each with its own seed and every second one with
    `model.list_attention`, and let the model learn from the mean of their scores more than from the clicks. A mean
    knows more than one model, and so does who learns from it. 0: learn from clicks alone."""
    patience: int = 2
    """Stop after this many epochs without a better validation AUC."""
    refit: bool = False
    """Train again from the start on training and validation together, for as many epochs as were best on validation, so
    that the model knows the newest days."""
    seed: int = 0
    """Seed of weights, sampling and dropout. On a CPU the same seed, settings and number of threads give the same
    weights. Another number of threads adds numbers in another order, so the weights differ after some digits."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """auto: a GPU if there is one, otherwise the CPU."""
    threads: int = 0
    """Threads on a CPU. 0: all cores, or one where others use the cores and one is faster; measured before training,
    written to run.json and used again when the run is resumed."""
    precision: Precision = "auto"
    """Precision of matrix products in training and evaluation; weights stay in fp32. auto: bf16 on a GPU, fp32 on a
    CPU."""
    compile: bool = True
    """On a GPU with `record`: compile the model before capturing the step, if the training is long enough to save the
    minute that compiling takes."""
    record: bool = True
    """On a GPU: capture one step as a CUDA graph and replay it. Off: launch every step separately."""
    data: Literal["auto", "device", "host"] = "auto"
    """With a GPU: keep profiles and impressions in GPU memory (device) or in host memory (host), from which batches are
    prefetched. auto: GPU memory, unless the data need more than half of what is free."""
    save_seconds: float = 60.0
    """Seconds between checkpoints. A checkpoint is also written after every epoch."""

    def __post_init__(self) -> None:
        for name in ("epochs", "batch", "negatives", "patience", "tce_steps"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it takes 1 or more")
        for name in ("seed", "decay", "clip", "threads", "planted", "planted_passes", "teachers"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is {getattr(self, name)}; it takes 0 or more")
        for kind in self.undecayed.split():
            if kind not in WEIGHT_KINDS:
                raise ValueError(f"undecayed names '{kind}'; choose from {', '.join(WEIGHT_KINDS)}")
        # in one order, so that equal choices are equal
        object.__setattr__(self, "undecayed", " ".join(kind for kind in WEIGHT_KINDS if kind in self.undecayed.split()))
        for name in ("rate", "view_rate", "matrix_rate", "first_scores"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is {getattr(self, name)}; it takes a number above 0")
        for name in ("tce_rate", "planted_share", "warm_up", "beta2"):
            if not 0 < getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it takes a share above 0 and below 1")
        if self.clip and self.optimiser == "lazy-adam":
            raise ValueError("clip takes the gradients of whole tables, which lazy-adam does not have; use adam")
        if self.teachers and self.loss != "softmax":
            raise ValueError(f"loss is '{self.loss}', but teachers need softmax; set teachers to 0")
        if self.planted_skips < 0 or self.planted_skips == 1:
            raise ValueError(f"planted_skips is {self.planted_skips}; it takes 0, or 2 or more")

    @property
    def plants(self) -> bool:
        """Whether feedback is planted, in the epochs or before them."""
        return self.planted > 0 or self.planted_passes > 0

    @property
    def undecayed_kinds(self) -> tuple[WeightKind, ...]:
        """The kinds of weights without decay."""
        return cast(tuple[WeightKind, ...], tuple(self.undecayed.split()))
