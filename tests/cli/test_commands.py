"""The commands, as a user types them."""

import json
import subprocess
import sys
from inspect import signature
from pathlib import Path

import pytest

from drpn.cli.app import app
from drpn.cli.app import demo as demo_command
from drpn.dataset.folder import Dataset
from drpn.models.catalogue import CATALOGUE
from drpn.recipes.demo import SEED

COMMANDS = [command.callback.__name__ for command in app.registered_commands]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(drpn, command: str) -> None:
    done = drpn(command, "--help")
    assert done.returncode == 0
    assert "Usage: drpn" in done.stdout
    assert command == "demo" or "Example:" in done.stdout


def test_without_a_command_the_help_is_shown(drpn) -> None:
    done = drpn()
    assert all(command in done.stdout + done.stderr for command in COMMANDS)


def test_version(drpn) -> None:
    assert drpn("--version").stdout.startswith("drpn 0.")


def test_from_simulation_to_statistics(drpn, tmp_path: Path) -> None:
    assert drpn("simulate", "logs", "--users", 150, "--news", 600, "--seed", 4).returncode == 0
    done = drpn("prepare", "logs", "--out", "data", "--set", "data.clicked=10")
    assert done.returncode == 0, done.stderr
    assert "profiles  " in done.stderr
    assert done.stdout.endswith("next: drpn stats data\n")
    numbers = json.loads(drpn("stats", "data", "--json").stdout)
    assert numbers["users"] == len(Dataset.open(tmp_path / "data").user_ids) - 1 > 100
    assert {"train", "validation", "test"} == set(numbers["impressions"])
    assert Dataset.open(tmp_path / "data").clicked.shape[1] == 10
    table = drpn("stats", "data").stdout
    assert "MIND, in the paper" in table
    assert "654,870" in table


def test_demo_shows_three_readers(drpn) -> None:
    done = drpn("demo", "--quick", "--users", 300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Reader U") == 3
    assert "interest" in done.stdout
    assert drpn("demo", "--quick", "--users", 300).returncode == 0  # a second time too


def test_demo_without_a_seed_is_that_of_the_readme() -> None:
    assert signature(demo_command).parameters["seed"].default == SEED


def test_demo_trains_and_explains(drpn, tmp_path: Path) -> None:
    done = drpn("demo", "--users", 300)
    assert done.returncode == 0, done.stderr
    for name in ("drpn", "drpn-n", "drpn-d", "popularity", "chance", "oracle"):
        assert f"\n{name} " in done.stdout
    assert "Noise AUC" in done.stdout
    assert "Faithful?" in done.stdout
    assert (tmp_path / "demo" / "case.png").stat().st_size > 10_000
    assert json.loads((tmp_path / "demo" / "results.json").read_text())["split"] == "test"


def test_from_training_to_a_recommendation(drpn, tmp_path: Path) -> None:
    assert drpn("simulate", "logs", "--users", 150, "--news", 600).returncode == 0
    assert drpn("prepare", "logs", "--out", "data").returncode == 0
    small = [
        word
        for one in ("model.size=8", "model.hidden=8", "model.heads=2", "training.epochs=1")
        for word in ("--set", one)
    ]
    assert drpn("train", "data", "--out", "run", *small).returncode == 0
    user = Dataset.open(tmp_path / "data").user_ids[1]
    rows = json.loads(drpn("recommend", "run", "--user", user, "--top", 3, "--json").stdout)["rows"]
    assert [row["rank"] for row in rows] == [1, 2, 3]
    stranger = drpn(
        "recommend", "run", "--user", "nobody", "--title", "A gambit nobody expected", "--top", 2000, "--json"
    )
    assert "user nobody has no profile here; this is the ranking for a newcomer" in stranger.stderr
    assert "A gambit nobody expected" in [row["title"] for row in json.loads(stranger.stdout)["rows"]]
    found = json.loads(drpn("evaluate", "run", "--scores", "ranks.txt", "--json").stdout)
    assert {row["model"] for row in found["rows"]} == {"drpn", "chance", "popularity", "oracle"}
    assert {row["group"] for row in found["rows"]} == {"all", "with_profile", "without_profile"}
    lines = (tmp_path / "ranks.txt").read_text().splitlines()
    assert len(lines) == len(Dataset.open(tmp_path / "data").impressions("test"))
    assert drpn("explain", "run", "--user", user, "--out", "case.png").returncode == 0
    assert (tmp_path / "case.png").exists()


def test_models(drpn, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {row["name"]: row for row in json.loads(drpn("models", "--json").stdout)["rows"]}
    assert list(rows) == list(CATALOGUE)
    assert rows["drpn"]["paper"] == "Hu, Qiu and Wu, Findings of NAACL 2022"
    assert rows["drpn"]["settings"]["size"] == 300
    assert rows["gerl"]["reads"] == ["clicked", "user id"]
    assert rows["gerl"]["prepare"] == ["data.user_neighbours=10"]
    assert rows["nrms-tce"]["training"] == {"loss": "tce"}
    monkeypatch.setenv("COLUMNS", "80")
    table = drpn("models").stdout
    assert all(f"\n{name} " in table for name in CATALOGUE)
    lines = table[table.index("\ngerl") :].splitlines()[1:5]
    assert lines[0].rstrip() == "gerl      clicked, user id  Ge et al., WWW 2020"
    assert lines[1].startswith(" " * 28 + "size=300, heads=8, head_size=16")
    assert lines[3].strip() == "prepare with data.user_neighbours=10"


def test_standard_output_holds_results_alone(tmp_path: Path, mind: Path) -> None:
    """In a process of its own, where the engine could write past Python's streams."""
    command = [sys.executable, "-m", "drpn.cli"]
    done = subprocess.run([*command, "prepare", mind, "--out", tmp_path / "data"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 2
    done = subprocess.run([*command, "stats", tmp_path / "data", "--json"], capture_output=True, text=True)
    assert json.loads(done.stdout)["users"] == 2
    assert done.stderr == ""
