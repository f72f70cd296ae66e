"""A bundle of given sizes from a random log, with random weights: they do not change how long a ranking takes."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from drpn.bundle.files import data_shape, write_bundle
from drpn.dataset.folder import Dataset
from drpn.models.catalogue import CATALOGUE
from drpn.preparation.settings import DataSettings
from drpn.recipes.prepare import prepare

SHOWN, VIEWS_OF_A_USER, WORDS = 10, 6, 3_000
"""Each user has six page views of ten stories with one click each, so profiles have about 6 clicks and 54 skips."""


def bundle_in(folder: Path, users: int, stories: int, model: str) -> Path:
    """The bundle in a folder, which is made if it is not there."""
    folder = folder / f"{model}-{users}-{stories}"
    if not (folder / "bundle").exists():
        folder.mkdir(parents=True, exist_ok=True)
        make_bundle(folder, users, stories, model)
    return folder / "bundle"


def write_log(folder: Path, users: int, stories: int, rng: np.random.Generator) -> Path:
    """A week of page views that ends now; every story is shown on the last day."""
    folder.mkdir()
    end = datetime.now(UTC).replace(tzinfo=None) - timedelta(minutes=5)
    last_day = -(-stories // SHOWN)
    count = users * VIEWS_OF_A_USER + last_day
    seconds = np.sort(
        np.concatenate([rng.integers(0, 7 * 86_400, count - last_day), rng.integers(0, 80_000, last_day)])
    )
    ago = seconds[::-1]
    user = rng.permutation(np.arange(count) % users)
    first = rng.integers(0, stories, count)
    recent = np.flatnonzero(ago < 86_000)
    first[recent[-last_day:]] = np.arange(last_day) * SHOWN % stories
    shown = (first[:, None] + np.arange(SHOWN)) % stories
    clicked = np.zeros(shown.shape, bool)
    clicked[np.arange(count), rng.integers(0, SHOWN, count)] = True
    times = np.datetime64(end, "us") - ago.astype("timedelta64[s]")
    rows = {
        "impression_id": np.repeat([f"i{number:08}" for number in range(count)], SHOWN),
        "user_id": np.repeat([f"user{number}" for number in user.tolist()], SHOWN),
        "time": np.repeat(times, SHOWN),
        "news_id": [f"story{number}" for number in shown.ravel().tolist()],
        "clicked": clicked.ravel(),
        "position": np.tile(np.arange(SHOWN, dtype=np.int32), count),
    }
    pq.write_table(pa.table(rows), folder / "impressions.parquet")
    titles = [" ".join(f"word{word}" for word in line) for line in rng.integers(0, WORDS, (stories, 10)).tolist()]
    news = {
        "news_id": [f"story{number}" for number in range(stories)],
        "title": titles,
        "category": [f"topic{number % 12}" for number in range(stories)],
    }
    pq.write_table(pa.table(news), folder / "news.parquet")
    return folder


def make_bundle(folder: Path, users: int, stories: int, model: str) -> Path:
    """A bundle with random weights of the paper's sizes."""
    rng = np.random.default_rng(1)
    live = CATALOGUE[model].settings.context
    settings = DataSettings(protocol="live" if live else "paper")
    dataset: Dataset = prepare(write_log(folder / "logs", users, stories, rng), folder / "data", settings)
    torch.manual_seed(1)
    made = CATALOGUE[model].model(CATALOGUE[model].settings, data_shape(dataset)).eval()
    write_bundle(folder / "bundle", made, name=model, settings=made.settings, dataset=dataset, facts={})
    return folder / "bundle"
