"""Answers about users."""

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

EventKind = Literal["impression", "click", "closed", "other"]


class EntryAnswer(BaseModel):
    """A story of a profile."""

    news_id: str
    time: datetime | None = Field(None, description="When it was shown; not known for stories of the bundle.")


class UserAnswer(BaseModel):
    """A user's profile."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "user_id": "anna",
                    "variant": "A",
                    "version": 4,
                    "clicked": [{"news_id": "storm", "time": "2026-03-01T08:30:00Z"}],
                    "skipped": [{"news_id": "chess", "time": "2026-03-01T08:30:00Z"}],
                    "clicked_ever": 1,
                }
            ]
        }
    )

    user_id: str
    variant: str = Field(description="The variant that ranks for the user.")
    version: int = Field(description="Rises with every event that changes the profile.")
    clicked: list[EntryAnswer] = Field(description="The newest clicked stories, oldest first.")
    skipped: list[EntryAnswer] = Field(description="The newest skipped stories, oldest first.")
    clicked_ever: int = Field(description="Number of stories that the user clicked; they are not ranked again.")


class InfluenceAnswer(BaseModel):
    """How much a story of the profile moves a candidate's score: the score with it less the score without it."""

    news_id: str
    side: Literal["clicked", "skipped"]
    change: float


class ExplainedStoryAnswer(BaseModel):
    """A story of the profile with its weights."""

    news_id: str
    title: str
    category: str
    moment: datetime | None = None
    weights: dict[str, float] = Field(description="By aggregator; they sum to 1 over a side.")


class ExplainedCandidateAnswer(BaseModel):
    """A candidate and the stories of the profile that move its score most."""

    news_id: str
    title: str
    category: str
    score: float
    influences: list[InfluenceAnswer]
    rules: list[str] = Field(description="The rules of the service that lower it in rankings, in words.")


class ExplanationAnswer(BaseModel):
    """Why a user gets a ranking."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "user_id": "anna",
                    "bundle": "run",
                    "variant": "A",
                    "clicked": [
                        {
                            "news_id": "storm",
                            "title": "Storm closes the harbours",
                            "category": "weather",
                            "moment": "2026-03-01T08:30:00Z",
                            "weights": {"semantic denoise": 1.0},
                        }
                    ],
                    "skipped": [],
                    "aggregator": "semantic denoise",
                    "candidates": [
                        {
                            "news_id": "snow",
                            "title": "Snow expected on Friday",
                            "category": "weather",
                            "score": 1.25,
                            "influences": [{"news_id": "storm", "side": "clicked", "change": 0.4}],
                            "rules": [],
                        }
                    ],
                }
            ]
        }
    )

    user_id: str
    bundle: str
    variant: str
    clicked: list[ExplainedStoryAnswer] = Field(description="Newest first.")
    skipped: list[ExplainedStoryAnswer]
    aggregator: str | None = Field(None, description="The aggregator whose weights count as trust.")
    candidates: list[ExplainedCandidateAnswer] = Field(description="Best first.")


class EventAnswer(BaseModel):
    """One event of a user."""

    sequence: int
    time: datetime
    kind: EventKind
    content: dict[str, Any] = Field(description="The event as it is stored.")


class ExportAnswer(BaseModel):
    """All that is stored of a user."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "user_id": "anna",
                    "clicked": [{"news_id": "storm"}],
                    "skipped": [],
                    "clicked_ever": ["storm"],
                    "events": [
                        {
                            "sequence": 17,
                            "time": "2026-03-01T08:30:00Z",
                            "kind": "click",
                            "content": {"click": {"impression_id": "page-1", "user_id": "anna", "news_id": "storm"}},
                        }
                    ],
                }
            ]
        }
    )

    user_id: str
    clicked: list[EntryAnswer]
    skipped: list[EntryAnswer]
    clicked_ever: list[str]
    events: list[EventAnswer]
