"""Bodies and answers about news."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from drpn.service.messages.fields import Id, Label, Message, Number, Text, Time, Title
from drpn.store.records import Story


class StoryBody(Message):
    """A story as the newsroom delivers it."""

    news_id: Id = Field(examples=["storm"])
    title: Title = Field(examples=["Storm closes the harbours"])
    category: Label | None = Field(None, examples=["weather"])
    subcategory: Label | None = Field(None, examples=["storms"])
    abstract: Text | None = Field(None, examples=["Ferries stay in port until Sunday."])
    published: Time | None = None
    expires: Time | None = Field(None, description="From this moment on the story is not ranked.")
    vector: Annotated[tuple[Number, ...], Field(strict=False, max_length=4096)] | None = Field(
        None, description="The story's text as a vector, for models that read such vectors.", examples=[[0.5, -1.0]]
    )
    entities: Text | None = Field(None, description="Entities of the title, as the JSON text of MIND.", examples=["[]"])

    def record(self) -> Story:
        """The story for the store."""
        return Story(
            news_id=self.news_id,
            title=self.title,
            category=self.category,
            subcategory=self.subcategory,
            abstract=self.abstract,
            published=self.published,
            expires=self.expires,
            vector=self.vector,
            entities=self.entities,
        )


class NewsBody(Message):
    """Stories to add; one with a known id replaces the older one."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"stories": [{"news_id": "storm", "title": "Storm closes the harbours", "category": "weather"}]}
            ]
        }
    )

    stories: Annotated[tuple[StoryBody, ...], Field(strict=False, min_length=1, max_length=1000)]


class ChangeAnswer(BaseModel):
    """A change is durable: neither a crash nor a restart loses it."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"sequence": 17, "repeated": False}]})

    sequence: int = Field(ge=0, description="Number of its event in the log; 0 if there was nothing to change.")
    repeated: bool = Field(description="Whether an earlier request stored the same content.")
