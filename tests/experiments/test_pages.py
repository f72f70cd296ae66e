"""The pages of a comparison: the paper's rows in its order, valid markup, the paper's numbers only for MIND-large."""

import copy
import re
from pathlib import Path
from typing import Any

import pytest

from drpn.dataset.folder import Dataset
from drpn.evaluation.diversity import DIVERSITY
from drpn.experiments.compare import Compared
from drpn.experiments.pages import (
    DIVERSITY_HEADS,
    diversity_tables,
    names_of,
    noise_tables,
    parts_of,
    tables,
    write_pages,
)
from drpn.experiments.paper import NAMES, TABLE2, TABLE3
from drpn.experiments.table1 import is_mind_large, table1

SHOWN_AFTER_PROFILES = 17_400_106 + 14_085_557
"""Shown stories of day 6 and of the second part; their sum is public, how many of them were clicked is a guess here."""
MIND: dict[str, Any] = {
    "sources": [{"name": f"{part}/{name}.tsv"} for part in ("train", "dev") for name in ("news", "behaviors")],
    "columns": [],
    "statistics": {
        "news": 104_151,
        "users": 750_000,  # a guess
        "profile_users": 654_870,
        "clicked_samples": 1_260_000,
        "skipped_samples": SHOWN_AFTER_PROFILES - 1_260_000,
    },
}
"""MIND-large as public counts describe it."""


def as_if_mind(compared: Compared, out: Path) -> Path:
    """Write the pages as if the data were MIND-large."""
    about = copy.deepcopy(compared.about)
    about["data"]["mind_large"] = True
    write_pages(out, about, compared.rows, compared.runs)
    return out


def test_rows_are_in_the_order_of_the_paper(monkeypatch: pytest.MonkeyPatch) -> None:
    trained = ["drpn-p", "drpn", "new", "nrms-tce", "drpn-d", "libfm", "naml"]
    assert parts_of(2, trained, ["popularity"]) == [["libfm", "naml", "nrms-tce", "new"], ["drpn"], ["popularity"]]
    monkeypatch.setitem(NAMES, "new", "New")  # a display name alone does not add it to the paper's systems
    assert parts_of(2, trained, [])[0] == ["libfm", "naml", "nrms-tce", "new"]
    assert parts_of(3, trained, ["popularity"]) == [["drpn"], ["drpn-d", "drpn-p"]]


def test_table_cells(compared: Compared) -> None:
    main, with_profile, without_profile = tables(2, compared.about, compared.rows, compared.runs)
    assert [row and row[0] for row in main.rows] == ["NRMS", None, "DRPN", None, "popularity", "oracle"]
    row = next(row for row in compared.rows if (row["model"], row["group"]) == ("nrms", "all"))
    cells = dict(zip(main.heads, main.rows[0] or (), strict=True))
    mean = f"{row['auc']:.4f} ± {row['auc_deviation']:.4f}"
    assert cells["AUC"].strip("*") == mean
    interval = row["auc_less_base"]
    assert cells["AUC minus DRPN's, 95 % interval"] == (
        f"{interval['difference']:+.4f} ({interval['low']:+.4f} to {interval['high']:+.4f})"
    )
    runs = [run for run in compared.runs if run["model"] == "nrms"]
    assert cells["parameters"] == f"{runs[0]['parameters']:,}"
    assert cells["training, samples/s"] == f"{sum(run['samples_per_second'] for run in runs) / 2:,.0f}"
    assert len(with_profile.heads) == len(without_profile.heads) == len(main.heads) - 4
    assert cells["weight decay"] == "0"
    bold = [row[1] for row in main.rows if row and row[1].startswith("**")]
    best = max(row["auc"] for row in compared.rows if row["group"] == "all" and row["model"] in ("drpn", "nrms"))
    assert len(bold) == 1
    assert bold[0].startswith(f"**{best:.4f}")


def test_rows_are_named_by_what_a_model_read(compared: Compared) -> None:
    """What DKN reads depends on the dataset; results of older versions do not say it."""
    runs = [dict(run, content="words + entities") if run["model"] == "nrms" else run for run in compared.runs]
    main, *_ = tables(2, compared.about, compared.rows, runs)
    assert [row and row[0] for row in main.rows][:3] == ["NRMS, words + entities", None, "DRPN"]
    assert names_of([{"model": "dkn", "content": "words"}, {"model": "new", "content": "words"}]) == NAMES | {
        "dkn": "DKN, words",
        "new": "new, words",
    }
    assert names_of([{"model": "dkn"}, {"model": "nrms", "content": ""}]) == NAMES


