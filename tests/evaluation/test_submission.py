"""Score files: their lines, and the same metrics when they are read back."""

import json
from pathlib import Path

import numpy as np
import pytest

from drpn.dataset.arrays import Strings
from drpn.dataset.folder import Impressions
from drpn.errors import OutputError, ScoreError
from drpn.evaluation.metrics import METRICS, measure
from drpn.evaluation.submission import ScoresFormat, write_scores

USERS = ["", "U1", "Ü2"]
NEWS = ["", *(f"N{row}" for row in range(1, 30))]


def impressions_of(ids: list[str], sizes: list[int], seed: int = 0) -> Impressions:
    rng = np.random.default_rng(seed)
    offsets = np.cumsum([0, *sizes])
    return Impressions(
        ids=Strings.of(ids),
        users=rng.integers(1, 3, len(ids)).astype(np.int32),
        times=np.zeros(len(ids), dtype="datetime64[us]"),
        offsets=offsets,
        candidates=rng.integers(1, 30, offsets[-1]).astype(np.int32),
        clicked=rng.random(offsets[-1]) < 0.4,
        extras={},
    )


def write_and_read(
    target: Path, scores_format: ScoresFormat, impressions: Impressions, scores: np.ndarray
) -> list[str]:
    write_scores(target, scores_format, impressions, scores, Strings.of(USERS), Strings.of(NEWS))
    return target.read_text(encoding="utf-8").splitlines()


def test_mind_lines_hold_ranks_and_ties_keep_their_order(tmp_path: Path) -> None:
    impressions = impressions_of(["8", "10", "9"], [3, 4, 0])
    scores = np.array([0.1, 0.9, 0.5, 2, 7, 2, 7], dtype=np.float32)
    assert write_and_read(tmp_path / "prediction.txt", "mind", impressions, scores) == [
        "8 [3,1,2]",
        "9 []",
        "10 [3,1,4,2]",
    ]


def test_ids_that_are_not_numbers_keep_the_order_of_the_dataset(tmp_path: Path) -> None:
    impressions = impressions_of(["b", "10", "9"], [1, 1, 1])
    assert write_and_read(tmp_path / "s", "mind", impressions, np.zeros(3)) == ["b [1]", "10 [1]", "9 [1]"]


def test_ranks_read_back_give_the_same_metrics(tmp_path: Path) -> None:
    impressions = impressions_of([str(number) for number in range(40)], [20] * 40)
    scores = np.random.default_rng(1).normal(size=800)
    lines = write_and_read(tmp_path / "s", "mind", impressions, scores)
    ranks = [json.loads(line.split(" ", 1)[1]) for line in lines]
    assert all(sorted(line_ranks) == list(range(1, 21)) for line_ranks in ranks)
    again = measure(-np.array(ranks, dtype=np.float64).ravel(), impressions.clicked, impressions.offsets)
    assert again.mean() == measure(scores, impressions.clicked, impressions.offsets).mean()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_json_lines_hold_the_scores_exactly(tmp_path: Path, dtype: type) -> None:
    impressions = impressions_of(["x", "Å", "3"], [4, 6, 9])
    scores = np.random.default_rng(2).normal(size=19).astype(dtype)
    lines = [json.loads(line) for line in write_and_read(tmp_path / "s", "jsonl", impressions, scores)]
    assert [list(line) for line in lines] == [["impression_id", "user_id", "candidates", "labels", "scores"]] * 3
    assert [line["impression_id"] for line in lines] == ["x", "Å", "3"]
    assert [line["user_id"] for line in lines] == [USERS[row] for row in impressions.users]
    assert [news_id for line in lines for news_id in line["candidates"]] == [
        NEWS[row] for row in impressions.candidates
    ]
    again = np.array([score for line in lines for score in line["scores"]])
    np.testing.assert_array_equal(again, scores)
    labels = np.array([label for line in lines for label in line["labels"]])
    assert set(labels.tolist()) == {0, 1}
    read_back = measure(again, labels, np.cumsum([0, *(len(line["labels"]) for line in lines)]))
    expected = measure(scores, impressions.clicked, impressions.offsets)
    for name in METRICS:
        np.testing.assert_array_equal(read_back.by_name()[name], expected.by_name()[name])


@pytest.mark.parametrize("scores_format", ["mind", "jsonl"])
def test_a_score_that_is_not_finite_leaves_the_old_file_unchanged(tmp_path: Path, scores_format: ScoresFormat) -> None:
    target = tmp_path / "scores"
    target.write_text("old")
    with pytest.raises(ScoreError, match="candidate 1 of impression 0"):
        write_and_read(target, scores_format, impressions_of(["1", "2"], [2, 1]), np.array([0.0, np.nan, 1.0]))
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_missing_folders_are_created_and_a_folder_is_not_overwritten(tmp_path: Path) -> None:
    impressions = impressions_of(["1"], [2])
    assert write_and_read(tmp_path / "new" / "deep" / "s", "mind", impressions, np.arange(2.0)) == ["1 [2,1]"]
    with pytest.raises(OutputError, match="deep cannot be written"):
        write_and_read(tmp_path / "new" / "deep", "mind", impressions, np.arange(2.0))
