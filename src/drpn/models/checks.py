"""Checks of model settings; a ValueError names the setting, its value and what it takes."""

from typing import Any

_LIMITS = ("max_words", "max_clicked", "max_skipped", "max_neighbours")


def check_positive(settings: Any, *names: str) -> None:
    """Each of the settings is 1 or more, and so are the limits that every model has, unless they are None."""
    for name in (*names, *(name for name in _LIMITS if getattr(settings, name) is not None)):
        if getattr(settings, name) < 1:
            raise ValueError(f"{name} is {getattr(settings, name)}; it takes 1 or more")


def check_above_zero(settings: Any, *names: str) -> None:
    """Each of the settings is a number above 0."""
    for name in names:
        if not getattr(settings, name) > 0:
            raise ValueError(f"{name} is {getattr(settings, name)}; it takes a number above 0")


def check_share(settings: Any, *names: str) -> None:
    """Each of the settings is from 0 to below 1."""
    for name in names:
        if not 0 <= getattr(settings, name) < 1:
            raise ValueError(f"{name} is {getattr(settings, name)}; it takes a share from 0 to below 1")


def check_divides(settings: Any, *names: str, size: int, of: str = "size") -> None:
    """Each of the settings divides `size`, which the message calls `of`."""
    for name in names:
        if size % getattr(settings, name):
            raise ValueError(f"{name} is {getattr(settings, name)}; it takes a divisor of {of}, which is {size}")
