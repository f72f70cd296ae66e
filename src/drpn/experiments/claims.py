"""The paper's claims, each held, failed or not separated by a comparison of ours."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from drpn.dataset.arrays import Array
from drpn.evaluation.bootstrap import DRAWS, Comparison, differences
from drpn.evaluation.groups import masks
from drpn.evaluation.metrics import METRICS, Metrics
from drpn.evaluation.tables import Table
from drpn.experiments.pages import GROUPS, HEADS, write_page
from drpn.experiments.paper import CLAIMS, LEVEL, NAMES, TABLE2, TABLE3, Claim

Verdict = Literal["held", "failed", "not separated", "not run"]
GROUP = "with_profile"
"""Whose impressions the paper measures, and by which its claims are judged."""
PAGE = "claims"


@dataclass(frozen=True)
class Pair:
    """One comparison that a claim makes."""

    first: str
    second: str
    difference: float
    low: float
    high: float
    verdict: Verdict
    paper: float
    """The difference of the paper's own numbers."""


@dataclass(frozen=True)
class Judged:
    """A claim and what came of it."""

    claim: Claim
    verdict: Verdict
    pairs: tuple[Pair, ...]
    """Those of which both systems were run."""

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "words": self.claim.words,
            "place": self.claim.place,
            "metric": self.claim.metric,
            "level": self.claim.level,
            "remark": self.claim.remark,
            "verdict": self.verdict,
            "compared": len(self.pairs),
            "of": len(self.claim.pairs),
            "pairs": [asdict(pair) for pair in self.pairs],
        }


def judge(
    systems: Mapping[str, Metrics],
    users: Array,
    claims: Sequence[Claim] = CLAIMS,
    *,
    seed: int = 0,
    draws: int = DRAWS,
) -> list[Judged]:
    """Every claim by the paired differences of the systems that were run, intervals drawn over users and seeds.

    A claim is held if all its comparisons are, failed if one is. One system is above another if the interval of the
    difference is above zero, and fails to be if it is below; it is level if the interval is above -LEVEL, and fails to
    be if it is below that.
    """
    wanted = {
        (first, second, claim.metric): None
        for claim in claims
        for first, second in claim.pairs
        if first in systems and second in systems
    }
    found: dict[tuple[str, str, str], Comparison] = {}
    if wanted and next(iter(systems.values())).counted.any():
        pairs = {key: tuple(systems[name].by_name()[key[2]] for name in key[:2]) for key in wanted}
        found = differences(pairs, users, np.random.default_rng(seed), draws)  # type: ignore[arg-type]
    return [_judged(claim, found) for claim in claims]


def judge_groups(systems: Mapping[str, Metrics], users: Array, known: Array) -> dict[str, list[Judged]]:
    """On all impressions and on those of users with a profile, who are `known`."""
    return {
        group: judge({name: one[mask] for name, one in systems.items()}, users[mask])
        for group, mask in masks(known).items()
        if group != "without_profile"
    }


def judged_by(claims: Mapping[str, Sequence[Judged]]) -> str:
    """The group that counts: users with a profile, or all where nobody has one."""
    return GROUP if any(one.pairs for one in claims[GROUP]) else "all"


def write_claims(out: Path, claims: Mapping[str, Sequence[Judged]], *, seeds: int, mind: bool, document: str) -> None:
    """Write claims.md and claims.tex; `document` holds the same for all impressions."""
    group = judged_by(claims)
    judged = claims[group]
    pairs = sum(len(one.pairs) for one in judged)
    others = {other: Counter(one.verdict for one in found) for other, found in claims.items() if other != group}
    words = [
        f"Judged on {GROUPS[group].lower()}, by paired differences of {seeds} seed{'s' if seeds > 1 else ''}; the "
        "paper's authors leave out users without a profile in their code. "
        + "".join(f"On {GROUPS[other].lower()}: {tally(found)} ({document}). " for other, found in others.items()),
        f"Held: the 95 % interval is above zero, or above -{LEVEL} where a system is said to be competitive; failed: "
        "it is below. A claim of several comparisons is held if all of them are, failed if one is. "
        f"{pairs} comparison{'s, of which one in twenty misses' if pairs != 1 else ', which may miss'} by chance.",
    ]
    write_page(out / PAGE, table(judged, beside_paper=mind), [text.strip() for text in words])


def tally(verdicts: Mapping[Verdict, int]) -> str:
    """Such as: 9 held, 2 failed."""
    return ", ".join(f"{count} {verdict}" for verdict, count in verdicts.items())


def table(judged: Sequence[Judged], *, beside_paper: bool) -> Table:
    """One row for each comparison, under the words of its claim."""
    heads = ["claim", "verdict", "comparison", "ours, 95 % interval", *(["the paper's"] if beside_paper else [])]
    rows: list[tuple[str, ...] | None] = []
    for one in judged:
        words = f"{one.claim.words} ({one.claim.place}{f'; {one.claim.remark}' if one.claim.remark else ''})"
        verdict = one.verdict
        if 0 < len(one.pairs) < len(one.claim.pairs):
            words += f" [{len(one.pairs)} of {len(one.claim.pairs)} compared]"
        lines = [_line(pair, one.claim, beside_paper) for pair in one.pairs] or [("",) * (len(heads) - 2)]
        rows += [None] if rows else []
        rows += [(words, f"**{verdict}**", *lines[0]), *(("", "", *line) for line in lines[1:])]
    return Table("The paper's claims", tuple(heads), tuple(rows), left=3)


def _judged(claim: Claim, found: Mapping[tuple[str, str, str], Comparison]) -> Judged:
    floor = -LEVEL if claim.level else 0.0
    pairs = []
    for first, second in claim.pairs:
        if compared := found.get((first, second, claim.metric)):
            numbers = (compared.difference, compared.low, compared.high)
            paper = round(_reported(first, claim.metric) - _reported(second, claim.metric), 4)
            pairs.append(Pair(first, second, *numbers, _verdict(compared, floor), paper))
    verdicts = {pair.verdict for pair in pairs}
    verdict: Verdict = "not run"
    if verdicts:
        verdict = "failed" if "failed" in verdicts else "held" if verdicts == {"held"} else "not separated"
    return Judged(claim, verdict, tuple(pairs))


def _verdict(found: Comparison, floor: float) -> Verdict:
    if found.low > floor:
        return "held"
    return "failed" if found.high < floor else "not separated"


def _reported(model: str, metric: str) -> float:
    return (TABLE2 | TABLE3)[model][METRICS.index(metric)] / 100


def _line(pair: Pair, claim: Claim, beside_paper: bool) -> tuple[str, ...]:
    relation = f"not {LEVEL} below" if claim.level else "above"
    words = f"{NAMES[pair.first]} {relation} {NAMES[pair.second]}, {HEADS[claim.metric]}: {pair.verdict}"
    numbers = f"{pair.difference:+.4f} ({pair.low:+.4f} to {pair.high:+.4f})"
    return (words, numbers, *([f"{pair.paper:+.4f}"] if beside_paper else []))
