"""The changes of a store in a database, each applied within a transaction of the writer.

Everything is decided from the tables, within the transaction, so several processes may write to one store.
"""

import hmac
import json
from abc import abstractmethod
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from drpn.errors import NotShownError, RepeatedKeyError, StoreError, UnknownImpressionError
from drpn.store.encoding import decode_impression, encode, encode_ranking, encode_story
from drpn.store.moments import from_microseconds, microseconds, pack
from drpn.store.records import (
    Click,
    ClickCounted,
    Closed,
    Erased,
    Impression,
    LoggedRanking,
    NewsPut,
    Receipt,
    Seed,
    Seeded,
    Story,
    TakenDown,
)
from drpn.store.sql.dialect import Connection
from drpn.store.sql.event_log import EventLog

_CLICK = "clicked = CASE WHEN feedback.clicked > excluded.clicked THEN feedback.clicked ELSE excluded.clicked END"
_SKIP = (
    "skipped = CASE WHEN feedback.skipped > excluded.skipped THEN feedback.skipped ELSE excluded.skipped END, "
    "times_skipped = feedback.times_skipped + 1"
)
_BY_USER = ("events", "impressions", "feedback", "seeds", "rankings", "expiring", "users")


class _Row(NamedTuple):
    """An impression as it is stored."""

    sequence: int
    user: int
    user_id: str
    time: int
    open: int
    impression: Impression


