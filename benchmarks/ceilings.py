"""Measure the limits of a GPU: `python benchmarks/ceilings.py`.

Bytes copied per second, and the rate of bf16 matrix products: large square ones, and those of DRPN's stories and
titles. The lower bound in `docs/performance.md` uses these numbers.
"""

import argparse
from collections.abc import Callable
from pathlib import Path

import torch

from measuring import rate, significant
from reporting import OUT, leave, table

PRODUCTS = {
    "square, 8,192": (8_192, 8_192, 8_192),
    "words of titles to queries, keys and values": (394_000, 304, 904),
    "stories to all projections of a view": (26_000, 304, 7_200),
}
"""Rows, inner size, columns."""
COPIED = 4 << 30


def per_second(run: Callable[[], int]) -> float:
    """Units of work per second."""
    return rate(run, torch.device("cuda"), seconds=1.0, warm=3)[0].median


def product(rows: int, inner: int, columns: int) -> float:
    """TFLOP/s of a matrix product of this shape."""
    left, right = (torch.randn(shape, device="cuda").bfloat16() for shape in ((rows, inner), (inner, columns)))

    def run() -> int:
        for _ in range(10):
            left @ right
        return 10

    return per_second(run) * 2 * rows * inner * columns / 1e12


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("no GPU found; this program measures a GPU")
    source = torch.empty(COPIED, dtype=torch.uint8, device="cuda").random_()
    target = torch.empty_like(source)

    def copy() -> int:
        for _ in range(10):
            target.copy_(source)
        return 10

    bandwidth = per_second(copy) * 2 * COPIED / 1e12
    products = {name: significant(product(*shape)) for name, shape in PRODUCTS.items()}
    table(["what", "measured"], [["copy, TB/s read and written", significant(bandwidth)],
                                 *([f"{name}, TFLOP/s", value] for name, value in products.items())])  # fmt: skip
    leave("ceilings-cuda", {"copy_tb_per_s": significant(bandwidth), "bf16_tflop_per_s": products}, [], options.out)


if __name__ == "__main__":
    main()
