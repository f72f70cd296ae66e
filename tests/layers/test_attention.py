"""Where the kernels of a GPU are used; what they compute is tested on one, in tests/gpu."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from drpn.layers.attention import read_in_tables


@pytest.mark.parametrize(
    ("device", "dtype", "longest", "expected"),
    [
        ("cuda", torch.bfloat16, 60, True),
        ("cuda", torch.bfloat16, 64, True),
        ("cuda", torch.bfloat16, 65, False),
        ("cuda", torch.float32, 32, True),
        ("cuda", torch.float32, 33, False),
        ("cuda", torch.float64, 5, False),
        ("cpu", torch.float32, 5, False),
    ],
)
def test_which_sequences_are_read_in_tables(device: str, dtype: torch.dtype, longest: int, expected: bool) -> None:
    with FakeTensorMode():  # as if there were a GPU
        assert read_in_tables(torch.empty(3, 4, dtype=dtype, device=device), longest) == expected
