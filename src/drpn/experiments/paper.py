"""The paper's results: the names and numbers of its Tables 2 and 3, and its claims.

Hu, Qiu and Wu, "Denoising Neural Network for News Recommendation with Positive and Negative Implicit Feedback",
Findings of NAACL 2022. Its Table 1 is in `table1.py`.
"""

from typing import Literal, NamedTuple

BASE = "drpn"
"""The system that all others are compared with."""

NAMES = {
    "libfm": "LibFM",
    "deepfm": "DeepFM",
    "dkn": "DKN",
    "lstur": "LSTUR",
    "npa": "NPA",
    "deers": "DEERS",
    "dfn": "DFN",
    "gerl": "GERL",
    "naml": "NAML",
    "nrms": "NRMS",
    "naml-tce": "NAML + TCE",
    "nrms-tce": "NRMS + TCE",
    "drpn": "DRPN",
    "drpn-d": "DRPN-D",
    "drpn-g": "DRPN-G",
    "drpn-g-ids": "DRPN-G + ids",
    "drpn-dg": "DRPN-DG",
    "drpn-n": "DRPN-N",
    "drpn-p": "DRPN-P",
    "drpn-planted": "DRPN + planted",
}
"""The paper's spelling of each name in the catalogue; DRPN-G + ids and DRPN + planted are ours."""

TABLE2 = {
    "libfm": (60.48, 26.38, 27.75, 34.63),
    "deepfm": (62.18, 27.26, 29.08, 35.68),
    "dkn": (64.00, 28.98, 31.49, 38.22),
    "lstur": (65.31, 30.31, 33.34, 39.86),
    "npa": (64.35, 29.61, 32.88, 39.23),
    "deers": (65.29, 30.78, 33.78, 40.09),
    "dfn": (63.11, 29.14, 31.88, 38.33),
    "gerl": (64.08, 29.34, 32.50, 38.96),
    "naml": (65.84, 30.60, 33.89, 40.23),
    "nrms": (65.46, 30.73, 33.78, 40.13),
    "naml-tce": (65.95, 30.66, 33.93, 40.52),
    "nrms-tce": (65.84, 31.58, 34.93, 41.26),
    "drpn": (67.30, 32.68, 36.27, 42.33),
}
"""AUC, MRR, nDCG@5 and nDCG@10 in percent, in the paper's order."""

TABLE3 = {
    "drpn": (67.30, 32.68, 36.27, 42.33),
    "drpn-d": (66.51, 31.09, 35.40, 41.63),
    "drpn-g": (66.82, 31.90, 35.34, 41.62),
    "drpn-dg": (66.14, 31.17, 34.57, 40.97),
    "drpn-n": (66.38, 31.39, 34.79, 41.13),
    "drpn-p": (65.89, 31.11, 34.38, 40.59),
}
"""The same for the ablations."""

FEATURES = ("libfm", "deepfm")
NEURAL = ("dkn", "npa", "lstur", "dfn", "deers", "naml", "gerl", "nrms")
TRUNCATED = ("naml-tce", "nrms-tce")


class Claim(NamedTuple):
    """One sentence of the paper as a list of comparisons that must all hold."""

    words: str
    place: str
    pairs: tuple[tuple[str, str], ...]
    """The paper says that the first system is above the second, or competitive with it."""
    metric: Literal["auc", "ndcg@10"] = "auc"
    level: bool = False
    """The paper says "competitive": the first system is at most LEVEL below the second."""
    remark: str = ""


LEVEL = 0.01
"""Tolerance for "competitive": in the paper such systems are at most 0.0055 of AUC below (DEERS against NAML)."""

CLAIMS = (
    Claim(
        "DRPN outperforms all baselines",
        "Section 5.4, Table 2",
        tuple(("drpn", other) for other in (*FEATURES, *NEURAL, *TRUNCATED)),
        remark="by AUC; the paper's DRPN leads by all four metrics",
    ),
    Claim(
        "neural methods are above the feature-based LibFM and DeepFM",
        "Section 5.4, Table 2",
        tuple((neural, other) for neural in NEURAL for other in FEATURES),
    ),
    Claim(
        "NRMS + TCE is the best of the neural baselines",
        "Section 5.4, Table 2",
        tuple(("nrms-tce", other) for other in (*NEURAL, "naml-tce")),
        metric="ndcg@10",
        remark="by nDCG@10: by AUC the paper's own NAML + TCE is higher",
    ),
    Claim(
        "TCE improves NAML and NRMS",
        "Section 5.3, Table 2",
        (("naml-tce", "naml"), ("nrms-tce", "nrms")),
        remark="stated for NRMS; for NAML from the numbers of the table",
    ),
    Claim("DFN is below DEERS", "Section 5.4, Table 2", (("deers", "dfn"),)),
    Claim(
        "DEERS, which reads skips, is competitive with NAML", "Section 5.4, Table 2", (("deers", "naml"),), level=True
    ),
    Claim("denoising helps: DRPN-D is below DRPN", "Section 5.5, Table 3", (("drpn", "drpn-d"),)),
    Claim(
        "the graph helps: DRPN-G is below DRPN",
        "Section 5.5, Table 3",
        (("drpn", "drpn-g"),),
        remark="DRPN-G lacks id vectors and the graph network; DRPN-G + ids in Table 3 lacks the graph network alone",
    ),
    Claim("without both: DRPN-DG is below DRPN", "Table 3", (("drpn", "drpn-dg"),)),
    Claim("skipped stories help: DRPN-N is below DRPN", "Section 5.5, Table 3", (("drpn", "drpn-n"),)),
    Claim("clicked stories help: DRPN-P is below DRPN", "Section 5.5, Table 3", (("drpn", "drpn-p"),)),
    Claim(
        "DRPN-DG is competitive with the strongest baseline, NRMS + TCE",
        "Section 5.5, Tables 2 and 3",
        (("drpn-dg", "nrms-tce"),),
        level=True,
    ),
)
