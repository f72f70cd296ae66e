"""Readers to choose from: those who were active last, then some of the bundle."""

from collections.abc import Iterator
from pathlib import Path

from drpn.dataset.arrays import ArrayReader
from drpn.errors import DrpnError
from drpn.store.base import Store
from drpn.store.records import ClickCounted, Impression

_EVENTS = 400
_MOST = 12
_IDS = "users/id"


def some_readers(store: Store, bundle: Path) -> list[str]:
    """The readers of the newest events, the last one first, then readers of a bundle; blocks while files are read."""
    readers = dict.fromkeys(_active(store))
    for user_id in _of_bundle(bundle):
        if len(readers) >= _MOST:
            break
        if user_id not in readers and not store.is_erased(user_id):
            readers[user_id] = None
    return list(readers)[:_MOST]


def _active(store: Store) -> Iterator[str]:
    start = max(0, store.last_sequence() - _EVENTS)
    for event in reversed(store.events_after(start, limit=_EVENTS)):
        what = event.what
        if isinstance(what, Impression | ClickCounted):
            yield what.user_id if isinstance(what, Impression) else what.click.user_id


def _of_bundle(bundle: Path) -> Iterator[str]:
    """The first readers of a bundle; none if it lists none."""
    try:
        ids = ArrayReader(bundle, {f"{_IDS}.{part}.npy": "" for part in ("offsets", "utf8")}).strings(_IDS)
        for row in range(1, min(len(ids), 2 * _MOST)):  # row 0 is padding
            yield ids[row]
    except (DrpnError, OSError, ValueError):
        return
