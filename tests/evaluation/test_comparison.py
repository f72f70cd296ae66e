"""Rows of many systems, and their tables in Markdown and LaTeX."""

import re

import numpy as np
import pytest

from drpn.evaluation.bootstrap import differences, intervals, paired
from drpn.evaluation.comparison import compared, deviation
from drpn.evaluation.groups import rows
from drpn.evaluation.metrics import METRICS, Metrics
from drpn.evaluation.tables import RULE, Table, latex, markdown

RNG = np.random.default_rng
USERS = np.repeat(np.arange(40), 3)
KNOWN = USERS % 4 > 0


def random_metrics(seed: int, shape: tuple[int, ...], higher: float = 0.0) -> Metrics:
    """Random metrics; the first impression has no click."""
    values = RNG(seed).random((4, *shape)) + higher
    values[..., 0] = np.nan
    return Metrics(*values)


SYSTEMS = {
    "drpn": random_metrics(1, (3, 120)),
    "nrms": random_metrics(2, (3, 120), 0.2),
    "popularity": random_metrics(3, (120,)),
}


def test_many_differences_equal_those_of_one_at_a_time() -> None:
    pairs = {name: (metrics.auc, SYSTEMS["drpn"].auc) for name, metrics in SYSTEMS.items()}
    results = differences(pairs, USERS, RNG(0))
    assert results == {name: paired(*pair, USERS, RNG(0)) for name, pair in pairs.items()}
    assert results["nrms"].low > 0
    assert results["drpn"][:3] == (0, 0, 0)


def test_rows_equal_those_of_each_system_alone() -> None:
    table = {(row["model"], row["group"]): row for row in compared(SYSTEMS, USERS, KNOWN, base="drpn")}
    assert len(table) == 9
    for name, metrics in SYSTEMS.items():
        for alone in rows(name, metrics, USERS, KNOWN, RNG(0)):
            row = table[name, alone["group"]]
            assert all(row[key] == pytest.approx(alone[key]) for key in ("impressions", *METRICS))
    row, values = table["nrms", "with_profile"], SYSTEMS["nrms"].auc[:, KNOWN]
    assert row["impressions"] == 90
    assert row["auc_less_base"] == paired(values, SYSTEMS["drpn"].auc[:, KNOWN], USERS[KNOWN], RNG(0))._asdict()
    assert row["auc_interval"] == list(intervals({"": values}, USERS[KNOWN], RNG(0))[""][1:])
    assert row["auc_deviation"] == pytest.approx(np.std(values.mean(axis=1), ddof=1))
    assert table["popularity", "all"]["auc_deviation"] is None
    assert table["drpn", "all"]["auc_less_base"] is None


def test_without_a_base_no_difference_is_computed() -> None:
    assert all(row["auc_less_base"] is None for row in compared(SYSTEMS, USERS, KNOWN, base=None))


def test_a_group_without_impressions_has_no_numbers() -> None:
    table = compared(SYSTEMS, USERS, np.ones(120, dtype=bool), base="drpn")
    empty = [row for row in table if row["group"] == "without_profile"]
    assert [row["impressions"] for row in empty] == [0, 0, 0]
    assert {row[key] for row in empty for key in ("auc", "mrr_interval", "ndcg@5_deviation", "auc_less_base")} == {None}


def test_deviation_needs_two_seeds() -> None:
    assert deviation(np.ones((1, 5))) is None
    assert deviation(np.array([[1.0, 3.0], [2.0, 2.0], [5.0, 5.0]])) == pytest.approx(np.std([2, 2, 5], ddof=1))


TABLE = Table(
    "What 5 % of A_1 & B say",
    ("", "AUC | mean", "less"),
    (("NAML + TCE", "**0.6 ± 0.1**", "-0.1 (-0.2 to +0.3)"), RULE, ("A_1 & B", "–", "5 %")),
)


def test_markdown() -> None:
    assert markdown(TABLE) == [
        r"|  | AUC \| mean | less |",
        "| --- | ---: | ---: |",
        "| NAML + TCE | **0.6 ± 0.1** | -0.1 (-0.2 to +0.3) |",
        r"| A\_1 \& B | – | 5 % |",
    ]


def test_latex() -> None:
    lines = latex(TABLE, label="here")
    assert r"NAML + TCE & \textbf{0.6 $\pm$ 0.1} & $-$0.1 ($-$0.2 to +0.3) \\" in lines
    assert r"A\_1 \& B & -- & 5 \% \\" in lines
    assert r"\caption{What 5 \% of A\_1 \& B say}" in lines
    assert lines.count(r"\midrule") == 2
    text = "\n".join(lines)
    assert re.findall(r"\\begin\{(\w+)\}", text) == list(reversed(re.findall(r"\\end\{(\w+)\}", text)))
    unescaped = re.sub(r"\\[\\{}]", "", text)
    assert unescaped.count("{") == unescaped.count("}")


def test_a_row_with_a_wrong_number_of_cells_is_refused() -> None:
    with pytest.raises(ValueError, match="a row has 1 cells under 2 heads"):
        Table("", ("", "AUC"), (("DRPN",),))
