"""The times of a log, robust to wrong clocks: its plausible days, and its end."""

import numpy as np
from numpy.typing import NDArray

FAR_DAYS = 7
"""Days with impressions belong to one part of the log if they are at most this many days apart."""
_TYPICAL = 0.1
"""The 24 hours up to the end of a log hold at least this share of the impressions of typical 24 hours."""


def plausible_days(days: NDArray[np.int64], counts: NDArray[np.int64]) -> tuple[int, int]:
    """The first and the last day of the main part of a log, which is the one with the most impressions.

    `days` are distinct numbers of days, `counts` their impressions. A new part begins after a gap of more than
    `FAR_DAYS` days.
    """
    order = np.argsort(days)
    days, counts = days[order], counts[order]
    parts = np.cumsum(np.diff(days, prepend=days[0]) > FAR_DAYS)
    main = days[parts == np.argmax(np.bincount(parts, weights=counts))]
    return int(main[0]), int(main[-1])


def end_of_log(times: NDArray[np.datetime64]) -> np.datetime64:
    """The end of a log with impressions at `times`: the latest time that does not hang on a few impressions.

    The 24 hours up to it hold at least a tenth of the impressions of typical 24 hours, and at least two. Without wrong
    clocks this is the time of the last impression.
    """
    ordered = np.sort(np.asarray(times).astype("datetime64[s]"))
    day_before = np.searchsorted(ordered, ordered - np.timedelta64(24, "h"), side="right")
    recent = np.arange(1, len(ordered) + 1) - day_before  # impressions of the 24 hours up to each one
    enough = np.flatnonzero(recent >= max(2.0, _TYPICAL * float(np.median(recent))))
    end: np.datetime64 = ordered[enough[-1] if len(enough) else -1]
    return end
