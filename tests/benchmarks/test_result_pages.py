"""The programs that write tables of results into the docs."""

import json
from pathlib import Path

import numpy as np
import pytest

import batches
from compare_settings import page as settings_page
from drpn.evaluation.metrics import METRICS
from drpn.recipes.demo import Measured, Trained
from drpn.recipes.evaluate import Evaluation
from prepare import growth, write_page
from readme import README, RESULTS, demo_notes, demo_tables, replace_between_markers, systems_table
from systems import page as systems_page

USERS = np.array([1, 1, 2, 2, 3])
AUC = {0: [0.5, 0.75, 1.0, 0.25, 0.5], 1: [0.5, 0.5, 1.0, 0.5, 0.5]}


def row(model: str, auc: float) -> dict[str, object]:
    less = None if model == "drpn" else {"difference": auc - 0.6, "low": auc - 0.61, "high": auc - 0.59}
    return {"model": model, "group": "all", "auc": auc, "ndcg@10": auc / 2, "auc_less_base": less}


def comparison(folder: Path, *, models: tuple[str, ...] = ("drpn",), seeds: tuple[int, ...] = (0, 1), add: float = 0.0):
    """A folder as `drpn compare` writes it, with the parts that the pages read."""
    runs = []
    for model in models:
        for seed in seeds:
            (folder / "runs" / f"{model}-{seed}").mkdir(parents=True)
            np.savez(folder / "runs" / f"{model}-{seed}" / "metrics.npz", auc=np.array(AUC[seed]) + add)
            machine = {"processor": "Xeon", "commit": "abc1234"}
            facts = {"model": model, "seed": seed, "clicks": 1_234, "best_epoch": 2 + seed, "validation_auc": 0.625}
            runs.append(facts | {"machine": machine})
    about = {
        "data": {"name": folder.name},
        "seeds": list(seeds),
        "commits": ["abc1234"],
        "settings": ["training.batch=64", "training.compile=false"],
    }
    rows = [row("nrms", 0.55), row("drpn", 0.6), row("popularity", 0.5)]
    (folder / "compare.json").write_text(json.dumps({"about": about, "runs": runs[::-1], "rows": rows}))
    return folder


def test_systems_of_two_comparisons_share_a_table(tmp_path: Path) -> None:
    lines = systems_table([comparison(tmp_path / "first"), comparison(tmp_path / "second", seeds=(0,))])
    names = [line.split(" | ")[0].strip("| ") for line in lines[2:5]]
    assert names == ["NRMS", "DRPN", "popularity"]
    assert lines[2].startswith("| NRMS | 0.5500 | 0.2750 | -0.0500 (-0.0600 to -0.0400) | 0.5500 |")
    assert lines[-2:] == [
        "first: 1,234 clicks to train on, 2 seeds, CPU, commit abc1234; differences with paired 95 % intervals.",
        "second: 1,234 clicks to train on, 1 seed, CPU, commit abc1234; differences with paired 95 % intervals.",
    ]


def test_the_table_of_the_demo_has_every_system_and_all_weights() -> None:
    def evaluation(*models: str) -> Evaluation:
        rows = [
            {"model": model, "group": group, "impressions": 1_500, **dict.fromkeys(METRICS, 0.7 - 0.1 * place)}
            for place, model in enumerate(models)
            for group in ("all", "with_profile")
        ]
        less = {"difference": 0.1, "low": 0.05, "high": 0.15}
        comparisons = [{"model": models[0], "against": model} | less for model in models[1:]]
        return Evaluation("test", rows, comparisons, None, None)

    noise_auc = [{"weights": name, "clicked": {"auc": 0.8, "interval": [0.75, 0.85]}} for name in ("ours", "rule")]
    noise_auc[0]["skipped"] = {"auc": 0.9, "interval": [0.875, 0.925]}
    live = Measured(1_200, evaluation("drpn-live", "drpn"))
    trained = Trained(live, Measured(3_400, evaluation("drpn-planted", "drpn", "oracle")), noise_auc, case=None)
    lines = demo_tables(trained)
    systems = [line for line in lines if line.startswith("| drpn")]
    assert systems == [
        "| drpn-live | 0.7000 | 0.7000 | 0.7000 | 0.7000 |  |",
        "| drpn | 0.6000 | 0.6000 | 0.6000 | 0.6000 | +0.1000 (+0.0500 to +0.1500) |",
    ]
    assert lines[-2:] == [
        "| ours | 0.800 (0.750 to 0.850) | 0.900 (0.875 to 0.925) |",
        "| rule | 0.800 (0.750 to 0.850) |  |",
    ]
    notes = " ".join(demo_notes(trained, 3_000, 17, "2 minutes"))
    assert "drpn-planted ranks with AUC 0.7000, drpn with 0.6000; difference +0.1000 (+0.0500 to +0.1500)." in notes
    assert "Noise: 3,400 clicks to train on, 1,500 test impressions, vectors of size 48. Seed 17; 2 minutes" in notes


