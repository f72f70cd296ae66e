"""The commands, as a user types them."""

import json
import re
import shlex
import subprocess
import sys
from inspect import signature
from pathlib import Path

import pytest
import typer

from drpn.cli.app import COMMANDS, app
from drpn.cli.demo import demo as demo_command
from drpn.dataset.folder import Dataset
from drpn.models.catalogue import CATALOGUE
from drpn.recipes.demo import NOISY, SEED, SITE, USERS
from drpn.recipes.settings import load_settings

NAMES = [command.__name__ for commands in COMMANDS.values() for command in commands]


@pytest.mark.parametrize("name", NAMES)
def test_help_has_usage_and_an_example(drpn, name: str) -> None:
    done = drpn(name, "--help")
    assert done.returncode == 0
    assert "Usage: drpn" in done.stdout
    assert "Example: drpn " in done.stdout


@pytest.mark.parametrize("name", NAMES)
def test_the_example_in_the_help_can_be_parsed(name: str) -> None:
    group = typer.main.get_command(app)
    command = group.commands[name]  # type: ignore[attr-defined]
    example = re.search(r"Example: `drpn (.+?)`", command.help)
    assert example
    typed, *arguments = shlex.split(example[1].partition(" | ")[0])
    assert typed == name
    context = command.make_context(name, arguments)
    load_settings(sets=context.params.get("sets") or (), model=context.params.get("model") or "drpn")


def test_every_option_has_a_help_text() -> None:
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    for name, command in commands.items():
        for parameter in command.params:
            assert parameter.help.endswith((".", "…")), f"{name} {parameter.name}"


def test_without_a_command_the_help_is_shown(drpn) -> None:
    done = drpn()
    assert all(name in done.stdout + done.stderr for name in NAMES)


def test_help_lists_the_commands_in_groups(drpn) -> None:
    text = drpn("--help").stdout
    assert re.findall(r"^╭─ (.+?) ─", text, re.MULTILINE) == ["Options", *COMMANDS]
    assert re.findall(r"^│ ([a-z]+) ", text, re.MULTILINE) == NAMES


def test_help_does_not_load_torch() -> None:
    """Loading torch takes a second or more, which `drpn --help` should not."""
    code = "import sys, drpn.cli; print({'torch', 'numpy', 'ibis', 'matplotlib'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "set()\n", done.stderr


def test_version(drpn) -> None:
    assert drpn("--version").stdout.startswith("drpn 0.")


def test_simulate_prepare_stats(drpn, tmp_path: Path) -> None:
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
    assert "\ntraining  " in table


def test_demo_quick_shows_both_newsrooms_and_three_readers(drpn, tmp_path: Path) -> None:
    done = drpn("demo", "--quick", "--users", 100)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Reader U") == 3
    assert "interest" in done.stdout
    assert done.stdout.count("training  ") == 2
    assert [path.name for path in tmp_path.iterdir()] == ["demo"]
    (tmp_path / "demo" / "of-the-first").touch()
    assert drpn("demo", "--quick", "--users", 100).returncode == 0  # replaces the folder of the first demo
    assert [path.name for path in tmp_path.iterdir()] == ["demo"]
    assert not (tmp_path / "demo" / "of-the-first").exists()


def test_default_seed_of_demo_is_that_of_the_recipe() -> None:
    assert signature(demo_command).parameters["seed"].default == SEED


def test_default_number_of_readers_in_the_help_is_that_of_the_recipe(drpn) -> None:
    assert f"Default: {USERS:,}," in " ".join(drpn("demo", "--help").stdout.split()).replace("│ │ ", "")


