"""A bundle: a trained model with everything it needs to rank. It contains no pickles.

model.safetensors   the weights
manifest.json       model, settings, data, metrics, commit, and a sha256 of every file
README.md           the model card: the same for human readers
news/ users/ …      the arrays of the dataset folder that ranking needs. Profiles are as of the end of the log:
                    users/ holds the arrays of the dataset folder's latest/ in place of the profile window
counts/ names/      for models that read counts: the counts as of the end of the log, and the texts of codes
"""

import dataclasses
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from drpn.bundle.card import card
from drpn.dataset.arrays import Array, ArrayReader, sha256
from drpn.dataset.folder import SPLITS, Dataset, Impressions
from drpn.dataset.reader_columns import TEXTS
from drpn.dataset.requirements import REQUIREMENTS
from drpn.dataset.times import end_of_log
from drpn.errors import FolderError, RunError
from drpn.layers.context import LiveShape
from drpn.layers.news import IdVectors, UserVectors
from drpn.models.base import ClickModel, DataShape, ModelSettings
from drpn.models.catalogue import CATALOGUE
from drpn.output import atomic_file, atomic_folder
from drpn.state.count_columns import PAGE, PAIR
from drpn.version import VERSION
from drpn.versioned import read_versioned, write_versioned

_REMEDY = "train again, or copy the whole bundle again"
FORMAT = 1
MANIFEST, WEIGHTS, CARD = "manifest.json", "model.safetensors", "README.md"
_LATEST = "latest/"
_KEYS = {"files": dict, "model": str, "settings": dict, "data": dict}
_PREFIXES = (
    "news/",
    "categories/",
    "subcategories/",
    "users/",
    "words/word",
    "entities/id",
    "counts/",
    *TEXTS,
    _LATEST,
)
_LEFT_OUT = ("news/abstract.", "news/title_entities", "news/abstract_entities", "news/entities")


def data_shape(dataset: Dataset) -> DataShape:
    """The sizes of a dataset's tables, and its word, entity and context vectors if it has them."""
    arrays = dataset.arrays
    word_vectors, entity_vectors, context_vectors = (
        np.asarray(arrays.array(name)) if name in arrays else None
        for name in ("words/vector", "entities/vector", "entities/context")
    )
    has_entities = REQUIREMENTS["entities"].array in arrays
    return DataShape(
        news=len(dataset.news_ids),
        words=len(dataset.vocabulary),
        users=len(dataset.user_ids),
        categories=len(arrays.strings("categories/name")),
        subcategories=len(arrays.strings("subcategories/name")),
        vectors=word_vectors,
        entities=len(arrays.strings("entities/id")) if has_entities else 0,
        entity_vectors=entity_vectors if has_entities else None,
        context_vectors=context_vectors,
        live=_live_shape(dataset),
    )


def _live_shape(dataset: Dataset) -> LiveShape | None:
    live = dataset.statistics.get("live")
    if live is None:
        return None
    if (tuple(live["pair"]), tuple(live["page"])) != (PAIR, PAGE):
        raise FolderError(f"{dataset.path} has other counts than this version of drpn reads; prepare and train again")
    return LiveShape(tuple(live["user"].values()))