def test_ceilings_stand_next_to_noise_auc(compared: Compared) -> None:
    (table,) = noise_tables(compared.runs)
    assert table.heads[-2:] == ("ceiling, personal evidence", "ceiling, story alone")
    run = next(run for run in compared.runs if run["model"] == "drpn")
    expected = [f"{run['noise']['skipped'][name]['auc']:.3f}" for name in ("personal ceiling", "story ceiling")]
    assert [row[-2:] for row in table.rows if row and row[:2] == ("DRPN", "skipped")] == [tuple(expected)]


def test_diversity_tables(compared: Compared) -> None:
    main, *others = diversity_tables(2, compared.rows, compared.runs)
    assert len(others) == 2
    assert main.caption == "Diversity of the first ten stories. All impressions"
    assert [row and row[0] for row in main.rows] == ["NRMS", None, "DRPN", None, "popularity", "oracle"]
    assert list(main.heads[1:]) == list(DIVERSITY_HEADS.values())
    row = next(row for row in compared.rows if (row["model"], row["group"]) == ("drpn", "all"))
    cells = [f"{row[name]:.4f} ± {row[f'{name}_deviation']:.4f}" for name in DIVERSITY]
    assert main.rows[2] == ("DRPN", *cells)
    before = [{key: value for key, value in row.items() if "@10" not in key} for row in compared.rows]
    old = diversity_tables(2, before, compared.runs)[0]
    assert old.rows[0] == ("NRMS", "–", "–", "–", "–")


def test_markdown_is_well_formed(compared: Compared) -> None:
    for name, comparisons in (("table2", 3), ("table3", 1)):
        page = (compared.out / f"{name}.md").read_text()
        blocks = re.findall(r"(?:^\|.*\n)+", page, re.MULTILINE)
        # metrics and diversity for three groups; one more each for the noise AUC and gamma
        assert len(blocks) == (8 if name == "table3" else 6)
        for block in blocks:
            lines = block.splitlines()
            assert len({line.count("|") for line in lines}) == 1
            assert set(lines[1]) <= set("|-: ")
        assert f"Comparisons with DRPN in each table: {comparisons}, each with a 95 % interval" in page
        assert "seeds 0, 1" in page
        assert f"commit {compared.about['commits'][0]}" in page


def test_latex_is_well_formed(compared: Compared, tmp_path: Path) -> None:
    for out in (compared.out, as_if_mind(compared, tmp_path)):
        for name in ("table2", "table3"):
            page = (out / f"{name}.tex").read_text()
            places = re.findall(r"\\(begin|end)\{(\w+)\}", page)
            environments: list[str] = []
            for kind, environment in places:
                if kind == "begin":
                    environments.append(environment)
                else:
                    assert environments.pop() == environment
            assert environments == []
            for columns, body in re.findall(r"\\begin\{tabular\}\{(\w+)\}(.*?)\\end\{tabular\}", page, re.DOTALL):
                rows = [line for line in body.splitlines() if line.endswith(r"\\")]
                assert len(rows) >= 2
                assert {len(re.findall(r"(?<!\\)&", line)) + 1 for line in rows} == {len(columns)}
            labels = re.findall(r"\\label\{(.*?)\}", page)
            assert len(labels) == len(set(labels)) == page.count(r"\begin{table}")
            code = "\n".join(line for line in page.splitlines() if not line.startswith("%")).replace("{%\n", "{\n")
            assert not re.search(r"(?<!\\)[%#_]|±", re.sub(r"\\label\{.*?\}", "", code))


def test_the_paper_s_numbers_are_shown_only_for_mind_large(compared: Compared, tmp_path: Path) -> None:
    numbers = {f"{value / 100:.4f}" for name in ("nrms", "drpn", "drpn-n") for value in (TABLE2 | TABLE3)[name]}
    ours = "".join((compared.out / name).read_text() for name in ("table2.md", "table3.md", "table2.tex", "table3.tex"))
    assert "paper" not in ours
    as_if_mind(compared, tmp_path)
    with_paper = (tmp_path / "table2.md").read_text() + (tmp_path / "table3.md").read_text()
    assert all(f"| {number} |" in with_paper for number in numbers)
    assert not all(f"| {number} |" in ours for number in numbers)
    _, _, without = tables(2, compared.about | {"data": {"mind_large": True}}, compared.rows, compared.runs)
    assert not any("paper" in head for head in without.heads)  # the paper leaves these users out


