"""Readers to choose from: those who were active last."""

from drpn.store.base import Store
from drpn.store.records import ClickCounted, Impression

_EVENTS = 400
_MOST = 12


def recent_readers(store: Store) -> list[str]:
    """The readers of the newest events, the last one first; blocks while the log is read."""
    start = max(0, store.last_sequence() - _EVENTS)
    readers: dict[str, None] = {}
    for event in reversed(store.events_after(start, limit=_EVENTS)):
        what = event.what
        if isinstance(what, Impression | ClickCounted):
            readers.setdefault(what.user_id if isinstance(what, Impression) else what.click.user_id)
    return list(readers)[:_MOST]