def write_bundle(
    folder: Path, model: ClickModel, *, name: str, settings: Any, dataset: Dataset, facts: dict[str, Any]
) -> None:
    """Write the bundle of a model trained on a dataset; its manifest gets `facts`: metrics, training, commit, run …"""
    with atomic_folder(folder, replace=True) as scratch:
        weights = {key: value.detach().cpu().contiguous() for key, value in model.state_dict().items()}
        with atomic_file(scratch / WEIGHTS) as file:
            save_file(weights, file)
        for array in _arrays_to_ship(dataset, model.requirements):
            shipped = scratch / f"{array.replace(_LATEST, 'users/')}.npy"
            shipped.parent.mkdir(exist_ok=True)
            dataset.arrays.copy(array, shipped)
        np.save(scratch / "news" / "recent.npy", _recent(dataset))
        np.save(scratch / "news" / "first_seen.npy", _first_seen(dataset))
        np.save(scratch / "news" / "recent_clicks.npy", _recent_clicks(dataset))
        np.save(scratch / "users" / "trained.npy", dataset.trained_users)
        shape = data_shape(dataset)
        manifest = {
            "format": FORMAT,
            "drpn": VERSION,
            "model": name,
            "settings": dataclasses.asdict(settings),
            "word_vector_size": _columns(shape.vectors),
            "entity_vector_size": _columns(shape.entity_vectors),
            "context_vector_size": _columns(shape.context_vectors),
            "data": {key: dataset.manifest[key] for key in ("settings", "statistics", "sources")}
            | {"as_of": (end := str(_end(dataset)))}
            | ({"profiles_as_of": end} if f"{_LATEST}clicked" in dataset.arrays else {}),
            **facts,
        }
        (scratch / CARD).write_text(card(manifest), encoding="utf-8")
        files = sorted(path for path in scratch.rglob("*") if path.is_file() and path.name != ".drpn")
        manifest["files"] = {path.relative_to(scratch).as_posix(): sha256(path) for path in files}
        write_versioned(scratch / MANIFEST, manifest)


def _arrays_to_ship(dataset: Dataset, needs: tuple[str, ...]) -> list[str]:
    """The arrays of a dataset folder that a model with these `needs` ranks with."""
    if "counts" in needs:
        needs = (*needs, "abstracts")  # counts compare texts, which are titles with abstracts where a dataset has them
    unneeded = [
        prefix for need, requirement in REQUIREMENTS.items() if need not in needs for prefix in requirement.shipped
    ]
    window = ("users/clicked", "users/skipped") if f"{_LATEST}clicked" in dataset.arrays else ()
    excluded = (*_LEFT_OUT, *unneeded, *window)
    return [name for name in dataset.arrays.names if name.startswith(_PREFIXES) and not name.startswith(excluded)]


def _columns(vectors: Array | None) -> int | None:
    return None if vectors is None else vectors.shape[1]


def _end(dataset: Dataset) -> np.datetime64:
    return end_of_log(np.concatenate([dataset.impressions(split).times for split in SPLITS]))


def _recent(dataset: Dataset) -> Any:
    """Whether each story was shown in the last 24 hours of the log; only such stories are recommended by default."""
    recent = np.zeros(len(dataset.news_ids), dtype=np.bool_)
    for impressions, last_day in _last_day(dataset):
        recent[np.asarray(impressions.candidates)[last_day]] = True
    recent[0] = False
    return recent


def _recent_clicks(dataset: Dataset) -> Any:
    """The clicks on each story in the last 24 hours of the log."""
    clicks = np.zeros(len(dataset.news_ids), dtype=np.int64)
    for impressions, last_day in _last_day(dataset):
        clicked = np.asarray(impressions.candidates)[last_day & np.asarray(impressions.clicked)]
        clicks += np.bincount(clicked, minlength=len(clicks))
    return clicks


def _last_day(dataset: Dataset) -> Iterator[tuple[Impressions, NDArray[np.bool_]]]:
    """Yield the impressions of each split, and whether each candidate was shown in the last 24 hours of the log."""
    end = _end(dataset)
    for split in SPLITS:
        impressions = dataset.impressions(split)
        times = np.asarray(impressions.times).astype("datetime64[s]")
        last_day = (times >= end - np.timedelta64(24, "h")) & (times <= end)
        yield impressions, np.repeat(last_day, np.diff(impressions.offsets))


