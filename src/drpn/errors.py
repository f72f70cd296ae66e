"""Every error a caller may catch.

DrpnError
├── SettingsError         a setting that cannot be used
├── LogError              logs that cannot be read
│   └── UnknownNewsError  a story that was shown but is not in the news table
├── FolderError           a dataset folder that is missing, broken or of another format
├── RunError              a run or bundle that is missing, broken or of another format
├── ScoreError            scores that cannot be measured
├── TrainingError         training that cannot start or continue
│   └── DivergedError     training whose loss or scores are no longer finite
├── ExplainError          a model or a user that cannot be explained
├── MemoryShortError      not enough memory for the settings
├── StoreError            a store that is missing, broken, of another format or closed
│   └── StoreBusyError    a store with too much to write; try again later
├── RefusedError          an event or key that breaks a rule of the store
│   ├── RepeatedKeyError  an idempotency key or impression id that was used for other content
│   ├── UnknownImpressionError  a click on an impression that the user does not have
│   ├── NotShownError     a click on a story that the impression did not show
│   ├── EventTimeError    an event from the future, or from before the retention
│   └── ImpressionIdError an impression id that is forged, expired or of another user
├── OverloadError         too many requests wait; try again later
└── OutputError           results that cannot be written

A message is one line with the place, the value and the way out, in words that fit Python code and the command line. Its
`hint` adds the way out in words of the command line, such as an option. The command line prints `drpn: message; hint`
and exits with code 2.
"""

from drpn.escape import terminal


class DrpnError(Exception):
    """An error that the caller can fix."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(_shown(message))
        self.hint = _shown(hint)
        """The way out on the command line, such as an option; may be empty."""


class SettingsError(DrpnError):
    """A setting that cannot be used."""


class LogError(DrpnError):
    """Logs that cannot be read."""


class UnknownNewsError(LogError):
    """A story that was shown but is not in the news table."""


class FolderError(DrpnError):
    """A dataset folder that is missing, broken or of another format."""


class RunError(DrpnError):
    """A run or bundle that is missing, broken or of another format."""


class ScoreError(DrpnError):
    """Scores that cannot be measured."""


class ExplainError(DrpnError):
    """A model or a user that cannot be explained."""


class TrainingError(DrpnError):
    """Training that cannot start or continue."""


class DivergedError(TrainingError):
    """Training whose loss or scores are no longer finite."""


class MemoryShortError(DrpnError):
    """Not enough memory for the settings."""


class StoreError(DrpnError):
    """A store that is missing, broken, of another format or closed."""


class StoreBusyError(StoreError):
    """A store with too much to write; nothing was written, and the caller can try again later."""


class RefusedError(DrpnError):
    """An event or key that breaks a rule of the store; nothing was written."""


class RepeatedKeyError(RefusedError):
    """An idempotency key or impression id that was used for other content."""


class UnknownImpressionError(RefusedError):
    """A click on an impression that the user does not have."""


class NotShownError(RefusedError):
    """A click on a story that the impression did not show."""


class EventTimeError(RefusedError):
    """An event from the future, or from before the retention."""


class ImpressionIdError(RefusedError):
    """An impression id that is forged, expired or of another user."""


class OverloadError(DrpnError):
    """Too many requests wait; nothing was done, and the caller can try again later."""

    def __init__(self, message: str, *, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        """Seconds after which there is likely to be room."""


class OutputError(DrpnError):
    """Results that cannot be written."""


def _shown(message: str) -> str:
    """The lines of a message, which may quote a log, without control characters."""
    return "\n".join(map(terminal, message.split("\n")))
