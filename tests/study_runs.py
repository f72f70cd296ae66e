"""Runs of a small study of planted feedback: two newsrooms, three systems, two seeds."""

from noise_study import Runs


def run(auc: float, noise: float, commit: str = "abc1234") -> dict[str, object]:
    kinds = {
        "denoise": {"auc": noise},
        "collaborative denoise": {"auc": noise - 0.1},
        "tfidf rule": {"auc": 0.5},
        "personal ceiling": {"auc": 0.94},
        "story ceiling": {"auc": 0.84},
    }
    machine = {"processor": "Xeon", "commit": commit}
    return {"test": {"auc": auc}, "noise": {"clicked": kinds, "skipped": kinds}, "machine": machine}


RUNS: Runs = {
    "north": {"drpn": [run(0.60, 0.5), run(0.62, 0.5)], "drpn-d": [run(0.60, 0.5)] * 2, "more": [run(0.64, 0.7)] * 2},
    "south": {
        "drpn": [run(0.70, 0.5), run(0.70, 0.5)],
        "drpn-d": [run(0.72, 0.5)] * 2,
        "more": [run(0.71, 0.8, "def5678")] * 2,
    },
}