def test_only_the_lines_between_the_markers_change(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- results: begin -->\nold\n<!-- results: end -->\nafter\n")
    for _ in range(2):
        replace_between_markers(page, "results", ["new"])
        assert page.read_text() == "before\n<!-- results: begin -->\n\nnew\n\n<!-- results: end -->\nafter\n"
    with pytest.raises(SystemExit, match=r"page.md has no lines '<!-- systems: begin -->' and .*; put them where"):
        replace_between_markers(page, "systems", ["new"])


@pytest.mark.parametrize(("page", "marker"), [(README, "results"), (RESULTS, "systems")])
def test_the_pages_have_the_markers(page: Path, marker: str) -> None:
    lines = page.read_text().splitlines()
    assert lines.index(f"<!-- {marker}: begin -->") < lines.index(f"<!-- {marker}: end -->")


def test_settings_are_compared_with_the_first_seed_by_seed(tmp_path: Path) -> None:
    folders = [comparison(tmp_path / "b64"), comparison(tmp_path / "b128", add=0.125)]
    lines = settings_page("Batch sizes", folders, USERS)
    # the means over impressions are 0.6 for both seeds, so nothing varies over seeds
    assert lines[-2] == "| b64 | batch=64 | 2 | 2, 3 | 0.6250 | 0.6000 ± 0.0000 |  |"
    assert lines[-1].endswith("| 0.7250 ± 0.0000 | +0.1250 (+0.1250 to +0.1250) |")
    assert "Xeon, commit abc1234" in lines[2]


def test_settings_cannot_be_compared_over_different_seeds_or_models(tmp_path: Path) -> None:
    first, second = comparison(tmp_path / "first"), comparison(tmp_path / "second", seeds=(0,))
    with pytest.raises(SystemExit, match="the folders have different seeds"):
        settings_page("Seeds", [first, second], USERS)
    both = comparison(tmp_path / "both", models=("drpn", "nrms"))
    with pytest.raises(SystemExit, match="both holds drpn, nrms; run drpn compare with one model"):
        settings_page("Models", [both], USERS)


def test_speeds_of_every_system_are_rows_in_the_order_of_the_paper() -> None:
    def speed(value: float) -> dict[str, float]:
        return {"per_s": value}

    training = {
        "machine": {"gpu": "H200", "torch": "2.11", "commit": "abc1234"},
        "sets": ["training.compile=false"],
        "data": {"clicked_samples": 1_000, "impressions": {"train": 50, "validation": 25, "test": 25}},
        "runs": [{"model": name, "batch": 128, "samples": speed(50), "peak_mb": 2_000} for name in ("drpn", "nrms")],
    }
    evaluation = {
        "runs": [
            {"model": name, "impressions_with_encoding": speed(9_000), "one_user": {"p50_ms": 1.25}, "peak_mb": 300}
            for name in ("drpn", "nrms")
        ]
    }
    lines = systems_page(training, evaluation, ["A remark."])
    # half of the impressions are for training: 500 clicks, five times, at 50 a second
    assert lines[-2] == "| NRMS | 50 | 2,000 | 50 | 9,000 | 300 | 1.2 |"
    assert lines[-1].startswith("| DRPN |")
    assert "A remark." in lines


def test_the_page_of_preparing_names_both_engines_and_how_costs_grow(tmp_path: Path) -> None:
    shape = {"candidates": 30, "news": 50_000, "memory": "2GB"}
    runs = [
        shape
        | {"impressions": size, "engine": engine, "cpu_seconds": cost * size, "seconds": 1.0, "peak_mb": 100 + size}
        for size in (1_000, 2_000, 4_000)
        for engine, cost in (("duckdb", 0.001), ("spark", 0.01))
    ]
    assert growth(runs[::2], "cpu_seconds") == pytest.approx(2)
    write_page(tmp_path / "page.md", runs, "local[2]")
    lines = (tmp_path / "page.md").read_text().splitlines()
    assert "| 4,000 | 120,000 | spark | 2GB | 40 | 1 | 4,100 |" in lines
    assert "duckdb, limit 2GB: 2.00 times the processor seconds" in " ".join(lines)


def test_the_page_of_batch_sizes_pairs_seeds(tmp_path: Path) -> None:
    runs = {(128, 0): [0.5, 0.6], (128, 1): [0.7], (64, 0): [0.62, 0.1], (64, 1): [0.74]}
    results = [
        {"batch": batch, "seed": seed, "auc": auc, "commit": "abc", "gpu": "X"} for (batch, seed), auc in runs.items()
    ]
    batches.write_page(results, tmp_path / "page.md")
    page = (tmp_path / "page.md").read_text()
    # differences 0.02 and 0.04: mean 0.03, standard error 0.01, quantile 12.7
    assert "| 64 | 0.6800 | 0.6200, 0.7400 | +0.0300 (-0.0971 to +0.1571) |" in page
    assert "| 128 | 0.6500 | 0.6000, 0.7000 |  |" in page
    assert "Commit abc, X." in page
