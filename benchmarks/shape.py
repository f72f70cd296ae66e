"""Write a dataset folder of MIND-large's shape with numpy alone: `python benchmarks/shape.py OUT`.

It is for measuring speed and memory without logs and without a query engine. Stories are shown by popularity 1/rank,
with ranks in random rows. Two thirds of the users clicked once; the others follow a heavy tail. Words follow Zipf's
law. Clicks are random, so there is nothing to learn, unless readers have tastes (`--tastes`).
"""

import argparse
import dataclasses
import functools
import hashlib
import resource
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

import drpn
from draws import Popularity, Ragged, around, heavy_tail, zipf
from drpn.dataset.arrays import ArrayReader, ArrayWriter, Strings, sha256
from drpn.dataset.folder import FORMAT, MANIFEST, SPLITS, Dataset, Impressions
from drpn.dataset.vocabulary import UNKNOWN
from drpn.output import atomic_folder
from drpn.preparation.settings import DataSettings
from drpn.versioned import write_versioned
from provenance import ROOT
from tastes import Tastes, clicked_first

CATEGORIES, SUBCATEGORIES = 18, 270
CLICKED, SKIPPED, TITLE_WORDS = 4.14, 96.8, 12.66
"""MIND-large's means: stories of a profile before truncation, and words of a title with its two labels."""
CLICKS_OF_IMPRESSION, LONGEST = 1.5, 300
"""Mean clicks of an impression, and the largest number of candidates."""
LOYALTY = 0.25
"""A user with k earlier clicks returns on the training day in proportion to k to this power."""
LINKED = 10
"""Clicks of a full profile that become graph edges; all of them would be too many."""
LABELS = UNKNOWN + 1 + CATEGORIES + SUBCATEGORIES
"""The row of the first word that is not a label."""
TOPICAL = 0.4
"""Share of title words that belong to the story's subcategory, if readers have tastes."""
FLAGS = {
    "fixed": "the same number of candidates in every impression",
    "full": "fill every profile to its limit",
    "tastes": "readers click by taste, so that there is something to learn",
}
DAY = np.datetime64("2019-11-14", "us")
"""The training day; the next day is for evaluation."""


@dataclass(frozen=True, kw_only=True)
class ShapeSettings:
    """Sizes; the defaults are those of MIND-large in the paper's protocol."""

    news: int = 104_153
    vocabulary: int = 54_292
    """Words, labels included."""
    users: int = 654_870
    impressions: int = 333_333
    """Training impressions; with 1.5 clicks each, half a million clicks."""
    validation: int = 40_000
    test: int = 100_000
    candidates: int = 37
    """Mean candidates of an impression."""
    fixed: bool = False
    """Give every impression exactly `candidates` candidates."""
    words: int = 15
    """Words of each title, including its two labels."""
    clicked: int = 30
    """l_p: newest clicked stories of each user."""
    skipped: int = 60
    """l_n: newest skipped stories of each user."""
    neighbours: int = 5
    user_neighbours: int = 10
    """Random neighbours of each user, for models that read them."""
    full: bool = False
    """Fill every profile to `clicked` and `skipped` stories: the largest possible amount of work."""
    tastes: bool = False
    """Let readers click by taste (`tastes.py`); otherwise clicks are random."""
    seed: int = 0

    def __post_init__(self) -> None:
        least = {"news": 50, "vocabulary": LABELS, "words": 3, "candidates": 3, "seed": 0, "user_neighbours": 0}
        for field in dataclasses.fields(self):
            value, lowest = getattr(self, field.name), least.get(field.name, 1)
            if field.type is not bool and value < lowest:
                raise ValueError(f"{field.name} is {value}; it takes {lowest} or more")

    def scaled(self, scale: float) -> "ShapeSettings":
        """Scale users, impressions, stories and words; keep the lengths."""
        least = {"news": 50, "vocabulary": 2 * LABELS}
        names = ("news", "vocabulary", "users", "impressions", "validation", "test")
        sizes = {name: max(round(getattr(self, name) * scale), least.get(name, 1)) for name in names}
        return dataclasses.replace(self, **sizes)


