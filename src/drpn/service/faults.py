"""Unexpected errors in the log of the service: where they were raised, and never what a client sent."""

import traceback


def place_of(error: BaseException) -> str:
    """The kind of an error and where it was raised, without its message, which may quote a client."""
    frames = traceback.extract_tb(error.__traceback__)[-3:]
    places = " < ".join(f"{frame.name}:{frame.lineno}" for frame in reversed(frames))
    return f"{type(error).__name__} in {places}"
