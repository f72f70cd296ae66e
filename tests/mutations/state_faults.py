"""Faults in the rule that makes profiles from events."""

from mutations.planting import Fault, Group

UPDATES, QUERIES = "state/profile.py", "state/profile_expressions.py"
READERS = "state/audience.py"
RUNNING, LIVE, MOVING = "state/running.py", "state/counts.py", "state/moving_profile.py"

PROFILES = [
    Fault("a story clicked long ago counts as skipped", UPDATES, " if story not in self._last_click}", "}"),
    Fault(
        "the first event counts and not the last",
        UPDATES,
        "_before(last[event.news_id], event.moment)",
        "_before(event.moment, last[event.news_id])",
    ),
    Fault(
        "clicks and skips swapped",
        UPDATES,
        "self._last_click if event.clicked else self._last_skip",
        "self._last_skip if event.clicked else self._last_click",
    ),
    Fault(
        "the oldest stories are kept",
        UPDATES,
        "return newest_first[::-1]",
        "return sorted(last.items(), key=lambda item: (item[1], item[0]))[:limit]",
    ),
    Fault("stories of one moment in the order of arrival", UPDATES, "(item[1], item[0])", "item[1]"),
    Fault(
        "events from before the window come back",
        UPDATES,
        "if self._window_start is not None and _before(event.moment, self._window_start):",
        "if False:",
    ),
    Fault(
        "events of the first moment of a window expire",
        UPDATES,
        "if not _before(time, moment)}",
        "if _before(moment, time)}",
    ),
    Fault(
        "the moment of a story is that of its last event of any kind",
        QUERIES,
        "ibis.ifelse(clicked, totals.last_click, totals.last_skip)",
        "ibis.greatest(totals.last_click, totals.last_skip)",
    ),
    Fault(
        "one skip beats all clicks", QUERIES, "clicked = totals.clicks > 0", "clicked = totals.clicks == totals.events"
    ),
    Fault("clicks of a history come before the page that they follow", QUERIES, "+ _AFTER_PAGE +", "- _AFTER_PAGE +"),
    Fault("one story too many is kept", QUERIES, "ranked.age < keep", "ranked.age <= keep"),
    Fault("stories of one moment in another order", QUERIES, 'ibis.desc("news")]', '"news"]'),
    Fault(
        "skipped stories on the side of clicked ones",
        QUERIES,
        "feedback.clicked == clicked",
        "feedback.clicked != clicked",
    ),
]

COUNTS = [
    Fault(
        "events of one second know each other",
        RUNNING,
        "earlier = sums.take(order.second_start, axis=-1)",
        "earlier = sums.take(np.arange(len(times)), axis=-1)",
    ),
    Fault("sums do not decay between parts", RUNNING, " * self._decay(rows, start)", ""),
    Fault(
        "the first time of events that do not count",
        RUNNING,
        "np.where(counts[order.which], place, nothing)",
        "np.where(counts[order.which] | True, place, nothing)",
    ),
    Fault(
        "the last value of events that do not count",
        RUNNING,
        "np.where(counts[order.which], place, -1)",
        "np.where(counts[order.which] | True, place, -1)",
    ),
    Fault("a session begins after more than the gap", RUNNING, ">= self._gap", "> self._gap"),
    Fault(
        "unseen stories count as shown",
        LIVE,
        "((views.clicked | views.skipped) & is_view).astype(np.float32)",
        "is_view.astype(np.float32)",
    ),
    Fault(
        "clicks without a page count for the story",
        LIVE,
        "(views.clicked & is_view).astype(np.float32)",
        "views.clicked.astype(np.float32)",
    ),
    Fault("the next weekday", LIVE, "(moment // 24 + 3) % 7", "(moment // 24 + 4) % 7"),
    Fault("front pages and pages of stories counted together", LIVE, "2 * stories + (pairs.pages > 0)", "2 * stories"),
    Fault(
        "page views of one second in two parts",
        "state/page_views.py",
        'stop = int(np.searchsorted(views.times, views.times[stop - 1], side="right"))',
        "pass",
    ),
    Fault("profiles know the feedback of their own second", MOVING, "times[told] < time", "times[told] <= time"),
    Fault("a skip after a click is kept", MOVING, "elif skip and story not in clicked:", "elif skip:"),
]

AUDIENCE = [
    Fault(
        "readers of the same second are known",
        READERS,
        "(moments - start)) - 1",
        '(moments - start), side="right") - 1',
    ),
    Fault(
        "readers do not fade since the last click",
        READERS,
        "np.exp2((asked_time[place] - moments) / self._half_life)",
        "np.ones(len(place))",
    ),
    Fault("tastes are not compared with those of everyone", READERS, "directions - mean, 0)", "directions, 0)"),
    Fault("clicks from before the log add readers", READERS, "clicked & is_view[view]", "clicked"),
    Fault("many readers count more than similar ones", READERS, "(faded * readers[place, -1] + 1)", "1"),
    Fault("the last click on any story", READERS, "(at >= 0) & (keys[at] // span == stories)", "at >= 0"),
]

LEARNED, READ = "preparation/tastes.py", "dataset/taste_vectors.py"
TASTES = [
    Fault(
        "a visit by somebody who clicked is a first visit",
        LIVE,
        "~counts[visit, 0, 1:].any(axis=1)",
        "~counts[visit, 0, 3:].any(axis=1)",
    ),
    Fault("a visited story is forgotten", LIVE, "values.max(axis=1) > 0", "values[:, :3].max(axis=1) > 0"),
    Fault("many clicks count more than similar ones", LIVE, "view)[0] / all_clicks", "view)[0]"),
    Fault("the next click is in the profile", LEARNED, "place[chosen][:, None] - 1 -", "place[chosen][:, None] -"),
    Fault(
        "clicks of another user in the profile", LEARNED, "inside = earlier >= first", "inside = earlier >= 0 * first"
    ),
    Fault("the oldest clicks are learned from", LEARNED, "[-_MOST_CLICKS:]", "[:_MOST_CLICKS]"),
    Fault("padding counts as a word", READ, "(np.asarray(words) > 0)", "(np.asarray(words) >= 0)"),
]

GROUPS = [
    Group("Profiles", ("tests/state/test_profile.py", "-k", "not standard_library"), PROFILES),
    Group("Counts", ("tests/state/test_running.py", "tests/state/test_counts.py"), COUNTS),
    Group("Readers", ("tests/state/test_counts.py",), AUDIENCE),
    Group("Tastes and visits", ("tests/state/test_counts.py", "tests/preparation/test_tastes.py"), TASTES),
]
