"""A dataset folder in several parts holds the same data, and everything that reads it gives the same results."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from safetensors.torch import load_file

import drpn as api
from drpn.dataset import folder as folder_module
from drpn.dataset.folder import SPLITS, Dataset
from drpn.errors import FolderError
from drpn.logs.engines.duckdb import DuckDB
from drpn.logs.simulate import SimulationSettings, simulate
from drpn.preparation.settings import DataSettings
from drpn.recipes.prepare import prepare

PART_ROWS = 37
PAPER = DataSettings(vector_size=8, user_neighbours=3, history=True)
LIVE = DataSettings(vector_size=8, protocol="live")
TRAINING = {"model.size": 12, "model.heads": 2, "model.hidden": 8, "training.epochs": 1, "training.device": "cpu"}


class Both:
    """The same logs as a dataset folder with whole arrays and as one in parts."""

    def __init__(self, folder: Path, settings: DataSettings, **newsroom: Any) -> None:
        simulate(folder / "logs", SimulationSettings(users=150, news=300, days=5, seed=3, **newsroom))
        self.whole = prepare(folder / "logs", folder / "whole", settings)
        self.parts = prepare(folder / "logs", folder / "parts", replace(settings, part_rows=PART_ROWS))


@pytest.fixture(scope="module")
def paper(tmp_path_factory: pytest.TempPathFactory) -> Both:
    return Both(tmp_path_factory.mktemp("paper"), PAPER)


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Both:
    return Both(tmp_path_factory.mktemp("live"), LIVE, preset="live")


@pytest.fixture(params=["paper", "live"])
def both(request: pytest.FixtureRequest) -> Both:
    value: Both = request.getfixturevalue(request.param)
    return value


def test_every_array_is_equal(both: Both) -> None:
    assert sorted(both.parts.arrays.names) == sorted(both.whole.arrays.names)
    for name in both.whole.arrays.names:
        expected, actual = both.whole.arrays.array(name), both.parts.arrays.array(name)
        assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape), name
        assert np.asarray(actual).tobytes() == np.asarray(expected).tobytes(), name
    assert both.parts.statistics == both.whole.statistics


def test_arrays_do_not_depend_on_the_size_of_batches(
    paper: Both, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows come from the engine in batches of 11, so that all arrays are written in many pieces."""
    stream = DuckDB.stream

    def in_small_batches(engine: DuckDB, expression: Any) -> Iterator[pa.RecordBatch]:
        for batch in stream(engine, expression):
            yield from (batch.slice(start, 11) for start in range(0, batch.num_rows, 11))

    monkeypatch.setattr(DuckDB, "stream", in_small_batches)
    settings = replace(PAPER, part_rows=PART_ROWS)
    again = prepare(paper.whole.path.parent / "logs", tmp_path / "again", settings)
    assert again.manifest["files"] == paper.parts.manifest["files"]


