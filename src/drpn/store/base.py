"""The protocol of all stores, and the rules that they follow.

A store is a durable log of events, each with a sequence number, and tables that answer questions about them. Its rules:

**Acknowledged means durable.** Every change returns a future. It resolves after the change is on the disk; one sync
serves all changes of a group. If too many changes wait, the call raises `StoreBusyError` and nothing is written.

**Order.** Sequence numbers rise in the order in which changes are written and are never used twice. Whoever has read an
event has all with lower numbers before it: none appears later. Several processes may follow `events_after`. Every
decision is made from what is stored, never from the memory of a process.

**Repeated requests.** A change may have an idempotency key. The same key with the same content is acknowledged again
without a second event; with other content it is refused (`RepeatedKeyError`). Keys are forgotten after a set time. An
impression id works like a key, and repeated clicks on a story of an impression count once.

**Clicks.** A click counts at once, whether the impression is open or closed: clicked beats skipped, so a click after
closing turns the skip into a click. A click on an impression that is unknown or of another user is refused
(`UnknownImpressionError`), as is one on a story that the impression did not show (`NotShownError`).

**Skips.** A story that was shown and not clicked becomes a skip when its impression is closed: at once if it was
reported as complete, at the user's next request (`close_for`), or after a set time (`close_before`). A story that was
reported as not seen is never a skip.

**Times.** An event without a time gets that of the store's clock. Events more than a small tolerance in the future, and
events from before the retention, are refused (`EventTimeError`). Events may arrive in any order: in profiles, clicks
and skips have the moment of their impression (time, then impression id, then position), as in a log that `drpn prepare`
reads. The result does not depend on the order of arrival.

**Profiles** follow the rule of `state.profile`. Each has a version that rises with every change.

**Erasure** deletes everything that is stored of a user. A store in a file overwrites it there; a database server does
so when it needs the space. One event remains, with a keyed hash of the user id. A later seed leaves the user out, and
later events of the user start with an empty profile.

**Retention** deletes old events. Profiles stay as they are; other stories are forgotten with their last event.
"""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from datetime import datetime
from typing import Protocol

from drpn.store.records import (
    Click,
    Closed,
    Impression,
    KeyRecord,
    LoggedEvent,
    LoggedRanking,
    QueueFigures,
    Receipt,
    Seed,
    StoredImpression,
    StoredStory,
    StoreFigures,
    Story,
    UserState,
    VariantCounts,
)


class Store(Protocol):
    """A store; all methods may be called from any thread.

    Changes return a future, which asyncio awaits by `asyncio.wrap_future`; it raises `RefusedError` if the change
    breaks a rule. Other methods block while they read. Ids that cannot be stored raise `RefusedError` at once.
    """

    # changes

    def add_impression(self, impression: Impression, *, key: str | None = None) -> Future[Receipt]:
        """Store a page view with the clicks known so far."""

    def add_click(self, click: Click, *, key: str | None = None) -> Future[Receipt]:
        """Store a click on an earlier impression."""

    def close_for(self, user_id: str, now: datetime | None = None) -> Future[tuple[Closed, ...]]:
        """Close the open impressions of a user up to `now`; returns those closed, oldest first."""

    def close_before(self, moment: datetime, *, limit: int = 500) -> Future[int]:
        """Close at most `limit` open impressions that are older than `moment`; returns how many."""

    def put_news(self, stories: Sequence[Story], *, key: str | None = None) -> Future[Receipt]:
        """Add or replace stories: all or none. A story that is stored with the same content makes no event."""

    def take_down(self, news_ids: Sequence[str], *, key: str | None = None) -> Future[Receipt]:
        """Take stories down, known or not; they are not live until they are put again."""

    def erase(self, user_id: str) -> Future[Receipt]:
        """Erase a user, known or not; after the receipt no byte of the user id is in the file of a SQLite store."""

    def seed(self, users: Iterable[Seed], *, batch: int = 1000) -> bool:
        """Store profiles of a bundle in an empty store, once; returns whether it did. Blocks until all are durable.

        If it was interrupted, the next call completes it. A store that has events but was never seeded is refused.
        """

    def append_rankings(self, rankings: Sequence[LoggedRanking]) -> int:
        """Log rankings soon, without waiting; returns how many were dropped because too many wait."""

    def delete_expired(self, now: datetime | None = None, *, limit: int = 500) -> Future[int]:
        """Delete up to `limit` events, rankings and keys past their time; returns how many. Repeat until it is 0."""

    # the log

    def last_sequence(self) -> int:
        """The sequence number of the newest event; 0 for an empty log."""

    def events_after(self, sequence: int, *, limit: int = 1000) -> list[LoggedEvent]:
        """The next events in the order of their numbers, at most `limit`; those past the retention are gone."""

    def sequence_at(self, moment: datetime) -> int:
        """The last number such that it and all lower ones are of events up to `moment`: what a log until then has."""

    # questions

    def user(self, user_id: str, *, also: Sequence[Impression] = ()) -> UserState:
        """Profile, version and clicks of a user; as if the page views in `also` were stored, too, and closed."""

    def version(self, user_id: str) -> int:
        """The version of a user's state alone, which is quick to read."""

    def is_erased(self, user_id: str) -> bool:
        """Whether the user was erased at some time."""

    def mark(self, user_id: str) -> str:
        """The keyed hash that stands for an erased user in the log."""

    def user_events(self, user_id: str) -> Iterator[LoggedEvent]:
        """All events of a user, to hand to the user."""

    def impression(self, impression_id: str) -> StoredImpression | None:
        """An impression; None if there is none."""

    def open_impressions(self, user_id: str) -> list[StoredImpression]:
        """The open impressions of a user, oldest first."""

    def closed_impressions(self, start: datetime, stop: datetime) -> Iterator[StoredImpression]:
        """The closed impressions from `start` to before `stop` in the order of time and id.

        They are read in parts: one that is erased or closed meanwhile may be missing.
        """

    def stories(self, news_ids: Sequence[str] | None = None) -> Iterator[StoredStory]:
        """The stories of these ids that are known, or all, in the order in which they were last put."""

    def rankings(self, impression_ids: Sequence[str]) -> dict[str, LoggedRanking]:
        """The logged rankings of some impressions, by impression id."""

    def variant_counts(self) -> list[VariantCounts]:
        """Shown and clicked stories for each bundle and variant."""

    def figures(self) -> StoreFigures:
        """Figures for monitoring."""

    def queue(self) -> QueueFigures:
        """Those figures that are of this process alone; reads nothing."""

    # API keys; see `keys`

    def add_api_key(self, record: KeyRecord) -> None:
        """Store a new API key."""

    def api_keys(self) -> list[KeyRecord]:
        """All API keys, revoked ones included, oldest first."""

    def revoke_api_key(self, key_id: str, now: datetime) -> bool:
        """Revoke a key; returns whether there was one in use."""

    def derived_key(self, purpose: str) -> bytes:
        """32 secret bytes, which every process that opens this store gets for a purpose."""

    def close(self) -> None:
        """Write what waits and close; later calls raise `StoreError`."""
