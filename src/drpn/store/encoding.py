"""Events as JSON, for stores that keep them in a database; user ids are kept elsewhere."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from drpn.errors import StoreError
from drpn.store.moments import from_microseconds, microseconds
from drpn.store.records import (
    Click,
    ClickCounted,
    Closed,
    Erased,
    Happening,
    Impression,
    LoggedRanking,
    NewsPut,
    Seeded,
    Shown,
    Story,
    TakenDown,
)

KINDS = {
    Impression: "impression",
    ClickCounted: "click",
    Closed: "closed",
    NewsPut: "news",
    TakenDown: "takedown",
    Erased: "erased",
    Seeded: "seeded",
}
_NOT_STORED = {"shown", "user_id"}
_TIMES = {"time", "published", "expires"}


def as_json(value: Mapping[str, Any]) -> str:
    """The shortest JSON; the same for the same content."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def encode(what: Happening) -> str:
    """An event as JSON, without the user."""
    match what:
        case Impression():
            body = {**_fields(what), "shown": [_trimmed(tuple(vars(story).values())) for story in what.shown]}
        case ClickCounted():
            body = {
                **_fields(what.click),
                "shown_at": microseconds(what.shown_at),
                "position": what.position,
                "was_skipped": what.was_skipped,
            }
        case Closed():
            body = {
                "impression_id": what.impression_id,
                "shown_at": microseconds(what.shown_at),
                "skipped": what.skipped,
            }
        case NewsPut():
            body = _fields(what.story)
        case _:
            body = dict(vars(what))
    return as_json(body)


def decode(kind: str, text: str, user_id: str | None) -> Happening:
    """The inverse of `encode`."""
    body, user = json.loads(text), user_id or ""
    match kind:
        case "impression":
            return decode_impression(body, user)
        case "click":
            click = Click(body["impression_id"], user, body["news_id"], from_microseconds(body["time"]))
            return ClickCounted(click, from_microseconds(body["shown_at"]), body["position"], body["was_skipped"])
        case "closed":
            shown_at = from_microseconds(body["shown_at"])
            return Closed(body["impression_id"], user, shown_at, tuple(body["skipped"]))
        case "news":
            return NewsPut(decode_story(body))
        case "takedown":
            return TakenDown(**body)
        case "erased":
            return Erased(**body)
        case "seeded":
            return Seeded(**body)
    raise StoreError(f"the store has an event of the unknown kind '{kind}'; update drpn")


def decode_impression(body: Mapping[str, Any], user_id: str) -> Impression:
    """An impression from its JSON."""
    return Impression(**(_values(body) | {"user_id": user_id, "shown": tuple(Shown(*row) for row in body["shown"])}))


def decode_story(body: Mapping[str, Any]) -> Story:
    """A story from its JSON."""
    values = _values(body)
    if "vector" in values:
        values["vector"] = tuple(values["vector"])
    return Story(**values)


def encode_story(story: Story) -> str:
    """A story as JSON."""
    return as_json(_fields(story))


def encode_ranking(ranking: LoggedRanking) -> str:
    """The lists of a ranking as JSON; the rest has columns."""
    return as_json(
        {"news_ids": ranking.news_ids, "scores": ranking.scores, "propensities": ranking.propensities}
        | ({"fallback": True} if ranking.fallback else {})
    )


def decode_ranking(
    text: str, *, impression_id: str, user_id: str | None, time: int, bundle: str, variant: str
) -> LoggedRanking:
    """A ranking from its JSON and columns."""
    body = json.loads(text)
    scores, propensities = (None if body[name] is None else tuple(body[name]) for name in ("scores", "propensities"))
    moment, stories, fallback = from_microseconds(time), tuple(body["news_ids"]), body.get("fallback", False)
    return LoggedRanking(impression_id, user_id, moment, bundle, variant, stories, scores, propensities, fallback)


def _fields(record: Impression | Click | Story) -> dict[str, Any]:
    """The fields that differ from None and False, with times in microseconds."""
    return {
        name: microseconds(value) if isinstance(value, datetime) else value
        for name, value in vars(record).items()
        if name not in _NOT_STORED and value is not None and value is not False
    }


def _values(body: Mapping[str, Any]) -> dict[str, Any]:
    return {name: from_microseconds(value) if name in _TIMES else value for name, value in body.items()}


def _trimmed(values: tuple[Any, ...]) -> list[Any]:
    """The values of a shown story without the unknown ones at the end."""
    length = len(values)
    while length > 2 and values[length - 1] is None:
        length -= 1
    return list(values[:length])
