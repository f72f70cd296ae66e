"""What a user clicked and skipped: the feedback matrix Z and the profiles taken from it."""

import ibis
import ibis.expr.types as ir

PLACES = 2**31
"""More than any page has; an event's moment is its impression's number times this, plus its place on the page."""


def events(shown: ir.Table, users: ir.Table) -> ir.Table:
    """Every clicked or skipped news of the profile window: user, news, clicked, moment.

    `shown` has impression, news, clicked, order, perhaps seen; `users` has impression, user.
    """
    if "seen" in shown.columns:
        # what never came into view is not skipped
        shown = shown.filter(shown.clicked | shown.seen.fill_null(True))
    rows = shown.join(users, "impression")
    return rows.select("user", "news", "clicked", moment=moment(rows))


def moment(shown: ir.Table) -> ir.IntegerColumn:
    """One number that orders events by time, impression id and position in the impression."""
    return shown.impression * ibis.literal(PLACES, type="int64") + shown.order


def history_events(history: ir.Table) -> ir.Table:
    """Clicks from before the log as events that come before every other."""
    before = history.order - ibis.literal(PLACES, type="int64")
    return history.select("user", "news", clicked=ibis.literal(True), moment=before)


def feedback(events: ir.Table) -> ir.Table:
    """Z: one value for each (user, news), clicked beats skipped, with the last moment of that value.

    `times` counts the events that say the same, repeats included.
    """
    one = events.group_by("user", "news").aggregate(
        clicks=events.clicked.cast("int64").sum(),
        events=events.count(),
        last_click=events.moment.max(where=events.clicked),
        last_skip=events.moment.max(where=~events.clicked),
    )
    clicked = one.clicks > 0
    return one.select(
        "user",
        "news",
        clicked=clicked,
        moment=ibis.ifelse(clicked, one.last_click, one.last_skip),
        clicks="clicks",
        skips=one.events - one.clicks,
    )


def profiles(feedback: ir.Table, *, clicked: bool, keep: int) -> ir.Table:
    """The newest `keep` clicked or skipped news of each user: user, news, moment, slot (0 for the oldest kept)."""
    side = feedback.filter(feedback.clicked == clicked).select("user", "news", "moment")
    newest_first = ibis.window(group_by="user", order_by=ibis.desc("moment"))
    ranked = side.mutate(age=ibis.row_number().over(newest_first))
    kept = ranked.filter(ranked.age < keep)
    lengths = kept.group_by("user").aggregate(length=kept.count())
    rows = kept.join(lengths, "user")
    return rows.select("user", "news", "moment", slot=(rows.length - 1 - rows.age).cast("int32"))
