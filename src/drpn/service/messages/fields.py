"""Types of fields, with limits."""

from datetime import UTC, datetime
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from drpn.store.records import LONGEST_ID, as_utc

CONTROL = r"\x00-\x1f\x7f-\x9f"
"""Control characters, as the inside of a character class."""
_PRINTABLE = rf"^[^{CONTROL}]*$"
_BLANKS = "\u0020\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_FILLED = rf"^[^{CONTROL}]*[^{CONTROL}{_BLANKS}][^{CONTROL}]*$"
_EARLIEST, _LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)


class Message(BaseModel):
    """A body: unknown fields, other types and numbers that are not finite are refused."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


def _in_range(moment: datetime) -> datetime:
    naive = moment.replace(tzinfo=None)
    if not _EARLIEST.replace(tzinfo=None) <= naive <= _LATEST.replace(tzinfo=None):
        raise ValueError("the time is not between 1970 and 2200")
    return as_utc(moment)


Id = Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_ID, pattern=_FILLED)]
"""An id; `LONGEST_ID` is its limit in bytes."""
Label = Annotated[str, StringConstraints(min_length=1, max_length=100, pattern=_FILLED)]
"""A short text such as a category or a device."""
Title = Annotated[str, StringConstraints(min_length=1, max_length=1_000, pattern=_FILLED)]
Text = Annotated[str, StringConstraints(max_length=20_000, pattern=r"^[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]*$")]
"""A longer text; it may hold tabs and line breaks."""
Time = Annotated[
    datetime,
    AfterValidator(_in_range),
    Field(description="ISO 8601; UTC if it has no time zone.", examples=["2026-03-01T08:30:00Z"]),
]
Share = Annotated[float, Field(ge=0, le=1)]
Number = Annotated[float, Field(ge=-1e30, le=1e30)]
