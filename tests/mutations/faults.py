"""Faults planted in a copy of the package, to check that the tests against loops catch each of them.

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

DRPN = "models/drpn.py"
ATTENTION, DENOISING, LINEAR = "layers/attention.py", "layers/denoising.py", "layers/linear.py"
NEWS, TABLES = "layers/news.py", "layers/tables.py"


class Fault(NamedTuple):
    """A plausible mistake: one text of the source replaced by another."""

    name: str
    file: str
    text: str
    instead: str


FAULTS = [
    Fault(
        "a story counts more if it resembles the opposite sequence",
        DRPN,
        "similar - torch.relu(self.gamma)",
        "similar + torch.relu(self.gamma)",
    ),
    Fault("gamma without its ReLU", DRPN, "torch.relu(self.gamma)", "self.gamma"),
    Fault(
        "intra-attention reads padding",
        DENOISING,
        "mask.unsqueeze(1) & ~itself",
        "torch.ones_like(mask).unsqueeze(1) & ~itself",
    ),
    Fault("intra-attention reads the story itself", DENOISING, "mask.unsqueeze(1) & ~itself", "mask.unsqueeze(1)"),
    Fault(
        "inter-attention reads padding",
        DENOISING,
        "other_value, other.mask.unsqueeze(1))",
        "other_value, torch.ones_like(other.mask).unsqueeze(1))",
    ),
    Fault(
        "inter-attention with the parameters of the wrong sequence",
        DRPN,
        "else opposite.opposite_weights()",
        "else (own or opposite).opposite_weights()",
    ),
    Fault(
        "both similarities from one head",
        DRPN,
        "same, self.contrary.head(), opposite)",
        "same, self.similar.head(), opposite)",
    ),
    Fault(
        "zeros for an empty opposite sequence",
        DRPN,
        "instead=self.contrary.read(self.unopposed)",
        "instead=torch.zeros_like(self.unopposed)",
    ),
    Fault(
        "zeros for the denoised interest of an empty sequence",
        DRPN,
        "where_present(weighted_sum(weight, stories), own.mask.any(-1), self.nothing)",
        "weighted_sum(weight, stories)",
    ),
    Fault(
        "self-attention of stories without the residual",
        DRPN,
        "self.norm(stories.gather() + self.attention(qkv, mask))",
        "self.norm(self.attention(qkv, mask))",
    ),
    Fault(
        "clicked and skipped swapped",
        DRPN,
        "{name: getattr(profiles, name) for name in self.reads}",
        '{name: getattr(profiles, {"clicked": "skipped", "skipped": "clicked"}[name]) for name in self.reads}',
    ),
    Fault(
        "the fusion net weighs graph vectors instead of ids",
        DRPN,
        "self.collaborative.project(graph, own)",
        "self.collaborative.project(graph, graph)",
    ),
    Fault(
        "the candidate's graph vector instead of its id vector",
        DRPN,
        "{view: (rows.candidate, rows.plain) for",
        "{view: (rows.candidate, rows.stories) for",
    ),
    Fault(
        "the graph network without a scale",
        DRPN,
        'torch.einsum("umd,ukmd->umk", query, key) / math.sqrt(query.shape[-1])',
        'torch.einsum("umd,ukmd->umk", query, key)',
    ),
    Fault(
        "the graph network reads padding",
        DRPN,
        "masked_softmax(logits, mask.unsqueeze(1))",
        "masked_softmax(logits, torch.ones_like(mask).unsqueeze(1))",
    ),
    Fault(
        "gate and content of the graph network swapped",
        DRPN,
        "torch.sigmoid(gate) * torch.tanh(content)",
        "torch.sigmoid(content) * torch.tanh(gate)",
    ),
    Fault(
        "softmax over padding",
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
        "the projections of a sequence in another order",
        TABLES,
        "for group in groups.values() for weight in group",
        "for group in reversed(groups.values()) for weight in group",
    ),
    Fault(
        "a bias left out of the joined projections",
        LINEAR,
        "if weight.bias is None else weight.bias for weight",
        "if True else weight.bias for weight",
    ),
    Fault("self-attention reads padding", ATTENTION, "attn_mask=allowed[:, None, None, :]", "attn_mask=None"),
    Fault(
        "no unknown vector for stories not seen in training",
        NEWS,
        "return where_present(gather_rows(self.table.weight, news), seen, self.unknown)",
        "return gather_rows(self.table.weight, news)",
    ),
]


class Caught(NamedTuple):
    """The first test that failed, and its message."""

    test: str
    message: str


def plant(fault: Fault) -> str:
    """The source with the fault."""
    source = (PACKAGE / fault.file).read_text(encoding="utf-8")
    count = source.count(fault.text)
    assert count == 1, f"{fault.name}: {fault.file} has {count} times: {fault.text}"
    return source.replace(fault.text, fault.instead)


def caught(fault: Fault | None, folder: Path) -> Caught | None:
    """The test that fails on a copy of the package in an empty folder, with one fault or without; None if all pass."""
    copy = folder / "drpn"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    if fault is not None:
        (copy / fault.file).write_text(plant(fault), encoding="utf-8")
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    environment |= {"PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"}
    report = folder / "report.xml"
    options = ["-x", "-q", "--noconftest", "-p", "no:cacheprovider", f"--junitxml={report}"]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *options, TESTS], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    # 0: all passed, 1: one failed; otherwise the tests did not run
    assert run.returncode in (0, 1), run.stdout + run.stderr
    for case in ElementTree.parse(report).iter("testcase"):
        failure = case.find("failure")
        if failure is not None:
            return Caught(case.get("name", ""), failure.get("message", "").splitlines()[0])
    assert run.returncode == 0, run.stdout
    return None


def page(rows: list[tuple[Fault, Caught | None]]) -> str:
    """The table of faults, with the test that caught each."""
    lines = [
        "# Planted faults",
        "",
        f"Each fault was planted alone in a copy of the package, then `{TESTS}` was run until",
        "a test failed. Written by `python tests/mutations/faults.py`; `tests/mutations/test_faults.py` checks that",
        "every fault is caught.",
        "",
        "| fault | file | first test that failed |",
        "|---|---|---|",
        *(f"| {fault.name} | `{fault.file}` | {f'`{first.test}`' if first else '**none**'} |" for fault, first in rows),
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    rows = []
    for fault in FAULTS:
        with tempfile.TemporaryDirectory() as folder:
            first = caught(fault, Path(folder))
        print(f"{fault.name}: {first.test if first else 'NOT CAUGHT'}", flush=True)
        rows.append((fault, first))
    PAGE.write_text(page(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
