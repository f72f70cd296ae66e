"""The paper's Table 1 for a dataset, beside the paper's own."""

from typing import Any, NamedTuple

_PAPER = {
    "users": 654_870,
    "news": 104_153,
    "words": 54_292,
    "mean_title_words": 12.66,
    "clicked_samples": 1_048_414,
    "skipped_samples": 25_145_229,
    "mean_clicked": 4.14,
    "mean_skipped": 96.80,
    "users_not_in_training.validation": 0.446,
    "users_not_in_training.test": 0.487,
}
"""MIND-large as the paper rebuilt it: its Table 1, and the shares given beside it."""

_LABELS = {
    "users": "users",
    "news": "news",
    "words": "words",
    "mean_title_words": "words of a title, mean",
    "impressions.train": "impressions to train on",
    "impressions.validation": "  to validate on",
    "impressions.test": "  to test on",
    "mean_candidates": "candidates of an impression, mean",
    "clicked_samples": "clicked samples",
    "skipped_samples": "skipped samples",
    "profile_users": "users with a profile",
    "mean_clicked": "clicked news of a profile, mean",
    "mean_clicked_with_repeats": "  repeats counted",
    "mean_clicked_kept": "  newest kept",
    "mean_skipped": "skipped news of a profile, mean",
    "mean_skipped_with_repeats": "  repeats counted",
    "mean_skipped_kept": "  newest kept",
    "news_with_neighbours": "news with graph neighbours",
    "users_without_profile.validation": "validation users without a profile",
    "users_without_profile.test": "test users without a profile",
    "users_not_in_training.validation": "validation users not in training",
    "users_not_in_training.test": "test users not in training",
    "words_with_vector": "words with a vector",
    "text_with_vector": "text with a vector",
}
_NEAR = {"news": 0.02, "users": 0.3, "clicked_samples": 0.1, "skipped_samples": 0.1}
"""How far from the paper's numbers those of MIND-large may be, which depends on who and what is counted."""
_SHARES = ("users_without", "users_not", "words_with", "text_with")


class Row(NamedTuple):
    """One line of the table; what is not known is empty."""

    label: str
    here: str
    paper: str


def table1(statistics: dict[str, Any]) -> list[Row]:
    """The statistics of a dataset as lines of a table, those of the paper's MIND beside them."""
    rows = []
    for key, label in _LABELS.items():
        value: Any = statistics
        for part in key.split("."):
            value = value.get(part, {})
        if value != {}:
            rows.append(Row(label, _number(key, value), _number(key, _PAPER.get(key))))
    return rows


def is_mind_large(manifest: dict[str, Any]) -> bool:
    """Whether a dataset folder is MIND-large as the paper prepared it, by its sources and statistics."""
    files = {source["name"].rpartition("/")[2] for source in manifest["sources"]}
    known_truth = any(column["name"] == "appeal" for column in manifest["columns"])
    if not files >= {"news.tsv", "behaviors.tsv"} or known_truth:
        return False
    numbers = manifest["statistics"]
    return all(abs(numbers[name] / _PAPER[name] - 1) <= share for name, share in _NEAR.items())


def _number(key: str, value: Any) -> str:
    if value is None:
        return ""
    if key.startswith(_SHARES):
        return f"{value:.1%}"
    return f"{value:,}" if isinstance(value, int) else f"{value:.2f}"
