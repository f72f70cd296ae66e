"""Explain the ranking of one user: weights and scores as data, and as the paper's case-study figure."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from drpn.batches.tables import Tables
from drpn.bundle.files import Bundle, pick_device
from drpn.dataset.folder import Dataset, SplitName
from drpn.errors import ExplainError, OutputError
from drpn.explanation.trace import Trace, require_drpn, trace
from drpn.output import explain_write_errors
from drpn.progress import Progress, Silent
from drpn.recipes.runs import Run

NEWEST_FIRST: tuple[SplitName, ...] = ("test", "validation", "train")
RECENT = 20
"""Number of candidates for a user without an impression in any split."""


def explain(run_path: Path, user_id: str, out: Path | None = None, *, progress: Progress | None = None) -> Trace:
    """Trace a user and their last impression; draw the picture to `out` if given."""
    progress = progress or Silent()
    check_picture_format(out)
    with progress.stage("opening the run"):
        run = Run.open(run_path)
        bundle, dataset = run.bundle(), run.dataset()
        model = require_drpn(bundle.model)
        user = _user_row(dataset, user_id)
    shown = last_shown(dataset, user) or _recent_stories(bundle, user)
    with progress.stage("tracing"):
        device, read = pick_device(), model.limit(dataset)
        traced = trace(model.to(device), Tables.from_dataset(read, device), read, user, shown.candidates, shown.clicked)
    if out is not None:
        from drpn.drawing.case import draw_case  # matplotlib is imported only when needed

        with progress.stage("picture"), explain_write_errors(out):
            out.parent.mkdir(parents=True, exist_ok=True)
            draw_case(traced, out, model=run.facts["model"].upper())
    return traced


def choose_user(dataset: Dataset) -> int:
    """Choose the user of a case picture by a fixed rule, so that no user is picked for a good-looking result.

    Among users with a test impression of at least 5 candidates and a profile of at least 5 clicks and 10 skips, return
    the one with the median number of clicks; of several, the lowest row. If there is none, choose among users with any
    test impression, a click and a skip.
    """
    test = dataset.impressions("test")
    clicked, skipped = (np.count_nonzero(side, axis=1) for side in (dataset.clicked, dataset.skipped))
    sizes = np.zeros(len(clicked), dtype=np.int64)
    np.maximum.at(sizes, test.users, np.diff(test.offsets))
    for least_shown, least_clicked, least_skipped in ((5, 5, 10), (1, 1, 1)):
        eligible = np.flatnonzero((sizes >= least_shown) & (clicked >= least_clicked) & (skipped >= least_skipped))
        if len(eligible):
            median = np.sort(clicked[eligible])[(len(eligible) - 1) // 2]
            return int(eligible[clicked[eligible] == median][0])
    raise ExplainError(f"{dataset.path} has no user with a test impression, a click and a skip; prepare a longer log")


class Shown(NamedTuple):
    """Stories shown to a user, and whether each was clicked, if known."""

    candidates: list[int]
    clicked: list[bool] | None


def last_shown(dataset: Dataset, user: int) -> Shown | None:
    """Return a user's last impression, from the test split, else validation, else train; None if there is none."""
    for split in NEWEST_FIRST:
        impressions = dataset.impressions(split)
        rows = np.flatnonzero(impressions.users == user)  # in order of time
        if len(rows):
            place = slice(*impressions.offsets[rows[-1] : rows[-1] + 2].tolist())
            return Shown(impressions.candidates[place].tolist(), impressions.clicked[place].tolist())
    return None


def _recent_stories(bundle: Bundle, user: int) -> Shown:
    """Return the most clicked stories of the log's last day that are not in the user's profile."""
    arrays = bundle.data.arrays
    recent = np.flatnonzero(arrays.array("news/recent"))
    known = np.concatenate([bundle.data.clicked[user], bundle.data.skipped[user]])
    recent = recent[~np.isin(recent, known)]
    clicks = arrays.array("news/times_clicked")[recent]
    return Shown(recent[np.argsort(-clicks, kind="stable")[:RECENT]].tolist(), None)


def _user_row(dataset: Dataset, user_id: str) -> int:
    for row, name in enumerate(dataset.user_ids):
        if row and name == user_id:
            return row
    example = dataset.user_ids[1] if len(dataset.user_ids) > 1 else ""
    raise ExplainError(
        f"user '{user_id}' is not in {dataset.path}; choose one of its users, such as '{example}'",
        hint="drpn recommend also ranks stories for new users",
    )


def check_picture_format(out: Path | None) -> None:
    """Raise an error unless the file name ends in a format of pictures."""
    if out is not None:
        from drpn.drawing.pictures import FORMATS

        if out.suffix not in FORMATS:
            raise OutputError(f"{out} is neither PNG nor SVG; choose a name that ends in {' or '.join(FORMATS)}")
