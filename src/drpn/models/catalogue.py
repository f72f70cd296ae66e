"""Every model by name."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from drpn.models.base import ClickModel, DataShape
from drpn.models.baselines.nrms import Nrms, NrmsSettings
from drpn.models.drpn import ABLATIONS, Drpn, DrpnSettings


@dataclass(frozen=True)
class Entry:
    """A model, the defaults of its settings, and where it was published."""

    model: Callable[[Any, DataShape], ClickModel]
    settings: Any
    paper: str


_DRPN = "Hu, Qiu and Wu, Findings of NAACL 2022"

CATALOGUE: dict[str, Entry] = {
    "drpn": Entry(Drpn, DrpnSettings(), _DRPN),
    **{name: Entry(Drpn, settings, f"{_DRPN}, Table 3") for name, settings in ABLATIONS.items()},
    "nrms": Entry(Nrms, NrmsSettings(), "Wu et al., EMNLP-IJCNLP 2019"),
}
