"""The precision of matrix products."""

from contextlib import AbstractContextManager, nullcontext
from typing import Literal

import torch

Precision = Literal["auto", "fp32", "bf16"]
"""auto: bf16 on a GPU, fp32 on a CPU."""


def matrix_precision(precision: Precision, device: torch.device) -> AbstractContextManager[object]:
    """Return a context in which matrix products use this precision; weights stay in fp32.

    A CPU always uses fp32, because some CPUs that advertise bf16 kill the process without a message.
    """
    if device.type == "cuda" and precision != "fp32":
        return torch.autocast("cuda", dtype=torch.bfloat16)
    return nullcontext()