@pytest.mark.slow
def test_demo_shows_the_live_model_and_noise_that_is_found(drpn, tmp_path: Path) -> None:
    done = drpn("demo", "--users", 100)
    assert done.returncode == 0, done.stderr
    for newsroom in (SITE, NOISY):
        assert newsroom.about in done.stderr  # while it runs
        assert newsroom.about in " ".join(done.stdout.split())
        for name in newsroom.models:
            assert f"\n{name} " in done.stdout
            assert (tmp_path / "demo" / newsroom.folder / name / "bundle").is_dir()
    for name in ("popularity", "click rate", "chance", "oracle"):
        assert f"\n{name} " in done.stdout
    for name in ("drpn-planted, titles", "drpn, ids and graph", "rule: TF-IDF similarity", "ceiling: story alone"):
        assert re.search(rf"\n{name} +0\.\d{{3}} .* 0\.\d{{3}}", done.stdout)
    for name in ("case.png", "live.png", "readers.png"):
        assert (tmp_path / "demo" / name).stat().st_size > 10_000
    results = json.loads((tmp_path / "demo" / "results.json").read_text())
    assert [row["against"] for row in results["live"]["comparisons"]][-3:] == ["popularity", "click rate", "oracle"]
    assert results["live"]["noise"] is None  # of the other newsroom alone
    noise = {row["weights"]: row for row in results["noise"]["noise_auc"]}
    assert noise["drpn-planted, titles"]["clicked"] == results["noise"]["noise"]["clicked"]["denoise"]
    assert noise["drpn, titles"]["clicked"] != noise["drpn-planted, titles"]["clicked"]
    assert noise["ceiling: rest of the profile"]["skipped"]["auc"] > noise["ceiling: story alone"]["skipped"]["auc"]
    user = re.search(r"drpn recommend demo/noise/drpn-planted --user (\w+)", done.stdout)
    assert drpn("recommend", "demo/noise/drpn-planted", "--user", user[1]).returncode == 0


def test_train_recommend_evaluate_explain(drpn, tmp_path: Path) -> None:
    assert drpn("simulate", "logs", "--users", 150, "--news", 600).returncode == 0
    assert drpn("prepare", "logs", "--out", "data").returncode == 0
    settings = ("model.size=8", "model.hidden=8", "model.heads=2", "training.epochs=1")
    options = [word for setting in settings for word in ("--set", setting)]
    assert drpn("train", "data", "--out", "run", *options).returncode == 0
    user = Dataset.open(tmp_path / "data").user_ids[1]
    rows = json.loads(drpn("recommend", "run", "--user", user, "--top", 3, "--json").stdout)["rows"]
    assert [row["rank"] for row in rows] == [1, 2, 3]
    new_user = drpn(
        "recommend", "run", "--user", "nobody", "--title", "A gambit nobody expected", "--top", 2000, "--json"
    )
    assert "user nobody has no profile; this is the ranking for a new user" in new_user.stderr
    assert "A gambit nobody expected" in [row["title"] for row in json.loads(new_user.stdout)["rows"]]
    evaluation = json.loads(drpn("evaluate", "run", "--scores", "ranks.txt", "--json").stdout)
    assert {row["model"] for row in evaluation["rows"]} == {"drpn", "chance", "popularity", "oracle"}
    assert {row["group"] for row in evaluation["rows"]} == {"all", "with_profile", "without_profile"}
    for side in ("clicked", "skipped"):
        assert {"denoise", "personal ceiling", "story ceiling"} <= set(evaluation["noise"][side])
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
    assert rows["gerl"]["prepare"] == ["data.user_neighbours=15", "data.neighbours=15"]
    assert rows["nrms-tce"]["training"] == {"loss": "tce"}
    monkeypatch.setenv("COLUMNS", "80")
    table = drpn("models").stdout
    assert all(f"\n{name} " in table for name in CATALOGUE)
    lines = table[table.index("\ngerl") :].splitlines()[1:5]
    assert lines[0].split(maxsplit=1)[1].rstrip() == "clicked, user id  Ge et al., WWW 2020"
    assert lines[1].startswith(" " * lines[0].index("Ge et al.") + "size=300, heads=8, head_size=")
    assert lines[3].strip() == "prepare with data.user_neighbours=15"


def test_standard_output_has_only_the_results(tmp_path: Path, mind: Path) -> None:
    """In a subprocess, because the query engine could write to the terminal without Python's streams."""
    command = [sys.executable, "-m", "drpn.cli"]
    done = subprocess.run([*command, "prepare", mind, "--out", tmp_path / "data"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    first, *table, last = done.stdout.splitlines()
    assert first.endswith("; 1 training impressions")
    assert [line.split() for line in table] == [
        ["from", "to", "impressions", "click", "and", "skip"],
        ["profile", "window", "2019-11-09", "08:00", "2019-11-09", "09:00", "2"],
        ["training", "2019-11-10", "08:00", "2019-11-10", "08:00", "1", "1"],
        ["validation", "2019-11-11", "08:00", "2019-11-11", "08:00", "1", "1"],
        ["test", "2019-11-11", "09:00", "2019-11-11", "09:00", "1", "1"],
    ]
    assert last.startswith("next: drpn stats ")
    assert "\nwarning: test is tiny: 1 impressions with a click and a skip, fewer than 100\n" in done.stderr
    done = subprocess.run([*command, "stats", tmp_path / "data", "--json"], capture_output=True, text=True)
    assert json.loads(done.stdout)["users"] == 2
    assert done.stderr == ""
