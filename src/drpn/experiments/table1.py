"""The paper's Table 1 for a dataset, next to the paper's own numbers."""

from typing import Any, NamedTuple

_PAPER = {
    "profile_users": 654_870,
    "news": 104_153,
    "words": 54_292,
    "mean_title_words_of_15": 12.66,
    "of_profile_users.clicked_samples": 1_048_414,
    "of_profile_users.skipped_samples": 25_145_229,
    "mean_clicked_with_repeats": 4.14,
    "mean_skipped_with_repeats": 96.80,
    "of_profile_users.users_not_in_training.validation": 0.446,
    "of_profile_users.users_not_in_training.test": 0.487,
}
"""MIND-large as the paper rebuilt it: its Table 1, and the shares in the text near it."""

READING = (
    "The paper does not say how it counts. Each of its numbers stands in the row that its authors' code and public "
    "counts of MIND point to: users, samples and shares are of users with a profile; feedback sequences count repeats "
    "(4.14 + 96.80 for each of 654,870 users make the 66.1 million stories shown in five days); the words of a title "
    "include category and subcategory and end with the 15th."
)
"""Says next to the table which reading of the paper's numbers was taken."""

_LABELS = {
    "users": "users",
    "profile_users": "users with a profile",
    "news": "stories",
    "words": "words",
    "mean_title_words": "words per title, mean",
    "mean_title_words_with_labels": "  with category and subcategory",
    "mean_title_words_of_15": "  of these at most 15",
    "impressions.train": "training impressions",
    "impressions.validation": "validation impressions",
    "impressions.test": "test impressions",
    "impressions_left_out.train": "training impressions left out (no profile)",
    "impressions_left_out.validation": "validation impressions left out",
    "impressions_left_out.test": "test impressions left out",
    "mean_candidates": "candidates per impression, mean",
    "clicked_samples": "clicked samples",
    "of_profile_users.clicked_samples": "  of users with a profile",
    "skipped_samples": "skipped samples",
    "of_profile_users.skipped_samples": "  of users with a profile",
    "mean_clicked": "clicked stories per profile, mean",
    "mean_clicked_with_repeats": "  with repeats",
    "mean_clicked_kept": "  newest, as kept",
    "mean_skipped": "skipped stories per profile, mean",
    "mean_skipped_with_repeats": "  with repeats",
    "mean_skipped_kept": "  newest, as kept",
    "news_with_neighbours": "stories with graph neighbours",
    "users_without_profile.validation": "validation users without a profile",
    "users_without_profile.test": "test users without a profile",
    "users_not_in_training.validation": "validation users not in training",
    "of_profile_users.users_not_in_training.validation": "  of users with a profile",
    "users_not_in_training.test": "test users not in training",
    "of_profile_users.users_not_in_training.test": "  of users with a profile",
    "words_with_vector": "words with a vector",
    "text_with_vector": "text with a vector",
}
_TOLERANCE = {"news": 0.01, "profile_users": 0.01}
"""Relative differences from the paper's numbers within which a dataset counts as MIND-large. Both numbers depend on the
files and on the profile window alone; words, samples and means also depend on the rules of counting."""
_SHARES = ("users_without", "users_not", "of_profile_users.users_not", "words_with", "text_with")


class Row(NamedTuple):
    """One line of the table; unknown numbers are empty."""

    label: str
    here: str
    paper: str


def table1(statistics: dict[str, Any]) -> list[Row]:
    """Return the statistics of a dataset as lines of a table, with the paper's numbers for MIND."""
    rows = []
    for key, label in _LABELS.items():
        value: Any = statistics
        for part in key.split("."):
            value = value.get(part, {})
        if value != {}:
            rows.append(Row(label, _number(key, value), _number(key, _PAPER.get(key))))
    return rows


def is_mind_large(manifest: dict[str, Any]) -> bool:
    """Tell by sources and statistics whether a dataset folder is MIND-large as the paper prepared it."""
    files = {source["name"].rpartition("/")[2] for source in manifest["sources"]}
    simulated = any(column["name"] == "appeal" for column in manifest["columns"])
    if not files >= {"news.tsv", "behaviors.tsv"} or simulated:
        return False
    numbers = manifest["statistics"]
    return all(abs(numbers[name] / _PAPER[name] - 1) <= share for name, share in _TOLERANCE.items())


def _number(key: str, value: Any) -> str:
    if value is None:
        return ""
    if key.startswith(_SHARES):
        return f"{value:.1%}"
    return f"{value:,}" if isinstance(value, int) else f"{value:.2f}"
