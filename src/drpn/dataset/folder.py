"""The dataset folder: `manifest.json` and plain `.npy` arrays. Row 0 is padding everywhere.

Arrays of users and impressions with many rows are in several files; all arrays of the same users or impressions are
cut at the same ones, candidates between two impressions.

news/          id title category subcategory words neighbours times_shown times_clicked
               if the log has them: abstract title_entities abstract_entities published vector
               if the settings ask for them: abstract_words word_entities
words/         word, and with word vectors: vector
entities/      if the settings ask for them: id, and with vector files: vector context
categories/    name                subcategories/ name
users/         id clicked skipped (the profile window, oldest first, then padding)
               if the log has them: clicked_read_seconds clicked_scroll clicked_opinion skipped_opinion
               if the settings ask for them: neighbours
readers/ pairs/ counts/
               with the live protocol: profiles and counts as of each impression and of the end of the log, see
               `preparation.live`; training and evaluation do not read counts/
latest/        clicked skipped (as of the end of the log; training and evaluation do not read them),
               all_clicked all_clicked_offsets (every story that each user clicked in the log)
train/ validation/ test/
               id user time offsets candidates clicked, and the optional columns of the log
names/         the texts of optional columns that are stored as numbers, such as device
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from drpn.dataset.arrays import Array, ArrayReader, Strings
from drpn.dataset.limits import LimitedReader
from drpn.dataset.vocabulary import Vocabulary
from drpn.errors import FolderError
from drpn.versioned import read_versioned

FORMAT = 1
MANIFEST = "manifest.json"
SplitName = Literal["train", "validation", "test"]
SPLITS: tuple[SplitName, ...] = ("train", "validation", "test")
_AT_ONCE = 1_000_000
"""Impressions that are read at a time where not all of them are needed together."""
STRETCHES = {"profile": "profile window", "train": "training", "validation": "validation", "test": "test"}
"""The stretches of time of a log, in order, by their names in the statistics, and how messages call them."""


@dataclass(frozen=True)
class Impressions:
    """The impressions of one split, sorted by time."""

    ids: Strings
    users: NDArray[np.int32]
    times: NDArray[np.datetime64]
    offsets: NDArray[np.int64]
    """Start of each impression's candidates, and the end of the last."""
    candidates: NDArray[np.int32]
    clicked: NDArray[np.bool_]
    extras: Mapping[str, Array]
    """Optional columns of the log: one value per impression or per candidate."""
    first_reader: int | None = None
    """With the live protocol: the row of readers/ of the first impression; None: profiles are those of the users."""
    first_pair: int = 0
    """With the live protocol: the row of pairs/ of the first candidate."""

    @cached_property
    def readers(self) -> NDArray[np.int64]:
        """The row of each impression in the table of profiles: its user's, or with the live protocol its own."""
        if self.first_reader is None:
            return np.asarray(self.users).astype(np.int64)
        return self.first_reader + np.arange(len(self.users))

    @cached_property
    def skipped(self) -> NDArray[np.bool_]:
        """Which candidates were seen and not clicked; without a `seen` column all candidates count as seen."""
        seen = self.extras.get("seen")
        unclicked = ~np.asarray(self.clicked)
        return unclicked if seen is None else unclicked & (np.asarray(seen) != 0)

    @property
    def samples(self) -> NDArray[np.bool_]:
        """Which impressions have both a click and a skip, and so can be used for training."""
        both = []
        for piece in self.pieces():
            totals = (np.concatenate([[0], np.cumsum(label)]) for label in (piece.clicked, piece.skipped))
            clicks, skips = (np.diff(total[piece.offsets]) for total in totals)
            both.append((clicks > 0) & (skips > 0))
        return np.concatenate(both) if both else np.zeros(0, np.bool_)

    def pieces(self) -> "Iterator[Impressions]":
        """The impressions, at most a million at a time, so that what is computed from them needs little memory."""
        for start in range(0, len(self), _AT_ONCE):
            stop = min(start + _AT_ONCE, len(self))
            first, end = int(self.offsets[start]), int(self.offsets[stop])
            by_candidate = {name: len(values) == len(self.candidates) for name, values in self.extras.items()}
            yield Impressions(
                ids=Strings(self.ids.offsets[start : stop + 1], self.ids.data),
                users=self.users[start:stop],
                times=self.times[start:stop],
                offsets=self.offsets[start : stop + 1] - first,
                candidates=self.candidates[first:end],
                clicked=self.clicked[first:end],
                extras={
                    name: values[first:end] if by_candidate[name] else values[start:stop]
                    for name, values in self.extras.items()
                },
                first_reader=None if self.first_reader is None else self.first_reader + start,
                first_pair=self.first_pair + first,
            )

    def __len__(self) -> int:
        return len(self.users)


