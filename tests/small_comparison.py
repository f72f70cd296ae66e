"""Models and settings of a comparison that takes seconds, and a progress view that records its notes."""

from drpn.progress import Silent

MODELS = ["drpn", "drpn-n", "nrms"]
_MODEL = {"size": 8, "heads": 2, "hidden": 4, "head_size": 4}
_TRAINING = {"epochs": 2, "batch": 8, "device": "cpu"}
SETS = [
    *(f"model.{name}={value}" for name, value in _MODEL.items()),
    *(f"training.{name}={value}" for name, value in _TRAINING.items()),
]
AS_OPTIONS = [word for assignment in SETS for word in ("--set", assignment)]


class Notes(Silent):
    """Records the notes of a job."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    def note(self, text: str) -> None:
        self.messages.append(text)
