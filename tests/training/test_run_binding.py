"""A run accepts its own bundle and checkpoint only."""

import json
import shutil
from pathlib import Path

import pytest

from drpn.errors import RunError
from drpn.recipes.evaluate import evaluate
from drpn.recipes.runs import BUNDLE, RUN, Run
from drpn.training.loop import CHECKPOINT
from drpn.versioned import write_versioned
from small_training import train_small, weights

Pair = tuple[Path, Path]


@pytest.fixture(scope="module")
def finished_once(newsroom: Path, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """Two runs that differ in their seed alone."""
    folder = tmp_path_factory.mktemp("finished")
    first, second = (train_small(newsroom, folder / f"seed-{seed}", epochs=1, seed=seed) for seed in (0, 1))
    return first, second


@pytest.fixture
def finished(finished_once: Pair, tmp_path: Path) -> Pair:
    """Copies of the two runs."""
    first, second = (shutil.copytree(run, tmp_path / run.name) for run in finished_once)
    return first, second


def swap(first: Path, second: Path, name: str) -> None:
    """Put a file or folder of the second run in the place of that of the first."""
    if (first / name).is_dir():
        shutil.rmtree(first / name)
        shutil.copytree(second / name, first / name)
    else:
        shutil.copyfile(second / name, first / name)


def as_written_before(run: Path) -> None:
    """Remove the fingerprint from a run and its bundle, as older versions wrote them."""
    facts = json.loads((run / RUN).read_text())
    del facts["fingerprint"]
    (run / RUN).write_text(json.dumps(facts))
    manifest = json.loads((run / BUNDLE / "manifest.json").read_text())
    del manifest["checksum"], manifest["run"]
    write_versioned(run / BUNDLE / "manifest.json", manifest)


def test_the_bundle_of_another_run_is_refused(finished: Pair, newsroom: Path) -> None:
    first, second = finished
    assert weights(first) != weights(second)
    swap(first, second, BUNDLE)
    message = f"{first}/bundle is the bundle of another run; put back the run's own, or train again"
    for use in (lambda: Run.open(first).bundle(), lambda: evaluate(first)):
        with pytest.raises(RunError) as raised:
            use()
        assert str(raised.value) == message
    with pytest.raises(RunError) as raised:
        train_small(newsroom, first, epochs=1, seed=0, resume=True)
    assert str(raised.value) == message
    assert Run.open(second).bundle()


def test_the_checkpoint_of_another_seed_is_not_resumed(finished: Pair, newsroom: Path) -> None:
    first, second = finished
    shutil.rmtree(first / BUNDLE)
    own = (first / CHECKPOINT).read_bytes()
    swap(first, second, CHECKPOINT)
    with pytest.raises(RunError) as raised:
        train_small(newsroom, first, epochs=1, seed=0, resume=True)
    assert str(raised.value) == (
        f"{first / CHECKPOINT} is a checkpoint of another run; put back the run's own, or remove it to train again"
    )
    assert not (first / BUNDLE).exists()
    assert Run.open(first).facts["settings"]["training"]["seed"] == 0
    (first / CHECKPOINT).write_bytes(own)
    train_small(newsroom, first, epochs=1, seed=0, resume=True)
    assert Run.open(first).bundle()


def test_a_run_can_be_moved_as_a_whole(finished: Pair, newsroom: Path, tmp_path: Path) -> None:
    first, _ = finished
    before = weights(first)
    moved = first.rename(tmp_path / "moved")
    assert Run.open(moved).bundle()
    shutil.rmtree(moved / BUNDLE)
    train_small(newsroom, moved, epochs=1, seed=0, resume=True)
    assert weights(moved) == before


def test_device_settings_may_change_on_resume(finished: Pair, newsroom: Path) -> None:
    first, _ = finished
    before = Run.open(first).fingerprint
    shutil.rmtree(first / BUNDLE)
    changed = {"device": "auto", "compile": False, "record": False, "save_seconds": 5.0}
    train_small(newsroom, first, epochs=1, seed=0, resume=True, **changed)
    assert Run.open(first).bundle().manifest["run"] == Run.open(first).fingerprint == before


@pytest.mark.parametrize(
    ("changes", "same"), [({"save_seconds": 5.0}, True), ({"tce_rate": 0.1}, True), ({"rate": 0.01}, False)]
)
def test_only_settings_with_an_effect_change_the_fingerprint(
    finished_once: Pair, newsroom: Path, tmp_path: Path, changes: dict[str, float], same: bool
) -> None:
    run = train_small(newsroom, tmp_path / "run", epochs=1, seed=0, **changes)
    assert (Run.open(run).fingerprint == Run.open(finished_once[0]).fingerprint) == same


def test_runs_without_a_fingerprint_still_open_and_resume(finished: Pair, newsroom: Path) -> None:
    first, second = finished
    as_written_before(first)
    assert Run.open(first).fingerprint is None
    assert Run.open(first).bundle()
    shutil.rmtree(first / BUNDLE)
    (first / CHECKPOINT).unlink()
    train_small(newsroom, first, epochs=1, seed=0, resume=True)
    assert "run" not in Run.open(first).bundle().manifest
    swap(first, second, BUNDLE)
    with pytest.raises(RunError, match="is the bundle of another run"):
        Run.open(first).bundle()
