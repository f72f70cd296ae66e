"""Deletes from a store what is past its time, in small steps."""

from datetime import datetime

from drpn.store.moments import microseconds, pack
from drpn.store.settings import StoreSettings
from drpn.store.sql.changes import Changes
from drpn.store.sql.dialect import Connection, Dialect
from drpn.store.sql.queries import read_user

_USERS_AT_ONCE = 50


def delete_expired(connection: Connection, changes: Changes, settings: StoreSettings, now: datetime, limit: int) -> int:
    """Delete up to about `limit` rows; returns how many."""
    cutoff = microseconds(now - settings.retention)
    deleted = _delete_events(connection, changes, cutoff, limit)
    key_time = microseconds(now) - int(settings.key_hours * 3_600_000_000)
    for table, key, before in (("rankings", "ranking", cutoff), ("requests", "key", key_time)):
        if table == "rankings":
            connection.execute(
                'INSERT INTO expiring SELECT "user" FROM rankings WHERE "user" IS NOT NULL AND ranking IN '
                "(SELECT ranking FROM rankings WHERE time < ? ORDER BY time LIMIT ?) ON CONFLICT DO NOTHING",
                (before, limit),
            )
        deleted += connection.execute(
            f"DELETE FROM {table} WHERE {key} IN (SELECT {key} FROM {table} WHERE time < ? ORDER BY time LIMIT ?)",
            (before, limit),
        ).rowcount
    deleted += _forget_news(connection, changes.dialect, cutoff, limit)
    deleted = deleted or _forget_feedback(connection, cutoff)
    changes.free_space(connection, now - settings.retention)
    return deleted


def _delete_events(connection: Connection, changes: Changes, cutoff: int, limit: int) -> int:
    key = changes.dialect.event_key
    rows = connection.execute(
        f'SELECT kind, "user", {", ".join(key)} FROM events WHERE time < ? ORDER BY time LIMIT ?', (cutoff, limit)
    ).fetchall()
    impressions = [(sequence,) for kind, _, sequence, *_ in rows if kind == "impression"]
    still_open = [
        number
        for (number,) in impressions
        if connection.execute("SELECT open FROM impressions WHERE sequence = ?", (number,)).fetchone() == (1,)
    ]
    changes.close_old(connection, still_open)
    connection.executemany("DELETE FROM clicks WHERE impression = ?", impressions)
    connection.executemany("DELETE FROM impressions WHERE sequence = ?", impressions)
    where = " AND ".join(f"{column} = ?" for column in key)
    connection.executemany(f"DELETE FROM events WHERE {where}", [values for _, _, *values in rows])
    users = {user for _, user, *_ in rows if user is not None}
    connection.executemany("INSERT INTO expiring VALUES (?) ON CONFLICT DO NOTHING", [(user,) for user in users])
    return len(rows)


def _forget_news(connection: Connection, dialect: Dialect, cutoff: int, limit: int) -> int:
    """Forget the texts of stories that are not live since the cutoff; that they are not live is kept."""
    return connection.execute(
        "UPDATE news SET body = NULL, taken_down = coalesce(taken_down, time) WHERE news_id IN (SELECT news_id FROM "
        f"news WHERE body IS NOT NULL AND time < ? AND (taken_down < ? OR {dialect.expires} < ?) LIMIT ?)",
        (cutoff, cutoff, cutoff, limit),
    ).rowcount


def _forget_feedback(connection: Connection, cutoff: int) -> int:
    """Forget the old feedback of some users that their profiles do not hold, and users who have nothing left."""
    users = connection.execute(
        'SELECT "user", user_id FROM expiring JOIN users USING ("user") LIMIT ?', (_USERS_AT_ONCE,)
    ).fetchall()
    before = pack(cutoff)[:8]
    for user, user_id in users:
        profile = read_user(connection, user).profile
        kept = {entry.news_id for side in (profile.clicked, profile.skipped) for entry in side}
        old = connection.execute(
            'SELECT news_id FROM feedback WHERE "user" = ? AND (clicked IS NULL OR clicked < ?) '
            "AND (skipped IS NULL OR skipped < ?)",
            (user, before, before),
        ).fetchall()
        connection.executemany(
            'DELETE FROM feedback WHERE "user" = ? AND news_id = ?',
            [(user, news_id) for (news_id,) in old if news_id not in kept],
        )
        connection.execute('DELETE FROM expiring WHERE "user" = ?', (user,))
        connection.execute(
            "DELETE FROM users WHERE user_id = ?"
            + "".join(
                f' AND NOT EXISTS (SELECT 1 FROM {table} WHERE {table}."user" = users."user")'
                for table in ("feedback", "seeds", "events", "impressions", "rankings")
            ),
            (user_id,),
        )
    return len(users)
