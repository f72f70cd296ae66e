"""Trains DRPN as `drpn train` does: `torchrun ... train_worker.py DATASET OUT SETTING ..`.

It prints how often a CUDA graph was replayed.
"""

import json
import sys
from pathlib import Path

from drpn.ranks import current
from drpn.recipes.settings import load_settings
from drpn.recipes.train import train
from ranks_worker import count_replays


def main(folder: str, out: str, *sets: str) -> None:
    replays, settings = count_replays(), load_settings(None, sets, model="drpn")
    train(Path(folder), Path(out), settings=settings.model, training=settings.training, picture=False)
    if current().first:
        print(json.dumps({"replays": len(replays)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