@dataclass(frozen=True)
class Dataset:
    """An open dataset folder."""

    path: Path
    manifest: dict[str, Any]
    arrays: ArrayReader

    @classmethod
    def open(cls, path: Path, *, verify: bool = True) -> "Dataset":
        """Open the dataset at `path`; `verify` compares every file with its checksum."""
        manifest = _read_manifest(path)
        reader = ArrayReader(path, manifest["files"])
        if verify:
            reader.verify()
        return cls(path, manifest, reader)

    def limited(
        self,
        *,
        words: int | None = None,
        clicked: int | None = None,
        skipped: int | None = None,
        neighbours: int | None = None,
    ) -> "Dataset":
        """The dataset cut to the first words of titles, newest stories of profiles and heaviest neighbours.

        Neighbours are those of stories and of users. None: all of them.
        """
        if words is clicked is skipped is neighbours is None:
            return self
        arrays = LimitedReader.of(self.arrays, words=words, clicked=clicked, skipped=skipped, neighbours=neighbours)
        return Dataset(self.path, self.manifest, arrays)

    @property
    def statistics(self) -> dict[str, Any]:
        """The statistics of the paper's Table 1, and more."""
        statistics: dict[str, Any] = self.manifest["statistics"]
        return statistics

    @cached_property
    def news_ids(self) -> Strings:
        """The id of each story; row 0 is padding."""
        return self.arrays.strings("news/id")

    @cached_property
    def titles(self) -> Strings:
        """The title of each story."""
        return self.arrays.strings("news/title")

    @cached_property
    def news_words(self) -> NDArray[np.int32]:
        """(news, words): the words of each story as rows of the vocabulary."""
        return self.arrays.array("news/words")

    @cached_property
    def neighbours(self) -> NDArray[np.int32]:
        """(news, neighbours): the heaviest graph neighbours of each story."""
        return self.arrays.array("news/neighbours")

    @cached_property
    def user_ids(self) -> Strings:
        """The id of each user; row 0 is padding."""
        return self.arrays.strings("users/id")

    @cached_property
    def clicked(self) -> NDArray[np.int32]:
        """(users, l_p): the stories each user clicked, oldest first, then padding."""
        return self.arrays.array("users/clicked")

    @cached_property
    def skipped(self) -> NDArray[np.int32]:
        """(users, l_n): the stories each user skipped, oldest first, then padding."""
        return self.arrays.array("users/skipped")

    @cached_property
    def trained_users(self) -> NDArray[np.bool_]:
        """(users): whether the user has a training sample; all users if the folder has no training impressions."""
        if "users/trained" in self.arrays:
            return self.arrays.array("users/trained")
        trained = np.zeros(len(self.user_ids), dtype=np.bool_)
        if "train/user" in self.arrays:
            train = self.impressions("train")
            trained[np.asarray(train.users)[train.samples]] = True
        else:
            trained[1:] = True
        return trained

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary."""
        return Vocabulary(list(self.arrays.strings("words/word")))

    def category(self, news: int) -> str:
        """The category of a story, empty if it has none."""
        return self._categories[int(self._category_rows[news])]

    def subcategory(self, news: int) -> str:
        """The subcategory of a story, empty if it has none."""
        return self._subcategories[int(self._subcategory_rows[news])]

    @cached_property
    def _categories(self) -> Strings:
        return self.arrays.strings("categories/name")

    @cached_property
    def _subcategories(self) -> Strings:
        return self.arrays.strings("subcategories/name")

    @cached_property
    def _category_rows(self) -> NDArray[np.int32]:
        return self.arrays.array("news/category")

    @cached_property
    def _subcategory_rows(self) -> NDArray[np.int32]:
        return self.arrays.array("news/subcategory")

    @property
    def bytes_to_train(self) -> int:
        """Bytes of the arrays that training reads: stories, profiles, counts and training impressions."""
        train = self.impressions("train")
        arrays = [self.news_words, self.neighbours, self.clicked, self.skipped, train.candidates, train.clicked]
        if self.live:
            names = ("readers/clicked", "readers/skipped", "readers/page", "pairs/counts")
            arrays += [self.arrays.array(name) for name in names]
        return sum(int(array.nbytes) for array in arrays)

    def impressions(self, split: SplitName) -> Impressions:
        """The impressions of one split."""
        required = {"user", "time", "offsets", "candidates", "clicked", "id.offsets", "id.utf8"}
        prefix = f"{split}/"
        stored = [name for name in self.arrays.names if name.startswith(prefix)]
        return Impressions(
            ids=self.arrays.strings(f"{split}/id"),
            users=self.arrays.array(f"{split}/user"),
            times=self.arrays.array(f"{split}/time"),
            offsets=self.arrays.array(f"{split}/offsets"),
            candidates=self.arrays.array(f"{split}/candidates"),
            clicked=self.arrays.array(f"{split}/clicked"),
            extras={
                name.removeprefix(prefix): self.arrays.array(name)
                for name in stored
                if name.removeprefix(prefix) not in required
            },
            first_reader=1 + self._before(split, "user") if self.live else None,
            first_pair=self._before(split, "candidates") if self.live else 0,
        )

    @property
    def live(self) -> bool:
        """Whether the folder was prepared with the live protocol."""
        return "readers/user" in self.arrays

    def _before(self, split: SplitName, array: str) -> int:
        """Rows of an array in the splits before this one."""
        return sum(len(self.arrays.array(f"{name}/{array}")) for name in SPLITS[: SPLITS.index(split)])


def _read_manifest(path: Path) -> dict[str, Any]:
    if not path.exists():
        raise FolderError(f"{path} is missing; prepare it from logs", hint=f"run: drpn prepare LOGS --out {path}")
    file = path / MANIFEST
    if not file.is_file():
        raise FolderError(
            f"{path} is not a dataset folder: it has no {MANIFEST}; prepare one from logs",
            hint="run: drpn prepare LOGS --out FOLDER",
        )
    return read_versioned(
        file,
        version=FORMAT,
        of="a dataset folder",
        error=FolderError,
        remedy="prepare the logs again",
        keys={"files": dict, "settings": dict, "statistics": dict, "sources": list},
    )