@dataclass(frozen=True)
class Shape:
    """Writes one dataset folder."""

    settings: ShapeSettings
    writer: ArrayWriter
    rng: Generator

    @functools.cached_property
    def popularity(self) -> Popularity:
        """How often each story is shown."""
        return Popularity(self.settings.news, self.rng)

    @functools.cached_property
    def tastes(self) -> Tastes | None:
        """What readers like, if they have tastes."""
        settings = self.settings
        rng = np.random.default_rng([settings.seed, 1])
        return Tastes(settings.users, settings.news, SUBCATEGORIES, rng) if settings.tastes else None

    def write(self) -> dict[str, Any]:
        """Write every array; return the statistics."""
        settings, writer = self.settings, self.writer
        clicks, skips = self._feedback()
        clicked, skipped = self._profiles(clicks, skips)
        writer.strings("users/id", Strings.of(["", *(f"U{row}" for row in range(1, settings.users + 1))]))
        writer.array("users/clicked", clicked)
        writer.array("users/skipped", skipped)
        linked = clicked[:, :LINKED] if settings.full else clicked
        neighbours, _ = co_clicked(linked, settings.news, settings.neighbours)
        writer.array("news/neighbours", neighbours)
        times_shown, times_clicked = (
            np.bincount(part.ravel(), minlength=settings.news + 1) for part in (skipped, clicked)
        )
        times_shown += times_clicked
        for split in SPLITS:
            shown, labels = self._impressions(split, clicks)
            if split == "train":
                times_shown += np.bincount(shown, minlength=settings.news + 1)
                times_clicked += np.bincount(shown[labels], minlength=settings.news + 1)
        times_shown[0] = times_clicked[0] = 0
        writer.array("news/times_shown", times_shown.astype(np.int32))
        writer.array("news/times_clicked", times_clicked.astype(np.int32))
        mean_title_words = self._news()
        if settings.user_neighbours:
            others = self.rng.integers(1, settings.users + 1, (settings.users + 1, settings.user_neighbours))
            others[0] = 0
            writer.array("users/neighbours", others.astype(np.int32))
        return self._statistics(clicks, skips, mean_title_words)

    def _feedback(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Number of clicked and skipped stories of each user."""
        clicks = heavy_tail(self.settings.users, CLICKED, self.rng)
        pages = around(SKIPPED / CLICKED, spread=0.7, size=len(clicks), rng=self.rng)
        skips = np.maximum(np.rint(clicks * pages), 1).astype(np.int64)
        if self.settings.full:
            return np.maximum(clicks, self.settings.clicked), np.maximum(skips, self.settings.skipped)
        return clicks, skips

    def _profiles(
        self, clicks: NDArray[np.int64], skips: NDArray[np.int64]
    ) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        settings, most = self.settings, self.settings.news // 4
        clicked, skipped = (
            np.minimum(clicks, min(settings.clicked, most)),
            np.minimum(skips, min(settings.skipped, most)),
        )
        both = self.popularity.distinct(clicked + skipped)
        if self.tastes is not None:
            both = clicked_first(both, self.tastes.ranks(np.arange(1, len(clicked) + 1), both), clicked)
        return (
            both.padded(np.zeros_like(clicked), clicked, settings.clicked),
            both.padded(clicked, skipped, settings.skipped),
        )

    def _impressions(self, split: str, clicks: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
        """Write a split; return its candidates and labels."""
        settings, rng, writer = self.settings, self.rng, self.writer
        count = settings.impressions if split == "train" else getattr(settings, split)
        sizes = np.full(count, settings.candidates)
        if not settings.fixed:
            sizes = np.rint(around(settings.candidates, spread=0.8, size=count, rng=rng, within=(2, LONGEST)))
        sizes = np.minimum(sizes.astype(np.int64), settings.news // 2)
        shown = self.popularity.distinct(sizes)
        chosen = np.minimum(1 + rng.poisson(CLICKS_OF_IMPRESSION - 1, count), sizes - 1)
        # a random rotation of each impression puts the clicks at random positions
        place = np.arange(len(shown.flat)) - np.repeat(shown.offsets[:-1], sizes)
        ranks = (place + np.repeat(rng.integers(0, sizes), sizes)) % np.repeat(sizes, sizes)
        loyal = np.cumsum(clicks**LOYALTY)
        users = np.minimum(1 + np.searchsorted(loyal, rng.random(count) * loyal[-1], side="right"), settings.users)
        if self.tastes is not None:
            ranks = self.tastes.ranks(users, shown)
        labels = ranks < np.repeat(chosen, sizes)
        begin, end = {"train": (0, 24), "validation": (24, 27), "test": (27, 48)}[split]
        seconds = np.sort(rng.integers(begin * 3_600, end * 3_600, count))
        first = {"train": 1, "validation": 1 + settings.impressions}.get(
            split, 1 + settings.impressions + settings.validation
        )
        writer.strings(f"{split}/id", Strings.of(map(str, range(first, first + count))))
        writer.array(f"{split}/user", users.astype(np.int32))
        writer.array(f"{split}/time", DAY + seconds * np.timedelta64(1_000_000, "us"))
        writer.array(f"{split}/offsets", shown.offsets)
        writer.array(f"{split}/candidates", shown.flat)
        writer.array(f"{split}/clicked", labels)
        return shown.flat, labels

    def _news(self) -> float:
        """Write titles, words and labels; return the mean number of title words without labels."""
        settings, rng, writer = self.settings, self.rng, self.writer
        news, own = settings.news, settings.vocabulary - CATEGORIES - SUBCATEGORIES
        subcategory = zipf(SUBCATEGORIES, news, rng)
        category = rng.integers(0, CATEGORIES, SUBCATEGORIES)[subcategory]
        lengths = 1 + rng.poisson(TITLE_WORDS - 3, news)
        text = (LABELS + zipf(own, int(lengths.sum()), rng)).astype(np.int32)
        if self.tastes is not None:
            subcategory = self.tastes.topics
            category = subcategory % CATEGORIES
            text = self._topical(text, np.repeat(subcategory, lengths))
        titles = Ragged(np.concatenate([[0], np.cumsum(lengths)]), text)
        kept = titles.padded(np.zeros_like(lengths), np.minimum(lengths, settings.words - 2), settings.words - 2)
        labels = np.stack([UNKNOWN + 1 + category, UNKNOWN + 1 + CATEGORIES + subcategory], axis=1).astype(np.int32)
        rows = np.concatenate([np.concatenate([np.zeros((1, 2), np.int32), labels]), kept], axis=1)
        names = {
            "categories": ["", *(f"topic{number:02}" for number in range(CATEGORIES))],
            "subcategories": ["", *(f"part{number:03}" for number in range(SUBCATEGORIES))],
        }
        words = ["", "<unknown>", *names["categories"][1:], *names["subcategories"][1:]]
        words += [f"word{number}" for number in range(own)]
        spelt = [words[row] for row in text.tolist()]
        texts = [" ".join(spelt[start:end]) for start, end in zip(titles.offsets[:-1], titles.offsets[1:], strict=True)]
        writer.strings("news/id", Strings.of(["", *(f"N{row}" for row in range(1, news + 1))]))
        writer.strings("news/title", Strings.of(["", *texts]))
        writer.array("news/category", np.concatenate([[0], 1 + category]).astype(np.int32))
        writer.array("news/subcategory", np.concatenate([[0], 1 + subcategory]).astype(np.int32))
        writer.array("news/words", rows)
        writer.strings("words/word", Strings.of(words))
        for name, texts in names.items():
            writer.strings(f"{name}/name", Strings.of(texts))
        return float(lengths.mean())

    def _topical(self, text: NDArray[np.int32], topics: NDArray[np.int64]) -> NDArray[np.int32]:
        """Replace some words by words of the story's topic."""
        words = (self.settings.vocabulary - CATEGORIES - SUBCATEGORIES) // SUBCATEGORIES
        topical = LABELS + topics * words + zipf(words, len(text), self.rng)
        return np.where(self.rng.random(len(text)) < TOPICAL, topical, text).astype(np.int32)

    def _statistics(
        self, clicks: NDArray[np.int64], skips: NDArray[np.int64], mean_title_words: float
    ) -> dict[str, Any]:
        """Statistics that `drpn prepare` would write, counted the same way; those of labels and dates are left out."""
        reader = ArrayReader(self.writer.folder, dict.fromkeys(self.writer.names, ""))
        dataset = Dataset(self.writer.folder, {}, reader)
        splits = {name: dataset.impressions(name) for name in SPLITS}
        labels = sum(int(part.clicked.sum()) for part in splits.values())
        candidates = sum(len(part.candidates) for part in splits.values())
        impressions = sum(len(part) for part in splits.values())
        numbers = {
            "mean_title_words": mean_title_words,
            "mean_candidates": candidates / impressions,
            "mean_clicked": clicks.mean(),
            "mean_skipped": skips.mean(),
            "mean_clicked_with_repeats": clicks.mean(),
            "mean_skipped_with_repeats": skips.mean(),
            "mean_clicked_kept": np.count_nonzero(dataset.clicked) / len(clicks),
            "mean_skipped_kept": np.count_nonzero(dataset.skipped) / len(skips),
        }
        return {
            "users": self.settings.users,
            "news": self.settings.news,
            "words": self.settings.vocabulary,
            "impressions": {name: len(part) for name, part in splits.items()},
            "clicked_samples": labels,
            "skipped_samples": candidates - labels,
            "profile_users": self.settings.users,
            "news_with_neighbours": int(np.count_nonzero(dataset.neighbours[:, 0])),
            "users_without_profile": dict.fromkeys(SPLITS, 0.0),
            "users_not_in_training": {
                name: round(float(np.isin(np.unique(splits[name].users), splits["train"].users, invert=True).mean()), 4)
                for name in ("validation", "test")
            },
            **{name: round(float(value), 4) for name, value in numbers.items()},
        }


def co_clicked(clicked: NDArray[np.int32], news: int, keep: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The heaviest neighbours of each story, and how many users clicked both; ties by row."""
    bits = int(news).bit_length()
    low = (1 << bits) - 1
    sizes = np.count_nonzero(clicked, axis=1)
    pairs = []
    for size in np.unique(sizes[sizes > 1]):
        own = clicked[sizes == size, :size].astype(np.int64)
        first, second = np.nonzero(~np.eye(size, dtype=np.bool_))
        pairs.append(((own[:, first] << bits) | own[:, second]).ravel())
    rows, weights = (np.zeros((news + 1, keep), dtype=np.int32) for _ in range(2))
    if not pairs:
        return rows, weights
    edges = np.sort(np.concatenate(pairs))
    begin = np.flatnonzero(np.concatenate([[True], edges[1:] != edges[:-1]]))
    weight = np.diff(np.append(begin, len(edges)))
    edges = edges[begin]
    # sorted by story, then by falling weight, then by the neighbour's row, all packed into one number
    room = int(weight.max())
    packed = np.sort(((edges >> bits) * (room + 1) + (room - weight)) << bits | (edges & low))
    of = (packed >> bits) // (room + 1)
    slot = np.arange(len(of)) - np.searchsorted(of, of)
    best = slot < keep
    rows[of[best], slot[best]] = packed[best] & low
    weights[of[best], slot[best]] = room - (packed[best] >> bits) % (room + 1)
    return rows, weights


def write_shape(folder: Path, settings: ShapeSettings, *, replace: bool = False) -> Dataset:
    """Write the dataset folder, whole or not at all; the same settings give the same bytes."""
    with atomic_folder(folder, replace=replace) as scratch:
        writer = ArrayWriter(scratch)
        statistics = Shape(settings, writer, np.random.default_rng(settings.seed)).write()
        data = DataSettings(
            clicked=settings.clicked,
            skipped=settings.skipped,
            words=settings.words,
            vector_size=0,
            neighbours=settings.neighbours,
            user_neighbours=settings.user_neighbours,
        )
        generated = {"skip_unknown_news": False, "generated": dataclasses.asdict(settings)}
        manifest = {
            "format": FORMAT,
            "drpn": drpn.__version__,
            "settings": dataclasses.asdict(data) | generated,
            "statistics": statistics,
            "columns": [],
            "sources": [],
            "files": writer.checksums(),
        }
        write_versioned(scratch / MANIFEST, manifest)
    return Dataset.open(folder, verify=False)


class BatchNews(NamedTuple):
    """Stories of a batch of training samples: profiles and five candidates each."""

    positions: int
    distinct: int


def batch_news(dataset: Dataset, samples: int, rng: Generator, *, negatives: int = 4) -> BatchNews:
    """Count the stories of one random batch without padding."""
    train: Impressions = dataset.impressions("train")
    offsets, labels = np.asarray(train.offsets), np.asarray(train.clicked)
    clicks = rng.choice(np.flatnonzero(labels), samples)
    impression = np.searchsorted(offsets, clicks, side="right") - 1
    users = np.asarray(train.users)[impression]
    skips = [
        rng.permutation(start + np.flatnonzero(~labels[start:end]))[:negatives]
        for start, end in zip(offsets[impression], offsets[impression + 1], strict=True)
    ]
    candidates = np.asarray(train.candidates)[np.concatenate([clicks, *skips])]
    everything = np.concatenate([dataset.clicked[users].ravel(), dataset.skipped[users].ravel(), candidates])
    everything = everything[everything > 0]
    return BatchNews(len(everything), len(np.unique(everything)))


def kept_shape(settings: ShapeSettings) -> Dataset:
    """The folder of these settings under build/bench; written if it does not exist."""
    programs = [sha256(ROOT / "benchmarks" / name) for name in ("shape.py", "draws.py", "tastes.py")]
    name = hashlib.sha256(f"{settings} {programs}".encode()).hexdigest()[:12]
    folder = ROOT / "build" / "bench" / f"shape-{name}"
    return Dataset.open(folder, verify=False) if folder.exists() else write_shape(folder, settings)


def main() -> None:
    """Write the folder and print its statistics."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--scale", type=float, default=1.0, help="scale of users, impressions, stories and words")
    parser.add_argument("--force", action="store_true", help="replace the folder if it exists")
    for field in dataclasses.fields(ShapeSettings):
        if field.type is bool:
            parser.add_argument(f"--{field.name}", action="store_true", help=FLAGS[field.name])
        else:
            parser.add_argument(f"--{field.name}", type=int, help=f"at scale 1: {field.default:,}")
    options = vars(parser.parse_args())
    out, scale, force = options.pop("out"), options.pop("scale"), options.pop("force")
    sizes = {name: value for name, value in options.items() if value is not None}
    start = time.perf_counter()
    dataset = write_shape(out, dataclasses.replace(ShapeSettings().scaled(scale), **sizes), replace=force)
    seconds = time.perf_counter() - start
    for name, value in dataset.statistics.items():
        print(f"{name:28} {value}")
    batch = batch_news(dataset, 2_048, np.random.default_rng(0))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"2,048 samples hold {batch.positions:,} positions and {batch.distinct:,} distinct stories")
    print(f"{out} written in {seconds:.1f} s; peak memory {peak:.1f} GB")


if __name__ == "__main__":
    main()
