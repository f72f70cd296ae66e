"""The pages of a comparison: the paper's rows in its order, well-formed, its numbers only beside MIND-large."""

import copy
import re
from pathlib import Path
from typing import Any

import pytest

from drpn.dataset.folder import Dataset
from drpn.experiments.compare import Compared
from drpn.experiments.pages import parts_of, tables, write_pages
from drpn.experiments.paper import NAMES, TABLE2, TABLE3
from drpn.experiments.table1 import is_mind_large

MIND: dict[str, Any] = {
    "sources": [{"name": f"{part}/{name}.tsv"} for part in ("train", "dev") for name in ("news", "behaviors")],
    "columns": [],
    "statistics": {"news": 104_151, "users": 711_222, "clicked_samples": 1_040_000, "skipped_samples": 25_000_000},
}


def as_if_mind(compared: Compared, out: Path) -> Path:
    """The pages as they would be had the data been MIND-large."""
    about = copy.deepcopy(compared.about)
    about["data"]["mind_large"] = True
    write_pages(out, about, compared.rows, compared.runs)
    return out


def test_the_rows_are_the_paper_s_in_its_order(monkeypatch: pytest.MonkeyPatch) -> None:
    trained = ["drpn-p", "drpn", "new", "nrms-tce", "drpn-d", "libfm", "naml"]
    assert parts_of(2, trained, ["popularity"]) == [["libfm", "naml", "nrms-tce", "new"], ["drpn"], ["popularity"]]
    monkeypatch.setitem(NAMES, "new", "New")  # a name for tables does not make it one of the paper's
    assert parts_of(2, trained, [])[0] == ["libfm", "naml", "nrms-tce", "new"]
    assert parts_of(3, trained, ["popularity"]) == [["drpn"], ["drpn-d", "drpn-p"]]


def test_a_table_of_the_paper_s_systems(compared: Compared) -> None:
    main, known, unknown = tables(2, compared.about, compared.rows, compared.runs)
    assert [row and row[0] for row in main.rows] == ["NRMS", None, "DRPN", None, "popularity", "oracle"]
    row = next(row for row in compared.rows if (row["model"], row["group"]) == ("nrms", "all"))
    cells = dict(zip(main.heads, main.rows[0] or (), strict=True))
    mean = f"{row['auc']:.4f} ± {row['auc_deviation']:.4f}"
    assert cells["AUC"].strip("*") == mean
    less = row["auc_less_base"]
    assert cells["AUC less DRPN's, 95 % interval"] == (
        f"{less['difference']:+.4f} ({less['low']:+.4f} to {less['high']:+.4f})"
    )
    runs = [run for run in compared.runs if run["model"] == "nrms"]
    assert cells["parameters"] == f"{runs[0]['parameters']:,}"
    assert cells["training, samples/s"] == f"{sum(run['samples_per_second'] for run in runs) / 2:,.0f}"
    assert len(known.heads) == len(unknown.heads) == len(main.heads) - 3
    bold = [row[1] for row in main.rows if row and row[1].startswith("**")]
    best = max(row["auc"] for row in compared.rows if row["group"] == "all" and row["model"] in ("drpn", "nrms"))
    assert len(bold) == 1
    assert bold[0].startswith(f"**{best:.4f}")


def test_markdown_is_well_formed(compared: Compared) -> None:
    for name, comparisons in (("table2", 3), ("table3", 1)):
        page = (compared.out / f"{name}.md").read_text()
        blocks = re.findall(r"(?:^\|.*\n)+", page, re.MULTILINE)
        assert len(blocks) == (4 if name == "table3" else 3)  # and the noise
        for block in blocks:
            lines = block.splitlines()
            assert len({line.count("|") for line in lines}) == 1
            assert set(lines[1]) <= set("|-: ")
        assert f"Comparisons with DRPN that each table makes: {comparisons}, each at 95 %" in page
        assert "seeds 0, 1" in page
        assert f"commit {compared.about['commits'][0]}" in page


def test_latex_is_well_formed(compared: Compared, tmp_path: Path) -> None:
    for out in (compared.out, as_if_mind(compared, tmp_path)):
        for name in ("table2", "table3"):
            page = (out / f"{name}.tex").read_text()
            places = re.findall(r"\\(begin|end)\{(\w+)\}", page)
            open_ones: list[str] = []
            for kind, environment in places:
                if kind == "begin":
                    open_ones.append(environment)
                else:
                    assert open_ones.pop() == environment
            assert open_ones == []
            for columns, body in re.findall(r"\\begin\{tabular\}\{(\w+)\}(.*?)\\end\{tabular\}", page, re.DOTALL):
                rows = [line for line in body.splitlines() if line.endswith(r"\\")]
                assert len(rows) >= 2
                assert {len(re.findall(r"(?<!\\)&", line)) + 1 for line in rows} == {len(columns)}
            labels = re.findall(r"\\label\{(.*?)\}", page)
            assert len(labels) == len(set(labels)) == page.count(r"\begin{table}")
            code = "\n".join(line for line in page.splitlines() if not line.startswith("%")).replace("{%\n", "{\n")
            assert not re.search(r"(?<!\\)[%#_]|±", re.sub(r"\\label\{.*?\}", "", code))


def test_the_paper_s_numbers_stand_beside_mind_large_alone(compared: Compared, tmp_path: Path) -> None:
    numbers = {f"{value / 100:.4f}" for name in ("nrms", "drpn", "drpn-n") for value in (TABLE2 | TABLE3)[name]}
    ours = "".join((compared.out / name).read_text() for name in ("table2.md", "table3.md", "table2.tex", "table3.tex"))
    assert "paper" not in ours
    as_if_mind(compared, tmp_path)
    beside = (tmp_path / "table2.md").read_text() + (tmp_path / "table3.md").read_text()
    assert all(f"| {number} |" in beside for number in numbers)
    assert not all(f"| {number} |" in ours for number in numbers)
    _, _, without = tables(2, compared.about | {"data": {"mind_large": True}}, compared.rows, compared.runs)
    assert not any("paper" in head for head in without.heads)  # whom the paper leaves out


def test_mind_large_is_known_by_its_files_and_numbers(data: Path) -> None:
    assert is_mind_large(MIND)
    assert is_mind_large(MIND | {"sources": [*MIND["sources"], {"name": "vectors/glove.840B.300d.txt"}]})
    assert not is_mind_large(MIND | {"sources": []})  # made up in its shape
    assert not is_mind_large(MIND | {"columns": [{"name": "appeal"}]})  # simulated
    for name, value in {"news": 65_238, "users": 50_000, "clicked_samples": 236_344}.items():  # MIND-small's
        assert not is_mind_large(MIND | {"statistics": MIND["statistics"] | {name: value}})
    assert not is_mind_large(Dataset.open(data).manifest)


@pytest.mark.parametrize("seeds", [1, 3])
def test_the_preface_says_how_many_seeds(compared: Compared, seeds: int, tmp_path: Path) -> None:
    write_pages(tmp_path, compared.about | {"seeds": list(range(seeds))}, compared.rows, compared.runs)
    page = (tmp_path / "table2.md").read_text()
    assert ("One seed: how far seeds stray is not known." in page) == (seeds == 1)
    assert ("drawn over users and seeds." in page) == (seeds == 3)
