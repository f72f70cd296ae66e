"""One process writes to a folder at a time, and nobody else's files are replaced."""

import errno
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from drpn.errors import OutputError
from drpn.logs.simulate import SimulationSettings, simulate
from drpn.output import LOCK, atomic_file, atomic_folder, lock_folder, lock_target
from drpn.recipes.prepare import prepare
from drpn.recipes.train import train
from drpn.training.settings import TrainingSettings
from small_comparison import Notes
from small_training import AS_COMMAND, COMMAND, small, train_small
from terminal import start_command
from test_output import fill
from waiting import wait_until

HOLD = """
import sys, time
from pathlib import Path
from drpn import output
with getattr(output, sys.argv[1])(Path(sys.argv[2])) as scratch:
    if scratch and scratch.is_dir():
        (scratch / "a.txt").write_text("theirs")
    print("writing", flush=True)
    sys.stdin.read()
"""
Start = Callable[[str, Path], subprocess.Popen[str]]


@pytest.fixture
def start() -> Iterator[Start]:
    """A function that starts a process which writes to a place until its standard input is closed."""
    started: list[subprocess.Popen[str]] = []

    def run(kind: str, target: Path) -> subprocess.Popen[str]:
        arguments = [sys.executable, "-c", HOLD, kind, str(target)]
        process = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "writing\n"
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_folder_that_appears_meanwhile_is_kept(tmp_path: Path) -> None:
    def write(*, replace: bool) -> None:
        with atomic_folder(tmp_path / "out", replace=replace) as scratch:
            (scratch / "a.txt").write_text("ours")
            (tmp_path / "out").mkdir(exist_ok=True)
            (tmp_path / "out" / "thesis.txt").write_text("all I have")

    for replace in (False, True):
        with pytest.raises(OutputError, match="was made by someone else meanwhile and is left as it is"):
            write(replace=replace)
        assert names(tmp_path) == ["out"]
        assert names(tmp_path / "out") == ["thesis.txt"]
        (tmp_path / "out" / "thesis.txt").unlink()  # an empty folder may be used


@pytest.mark.parametrize("make", [Path.touch, lambda path: path.symlink_to("elsewhere")])
def test_a_file_or_link_that_appears_meanwhile_is_kept(tmp_path: Path, make: Callable[[Path], None]) -> None:
    with pytest.raises(OutputError, match="was made by someone else meanwhile"), atomic_folder(tmp_path / "out"):
        make(tmp_path / "out")
    assert names(tmp_path) == ["out"]
    assert not (tmp_path / "out").is_dir()


def test_only_the_folder_that_was_there_before_is_replaced(tmp_path: Path) -> None:
    def write() -> None:
        with atomic_folder(tmp_path / "out", replace=True):
            (tmp_path / "out").rename(tmp_path / "saved")
            fill(tmp_path / "other", "theirs")
            (tmp_path / "other").rename(tmp_path / "out")

    fill(tmp_path / "out", "one")
    with pytest.raises(OutputError, match="was made by someone else meanwhile"):
        write()
    assert names(tmp_path) == ["out", "saved"]
    assert (tmp_path / "out" / "a.txt").read_text() == "theirs"
    assert (tmp_path / "saved" / "a.txt").read_text() == "one"


def test_a_link_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "out").symlink_to(tmp_path / "real")
    with pytest.raises(OutputError, match="out is a symbolic link; name the folder itself"):
        fill(tmp_path / "out", "one", replace=True)
    assert (tmp_path / "out").is_symlink()