def _first_seen(dataset: Dataset) -> Any:
    """The time at which each story was published or, if the log does not say, first shown after the profile window.

    A story shown in the profile window counts as first shown at the start of training. NaT for a story never shown.
    """
    first = np.full(len(dataset.news_ids), np.datetime64("NaT", "s"))
    for split in reversed(SPLITS):
        impressions = dataset.impressions(split)
        times = np.repeat(np.asarray(impressions.times), np.diff(impressions.offsets)).astype("datetime64[s]")
        # impressions are sorted by time: assigned from the end, the earliest time remains
        first[np.asarray(impressions.candidates)[::-1]] = times[::-1]
    train = dataset.impressions("train")
    in_training = np.bincount(np.asarray(train.candidates), minlength=len(first))
    in_window = np.asarray(dataset.arrays.array("news/times_shown")) > in_training
    first[in_window] = np.asarray(train.times).min().astype("datetime64[s]")
    if "news/published" in dataset.arrays:
        published = np.asarray(dataset.arrays.array("news/published")).astype("datetime64[s]")
        # a story cannot have been published after the end of the log: then its clock was wrong
        first = np.where(np.isnat(published) | (published > _end(dataset)), first, published)
    return first


@dataclasses.dataclass(frozen=True)
class Bundle:
    """An opened bundle: the model with its weights, and the stories and users it knows."""

    path: Path
    manifest: dict[str, Any]
    model: ClickModel
    settings: Any
    data: Dataset

    @classmethod
    def open(cls, path: Path, *, mapped: bool = False) -> "Bundle":
        """Read the bundle at `path` and verify all its checksums.

        With `mapped`, the weights stay in their file: processes that open the same bundle share one copy of them.
        """
        manifest = read_manifest(path)
        reader = ArrayReader(path, manifest["files"], error=RunError, remedy=_REMEDY)
        reader.verify()
        data = Dataset(path, {"statistics": manifest["data"]["statistics"]}, reader)
        entry = CATALOGUE.get(manifest["model"])
        if entry is None:
            raise RunError(
                f"{path} holds the model '{manifest['model']}', which this version of drpn does not have; train again"
            )
        settings = _settings(path, type(entry.settings), manifest["settings"])
        shape = data_shape(data)
        # the vectors themselves are among the weights; the model needs only their size
        shape = dataclasses.replace(
            shape,
            vectors=_zero_vectors(shape.words, manifest["word_vector_size"]),
            entity_vectors=_zero_vectors(shape.entities, manifest.get("entity_vector_size")),
            context_vectors=_zero_vectors(shape.entities, manifest.get("context_vector_size")),
        )
        model = entry.model(settings, shape)
        try:
            weights = _stories_met(model, data) | _read_weights(reader.file(WEIGHTS))
            model.load_state_dict(weights, assign=mapped)
        except RuntimeError as error:
            raise RunError(f"{path / WEIGHTS} does not fit the settings of {path / MANIFEST}; train again") from error
        return cls(path, manifest, model.eval(), settings, data)

    @property
    def as_of(self) -> datetime | None:
        """The end of the log, UTC: the time of its last impression, unless that hangs on a few wrong clocks.

        None in bundles of older versions.
        """
        text = self.manifest["data"].get("as_of")
        return None if text is None else datetime.fromisoformat(text).replace(tzinfo=UTC)

    @property
    def profiles_as_of(self) -> datetime | None:
        """The moment of the profiles, UTC: the end of the log.

        None if they end before the training days, as in bundles of datasets that older versions prepared.
        """
        text = self.manifest["data"].get("profiles_as_of")
        return None if text is None else datetime.fromisoformat(text).replace(tzinfo=UTC)

    def all_clicked(self, user: int) -> list[str] | None:
        """The ids of all stories that a user clicked in the log, also of those beyond the profile.

        None in bundles of datasets that older versions prepared.
        """
        if self._all_clicked is None:
            return None
        offsets, news = self._all_clicked
        start, stop = offsets[user : user + 2].tolist()
        return [self.news_ids[row] for row in news[start:stop].tolist()]

    @cached_property
    def news_ids(self) -> list[str]:
        """The ids of all stories by row, in memory: profiles of all users are read at the start of a service."""
        return list(self.data.news_ids)

    @cached_property
    def _all_clicked(self) -> tuple[Array, Array] | None:
        arrays, name = self.data.arrays, "users/all_clicked"
        return (arrays.array(f"{name}_offsets"), arrays.array(name)) if name in arrays else None

    def first_seen(self, row: int) -> datetime | None:
        """The time at which a story was published or first shown, UTC; None if unknown."""
        if "news/first_seen" not in self.data.arrays:
            raise RunError(f"{self.path} was written without the ages of stories; train again to limit them")
        moment = self.data.arrays.array("news/first_seen")[row]
        return None if np.isnat(moment) else moment.astype("datetime64[s]").item().replace(tzinfo=UTC)

    def published(self, rows: Array) -> NDArray[np.int64]:
        """The times at which stories were published or first shown, as seconds since 1970; lowest number: unknown."""
        if "news/first_seen" not in self.data.arrays:
            raise RunError(f"{self.path} was written without the ages of stories; train again to mix in fresh stories")
        seconds: NDArray[np.int64] = (
            self.data.arrays.array("news/first_seen")[rows].astype("datetime64[s]").view("int64")
        )
        return seconds

    def recent_clicks(self, rows: Array) -> NDArray[np.int64]:
        """The clicks on stories in the last 24 hours of the log."""
        if "news/recent_clicks" not in self.data.arrays:
            raise RunError(f"{self.path} was written without clicks on stories; train again to mix in popular stories")
        clicks: NDArray[np.int64] = self.data.arrays.array("news/recent_clicks")[rows]
        return clicks


