"""The paper's claims, judged by a comparison of ours: held, failed or not separated."""

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
"""The impressions that the paper measures; they decide the verdicts."""
PAGE = "claims"
_Key = tuple[str, str, str]
"""First system, second system, metric."""


@dataclass(frozen=True)
class Pair:
    """One comparison of a claim."""

    first: str
    second: str
    difference: float
    low: float
    high: float
    verdict: Verdict
    paper: float
    """The difference between the paper's own numbers."""


@dataclass(frozen=True)
class Judged:
    """A claim and its verdict."""

    claim: Claim
    verdict: Verdict
    pairs: tuple[Pair, ...]
    """The comparisons whose two systems were both run."""

    def as_dict(self) -> dict[str, Any]:
        """Return the claim and its verdict for JSON."""
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
    """Judge every claim by paired differences of the systems that were run, bootstrapped over users and seeds.

    A comparison is held if the interval of its difference is above zero, failed if the interval is below zero, and
    otherwise not separated; where the claim says "competitive", the limit is -LEVEL instead of zero. A claim is held if
    all its comparisons are held, and failed if at least one failed.
    """
    keys: list[_Key] = list(
        dict.fromkeys(
            (first, second, claim.metric)
            for claim in claims
            for first, second in claim.pairs
            if first in systems and second in systems
        )
    )
    comparisons: dict[_Key, Comparison] = {}
    if keys and next(iter(systems.values())).counted.any():
        pairs = {
            (first, second, metric): (systems[first].by_name()[metric], systems[second].by_name()[metric])
            for first, second, metric in keys
        }
        comparisons = differences(pairs, users, np.random.default_rng(seed), draws)
    return [_judged(claim, comparisons) for claim in claims]


def judge_groups(systems: Mapping[str, Metrics], users: Array, known: Array) -> dict[str, list[Judged]]:
    """Judge the claims on all impressions and on those of users with a profile, marked by `known`."""
    return {
        group: judge({name: metrics[mask] for name, metrics in systems.items()}, users[mask])
        for group, mask in masks(known).items()
        if group != "without_profile"
    }


def judged_by(claims: Mapping[str, Sequence[Judged]]) -> str:
    """Return the group that decides: users with a profile, or all users if none has one."""
    return GROUP if any(judged.pairs for judged in claims[GROUP]) else "all"


def write_claims(
    out: Path,
    claims: Mapping[str, Sequence[Judged]],
    *,
    names: Mapping[str, str] = NAMES,
    seeds: int,
    mind: bool,
    document: str,
) -> None:
    """Write claims.md and claims.tex; the verdicts for all impressions are in `document`."""
    group = judged_by(claims)
    count = sum(len(judged.pairs) for judged in claims[group])
    others = {
        other: Counter(judged.verdict for judged in verdicts) for other, verdicts in claims.items() if other != group
    }
    paragraphs = [
        f"Judged on {GROUPS[group].lower()}, by paired differences over {seeds} seed{'s' if seeds > 1 else ''}. The "
        "paper's authors leave out users without a profile in their code. "
        + "".join(f"On {GROUPS[other].lower()}: {tally(counts)} ({document}). " for other, counts in others.items()),
        "A comparison is held if its 95 % interval is above the limit, failed if the interval is below it, and not "
        f"separated if the interval contains it. The limit is zero, or -{LEVEL} where the paper calls a system "
        "competitive. A claim is held if all its comparisons are held, and failed if at least one failed. "
        + (
            f"There are {count} comparisons, so about one in twenty intervals misses the true difference by chance."
            if count != 1
            else "There is 1 comparison; its interval may miss the true difference by chance."
        ),
    ]
    write_page(out / PAGE, table(claims[group], names, beside_paper=mind), [text.strip() for text in paragraphs])


def tally(verdicts: Mapping[Verdict, int]) -> str:
    """Return the number of each verdict as text, such as `9 held, 2 failed`."""
    return ", ".join(f"{count} {verdict}" for verdict, count in verdicts.items())


def table(claims: Sequence[Judged], names: Mapping[str, str] = NAMES, *, beside_paper: bool) -> Table:
    """Return one row for each comparison; the first row of a claim states the claim and its verdict."""
    heads = ["claim", "verdict", "comparison", "ours, 95 % interval", *(["the paper's"] if beside_paper else [])]
    rows: list[tuple[str, ...] | None] = []
    for judged in claims:
        claim = judged.claim
        text = f"{claim.words} ({claim.place}{f'; {claim.remark}' if claim.remark else ''})"
        if 0 < len(judged.pairs) < len(claim.pairs):
            text += f" [{len(judged.pairs)} of {len(claim.pairs)} compared]"
        lines = [_line(pair, claim, names, beside_paper) for pair in judged.pairs] or [("",) * (len(heads) - 2)]
        rows += [None] if rows else []
        rows += [(text, f"**{judged.verdict}**", *lines[0]), *(("", "", *line) for line in lines[1:])]
    return Table("The paper's claims", tuple(heads), tuple(rows), left=3)


def _judged(claim: Claim, comparisons: Mapping[_Key, Comparison]) -> Judged:
    limit = -LEVEL if claim.level else 0.0
    pairs = []
    for first, second in claim.pairs:
        if compared := comparisons.get((first, second, claim.metric)):
            numbers = (compared.difference, compared.low, compared.high)
            paper = round(_reported(first, claim.metric) - _reported(second, claim.metric), 4)
            pairs.append(Pair(first, second, *numbers, _verdict(compared, limit), paper))
    verdicts = {pair.verdict for pair in pairs}
    verdict: Verdict = "not run"
    if verdicts:
        verdict = "failed" if "failed" in verdicts else "held" if verdicts == {"held"} else "not separated"
    return Judged(claim, verdict, tuple(pairs))


def _verdict(comparison: Comparison, limit: float) -> Verdict:
    if comparison.low > limit:
        return "held"
    return "failed" if comparison.high < limit else "not separated"


def _reported(model: str, metric: str) -> float:
    return (TABLE2 | TABLE3)[model][METRICS.index(metric)] / 100


def _line(pair: Pair, claim: Claim, names: Mapping[str, str], beside_paper: bool) -> tuple[str, ...]:
    relation = f"not {LEVEL} below" if claim.level else "above"
    comparison = f"{names[pair.first]} {relation} {names[pair.second]}, {HEADS[claim.metric]}: {pair.verdict}"
    numbers = f"{pair.difference:+.4f} ({pair.low:+.4f} to {pair.high:+.4f})"
    return (comparison, numbers, *([f"{pair.paper:+.4f}"] if beside_paper else []))
