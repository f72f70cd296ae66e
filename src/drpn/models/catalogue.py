"""Every model by name."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from drpn.models.base import ClickModel, DataShape
from drpn.models.baselines.deepfm import DeepFm, DeepFmSettings
from drpn.models.baselines.deers import Deers, DeersSettings
from drpn.models.baselines.dfn import Dfn, DfnSettings
from drpn.models.baselines.dkn import Dkn, DknSettings
from drpn.models.baselines.gerl import Gerl, GerlSettings
from drpn.models.baselines.libfm import LibFm, LibFmSettings
from drpn.models.baselines.lstur import Lstur, LsturSettings
from drpn.models.baselines.naml import Naml, NamlSettings
from drpn.models.baselines.npa import Npa, NpaSettings
from drpn.models.baselines.nrms import Nrms, NrmsSettings
from drpn.models.drpn import ABLATIONS, Drpn, DrpnSettings
from drpn.models.drpn_live import LIVE_ABLATIONS, DrpnLive, DrpnLiveSettings
from drpn.models.drpn_planted import DrpnPlanted, DrpnPlantedSettings


@dataclass(frozen=True)
class Entry:
    """A model, the defaults of its settings and of its training, and its paper."""

    network: Callable[[Any, DataShape], ClickModel]
    settings: Any
    paper: str
    training: Mapping[str, Any] = field(default_factory=dict)
    """Training settings that differ from the general defaults."""
    live: bool = False
    """Made for folders of the live protocol."""

    def model(self, settings: Any, shape: DataShape) -> ClickModel:
        """The model for a dataset of this shape, with the context view if the settings ask for it."""
        model = self.network(settings, shape)
        model.add_context(shape)
        return model


_DRPN = "Hu, Qiu and Wu, Findings of NAACL 2022"
_PLANTED = {"planted": 0.3, "planted_passes": 12}
_OURS = {"drpn-g-ids": f"variant of {_DRPN}"}
_LIVE = f"variant of {_DRPN}"
_LIVE_TRAINING = {
    "negatives": 30,
    "schedule": "one-cycle",
    "epochs": 12,
    "patience": 12,
    "batch": 256,
    "view_rate": 0.1,
    "teachers": 4,
}
_NAML = "Wu et al., IJCAI 2019"
_NRMS = "Wu et al., EMNLP-IJCNLP 2019"
_TCE = "truncated cross-entropy: Wang et al., WSDM 2021"

CATALOGUE: dict[str, Entry] = {
    "drpn": Entry(Drpn, DrpnSettings(), _DRPN),
    **{name: Entry(Drpn, settings, _OURS.get(name, f"{_DRPN}, Table 3")) for name, settings in ABLATIONS.items()},
    "drpn-planted": Entry(DrpnPlanted, DrpnPlantedSettings(), f"variant of {_DRPN}", _PLANTED),
    **{
        name: Entry(DrpnLive, settings, _LIVE, _LIVE_TRAINING, live=True)
        for name, settings in {"drpn-live": DrpnLiveSettings(), **LIVE_ABLATIONS}.items()
    },
    "libfm": Entry(LibFm, LibFmSettings(), "Rendle, ACM TIST 2012"),
    "deepfm": Entry(DeepFm, DeepFmSettings(), "Guo et al., IJCAI 2017"),
    "dkn": Entry(Dkn, DknSettings(), "Wang et al., WWW 2018"),
    "lstur": Entry(Lstur, LsturSettings(), "An et al., ACL 2019"),
    "npa": Entry(Npa, NpaSettings(), "Wu et al., KDD 2019"),
    "deers": Entry(Deers, DeersSettings(), "Zhao et al., KDD 2018"),
    "dfn": Entry(Dfn, DfnSettings(), "Xie et al., IJCAI 2020"),
    "gerl": Entry(Gerl, GerlSettings(), "Ge et al., WWW 2020"),
    "naml": Entry(Naml, NamlSettings(), _NAML),
    "nrms": Entry(Nrms, NrmsSettings(), _NRMS),
    "naml-tce": Entry(Naml, NamlSettings(), f"{_NAML}; {_TCE}", {"loss": "tce"}),
    "nrms-tce": Entry(Nrms, NrmsSettings(), f"{_NRMS}; {_TCE}", {"loss": "tce"}),
}
