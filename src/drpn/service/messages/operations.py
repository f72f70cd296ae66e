"""Bodies and answers of operations."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from drpn.service.messages.fields import Label, Message

BundleName = Annotated[str, StringConstraints(max_length=100, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
"""The name of one folder: no slash, and no dot at the start."""


class ReloadBody(Message):
    """A bundle to load."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"bundle": "monday"}, {"bundle": "b2", "variant": "B"}]})

    bundle: BundleName = Field(description="Folder of a bundle or run in the folder of bundles.", examples=["monday"])
    variant: Label | None = Field(None, description="The variant to replace; by default the first.")


class ReloadAnswer(BaseModel):
    """The new bundle serves."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"bundle": "monday", "variants": ["A"]}]})

    bundle: str
    variants: list[str] = Field(description="All variants that are served.")


class HealthAnswer(BaseModel):
    """The state of the process."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"status": "ok"}]})

    status: Literal["ok"]
