"""Faults planted in a copy of the package, to see that the tests against loops find each of them.

python tests/mutations/faults.py        writes docs/mutations.md
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "drpn"
TESTS = "tests/models/test_drpn_against_loops.py"
PAGE = ROOT / "docs" / "mutations.md"

AGGREGATORS, DRPN = "models/aggregators.py", "models/drpn.py"
ATTENTION, NEWS = "layers/attention.py", "layers/news.py"


class Fault(NamedTuple):
    """A slip that somebody could make: one text of the source in place of another."""

    name: str
    file: str
    text: str
    instead: str


FAULTS = [
    Fault(
        "a story counts more if it resembles the opposite sequence",
        AGGREGATORS,
        "trust - torch.relu(self.gamma)",
        "trust + torch.relu(self.gamma)",
    ),
    Fault("gamma without its ReLU", AGGREGATORS, "torch.relu(self.gamma)", "self.gamma"),
    Fault(
        "intra-attention reads padding",
        AGGREGATORS,
        "mask.unsqueeze(1) & ~torch.eye(",
        "torch.ones_like(mask).unsqueeze(1) & ~torch.eye(",
    ),
    Fault(
        "intra-attention reads the story itself",
        AGGREGATORS,
        "mask.unsqueeze(1) & ~torch.eye(mask.shape[1], dtype=torch.bool, device=mask.device)",
        "mask.unsqueeze(1).expand(-1, mask.shape[1], -1)",
    ),
    Fault(
        "inter-attention reads padding",
        AGGREGATORS,
        "other_value, other_mask.unsqueeze(1))",
        "other_value, torch.ones_like(other_mask).unsqueeze(1))",
    ),
    Fault(
        "inter-attention with the parameters of the wrong sequence",
        DRPN,
        "else other.denoise.weights_opposite()",
        "else (self.denoise or other.denoise).weights_opposite()",
    ),
    Fault(
        "both similarities from one head",
        AGGREGATORS,
        "self.contrary(own_contrary[0], opposite)",
        "self.similar(own_contrary[0], opposite)",
    ),
    Fault(
        "zeros for an empty opposite sequence",
        AGGREGATORS,
        "opposite = or_else(opposite, there, self.contrary.read(self.unopposed))",
        "opposite = or_else(opposite, there, torch.zeros_like(self.unopposed))",
    ),
    Fault(
        "zeros for the denoised interest of an empty sequence",
        AGGREGATORS,
        "or_else(weighted_sum(weight, news), mask.any(-1), self.nothing)",
        "weighted_sum(weight, news)",
    ),
    Fault(
        "self-attention over stories without the residual",
        AGGREGATORS,
        "self.norm(news + self.attention(qkv, mask))",
        "self.norm(self.attention(qkv, mask))",
    ),
    Fault(
        "clicked and skipped swapped",
        DRPN,
        "{name: getattr(batch, name) for name in self.reads}",
        '{name: getattr(batch, {"clicked": "skipped", "skipped": "clicked"}[name]) for name in self.reads}',
    ),
    Fault(
        "the fusion net weighs graph vectors in place of ids",
        DRPN,
        "self.collaborative.project(graph, own)",
        "self.collaborative.project(graph, graph)",
    ),
    Fault(
        "the candidate's graph vector in place of its id vector",
        DRPN,
        "{view: (rows.plain, rows.candidate) for",
        "{view: (rows.news, rows.candidate) for",
    ),
    Fault(
        "the graph network without a scale",
        AGGREGATORS,
        'torch.einsum("umd,ukmd->umk", query, key) / math.sqrt(query.shape[-1])',
        'torch.einsum("umd,ukmd->umk", query, key)',
    ),
    Fault(
        "the graph network reads padding",
        AGGREGATORS,
        "masked_softmax(logits, mask.unsqueeze(1))",
        "masked_softmax(logits, torch.ones_like(mask).unsqueeze(1))",
    ),
    Fault(
        "gate and content of the graph network swapped",
        AGGREGATORS,
        "torch.sigmoid(gate) * torch.tanh(content)",
        "torch.sigmoid(content) * torch.tanh(gate)",
    ),
    Fault(
        "softmax over padding too",
        ATTENTION,
        "torch.softmax(logits.masked_fill(~mask, torch.finfo(logits.dtype).min), dim=-1)",
        "torch.softmax(logits, dim=-1)",
    ),
    Fault(
        "attention without a scale",
        ATTENTION,
        "query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])",
        "query @ key.transpose(-1, -2)",
    ),
    Fault(
        "the projections of a side in another order",
        DRPN,
        "[*self.content.weights(), *own, *opposite]",
        "[*self.content.weights(), *opposite, *own]",
    ),
    Fault(
        "a bias left out of the joined projections",
        ATTENTION,
        "if one.bias is None else one.bias",
        "if True else one.bias",
    ),
    Fault("self-attention reads padding", ATTENTION, "attn_mask=allowed[:, None, None, :]", "attn_mask=None"),
    Fault(
        "no unknown vector for stories not seen in training",
        NEWS,
        "return or_else(rows(self.table.weight, news), seen, self.unknown)",
        "return rows(self.table.weight, news)",
    ),
]


class Caught(NamedTuple):
    """The first test that failed, and what it said."""

    test: str
    message: str


def plant(fault: Fault) -> str:
    """The source with the fault in it."""
    source = (PACKAGE / fault.file).read_text(encoding="utf-8")
    found = source.count(fault.text)
    assert found == 1, f"{fault.name}: {fault.file} has {found} times: {fault.text}"
    return source.replace(fault.text, fault.instead)


def caught(fault: Fault | None, folder: Path) -> Caught | None:
    """What the tests find in a copy of the package, made in an empty folder, with one fault or with none."""
    copy = folder / "drpn"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    if fault is not None:
        (copy / fault.file).write_text(plant(fault), encoding="utf-8")
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    environment |= {"PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"}
    report = folder / "report.xml"
    options = ["-x", "-q", "--noconftest", "-p", "no:cacheprovider", f"--junitxml={report}"]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *options, TESTS], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    # 0: all passed, 1: one failed; anything else and the tests did not run
    assert ran.returncode in (0, 1), ran.stdout + ran.stderr
    for case in ElementTree.parse(report).iter("testcase"):
        failure = case.find("failure")
        if failure is not None:
            return Caught(case.get("name", ""), failure.get("message", "").splitlines()[0])
    assert ran.returncode == 0, ran.stdout
    return None


def page(rows: list[tuple[Fault, Caught | None]]) -> str:
    """The table of faults and of the tests that caught them."""
    lines = [
        "# Planted faults",
        "",
        f"Each fault was planted alone in a copy of the package. Then `{TESTS}` ran until a test",
        "failed. `python tests/mutations/faults.py` writes this page; `tests/mutations/test_faults.py` checks that",
        "every fault is caught.",
        "",
        "| fault | file | first test that failed |",
        "|---|---|---|",
        *(f"| {fault.name} | `{fault.file}` | {f'`{found.test}`' if found else '**none**'} |" for fault, found in rows),
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    rows = []
    for fault in FAULTS:
        with tempfile.TemporaryDirectory() as folder:
            found = caught(fault, Path(folder))
        print(f"{fault.name}: {found.test if found else 'NOT CAUGHT'}", flush=True)
        rows.append((fault, found))
    PAGE.write_text(page(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