@pytest.mark.parametrize("kind", ["atomic_folder", "atomic_file", "lock_folder", "lock_target"])
def test_a_second_writer_is_refused_until_the_first_ends_or_dies(tmp_path: Path, start: Start, kind: str) -> None:
    writers = {
        "atomic_folder": atomic_folder, "atomic_file": atomic_file, "lock_folder": lock_folder,
        "lock_target": lock_target,
    }  # fmt: skip
    target, write = tmp_path / "out", writers[kind]
    first = start(kind, target)
    message = r"another process is using .*out; wait for it or choose another place"
    with pytest.raises(OutputError, match=message), write(target):
        pass
    first.send_signal(signal.SIGKILL)  # no handler runs
    first.wait()
    with write(target) as scratch:
        if kind == "atomic_folder":
            (scratch / "a.txt").write_text("ours")
    left_behind = [name for name in names(tmp_path) if name != "out"]
    assert all(name.startswith(".out.") and name.endswith(".partial") for name in left_behind), left_behind
    assert len(left_behind) == (kind == "atomic_folder")  # the scratch folder of the dead process
    if kind == "atomic_folder":
        assert (tmp_path / "out" / "a.txt").read_text() == "ours"


def test_a_writer_that_ends_leaves_no_lock(tmp_path: Path, start: Start) -> None:
    for kind in ("atomic_folder", "lock_folder", "lock_target"):
        process = start(kind, tmp_path / kind)
        process.communicate("")
        assert process.returncode == 0
    assert names(tmp_path) == ["atomic_folder"]


def test_the_current_folder_can_be_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with lock_target(Path()), pytest.raises(OutputError, match="another process is using"):
        fill(tmp_path / "here", "one")
    assert names(tmp_path) == ["here"]


def test_files_that_look_like_locks_are_kept(tmp_path: Path) -> None:
    (tmp_path / ".lock").write_text("of another program")
    with lock_folder(tmp_path):
        assert names(tmp_path) == [LOCK, ".lock"]
    assert (tmp_path / ".lock").read_text() == "of another program"
    (tmp_path / "precious").write_text("mine")
    (tmp_path / LOCK).symlink_to(tmp_path / "precious")
    with pytest.raises(OutputError, match="cannot be written"), lock_folder(tmp_path):
        pass
    assert (tmp_path / "precious").read_text() == "mine"


def test_many_writers_of_one_folder(tmp_path: Path) -> None:
    """Many processes write to the same place again and again; each one either succeeds completely or is refused."""
    script = """
import sys, time
from pathlib import Path
from drpn.errors import OutputError
from drpn.output import atomic_folder
out, name, done = Path(sys.argv[1]), sys.argv[2], 0
for turn in range(60):
    try:
        with atomic_folder(out, replace=True) as scratch:
            for part in "ab":
                (scratch / part).write_text(f"{name} {turn}")
        done += 1
    except OutputError as error:
        assert "another process is using" in str(error), error
        time.sleep(0.001)
print(done)
"""
    arguments = [[sys.executable, "-c", script, str(tmp_path / "out"), str(number)] for number in range(4)]
    processes = [
        subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for words in arguments
    ]
    outputs = [process.communicate(timeout=120) for process in processes]
    assert [process.returncode for process in processes] == [0] * 4, outputs
    assert sum(int(out) for out, _ in outputs) > 4
    assert (tmp_path / "out" / "a").read_text() == (tmp_path / "out" / "b").read_text()
    assert names(tmp_path) == ["out"]


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("writers") / "logs"
    simulate(folder, SimulationSettings(users=40, news=300, seed=1))
    return folder


@pytest.fixture(scope="module")
def data(logs: Path) -> Path:
    return prepare(logs, logs.parent / "data").path


def started_writing(folder: Path) -> bool:
    return any(path.name.startswith(".data.") and path.name.endswith(".partial") for path in folder.iterdir())


def test_prepare_keeps_a_folder_that_appears_while_it_runs(logs: Path, tmp_path: Path) -> None:
    process = start_command("prepare", logs, "--out", tmp_path / "data")
    try:
        wait_until(lambda: started_writing(tmp_path), process, pause=0.002)
        (tmp_path / "data").mkdir()
        (tmp_path / "data" / "thesis.txt").write_text("all I have")
        error = process.communicate(timeout=120)[1]
    finally:
        process.kill()
    assert process.returncode == 2
    assert "data was made by someone else meanwhile and is left as it is; choose another folder" in error
    assert names(tmp_path / "data") == ["thesis.txt"]
    assert names(tmp_path) == ["data"]