class Changes(EventLog):
    """Writes events and what follows from them."""

    @abstractmethod
    def ask_to_wipe(self, connection: Connection, sequence: int) -> None:
        """Remember that bytes of deleted rows are to be removed, because of the event with this number."""

    @abstractmethod
    def free_space(self, connection: Connection, cutoff: datetime) -> None:
        """Give some of the space back in which events from before `cutoff` were."""

    def add_impression(self, connection: Connection, impression: Impression) -> Receipt:
        """Store an impression; its id works like an idempotency key."""
        content = self.keyed_hash("content", f"{impression.user_id}\0{encode(impression)}")
        same = connection.execute(
            "SELECT sequence, content FROM impressions WHERE impression_id = ?", (impression.impression_id,)
        )
        user_row = self._find_user(connection, impression.user_id)  # asked before the first answer is needed
        row, known = same.fetchone(), user_row.fetchone()
        if row is not None:
            if not hmac.compare_digest(row[1], content):
                raise RepeatedKeyError(
                    f"impression '{impression.impression_id}' was reported with other content; use a new id, "
                    "and report later clicks as clicks"
                )
            return Receipt(row[0], repeated=True)
        time = self._event_time(impression.time)
        impression = replace(impression, time=from_microseconds(time))
        user = self._add_user(connection, impression.user_id) if known is None else int(known[0])
        sequence = self._log(connection, impression, time, user)
        connection.execute(
            'INSERT INTO impressions (sequence, impression_id, "user", time, open, content) '
            "VALUES (?, ?, ?, ?, TRUE, ?)",
            (sequence, impression.impression_id, user, time, content),
        )
        clicked = [story.news_id for story in impression.shown if story.clicked]
        for news_id in clicked:
            connection.execute("INSERT INTO clicks VALUES (?, ?, ?)", (sequence, news_id, time))
        self._feedback(connection, user, impression, clicked, clicked=True)
        self._count(
            connection,
            impression,
            shown=sum(story.clicked or story.seen is not False for story in impression.shown),
            clicked=len(clicked),
        )
        self._changed(connection, user, sequence)
        if impression.complete:
            stored = _Row(sequence, user, impression.user_id, time, 1, impression)
            self._close(connection, stored, clicked, microseconds(self._clock()))
        return Receipt(sequence)

    def add_click(self, connection: Connection, click: Click) -> Receipt:
        """Store a click; the first on a story of an impression counts."""
        row = self._impression(connection, "impression_id = ?", click.impression_id)
        if row is None or row.user_id != click.user_id:
            raise UnknownImpressionError(
                f"there is no impression '{click.impression_id}' of this user; report impressions before their clicks"
            )
        shown = {story.news_id: story for story in row.impression.shown}
        if click.news_id not in shown:
            raise NotShownError(f"impression '{click.impression_id}' did not show the story '{click.news_id}'")
        pair = (row.sequence, click.news_id)
        if connection.execute("SELECT 1 FROM clicks WHERE impression = ? AND news_id = ?", pair).fetchone():
            return Receipt(row.sequence, repeated=True)
        time = self._event_time(click.time)
        counted = ClickCounted(
            replace(click, time=from_microseconds(time)),
            from_microseconds(row.time),
            row.impression.positions()[click.news_id],
            was_skipped=not row.open and shown[click.news_id].seen is not False,
        )
        sequence = self._log(connection, counted, time, row.user)
        connection.execute("INSERT INTO clicks VALUES (?, ?, ?)", (*pair, time))
        self._feedback(connection, row.user, row.impression, [click.news_id], clicked=True)
        unseen = shown[click.news_id].seen is False
        self._count(connection, row.impression, impressions=0, shown=int(unseen), clicked=1)
        self._changed(connection, row.user, sequence)
        return Receipt(sequence)

    def close_for(self, connection: Connection, user_id: str, now: datetime | None) -> tuple[Closed, ...]:
        """Close the open impressions of a user."""
        moment = microseconds(now or self._clock())
        user = self._find_user(connection, user_id).fetchone()
        if user is None:
            return ()
        rows = connection.execute(
            'SELECT sequence FROM impressions WHERE "user" = ? AND open AND time <= ? ORDER BY time, impression_id',
            (user[0], moment),
        ).fetchall()
        return self._close_all(connection, rows, moment)

    def close_before(self, connection: Connection, moment: datetime, limit: int) -> int:
        """Close the oldest open impressions before a moment."""
        rows = connection.execute(
            "SELECT sequence FROM impressions WHERE open AND time < ? ORDER BY time LIMIT ?",
            (microseconds(moment), limit),
        ).fetchall()
        return len(self._close_all(connection, rows, microseconds(self._clock())))

    def put_news(self, connection: Connection, stories: Sequence[Story]) -> Receipt:
        """Add or replace stories; one that is stored with the same content and live makes no event."""
        now, first = microseconds(self._clock()), 0
        for story in stories:
            body = encode_story(story)
            row = connection.execute("SELECT body, taken_down FROM news WHERE news_id = ?", (story.news_id,)).fetchone()
            if row == (body, None):
                continue
            sequence = self._log(connection, NewsPut(story), now)
            connection.execute(
                "INSERT INTO news VALUES (?, ?, ?, NULL, ?) ON CONFLICT (news_id) DO UPDATE SET "
                "sequence = excluded.sequence, time = excluded.time, taken_down = NULL, body = excluded.body",
                (story.news_id, sequence, now, body),
            )
            first = first or sequence
        return Receipt(first, repeated=not first)

    def take_down(self, connection: Connection, news_ids: Sequence[str]) -> Receipt:
        """Take stories down; one that is down already makes no event."""
        now, first = microseconds(self._clock()), 0
        for news_id in news_ids:
            row = connection.execute("SELECT taken_down FROM news WHERE news_id = ?", (news_id,)).fetchone()
            if row is not None and row[0] is not None:
                continue
            sequence = self._log(connection, TakenDown(news_id), now)
            connection.execute(
                "INSERT INTO news VALUES (?, ?, ?, ?, NULL) ON CONFLICT (news_id) DO UPDATE SET "
                "taken_down = excluded.taken_down",
                (news_id, sequence, now, now),
            )
            first = first or sequence
        return Receipt(first, repeated=not first)

    def erase(self, connection: Connection, user_id: str) -> Receipt:
        """Delete all rows of a user; remember that, without the id."""
        row = self._find_user(connection, user_id).fetchone()
        if row is not None:
            connection.execute(
                'DELETE FROM clicks WHERE impression IN (SELECT sequence FROM impressions WHERE "user" = ?)', row
            )
            for table in _BY_USER:
                connection.execute(f'DELETE FROM {table} WHERE "user" = ?', row)
        mark = self.keyed_hash("user", user_id)
        connection.execute("INSERT INTO erased VALUES (?) ON CONFLICT DO NOTHING", (mark,))
        sequence = self._log(connection, Erased(mark.hex()), microseconds(self._clock()))
        if row is not None:
            self.ask_to_wipe(connection, sequence)
        return Receipt(sequence)

    def seed_state(self, connection: Connection) -> str | None:
        """None before seeding, "begun", or "done"; refuse a store with events that was never seeded."""
        row = connection.execute("SELECT value FROM facts WHERE name = 'seeded'").fetchone()
        if row is not None:
            return str(row[0])
        # a store that only knows news or erased users is as good as empty
        if connection.execute("SELECT 1 FROM users WHERE version > 0 LIMIT 1").fetchone():
            raise StoreError("the store has events of users, so it cannot be seeded; seed an empty store")
        connection.execute("INSERT INTO facts VALUES ('seeded', 'begun')")
        return None

    def seed(self, connection: Connection, seeds: Sequence[Seed]) -> None:
        """Store seeds of users who are not erased; seeds that are stored already stay."""
        users = []
        for seed in seeds:
            mark = self.keyed_hash("user", seed.user_id)
            if not connection.execute("SELECT 1 FROM erased WHERE mark = ?", (mark,)).fetchone():
                users.append((self._user(connection, seed.user_id), seed))
        if not users:
            return
        sequence = self._log(connection, Seeded(len(users)), microseconds(self._clock()))
        for user, seed in users:
            profile = seed.profile
            as_of = microseconds(profile.as_of) if isinstance(profile.as_of, datetime) else None
            clicked, skipped = ([entry.news_id for entry in side] for side in (profile.clicked, profile.skipped))
            body = json.dumps({"clicked": clicked, "skipped": skipped, "all": sorted(set(seed.clicked) - {*clicked})})
            values = (user, as_of, body)
            if connection.execute("INSERT INTO seeds VALUES (?, ?, ?) ON CONFLICT DO NOTHING", values).rowcount:
                self._changed(connection, user, sequence)

    def finish_seed(self, connection: Connection) -> None:
        """Remember that seeding is complete."""
        connection.execute("UPDATE facts SET value = 'done' WHERE name = 'seeded'")

    def log_rankings(self, connection: Connection, rankings: Sequence[LoggedRanking]) -> None:
        """Store rankings; of two with the same impression id the first stays."""
        users = self._users(connection, {ranking.user_id for ranking in rankings if ranking.user_id is not None})
        connection.executemany(
            'INSERT INTO rankings (impression_id, "user", time, bundle, variant, body) VALUES (?, ?, ?, ?, ?, ?) '
            "ON CONFLICT DO NOTHING",
            [
                (
                    ranking.impression_id,
                    None if ranking.user_id is None else users[ranking.user_id],
                    microseconds(ranking.time),
                    ranking.bundle,
                    ranking.variant,
                    encode_ranking(ranking),
                )
                for ranking in rankings
            ],
        )

    def close_old(self, connection: Connection, sequences: Iterable[int]) -> None:
        """Close impressions before they are deleted."""
        self._close_all(connection, [(sequence,) for sequence in sequences], microseconds(self._clock()))

    def _impression(self, connection: Connection, where: str, value: str | int) -> _Row | None:
        key = ", ".join(self.dialect.event_key)
        row = connection.execute(
            'SELECT sequence, impressions."user", user_id, impressions.time, open, body FROM impressions '
            f'JOIN users USING ("user") JOIN events USING ({key}) WHERE {where}',
            (value,),
        ).fetchone()
        if row is None:
            return None
        sequence, user, user_id, time, is_open, body = row
        return _Row(sequence, user, user_id, time, is_open, decode_impression(json.loads(body), user_id))

    def _close_all(self, connection: Connection, sequences: Iterable[tuple[int]], now: int) -> tuple[Closed, ...]:
        rows = (self._impression(connection, "sequence = ?", sequence) for (sequence,) in sequences)
        return tuple(
            self._close(connection, row, self._clicks(connection, row.sequence), now) for row in rows if row is not None
        )

    def _clicks(self, connection: Connection, impression: int) -> set[str]:
        """The clicked stories of an impression."""
        rows = connection.execute("SELECT news_id FROM clicks WHERE impression = ?", (impression,))
        return {news_id for (news_id,) in rows}

    def _close(self, connection: Connection, row: _Row, clicks: Collection[str], now: int) -> Closed:
        """Turn what was shown, seen and not clicked into skips."""
        skipped = [
            story.news_id for story in row.impression.shown if story.news_id not in clicks and story.seen is not False
        ]
        closed = Closed(row.impression.impression_id, row.user_id, from_microseconds(row.time), tuple(skipped))
        sequence = self._log(connection, closed, now, row.user)
        connection.execute("UPDATE impressions SET open = FALSE WHERE sequence = ?", (row.sequence,))
        self._feedback(connection, row.user, row.impression, skipped, clicked=False)
        self._changed(connection, row.user, sequence)
        return closed

    def _feedback(
        self,
        connection: Connection,
        user: int,
        impression: Impression,
        news_ids: Iterable[str],
        *,
        clicked: bool,
    ) -> None:
        """Keep the last click and the last skip of each story, from which `ProfileState` derives profiles; count
        skips."""
        assert impression.time is not None
        time, positions = microseconds(impression.time), impression.positions()
        column, update = ("clicked", _CLICK) if clicked else ("skipped", _SKIP)
        connection.executemany(
            f'INSERT INTO feedback ("user", news_id, {column}, times_skipped) VALUES (?, ?, ?, ?) '
            f'ON CONFLICT ("user", news_id) DO UPDATE SET {update}',
            [
                (user, news_id, pack(time, impression.impression_id, positions[news_id]), int(not clicked))
                for news_id in news_ids
            ],
        )

    def _count(
        self,
        connection: Connection,
        impression: Impression,
        *,
        impressions: int = 1,
        shown: int,
        clicked: int,
    ) -> None:
        """Count feedback on a variant of a bundle."""
        if impression.bundle is None:
            return
        connection.execute(
            "INSERT INTO variants VALUES (?, ?, ?, ?, ?) ON CONFLICT (bundle, variant) DO UPDATE SET "
            "impressions = variants.impressions + excluded.impressions, shown = variants.shown + excluded.shown, "
            "clicked = variants.clicked + excluded.clicked",
            (impression.bundle, impression.variant or "", impressions, shown, clicked),
        )