def test_parts_hold_the_same_users_or_impressions(both: Both) -> None:
    """Every array of a split is cut at the same impressions, and its candidates between two of them."""
    arrays, folder = both.parts.arrays, both.parts.path
    for split in SPLITS:
        impressions = both.whole.impressions(split)
        bounds = [*range(0, len(impressions), PART_ROWS), len(impressions)]
        for name in arrays.names:
            if name.startswith(f"{split}/"):
                files = [folder / f"{name}.part-{number}.npy" for number in range(len(bounds) - 1)]
                files = files if len(files) > 1 else [folder / f"{name}.npy"]
                ends = np.cumsum([len(np.load(file)) for file in files])
                rows = len(both.whole.arrays.array(name))
                if rows == len(impressions.candidates):
                    assert ends.tolist() == impressions.offsets[bounds[1:]].tolist(), name
                elif not name.endswith("utf8"):
                    assert ends.tolist() == [*bounds[1:-1], rows], name
    assert len(list(folder.glob("train/user.part-*.npy"))) > 2
    users = len(both.whole.user_ids)
    assert len(list(folder.glob("users/clicked.part-*.npy"))) == -(-users // PART_ROWS)
    assert not list(folder.glob("news/*.part-*"))


def test_the_manifest_covers_every_file(both: Both) -> None:
    files = {file.relative_to(both.parts.path).as_posix() for file in both.parts.path.rglob("*.npy")}
    assert files == set(both.parts.manifest["files"])
    Dataset.open(both.parts.path)


def test_pieces_are_the_impressions(both: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    for data in (both.whole, both.parts):
        for split in SPLITS:
            impressions = data.impressions(split)
            samples = impressions.samples
            with monkeypatch.context() as patch:
                patch.setattr(folder_module, "_AT_ONCE", 13)
                pieces = list(impressions.pieces())
                np.testing.assert_array_equal(impressions.samples, samples)
            assert [len(piece) for piece in pieces[:-1]] == [13] * (len(pieces) - 1)
            assert [name for piece in pieces for name in piece.ids] == list(impressions.ids)
            for name in ("users", "times", "candidates", "clicked", "skipped", "readers"):
                joined = np.concatenate([getattr(piece, name) for piece in pieces])
                np.testing.assert_array_equal(joined, getattr(impressions, name))
            for name, values in impressions.extras.items():
                np.testing.assert_array_equal(np.concatenate([piece.extras[name] for piece in pieces]), values)
            sizes = np.concatenate([np.diff(piece.offsets) for piece in pieces])
            np.testing.assert_array_equal(sizes, np.diff(impressions.offsets))
            pairs = [piece.first_pair + len(piece.candidates) for piece in pieces]
            assert not data.live or pairs[:-1] == [piece.first_pair for piece in pieces[1:]]


def test_few_rows_are_in_one_file(both: Both) -> None:
    assert not list(both.whole.path.rglob("*.part-*"))


@pytest.mark.parametrize("file", ["train/candidates.part-1.npy", "users/id.utf8.part-0.npy"])
def test_a_missing_or_changed_part_is_named(paper: Both, tmp_path: Path, drpn: Callable[..., Any], file: str) -> None:
    folder = tmp_path / "dataset"
    subprocess.run(["cp", "-r", paper.parts.path, folder], check=True)
    part = folder / file
    content = part.read_bytes()
    part.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    done = drpn("stats", folder)
    assert done.returncode != 0
    assert f"{file} has changed since it was written; prepare the logs again" in done.stderr
    part.unlink()
    with pytest.raises(FolderError, match=rf"{file} is missing; prepare the logs again"):
        Dataset.open(folder)


def test_statistics_are_the_same(paper: Both, drpn: Callable[..., Any]) -> None:
    told = [json.loads(drpn("stats", data.path, "--json").stdout) for data in (paper.whole, paper.parts)]
    assert told[0] == told[1]


@pytest.mark.parametrize(("protocol", "model"), [("paper", "drpn"), ("live", "drpn-live")])
@pytest.mark.usefixtures("one_thread")
def test_training_and_evaluation_are_the_same(
    protocol: str, model: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Weights to the bit, from whole folders and from parts; profiles are cut, too."""
    both: Both = request.getfixturevalue(protocol)
    cut = {"model.max_clicked": 7, "model.max_skipped": 9} if protocol == "paper" else {}
    runs = []
    for name, data in (("whole", both.whole), ("parts", both.parts)):
        api.train(data, tmp_path / name, model=model, settings=TRAINING | cut)
        bundle = tmp_path / name / "bundle"
        weights = load_file(next(bundle.rglob("*.safetensors")))
        arrays = {str(file.relative_to(bundle)): file.read_bytes() for file in bundle.rglob("*.npy")}
        runs.append((weights, arrays, api.evaluate(tmp_path / name).rows))
    (weights, arrays, rows), (weights_of_parts, arrays_of_parts, rows_of_parts) = runs
    assert weights.keys() == weights_of_parts.keys()
    assert all(torch.equal(weights[name], weights_of_parts[name]) for name in weights)
    assert arrays == arrays_of_parts
    assert rows == rows_of_parts


@pytest.mark.real
def test_two_processes_train_on_parts(paper: Both, tmp_path: Path) -> None:
    """The same weights as two processes that read whole arrays."""
    sets = [part for key, value in TRAINING.items() for part in ("--set", f"{key}={value}")]
    start = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "drpn"]
    for name, data in (("whole", paper.whole), ("parts", paper.parts)):
        subprocess.run([*start, "train", data.path, "--out", tmp_path / name, *sets], check=True, capture_output=True)
    one, two = (load_file(next((tmp_path / name / "bundle").rglob("*.safetensors"))) for name in ("whole", "parts"))
    assert all(torch.equal(one[name], two[name]) for name in one)
