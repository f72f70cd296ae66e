"""Files of scores: what stands in them gives back the same metrics."""

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


def shown(ids: list[str], sizes: list[int], seed: int = 0) -> Impressions:
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


def written(target: Path, scores_format: ScoresFormat, impressions: Impressions, scores: np.ndarray) -> list[str]:
    write_scores(target, scores_format, impressions, scores, Strings.of(USERS), Strings.of(NEWS))
    return target.read_text(encoding="utf-8").splitlines()


def test_mind_lines_give_each_candidate_its_rank_and_ties_their_order(tmp_path: Path) -> None:
    impressions = shown(["8", "10", "9"], [3, 4, 0])
    scores = np.array([0.1, 0.9, 0.5, 2, 7, 2, 7], dtype=np.float32)
    assert written(tmp_path / "prediction.txt", "mind", impressions, scores) == ["8 [3,1,2]", "9 []", "10 [3,1,4,2]"]


def test_ids_that_are_no_numbers_keep_the_order_of_the_dataset(tmp_path: Path) -> None:
    impressions = shown(["b", "10", "9"], [1, 1, 1])
    assert written(tmp_path / "s", "mind", impressions, np.zeros(3)) == ["b [1]", "10 [1]", "9 [1]"]


def test_ranks_read_back_give_the_metrics_of_untied_scores(tmp_path: Path) -> None:
    impressions = shown([str(number) for number in range(40)], [20] * 40)
    scores = np.random.default_rng(1).normal(size=800)
    lines = written(tmp_path / "s", "mind", impressions, scores)
    ranks = [json.loads(line.split(" ", 1)[1]) for line in lines]
    assert all(sorted(each) == list(range(1, 21)) for each in ranks)
    again = measure(-np.array(ranks, dtype=np.float64).ravel(), impressions.clicked, impressions.offsets)
    assert again.mean() == measure(scores, impressions.clicked, impressions.offsets).mean()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_json_lines_hold_what_was_scored_bit_by_bit(tmp_path: Path, dtype: type) -> None:
    impressions = shown(["x", "Å", "3"], [4, 6, 9])
    scores = np.random.default_rng(2).normal(size=19).astype(dtype)
    lines = [json.loads(line) for line in written(tmp_path / "s", "jsonl", impressions, scores)]
    assert [list(line) for line in lines] == [["impression_id", "user_id", "candidates", "labels", "scores"]] * 3
    assert [line["impression_id"] for line in lines] == ["x", "Å", "3"]
    assert [line["user_id"] for line in lines] == [USERS[row] for row in impressions.users]
    assert [each for line in lines for each in line["candidates"]] == [NEWS[row] for row in impressions.candidates]
    again = np.array([each for line in lines for each in line["scores"]])
    np.testing.assert_array_equal(again, scores)
    labels = np.array([each for line in lines for each in line["labels"]])
    assert set(labels.tolist()) == {0, 1}
    found = measure(again, labels, np.cumsum([0, *(len(line["labels"]) for line in lines)]))
    first = measure(scores, impressions.clicked, impressions.offsets)
    for name in METRICS:
        np.testing.assert_array_equal(found.by_name()[name], first.by_name()[name])


@pytest.mark.parametrize("scores_format", ["mind", "jsonl"])
def test_a_score_that_is_no_number_leaves_the_old_file_alone(tmp_path: Path, scores_format: ScoresFormat) -> None:
    target = tmp_path / "scores"
    target.write_text("old")
    with pytest.raises(ScoreError, match="candidate 1 of impression 0"):
        written(target, scores_format, shown(["1", "2"], [2, 1]), np.array([0.0, np.nan, 1.0]))
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_missing_folders_are_made_and_a_folder_is_not_overwritten(tmp_path: Path) -> None:
    impressions = shown(["1"], [2])
    assert written(tmp_path / "new" / "deep" / "s", "mind", impressions, np.arange(2.0)) == ["1 [2,1]"]
    with pytest.raises(OutputError, match="deep cannot be written"):
        written(tmp_path / "new" / "deep", "mind", impressions, np.arange(2.0))
