"""How outcomes look on a terminal."""

import json
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from drpn.dataset.folder import Dataset
from drpn.logs.simulate import Simulated
from drpn.recipes.demo import Demo, Truth
from drpn.recipes.readers import ProfileNews, Reader

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
_SHARES = ("users_without", "users_not", "words_with", "text_with")


def as_json(document: Any) -> None:
    """One JSON document on standard output."""
    json.dump(document, sys.stdout, indent=2)
    print()


def simulated(done: Simulated, out: Path) -> None:
    """What a simulation wrote, and what to type next."""
    print(
        f"{done.users:,} users, {done.news:,} news, {done.impressions:,} impressions, {done.clicks:,} clicks in {out}"
    )
    print(f"next: drpn prepare {out} --out {out}-dataset")


def prepared(dataset: Dataset, out: Path) -> None:
    """Where a dataset is, and what to type next."""
    numbers = dataset.statistics
    print(
        f"{numbers['profile_users']:,} profiles of {numbers['mean_clicked']:.2f} clicked and "
        f"{numbers['mean_skipped']:.2f} skipped news, {numbers['impressions']['train']:,} to train on: {out}"
    )
    print(f"next: drpn stats {out}")


def statistics(numbers: dict[str, Any]) -> None:
    """A dataset's numbers beside those of the paper's MIND."""
    table = Table("", "here", "MIND, in the paper", title="The data", title_justify="left", box=None, pad_edge=False)
    for column in table.columns[1:]:
        column.justify = "right"
    for key, label in _LABELS.items():
        value = numbers
        for part in key.split("."):
            value = value.get(part, {})
        if value != {}:
            table.add_row(label, _number(key, value), _number(key, _PAPER.get(key)))
    Console().print(table)


def _number(key: str, value: Any) -> str:
    if value is None:
        return ""
    if key.startswith(_SHARES):
        return f"{value:.1%}"
    return f"{value:,}" if isinstance(value, int) else f"{value:.2f}"


def reader(one: Reader, truth: Truth, *, most: int = 6) -> None:
    """A profile in words, newest first, with what the simulator knows of each news."""
    console = Console()
    console.print(f"\n[bold]Reader {escape(one.user_id)}[/], newest first")
    for side, news, colour in (("clicked", one.clicked, "green"), ("skipped", one.skipped, "red")):
        console.print(f" [{colour}]{side}[/] {len(news)}")
        table = Table(box=None, show_header=False, padding=(0, 1), pad_edge=True)
        table.add_column(no_wrap=True, style="dim", min_width=13)
        table.add_column(no_wrap=True, style="italic", min_width=11)
        table.add_column(no_wrap=True, overflow="ellipsis")
        for item in news[:most]:
            table.add_row(*_row(item, truth))
        console.print(table)


def _row(item: ProfileNews, truth: Truth) -> tuple[str, str, str]:
    return escape(item.category), truth.get(item.news_id, ""), escape(item.title)


def next_steps(made: Demo) -> None:
    """What the demo left behind and what to try."""
    print("\nThe word between category and title is the simulator's truth: why the reader clicked or skipped the news.")
    print(
        f"Logs, truth and dataset are in {made.out}/. Your own logs: drpn prepare LOGS --out FOLDER (docs/events.md)."
    )
