"""The columns of the two tables, `news` and `impressions`, once.

On disk an `impressions` table has one row for each news that was shown: readers split it into what belongs to the
impression as a whole and what belongs to one shown news.
"""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["text", "time", "flag", "whole", "number", "vector"]


@dataclass(frozen=True)
class Column:
    """One column: its name, what its values are, and what it means."""

    name: str
    kind: Kind
    meaning: str
    required: bool = False


NEWS = (
    Column("news_id", "text", "the story; every id once", required=True),
    Column("title", "text", "its headline", required=True),
    Column("category", "text", "topic, such as sports"),
    Column("subcategory", "text", "finer topic, such as football_nfl"),
    Column("abstract", "text", "a sentence or two under the headline"),
    Column("title_entities", "text", "entities of the title, as MIND's JSON"),
    Column("abstract_entities", "text", "entities of the abstract, as MIND's JSON"),
    Column("published", "time", "when it went live"),
    Column("vector", "vector", "dense vector of any encoder, the same length for every news"),
)

IMPRESSION = (
    Column(
        "impression_id", "text", "one page view; its rows share user, time and the columns marked so", required=True
    ),
    Column("user_id", "text", "the reader", required=True),
    Column("time", "time", "when the page was shown; ISO 8601, stored as UTC", required=True),
    Column("session", "text", "the visit this page view belongs to"),
    Column("surface", "text", "where it was shown: front page, article page, newsletter"),
    Column("device", "text", "phone, tablet, desktop"),
    Column("age", "number", "age of the reader, where known"),
    Column("gender", "text", "gender of the reader, where known"),
    Column("policy", "text", "which ranking made this page"),
)

SHOWN = (
    Column("news_id", "text", "a news on that page", required=True),
    Column("clicked", "flag", "1 if it was clicked, 0 if not", required=True),
    Column("position", "whole", "its place on the page, from 0"),
    Column("seen", "flag", "1 if it came into view; where 0, it is neither clicked nor skipped"),
    Column("read_seconds", "number", "how long a clicked news was read"),
    Column("scroll", "number", "how far a clicked news was scrolled, in percent"),
    Column("score", "number", "the score the policy gave it"),
    Column("propensity", "number", "the probability with which the policy put it there"),
    Column(
        "opinion", "whole", "what the reader really thought: 1 liked, 0 indifferent, -1 disliked; simulated logs know"
    ),
    Column("appeal", "number", "the share of the page's clicks to be expected for it; simulated logs know"),
)

IMPRESSIONS = IMPRESSION + SHOWN


def optional(columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """Those that a log may lack."""
    return tuple(column for column in columns if not column.required)
