"""Remove the noise from profiles: `python benchmarks/true_profiles.py DATASET ... `, each written as DATASET-true.

The truth of simulated logs says which clicks and skips of a profile are noise. A model that is trained and tested on
the profiles without them shows how much perfect denoising would gain: candidates and test clicks stay as they are.
"""

import argparse
import json
import shutil
from pathlib import Path

import numpy as np

from drpn.dataset.arrays import sha256
from drpn.dataset.folder import MANIFEST, Dataset
from drpn.recipes.noise import noise_kinds
from drpn.versioned import write_versioned

NOISE = -1


def write(source: Path, out: Path) -> float:
    """Copy a dataset without the noise of its profiles; returns the share of stories that were removed."""
    dataset = Dataset.open(source)
    kinds = noise_kinds(dataset)
    assert kinds is not None, f"{source} has no truth"
    shutil.copytree(source, out)
    manifest = json.loads((out / MANIFEST).read_text(encoding="utf-8"))
    del manifest["checksum"]
    before = after = 0
    for side, kind in kinds.items():
        stories = dataset.arrays.array(f"users/{side}")
        noise = (kind == NOISE) & (stories != 0)
        before, after = before + int((stories != 0).sum()), after + int((stories != 0).sum() - noise.sum())
        for name in (f"users/{side}", f"users/{side}_opinion"):
            values = dataset.arrays.array(name)
            # opinions may be 0, so the order is that of the stories
            order = np.argsort(np.where(noise, 0, stories) == 0, axis=1, kind="stable")
            np.save(out / f"{name}.npy", np.take_along_axis(np.where(noise, 0, values), order, 1), allow_pickle=False)
            manifest["files"][f"{name}.npy"] = sha256(out / f"{name}.npy")
    write_versioned(out / MANIFEST, manifest)
    return 1 - after / before


def main() -> None:
    """Write the folders."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="+", type=Path)
    for source in parser.parse_args().datasets:
        share = write(source, source.with_name(f"{source.name}-true"))
        print(f"{source}-true: {share:.1%} of the stories of profiles removed")


if __name__ == "__main__":
    main()
