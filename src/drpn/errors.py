"""Every error a caller may catch.

DrpnError
├── SettingsError         a settings file or a --set value that cannot be used
├── LogError              logs that cannot be read as they are
│   └── UnknownNewsError  news that were shown but are not in the news table
├── FolderError           a dataset folder that is missing, broken or of another format
├── RunError              a run or bundle that is missing, broken or of another format
├── ScoreError            scores that cannot be measured
├── TrainingError         a training that cannot begin or go on
│   └── DivergedError     a training whose loss or scores are no longer finite
├── ExplainError          a model or a user that cannot be explained
├── MemoryShortError      not enough memory for the settings
└── OutputError           results that cannot be written where they were asked for

The message of each is one line: the place, the value and the way out. The command line prints it behind `drpn: ` and
exits with 2.
"""


class DrpnError(Exception):
    """Anything the caller can put right."""


class SettingsError(DrpnError):
    """A settings file or a --set value that cannot be used."""


class LogError(DrpnError):
    """Logs that cannot be read as they are."""


class UnknownNewsError(LogError):
    """News that were shown but are not in the news table."""


class FolderError(DrpnError):
    """A dataset folder that is missing, broken or of another format."""


class RunError(DrpnError):
    """A run or bundle that is missing, broken or of another format."""


class ScoreError(DrpnError):
    """Scores that cannot be measured."""


class ExplainError(DrpnError):
    """A model or a user that cannot be explained."""


class TrainingError(DrpnError):
    """A training that cannot begin or go on."""


class DivergedError(TrainingError):
    """A training whose loss or scores are no longer finite."""


class MemoryShortError(DrpnError):
    """Not enough memory for the settings."""


class OutputError(DrpnError):
    """Results that cannot be written where they were asked for."""
