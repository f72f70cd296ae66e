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


def ignored_settings(loss: str, decay: float) -> tuple[str, ...]:
    """Return the settings that do not affect a model trained with this loss and this weight decay."""
    unused = (() if loss == "tce" else _TCE_SETTINGS) + (() if decay else ("undecayed",))
    return (*DEVICE_SETTINGS, *unused)


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
    """Samples per step. A sample is one click with its negatives."""
    rate: float = 1e-3
    """Learning rate of Adam."""
    schedule: Literal["constant", "one-cycle"] = "constant"
    """How the learning rate goes: constant, or one-cycle: from a 25th up to `rate` over the first three tenths of all
    `epochs`, then down to almost 0 (Smith and Topin, 2019). With one-cycle let `patience` be as long as `epochs`."""
    decay: float = 0.0
    """Weight decay, decoupled as in AdamW. 0 is plain Adam."""
    undecayed: str = "scalars"
    """Kinds of weights that decay leaves alone, separated by spaces: tables (of word and id vectors), matrices, norms,
    biases, missing (learned vectors for something missing, such as an empty history) and scalars (DRPN's gamma)."""
    optimiser: Literal["adam", "lazy-adam"] = "adam"
    """lazy-adam updates only those rows of the word and ID tables that a batch uses. It is faster on a CPU but not
    equivalent to Adam, so the trained weights differ."""
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
    """On a GPU with `record`: compile the model before capturing the step. Compiling takes about a minute, so it pays
    off in trainings of several minutes."""
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
        for name in ("seed", "decay", "threads"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is {getattr(self, name)}; it takes 0 or more")
        for kind in self.undecayed.split():
            if kind not in WEIGHT_KINDS:
                raise ValueError(f"undecayed names '{kind}'; choose from {', '.join(WEIGHT_KINDS)}")
        # in one order, so that equal choices are equal
        object.__setattr__(self, "undecayed", " ".join(kind for kind in WEIGHT_KINDS if kind in self.undecayed.split()))
        if not self.rate > 0:
            raise ValueError(f"rate is {self.rate}; it takes a number above 0")
        if not 0 < self.tce_rate < 1:
            raise ValueError(f"tce_rate is {self.tce_rate}; it takes a share above 0 and below 1")

    @property
    def undecayed_kinds(self) -> tuple[WeightKind, ...]:
        """The kinds of weights without decay."""
        return cast(tuple[WeightKind, ...], tuple(self.undecayed.split()))