def _stories_met(model: ClickModel, data: Dataset) -> dict[str, Tensor]:
    """What bundles of older versions do not say: the stories whose id vectors count were those shown before the end."""
    shown = torch.from_numpy(np.asarray(data.arrays.array("news/times_shown")) > 0)
    of_users = {f"{name}.ids" for name, module in model.named_modules() if isinstance(module, UserVectors)}
    ids = {name: module for name, module in model.named_modules() if isinstance(module, IdVectors)}
    return {f"{name}.met": module.met if name in of_users else shown for name, module in ids.items()}


def _zero_vectors(rows: int, size: int | None) -> NDArray[np.float32] | None:
    return np.zeros((rows, size), dtype=np.float32) if rows and size else None


def _settings(path: Path, kind: type[ModelSettings], values: dict[str, Any]) -> Any:
    try:
        return kind(**kind.former | values)
    except (TypeError, ValueError) as error:
        raise RunError(
            f"{path / MANIFEST} has settings that this version of drpn does not accept ({error}); train again"
        ) from error


def read_manifest(path: Path) -> dict[str, Any]:
    file = path / MANIFEST
    if not file.is_file():
        raise RunError(
            f"{path} is not a bundle: it has no {MANIFEST}; train a model first",
            hint="run: drpn train FOLDER --out RUN",
        )
    manifest = read_versioned(file, version=FORMAT, of="a bundle", error=RunError, remedy="train again", keys=_KEYS)
    if WEIGHTS not in manifest["files"]:
        raise RunError(f"{file} does not list {WEIGHTS}; {_REMEDY}")
    return manifest


def bundle_run(path: Path) -> str | None:
    """The fingerprint of the run that wrote the bundle at `path`; None in bundles of older versions."""
    run: str | None = read_manifest(path).get("run")
    return run


def _read_weights(file: Path) -> dict[str, Tensor]:
    try:
        weights: dict[str, Tensor] = load_file(file)
    except (SafetensorError, OSError) as error:
        raise RunError(f"{file} is not a valid file of weights: {error}; train again") from error
    return weights


def pick_device() -> torch.device:
    """The GPU if there is one, else the CPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")
