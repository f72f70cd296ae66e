"""News recommendation from what readers clicked and from what they were shown and skipped.

The public Python API is everything in `__all__`; `docs/python.md` shows how to use it. Names are loaded on first use,
so that `import drpn` and packages such as `drpn.models` load without the libraries that only some jobs need.
"""

from typing import TYPE_CHECKING, Any

from drpn.version import VERSION

__version__ = VERSION

if TYPE_CHECKING:
    from drpn.api import (
        Compared,
        Dataset,
        DrpnError,
        Entry,
        Evaluation,
        Event,
        Mention,
        NewStory,
        Profile,
        ProfileState,
        Progress,
        RankedStory,
        Ranking,
        Recommender,
        Run,
        Trace,
        compare,
        evaluate,
        explain,
        load,
        open_dataset,
        prepare,
        simulate,
        train,
    )

__all__ = [
    "Compared",
    "Dataset",
    "DrpnError",
    "Entry",
    "Evaluation",
    "Event",
    "Mention",
    "NewStory",
    "Profile",
    "ProfileState",
    "Progress",
    "RankedStory",
    "Ranking",
    "Recommender",
    "Run",
    "Trace",
    "compare",
    "evaluate",
    "explain",
    "load",
    "open_dataset",
    "prepare",
    "simulate",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'drpn' has no attribute '{name}'")
    from drpn import api

    return getattr(api, name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
