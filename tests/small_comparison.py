"""A comparison that takes seconds: its models and settings, and what it says."""

from drpn.progress import Silent

MODELS = ["drpn", "drpn-n", "nrms"]
_MODEL = {"size": 8, "heads": 2, "hidden": 4, "head_size": 4}
_TRAINING = {"epochs": 2, "batch": 8, "device": "cpu"}
SETS = [
    *(f"model.{name}={value}" for name, value in _MODEL.items()),
    *(f"training.{name}={value}" for name, value in _TRAINING.items()),
]
AS_OPTIONS = [word for one in SETS for word in ("--set", one)]


class Notes(Silent):
    """Keeps the notes of a job."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def note(self, text: str) -> None:
        self.said.append(text)
