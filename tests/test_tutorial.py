"""The tutorial notebook runs from the first cell to the last."""

import json
import re
import tempfile
from pathlib import Path
from typing import Any

import pytest

import drpn

NOTEBOOK = Path(__file__).parents[1] / "examples" / "tutorial.ipynb"


def cells(kind: str) -> list[dict[str, Any]]:
    return [cell for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == kind]


def test_the_notebook_is_valid_and_has_no_outputs() -> None:
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert set(notebook) == {"cells", "metadata", "nbformat", "nbformat_minor"}
    ids = [cell["id"] for cell in notebook["cells"]]
    assert len(set(ids)) == len(ids)
    for cell in notebook["cells"]:
        common = {"cell_type", "id", "metadata", "source"}
        assert set(cell) == (common | {"execution_count", "outputs"} if cell["cell_type"] == "code" else common)
        assert all(line.endswith("\n") for line in cell["source"][:-1])
    for cell in cells("code"):
        assert (cell["outputs"], cell["execution_count"]) == ([], None)


def test_links_of_the_notebook_lead_to_existing_files() -> None:
    text = "".join(line for cell in cells("markdown") for line in cell["source"])
    links = re.findall(r"\]\(([^)\s]+)\)", text)
    assert links
    for link in links:
        assert (NOTEBOOK.parent / link).exists(), link


def test_the_cells_run_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    started_in, temporary = tmp_path / "here", tmp_path / "temporary"
    started_in.mkdir()
    temporary.mkdir()
    monkeypatch.chdir(started_in)
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    names: dict[str, Any] = {"__name__": "__main__"}
    for number, cell in enumerate(cells("code"), start=1):
        exec(compile("".join(cell["source"]), f"cell {number}", "exec"), names)
    assert names["folder"].parent == temporary
    assert not list(started_in.iterdir())
    run, recommender, user = names["run"], names["recommender"], names["user"]
    assert isinstance(run, drpn.Run)
    assert run.facts["settings"]["model"]["size"] == 32
    assert {row["model"] for row in names["evaluation"].rows} == {"drpn", "chance", "popularity", "oracle"}
    ranking = names["ranking"]
    assert (ranking.user_id, ranking.known, len(ranking.rows)) == (user, True, 5)
    assert len(names["by_history"].rows) == 5
    assert [other.user_id for other in names["rankings"]] == names["users"]
    assert 1 <= names["place"] <= 10  # its title is that of the first story
    assert len(names["with_new"].rows) > 20
    assert "breaking" not in recommender.live
    assert names["trace"].user_id == user
    assert names["picture"].stat().st_size > 10_000
    printed = capsys.readouterr().out
    assert "epoch 2 of 2" in printed
    assert re.search(r"^popularity +0\.\d{4}", printed, re.MULTILINE)
