"""Bodies about feedback."""

from typing import Annotated

from pydantic import ConfigDict, Field

from drpn.service.messages.fields import Id, Label, Message, Number, Share, Time
from drpn.store.records import MOST_SHOWN, Click, Impression, Shown


class ShownBody(Message):
    """One story of a page."""

    news_id: Id = Field(examples=["storm"])
    clicked: bool = Field(False, description="Whether it was clicked before this report.")
    position: int | None = Field(
        None, ge=0, le=2**31 - 1, description="Place on the page, from 0; by default its place in the list."
    )
    seen: bool | None = Field(None, description="False if it never came into view: then it is not skipped.")
    score: Number | None = None
    propensity: Share | None = Field(None, description="Probability that the ranking put it at this place.")

    def record(self) -> Shown:
        """The story for the store."""
        return Shown(self.news_id, self.clicked, self.position, self.seen, self.score, self.propensity)


class ImpressionBody(Message):
    """A page view: what a user was shown, and what was clicked so far."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "impression_id": "page-1",
                    "user_id": "anna",
                    "shown": [{"news_id": "storm", "clicked": True}, {"news_id": "chess"}],
                    "device": "phone",
                }
            ]
        }
    )

    impression_id: Id = Field(description="The id that a ranking returned, or one of your own.", examples=["page-1"])
    user_id: Id = Field(examples=["anna"])
    shown: Annotated[tuple[ShownBody, ...], Field(strict=False, min_length=1, max_length=MOST_SHOWN)] = Field(
        description="Each story once, in the order of the page."
    )
    time: Time | None = Field(None, description="By default the time at which the service stores it.")
    page: Id | None = Field(None, description="The story on whose page the list was shown.")
    surface: Label | None = None
    session: Id | None = None
    device: Label | None = Field(None, examples=["phone"])
    age: float | None = Field(None, ge=0, le=150)
    gender: Label | None = None
    subscriber: Label | None = None
    complete: bool = Field(
        False, description="Whether all clicks are known: then the other stories count as skipped at once."
    )

    def record(self) -> Impression:
        """The impression for the store."""
        return Impression(
            impression_id=self.impression_id,
            user_id=self.user_id,
            shown=tuple(story.record() for story in self.shown),
            time=self.time,
            page=self.page,
            surface=self.surface,
            session=self.session,
            device=self.device,
            age=self.age,
            gender=self.gender,
            subscriber=self.subscriber,
            complete=self.complete,
        )


class ClickBody(Message):
    """A click on a story of an earlier page view."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"impression_id": "page-1", "user_id": "anna", "news_id": "chess"}]}
    )

    impression_id: Id = Field(examples=["page-1"])
    user_id: Id = Field(examples=["anna"])
    news_id: Id = Field(examples=["chess"])
    time: Time | None = Field(None, description="By default the time at which the service stores it.")

    def record(self) -> Click:
        """The click for the store."""
        return Click(self.impression_id, self.user_id, self.news_id, self.time)
