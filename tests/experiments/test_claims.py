"""The paper's claims, judged on made-up results."""

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
    """Two seeds whose values scatter around a mean; other metrics may have another."""
    values = {"auc": mean, "ndcg10": mean} | others
    arrays = {name: value + noise * NOISE for name, value in values.items()}
    return Metrics(auc=arrays["auc"], mrr=arrays["auc"], ndcg5=arrays["auc"], ndcg10=arrays["ndcg10"])


def as_reported() -> dict[str, Metrics]:
    """Every system with the very means of the paper."""
    return {name: system(numbers[0] / 100, ndcg10=numbers[3] / 100) for name, numbers in (TABLE2 | TABLE3).items()}


def verdicts(systems: dict[str, Metrics]) -> dict[str, str]:
    """What came of each claim."""
    return {one.claim.words: one.verdict for one in judge(systems, USERS)}


def test_the_paper_s_own_numbers_hold_all_its_claims() -> None:
    found = judge(as_reported(), USERS)
    assert [one.verdict for one in found] == ["held"] * len(CLAIMS)
    for one in found:
        assert len(one.pairs) == len(one.claim.pairs)
        assert all(pair.difference == pytest.approx(pair.paper, abs=1e-6) for pair in one.pairs)


def test_a_claim_turned_round_fails() -> None:
    systems = as_reported()
    systems["deers"], systems["dfn"] = systems["dfn"], systems["deers"]
    found = verdicts(systems)
    assert found["DFN is below DEERS"] == "failed"
    assert found["DEERS, which reads skips, is competitive with NAML"] == "failed"  # now 0.0273 below
    assert found["denoising helps: DRPN-D is below DRPN"] == "held"


def test_what_chance_may_have_done_is_not_separated() -> None:
    """DRPN-D scatters around DRPN by itself: the difference is 0.001, its interval many times as wide."""
    systems = as_reported() | {"drpn-d": system(0.672, noise=-1.0)}
    (one,) = [one for one in judge(systems, USERS) if "DRPN-D is below" in one.claim.words]
    assert one.verdict == "not separated"
    assert one.pairs[0].low < 0 < one.pairs[0].difference < one.pairs[0].high


@pytest.mark.parametrize(
    ("below", "noise", "verdict"),
    [
        (-0.02, 1.0, "held"),
        (LEVEL - 0.001, 1.0, "held"),
        (LEVEL, -1.0, "not separated"),
        (LEVEL + 0.001, 1.0, "failed"),
    ],
)
def test_competitive_is_not_much_below(below: float, noise: float, verdict: str) -> None:
    claim = Claim("a is competitive with b", "here", (("drpn", "nrms"),), level=True)
    systems = {"drpn": system(0.65 - below, noise=noise), "nrms": system(0.65)}
    assert [one.verdict for one in judge(systems, USERS, [claim])] == [verdict]


def test_one_failure_among_many_comparisons_fails_the_claim() -> None:
    systems = as_reported() | {"gerl": system(0.9)}
    (one,) = [one for one in judge(systems, USERS) if one.claim.words == "DRPN outperforms all baselines"]
    assert one.verdict == "failed"
    assert [pair.second for pair in one.pairs if pair.verdict == "failed"] == ["gerl"]
    systems["gerl"] = system(0.672, noise=-1.0)
    assert verdicts(systems)["DRPN outperforms all baselines"] == "not separated"


def test_systems_that_were_not_run_are_said_to_be_missing() -> None:
    systems = {name: one for name, one in as_reported().items() if name in ("drpn", "nrms", "drpn-n")}
    found = {one.claim.words: one for one in judge(systems, USERS)}
    assert found["DFN is below DEERS"].verdict == "not run"
    assert found["skipped news help: DRPN-N is below DRPN"].verdict == "held"
    first = found["DRPN outperforms all baselines"]
    assert (first.verdict, first.as_dict()["compared"], first.as_dict()["of"]) == ("held", 1, 12)
    rows = [row for row in table(list(found.values()), beside_paper=False).rows if row]
    assert rows[0][0].endswith("[1 of 12 compared]")
    assert ("DFN is below DEERS (Section 5.4, Table 2)", "**not run**", "", "") in rows


def test_the_paper_s_differences_stand_beside_ours_when_asked_for() -> None:
    judged = judge(as_reported(), USERS)
    cells = [row for row in table(judged, beside_paper=True).rows if row and row[2].startswith("DRPN above DRPN-N")]
    assert cells[0][2:] == ("DRPN above DRPN-N, AUC: held", "+0.0092 (+0.0092 to +0.0092)", "+0.0092")
    assert table(judged, beside_paper=False).heads[-1] == "ours, 95 % interval"


def test_every_system_of_a_claim_is_one_of_the_paper_s_tables() -> None:
    named = {name for claim in CLAIMS for pair in claim.pairs for name in pair}
    assert named == set(TABLE2) | set(TABLE3)
    assert named <= set(CATALOGUE)
    assert named <= set(NAMES)