def test_of_two_prepares_one_is_refused_and_a_killed_one_is_not_in_the_way(logs: Path, tmp_path: Path) -> None:
    first = start_command("prepare", logs, "--out", tmp_path / "data")
    try:
        wait_until(lambda: started_writing(tmp_path), first, pause=0.002)
        with pytest.raises(OutputError, match=r"another process is using .*data"):
            prepare(logs, tmp_path / "data")
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
    finally:
        first.kill()
        first.communicate()
    assert not (tmp_path / "data").exists()
    assert prepare(logs, tmp_path / "data").statistics["users"] > 0


def test_of_two_trainings_one_is_refused_and_a_killed_one_is_resumed(data: Path, tmp_path: Path) -> None:
    (tmp_path / "data").symlink_to(data)
    first = start_command(*COMMAND, cwd=tmp_path)
    run = tmp_path / "run"
    try:
        wait_until((run / "checkpoint.safetensors").exists, first, pause=0.002)
        first.send_signal(signal.SIGSTOP)  # it holds its lock while it does nothing
        for resume in (False, True):
            with pytest.raises(OutputError, match=r"another process is using .*run"):
                train(tmp_path / "data", run, resume=resume)
        first.kill()
        first.wait()
    finally:
        first.kill()
        first.communicate()
    assert LOCK in names(run)  # left behind by the dead process
    notes = Notes()
    settings = TrainingSettings(**AS_COMMAND)
    train(tmp_path / "data", run, settings=small("drpn"), training=settings, resume=True, progress=notes)
    assert notes.messages[1].startswith("resumed in epoch")
    assert LOCK not in names(run)


def test_a_failed_training_leaves_no_folder(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="is missing"):
        train_small(tmp_path / "missing", tmp_path / "deep" / "run")
    assert names(tmp_path) == []


def test_of_two_searches_for_one_model_one_is_refused(data: Path, tmp_path: Path) -> None:
    from drpn.experiments.tune import tune

    with lock_target(tmp_path / "tuned.toml.nrms"), pytest.raises(OutputError, match="another process is using"):
        tune(data, tmp_path / "tuned.toml", model="nrms")
    assert names(tmp_path) == []


def test_of_two_demos_one_is_refused_while_the_other_trains(tmp_path: Path) -> None:
    from drpn.recipes.demo import demo

    with lock_target(tmp_path / "demo"), pytest.raises(OutputError, match=r"another process is using .*demo"):
        demo(tmp_path / "demo", users=100, train=False)
    assert names(tmp_path) == []


def test_a_demo_does_not_replace_other_folders(data: Path) -> None:
    from drpn.recipes.demo import demo

    before = names(data)
    with pytest.raises(OutputError, match="data was not made by a demo and will not be replaced"):
        demo(data, users=100, train=False)
    assert names(data) == before


def test_a_file_system_without_locks_can_be_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unsupported(*_: object) -> None:
        raise OSError(errno.ENOTSUP, "Operation not supported")

    monkeypatch.setattr("fcntl.flock", unsupported)
    fill(tmp_path / "out", "one")
    assert names(tmp_path) == ["out"]


def test_a_link_in_a_run_folder_is_not_followed(data: Path, tmp_path: Path) -> None:
    """The folder of a run may come from someone else, with links in the place of files that training writes."""
    run = train_small(data, tmp_path / "run", epochs=2)
    shutil.rmtree(run / "bundle")
    precious = tmp_path / "precious"
    precious.write_text("mine")
    (run / "curve.png").unlink()
    (run / "curve.png").symlink_to(precious)
    train_small(data, run, epochs=2, resume=True)
    assert precious.read_text() == "mine"
    (run / ".curve.jsonl.partial").symlink_to(precious)
    (run / "checkpoint.safetensors").unlink()
    shutil.rmtree(run / "bundle")
    with pytest.raises(OutputError, match=r"curve.jsonl cannot be written"):
        train_small(data, run, epochs=2, resume=True)
    assert precious.read_text() == "mine"
