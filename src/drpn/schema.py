"""The columns of the two tables, `news` and `impressions`.

On disk an `impressions` table has one row per shown story. Readers split it into the columns of the impression as a
whole (`IMPRESSION`) and the columns of one shown story (`SHOWN`).
"""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["text", "time", "flag", "whole", "number", "vector"]


@dataclass(frozen=True)
class Column:
    """A column: its name, the kind of its values, and its meaning."""

    name: str
    kind: Kind
    meaning: str
    required: bool = False


NEWS = (
    Column("news_id", "text", "id of the story, unique in the table", required=True),
    Column("title", "text", "its headline", required=True),
    Column("category", "text", "topic, such as sports"),
    Column("subcategory", "text", "finer topic, such as football_nfl"),
    Column("abstract", "text", "a sentence or two under the headline"),
    Column("title_entities", "text", "entities of the title, as MIND's JSON"),
    Column("abstract_entities", "text", "entities of the abstract, as MIND's JSON"),
    Column(
        "published",
        "time",
        "publication time; limits the age of recommended stories, and the live protocol counts from it",
    ),
    Column(
        "vector",
        "vector",
        "dense vector of any encoder, equally long for all stories; the live protocol compares stories by it",
    ),
)

IMPRESSION = (
    Column(
        "impression_id",
        "text",
        "one page view; user, time and the columns up to `policy` are the same in all its rows",
        required=True,
    ),
    Column("user_id", "text", "the reader", required=True),
    Column("time", "time", "when the page was shown; ISO 8601, stored as UTC", required=True),
    Column("session", "text", "the visit this page view belongs to"),
    Column("surface", "text", "where it was shown: front page, article page, newsletter"),
    Column("device", "text", "phone, tablet, desktop"),
    Column("age", "number", "age of the reader, if known"),
    Column("gender", "text", "gender of the reader, if known"),
    Column("subscriber", "text", "whether the reader pays, or the kind of subscription"),
    Column("page", "text", "news_id of the story on whose page the list was shown; empty on a front page"),
    Column("policy", "text", "name of the ranking that produced the page"),
)

SHOWN = (
    Column("news_id", "text", "id of a story on the page", required=True),
    Column("clicked", "flag", "1 if it was clicked, 0 if not", required=True),
    Column("position", "whole", "position on the page, from 0"),
    Column("seen", "flag", "1 if it came into view; an unseen story is not counted as skipped"),
    Column("read_seconds", "number", "seconds spent reading a clicked story"),
    Column("scroll", "number", "how far the reader scrolled in a clicked story, in percent"),
    Column("score", "number", "score given by the policy"),
    Column("propensity", "number", "probability that the policy put it at this position"),
    Column(
        "opinion", "whole", "true opinion of the reader: 1 liked, 0 indifferent, -1 disliked; only in simulated logs"
    ),
    Column("appeal", "number", "expected share of the page's clicks; only in simulated logs"),
)

IMPRESSIONS = IMPRESSION + SHOWN


def optional(columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """The columns that are not required."""
    return tuple(column for column in columns if not column.required)
