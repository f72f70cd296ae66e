"""The names of the counts that are known at the moment of ranking."""

MINUTE, HOUR, DAY = 60, 3600, 86_400
HALF_LIVES = {"10 min": 10 * MINUTE, "30 min": 30 * MINUTE, "2 h": 2 * HOUR, "8 h": 8 * HOUR, "48 h": 48 * HOUR}

STORY = [f"{what} {life}" for life in HALF_LIVES for what in ("shows", "clicks")]
GROUP = [f"group {what} 8 h" for what in ("shows", "clicks")]
SURFACE = [f"surface {what} {life}" for life in ("2 h", "48 h") for what in ("shows", "clicks")]
VISITS = [f"{what} {life}" for life in ("8 h", "48 h") for what in ("visits", "first visits")]
USER_PAIR = (
    *GROUP,
    "user category shows",
    "user category clicks",
    "user category shows 2 h",
    "user category clicks 2 h",
    "user category share",
    "user subcategory share",
    "times shown to user",
    "times clicked by user",
    "times visited by user",
    "clicked before the log",
    "hours since shown to user",
    "similarity to clicks",
    "similarity to recent clicks",
    "similarity to recent skips",
    "clicks after last click",
    "similarity to readers by text",
    "similarity to readers by taste",
    "similarity to taste",
)
"""The counts for each candidate that know who reads."""
PAIR = (
    *STORY,
    *SURFACE,
    *VISITS,
    "hours since first shown",
    "hours since published",
    "category shows",
    "category clicks",
    *USER_PAIR,
    "similarity to page",
    "category of page",
    "clicks from page",
    "has text",
)
"""The counts for each candidate of a page view."""
USER_PAGE = (
    "user past clicks",
    "user page views",
    "user shows",
    "user clicks",
    "hours since last page view",
    "page views in session",
    "all clicks after last click",
)
"""The counts for the page view that know who reads."""
PAGE = (*[f"all {name}" for name in STORY], *USER_PAGE, "page has story", "all clicks from page", "hour", "weekday")
"""The counts for the page view as a whole."""
