"""`drpn compare` and `drpn reproduce`, as a user types them."""

import json
from pathlib import Path

import pytest

from small_comparison import AS_OPTIONS
from small_training import refused

SMALL = ["--models", "drpn, nrms", "--seeds", 1, *AS_OPTIONS, "--set", "training.epochs=1"]


@pytest.fixture(scope="module")
def newsroom(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with logs and the dataset prepared from them."""
    from drpn.logs.simulate import SimulationSettings, simulate
    from drpn.preparation.settings import DataSettings
    from drpn.recipes.prepare import prepare

    folder = tmp_path_factory.mktemp("newsroom")
    simulate(folder / "logs", SimulationSettings(users=60, news=1_500, seed=3))
    prepare(folder / "logs", folder / "data", DataSettings(vector_size=8))
    return folder


def test_compare(drpn, newsroom: Path, tmp_path: Path) -> None:
    done = drpn("compare", newsroom / "data", "--out", "tables", *SMALL)
    assert done.returncode == 0, done.stderr
    for name in ("drpn", "nrms", "popularity", "oracle"):
        assert f"\n{name} " in done.stdout
    assert (
        "2 models, 1 seed each; 3 comparisons with DRPN, expect one interval in twenty to miss by chance" in done.stdout
    )
    assert done.stdout.endswith("tables: tables/table2.md, tables/table3.md (also .tex); picture: tables/compare.png\n")
    assert "drpn-0: test AUC " in done.stderr
    assert "\n2 runs  " in done.stderr
    assert "\nthe paper's claims on these data: " in done.stdout
    # the shipped file, unless --config is given
    assert "Settings: the models' defaults, newsroom.toml, " in (tmp_path / "tables" / "table2.md").read_text()
    again = drpn("compare", newsroom / "data", "--out", "tables", *SMALL, "--json")
    assert json.loads(again.stdout) == json.loads((tmp_path / "tables" / "compare.json").read_text())
    first, second, *_ = again.stderr.splitlines()
    assert first.startswith("settings of each model: ")
    assert second == "2 of 2 runs are finished already"
    changed = refused(drpn, "compare", newsroom / "data", "--out", "tables", *SMALL, "--set", "model.size=16")
    assert changed == (
        "tables/runs/drpn-0 was run with model.size = 8, and 16 is asked for now; "
        "choose another output folder or train it again; pass --again to train it again"
    )


def test_reproduce(drpn, newsroom: Path, tmp_path: Path) -> None:
    done = drpn("reproduce", newsroom / "logs", "--out", "paper", *SMALL, "--set", "data.vector_size=8")
    assert done.returncode == 0, done.stderr
    assert "\n  not run        DFN is below DEERS\n" in done.stdout
    assert "DRPN outperforms all baselines: " in done.stdout
    assert done.stdout.endswith("all comparisons: paper/claims.md; statistics of the data: paper/table1.md\n")
    assert (tmp_path / "paper" / "reproduce.json").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--models", "drpn,nmrs"], "there is no model 'nmrs'; did you mean 'nrms'?"),
        (["--models", " , "], "--models names no model; write names separated by commas, or all"),
        (["--configs", "nowhere"], "--configs nowhere: there is no such settings file; name a TOML file or one of "),
        (["--configs", "a.toml"], "--configs a.toml: there is no such settings file"),
        (["--configs", "."], "--configs . is a folder; name a TOML file with a table [models.NAME] for each model"),
        (["--configs", "small"], "--configs small has no table of any of the models, such as [models.drpn]"),
        (["--config", "nowhere.toml"], "nowhere.toml: there is no such settings file"),
        (["--models", "nrms", "--set", "model.denoise=false"], "none of the models has a setting 'model.denoise'; "),
    ],
)
def test_invalid_options(drpn, newsroom: Path, options: list[str], message: str, tmp_path: Path) -> None:
    assert refused(drpn, "compare", newsroom / "data", "--out", "tables", *options).startswith(message)
    assert not (tmp_path / "tables").exists()


def test_a_missing_folder(drpn) -> None:
    message = refused(drpn, "compare", "nowhere", "--out", "tables")
    assert message == "nowhere is missing; prepare it from logs; run: drpn prepare LOGS --out nowhere"
    assert refused(drpn, "reproduce", "nowhere", "--out", "paper") == "nowhere is missing; name a folder of logs"


def test_a_model_whose_data_the_folder_lacks(drpn, newsroom: Path) -> None:
    message = refused(drpn, "compare", newsroom / "data", "--out", "tables", "--models", "drpn,gerl")
    assert message.startswith("gerl needs the neighbours of users, which ")
    assert "; prepare it again with data.user_neighbours=15 and data.neighbours=15; run: drpn prepare LOGS" in message
