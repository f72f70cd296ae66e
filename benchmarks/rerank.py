"""The time that diversity adds to one list of recommendations, by the number of candidates; runs on one CPU core."""

import argparse
import time
from types import SimpleNamespace
from typing import Any

import numpy as np

from drpn.bundle.mixing import Candidates, Mix, mixed
from drpn.dataset.contents import ContentReader

MIXES = {
    "mmr": Mix(diversity=0.3),
    "calibrated": Mix(diversity=0.3, method="calibrated"),
    "fresh and popular": Mix(fresh=0.1, popular=0.1),
    "mmr, fresh and popular": Mix(diversity=0.3, fresh=0.1, popular=0.1),
}


def candidates(stories: int) -> Candidates:
    """Return random stories: 15 words of a vocabulary of 40,000, 20 categories, 200 subcategories."""
    random = np.random.default_rng(0)
    words = (40_000 * random.random((stories + 1, 15)) ** 3).astype(np.int32).astype(str)
    arrays = {
        f"news/{name}": random.integers(1, size, stories + 1) for name, size in (("category", 20), ("subcategory", 200))
    }
    titles = [" ".join(title) for title in words]
    dataset: Any = SimpleNamespace(titles=titles, arrays=SimpleNamespace(array=arrays.__getitem__))
    reader = ContentReader.of(dataset)
    return Candidates(
        scores=-np.sort(-random.random(stories)),
        published=random.integers(0, 10**6, stories),
        clicks=random.integers(0, 500, stories),
        contents=lambda places: reader.rows(places + 1),
        target=lambda: np.full(20, 1 / 20),
    )


def main() -> None:
    """Print the median milliseconds of each mix."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stories", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--top", type=int, default=10)
    parser.add_argument("--repeat", type=int, default=31)
    options = parser.parse_args()
    for stories in options.stories:
        ranked = candidates(stories)
        for name, mix in MIXES.items():
            times = []
            for _ in range(options.repeat):
                start = time.perf_counter()
                mixed(ranked, mix, options.top)
                times.append(time.perf_counter() - start)
            print(f"{stories:>9,} candidates, {name}: {1_000 * np.median(times):.2f} ms")


if __name__ == "__main__":
    main()
