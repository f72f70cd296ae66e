"""The paper's claims, judged on synthetic results."""

import numpy as np
import pytest

from drpn.evaluation.metrics import Metrics
from drpn.experiments.claims import judge, table
from drpn.experiments.paper import CLAIMS, LEVEL, NAMES, TABLE2, TABLE3, Claim
from drpn.models.catalogue import CATALOGUE

USERS = np.arange(400)
NOISE = np.random.default_rng(0).normal(0, 0.05, (2, 400))
NOISE -= NOISE.mean()


def system(mean: float, *, noise: float = 1.0, **others: float) -> Metrics:
    """Return metrics of two seeds that scatter around a mean; `others` sets the mean of other metrics."""
    values = {"auc": mean, "ndcg10": mean} | others
    arrays = {name: value + noise * NOISE for name, value in values.items()}
    return Metrics(auc=arrays["auc"], mrr=arrays["auc"], ndcg5=arrays["auc"], ndcg10=arrays["ndcg10"])


def as_reported() -> dict[str, Metrics]:
    """Return every system with the means that the paper reports."""
    return {name: system(numbers[0] / 100, ndcg10=numbers[3] / 100) for name, numbers in (TABLE2 | TABLE3).items()}


def verdicts(systems: dict[str, Metrics]) -> dict[str, str]:
    """Return the verdict on each claim."""
    return {judged.claim.words: judged.verdict for judged in judge(systems, USERS)}


def test_all_claims_are_held_by_the_paper_s_own_numbers() -> None:
    claims = judge(as_reported(), USERS)
    assert [judged.verdict for judged in claims] == ["held"] * len(CLAIMS)
    for judged in claims:
        assert len(judged.pairs) == len(judged.claim.pairs)
        assert all(pair.difference == pytest.approx(pair.paper, abs=1e-6) for pair in judged.pairs)


def test_a_reversed_difference_fails_the_claim() -> None:
    systems = as_reported()
    systems["deers"], systems["dfn"] = systems["dfn"], systems["deers"]
    verdict_on = verdicts(systems)
    assert verdict_on["DFN is below DEERS"] == "failed"
    assert verdict_on["DEERS, which reads skips, is competitive with NAML"] == "failed"  # now 0.0273 below
    assert verdict_on["denoising helps: DRPN-D is below DRPN"] == "held"


def test_an_interval_around_zero_is_not_separated() -> None:
    """DRPN-D varies independently of DRPN: the difference is 0.001, and its interval is many times as wide."""
    systems = as_reported() | {"drpn-d": system(0.672, noise=-1.0)}
    (judged,) = [judged for judged in judge(systems, USERS) if "DRPN-D is below" in judged.claim.words]
    assert judged.verdict == "not separated"
    assert judged.pairs[0].low < 0 < judged.pairs[0].difference < judged.pairs[0].high


@pytest.mark.parametrize(
    ("below", "noise", "verdict"),
    [
        (-0.02, 1.0, "held"),
        (LEVEL - 0.001, 1.0, "held"),
        (LEVEL, -1.0, "not separated"),
        (LEVEL + 0.001, 1.0, "failed"),
    ],
)
def test_competitive_allows_a_small_difference(below: float, noise: float, verdict: str) -> None:
    claim = Claim("a is competitive with b", "here", (("drpn", "nrms"),), level=True)
    systems = {"drpn": system(0.65 - below, noise=noise), "nrms": system(0.65)}
    assert [judged.verdict for judged in judge(systems, USERS, [claim])] == [verdict]


def test_one_failed_comparison_fails_the_claim() -> None:
    systems = as_reported() | {"gerl": system(0.9)}
    (judged,) = [judged for judged in judge(systems, USERS) if judged.claim.words == "DRPN outperforms all baselines"]
    assert judged.verdict == "failed"
    assert [pair.second for pair in judged.pairs if pair.verdict == "failed"] == ["gerl"]
    systems["gerl"] = system(0.672, noise=-1.0)
    assert verdicts(systems)["DRPN outperforms all baselines"] == "not separated"


def test_systems_that_were_not_run_are_reported() -> None:
    systems = {name: metrics for name, metrics in as_reported().items() if name in ("drpn", "nrms", "drpn-n")}
    claims = {judged.claim.words: judged for judged in judge(systems, USERS)}
    assert claims["DFN is below DEERS"].verdict == "not run"
    assert claims["skipped stories help: DRPN-N is below DRPN"].verdict == "held"
    first = claims["DRPN outperforms all baselines"]
    assert (first.verdict, first.as_dict()["compared"], first.as_dict()["of"]) == ("held", 1, 12)
    rows = [row for row in table(list(claims.values()), beside_paper=False).rows if row]
    assert rows[0][0].endswith("[1 of 12 compared]")
    assert ("DFN is below DEERS (Section 5.4, Table 2)", "**not run**", "", "") in rows


def test_the_paper_s_differences_are_an_optional_column() -> None:
    judged = judge(as_reported(), USERS)
    cells = [row for row in table(judged, beside_paper=True).rows if row and row[2].startswith("DRPN above DRPN-N")]
    assert cells[0][2:] == ("DRPN above DRPN-N, AUC: held", "+0.0092 (+0.0092 to +0.0092)", "+0.0092")
    assert table(judged, beside_paper=False).heads[-1] == "ours, 95 % interval"


def test_claims_name_only_systems_of_the_paper_s_tables() -> None:
    named = {name for claim in CLAIMS for pair in claim.pairs for name in pair}
    assert named == set(TABLE2) | set(TABLE3)
    assert named <= set(CATALOGUE)
    assert named <= set(NAMES)