def test_mind_large_is_recognised_by_its_files_and_statistics(data: Path) -> None:
    assert is_mind_large(MIND)
    assert is_mind_large(MIND | {"sources": [*MIND["sources"], {"name": "vectors/glove.840B.300d.txt"}]})
    assert not is_mind_large(MIND | {"sources": []})  # generated data of the same shape
    assert not is_mind_large(MIND | {"columns": [{"name": "appeal"}]})  # a simulated newsroom
    for name, value in {"news": 65_238, "profile_users": 45_000}.items():  # MIND-small
        assert not is_mind_large(MIND | {"statistics": MIND["statistics"] | {name: value}})
    for name in ("users", "clicked_samples", "skipped_samples"):  # they depend on whose impressions are kept
        assert is_mind_large(MIND | {"statistics": MIND["statistics"] | {name: 1}})
    assert not is_mind_large(Dataset.open(data).manifest)


def test_groups_without_impressions_have_no_table(compared: Compared) -> None:
    only = [row | {"impressions": 0 if row["group"] == "without_profile" else 9} for row in compared.rows]
    (single,) = tables(2, compared.about, only, compared.runs)
    assert single.caption == "Impressions of users with a profile, 9 with a click and a skip"
    assert "parameters" in single.heads
    nobody = [row | {"impressions": 0 if row["group"] == "with_profile" else 9} for row in compared.rows]
    captions = [table.caption.partition(",")[0] for table in tables(2, compared.about, nobody, compared.runs)]
    assert captions == ["All impressions", "Impressions of users without a profile"]


def test_each_number_of_the_paper_is_in_the_row_that_counts_the_same() -> None:
    """From public counts: 66,107,268 stories were shown to 654,870 users in five days."""
    assert pytest.approx(4.14 + 96.80, abs=0.01) == 66_107_268 / 654_870
    assert SHOWN_AFTER_PROFILES > 1_048_414 + 25_145_229  # the paper's samples are not those of all users
    shares = {"validation": 0.5, "test": 0.6}
    statistics = {
        "users": 9,
        "profile_users": 8,
        "mean_title_words": 7.0,
        "mean_title_words_with_labels": 9.0,
        "mean_title_words_of_15": 8.0,
        "clicked_samples": 6,
        "skipped_samples": 5,
        "users_not_in_training": shares,
        "of_profile_users": {"clicked_samples": 4, "skipped_samples": 3, "users_not_in_training": shares},
        "mean_clicked": 2.0,
        "mean_clicked_with_repeats": 2.5,
        "mean_skipped": 3.0,
        "mean_skipped_with_repeats": 3.5,
    }
    rows = table1(statistics)
    assert {row.here: row.paper for row in rows} == {
        "9": "",
        "8": "654,870",
        "7.00": "",
        "9.00": "",
        "8.00": "12.66",
        "6": "",
        "4": "1,048,414",
        "5": "",
        "3": "25,145,229",
        "2.00": "",
        "2.50": "4.14",
        "3.00": "",
        "3.50": "96.80",
        "50.0%": "44.6%",
        "60.0%": "48.7%",
    }
    labels = [row.label for row in rows]
    assert labels[labels.index("clicked samples") + 1] == "  of users with a profile"


def test_folders_of_older_versions_have_a_table() -> None:
    rows = table1({"users": 9, "profile_users": 8, "mean_title_words": 7.0, "mean_clicked": 2.0})
    assert [row.label for row in rows] == [
        "users",
        "users with a profile",
        "words per title, mean",
        "clicked stories per profile, mean",
    ]


@pytest.mark.parametrize("seeds", [1, 3])
def test_the_preface_depends_on_the_number_of_seeds(compared: Compared, seeds: int, tmp_path: Path) -> None:
    write_pages(tmp_path, compared.about | {"seeds": list(range(seeds))}, compared.rows, compared.runs)
    page = (tmp_path / "table2.md").read_text()
    assert ("There is only one seed, so the variation between seeds is unknown." in page) == (seeds == 1)
    assert ("bootstrapped over users and seeds." in page) == (seeds == 3)
