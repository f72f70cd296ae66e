"""User profiles as Ibis expressions over a whole log.

`profile` states the same rule as an update by one event. `tests/state/test_profile.py` compares the two.
"""

import ibis
import ibis.expr.types as ir

PLACES = 2**32
"""The moment of an event is impression number * PLACES + position; the positions of a page are below PLACES / 2."""
_AFTER_PAGE = PLACES // 2
"""Clicks from outside the impressions come after all positions of the impression before them."""


def impression_events(shown: ir.Table, users: ir.Table) -> ir.Table:
    """Clicks and skips of the impressions, one row per event: user, news, clicked, moment.

    `shown` has impression, news, clicked, order and optionally seen; `users` has impression, user.
    """
    if "seen" in shown.columns:
        # a story that the user never saw was not skipped
        shown = shown.filter(shown.clicked | shown.seen.fill_null(True))
    rows = shown.join(users, "impression")
    return rows.select("user", "news", "clicked", moment=event_moment(rows))


def event_moment(shown: ir.Table) -> ir.IntegerColumn:
    """One number that orders events by impression number, then by position in the impression."""
    return shown.impression * ibis.literal(PLACES, type="int64") + shown.order


def history_events(history: ir.Table) -> ir.Table:
    """Clicks from before the log as events: user, news, clicked, moment; `history` has user, news, order.

    They are older than all impressions, unless `history` also has `after`: the number of the impression that a click
    follows, -1 for none.
    """
    return history.select("user", "news", clicked=ibis.literal(True), moment=history_moment(history))


def history_moment(history: ir.Table) -> ir.IntegerColumn:
    """One number that orders clicks from before the log among all events; see `history_events`."""
    after = history.after if "after" in history.columns else ibis.literal(-1)
    return after * ibis.literal(PLACES, type="int64") + _AFTER_PAGE + history.order


def feedback_matrix(events: ir.Table) -> ir.Table:
    """Z, one row per (user, story): user, news, clicked, moment, clicks, skips.

    Clicked beats skipped; `moment` is the last event of that value. `clicks` and `skips` count events with repeats.
    """
    totals = events.group_by("user", "news").aggregate(
        clicks=events.clicked.cast("int64").sum(),
        events=events.count(),
        last_click=events.moment.max(where=events.clicked),
        last_skip=events.moment.max(where=~events.clicked),
    )
    clicked = totals.clicks > 0
    return totals.select(
        "user",
        "news",
        clicked=clicked,
        moment=ibis.ifelse(clicked, totals.last_click, totals.last_skip),
        clicks="clicks",
        skips=totals.events - totals.clicks,
    )


def profile_sequences(feedback: ir.Table, *, clicked: bool, keep: int) -> ir.Table:
    """The newest `keep` clicked or skipped stories of each user: user, news, moment, slot (0 is the oldest kept).

    Stories of one moment are in the order of their `news`.
    """
    side = feedback.filter(feedback.clicked == clicked).select("user", "news", "moment")
    newest_first = ibis.window(group_by="user", order_by=[ibis.desc("moment"), ibis.desc("news")])
    ranked = side.mutate(age=ibis.row_number().over(newest_first))
    newest = ranked.filter(ranked.age < keep)
    lengths = newest.group_by("user").aggregate(length=newest.count())
    rows = newest.join(lengths, "user")
    return rows.select("user", "news", "moment", slot=(rows.length - 1 - rows.age).cast("int32"))
