"""The times of a log, robust to wrong clocks: its plausible days, and its end."""

import numpy as np
from numpy.typing import NDArray

FAR_DAYS = 7
"""A time is far from the others if it is more than this many days from the busy days of the log."""
_BUSY = 0.01
"""A busy day has at least this share of the impressions of the busiest."""
_TYPICAL = 0.1
"""The 24 hours up to the end of a log hold at least this share of the impressions of typical 24 hours."""


def plausible_days(days: NDArray[np.int64], counts: NDArray[np.int64]) -> tuple[int, int]:
    """The first and the last plausible day; `days` are distinct numbers of days, `counts` their impressions.

    From the busiest day on, in both directions: days follow each other as long as the next busy day is at most
    `FAR_DAYS` away. Times up to `FAR_DAYS` before and after these days are plausible too.
    """
    busiest = int(days[np.argmax(counts)])
    busy = np.sort(days[counts >= _BUSY * counts.max()])
    first = last = busiest
    for day in busy[busy > busiest].tolist():
        if day - last > FAR_DAYS:
            break
        last = day
    for day in busy[busy < busiest].tolist()[::-1]:
        if first - day > FAR_DAYS:
            break
        first = day
    return first - FAR_DAYS, last + FAR_DAYS


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
