"""Body and answer of a ranking."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from drpn.service.messages.fields import Id, Label, Message, Share
from drpn.service.requests import RankRequest, Rules, Why

Ids = Annotated[tuple[Id, ...], Field(strict=False, max_length=10_000)]
Labels = Annotated[tuple[Label, ...], Field(strict=False, max_length=1_000)]


class AboutBody(Message):
    """Facts about the reader; only what the model's log says of its readers counts."""

    device: Label | None = Field(None, examples=["phone"])
    age: float | None = Field(None, ge=0, le=150)
    gender: Label | None = None
    subscriber: Label | None = None


class RulesBody(Message):
    """What editors decide for this request; the answer says where a rule moved a story."""

    pin: Ids = Field((), description="Stories for the first places, in this order.")
    bury: Ids = Field((), description="Stories that come after all others.")
    only_categories: Labels = Field((), description="If given, stories of other categories are left out.")
    without_categories: Labels = Field((), description="Stories of these categories are left out.")
    max_age_hours: float | None = Field(None, ge=0, le=1e6, description="Older stories are left out.")
    category_share: Share | None = Field(None, description="Largest share of the list for one category.")


class RankBody(Message):
    """A request for a list of stories."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"user_id": "anna", "count": 3},
                {"user_id": "anna", "candidates": ["storm", "chess"], "about": {"device": "phone"}, "diversity": 0.3},
            ]
        }
    )

    user_id: Id | None = Field(None, description="Without it, the reader is ranked for as a user nobody knows.")
    candidates: Annotated[tuple[Id, ...], Field(strict=False, max_length=50_000)] | None = Field(
        None, description="The stories to rank; by default all live ones."
    )
    exclude: Ids = Field((), description="Stories to leave out.")
    count: int = Field(10, ge=1, le=1_000, description="Length of the list.")
    personalize: bool = Field(True, description="If false, the profile is not used and nothing is stored.")
    page: Id | None = Field(None, description="The story on whose page the list is shown.")
    surface: Label | None = None
    session: Id | None = None
    about: AboutBody | None = None
    diversity: Share = Field(0.0, description="From 0, the ranking by score, to 1, the most diverse list.")
    diversity_method: Literal["mmr", "calibrated"] = "mmr"
    fresh: Share = Field(0.0, description="Share of places for the newest stories.")
    popular: Share = Field(0.0, description="Share of places for the stories clicked most.")
    explore: Share = Field(0.0, description="Probability that a place gets a random story.")
    rules: RulesBody | None = None

    def request(self) -> RankRequest:
        """The request to the newsroom."""
        rules = Rules() if self.rules is None else Rules(**dict(self.rules))
        about = {} if self.about is None else self.about.model_dump(exclude_none=True)
        return RankRequest(
            user_id=self.user_id,
            candidates=self.candidates,
            exclude=self.exclude,
            count=self.count,
            personalize=self.personalize,
            page=self.page,
            surface=self.surface,
            session=self.session,
            about=about,
            diversity=self.diversity,
            diversity_method=self.diversity_method,
            fresh=self.fresh,
            popular=self.popular,
            explore=self.explore,
            rules=rules,
        )


class ListedStoryAnswer(BaseModel):
    """One story of the list."""

    position: int = Field(description="Place in the list, from 0.")
    news_id: str
    title: str
    category: str
    score: float = Field(description="By the model; the order also follows the rules.")
    plain_rank: int = Field(description="Place by score alone, from 1; 0 for a pinned story outside the candidates.")
    why: Why = Field(description="Why the story has its place.")
    propensity: float | None = Field(None, description="Probability of this story at this place.")
    rules: list[str] = Field(description="The rules that moved the story, in words.")


class RankAnswer(BaseModel):
    """A list of stories, best first. Fields without a value are left out."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "impression_id": "kYw3…",
                    "user_id": "anna",
                    "known": True,
                    "bundle": "run",
                    "variant": "A",
                    "moment": "2026-03-01T08:30:00Z",
                    "stories": [
                        {
                            "position": 0,
                            "news_id": "chess",
                            "title": "Chess champion loses to a newcomer",
                            "category": "sports",
                            "score": 1.25,
                            "plain_rank": 1,
                            "why": "ranked",
                            "rules": [],
                        }
                    ],
                    "fallback": False,
                    "notes": [],
                }
            ]
        }
    )

    impression_id: str | None = Field(
        None, description="Report impressions and clicks with this id: it is bound to the user and expires."
    )
    user_id: str | None = None
    known: bool = Field(description="Whether the user's profile has stories that the model knows.")
    bundle: str
    variant: str
    moment: datetime
    stories: list[ListedStoryAnswer]
    fallback: bool = Field(description="Whether the model did not answer in time, and popular stories are listed.")
    notes: list[str] = Field(description="One line for each input that was ignored.")
