"""Steps that learn from teachers on a GPU: captured, and with data in host memory."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from drpn.batches.samples import Plan
from drpn.batches.tables import Counts, Tables
from drpn.training.loop import Loop
from drpn.training.optimiser import build_optimiser
from drpn.training.steps import CapturedStepper, HostStepper, Stepper
from small_training import CPU, toy

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning"),  # of the compiler
]


def losses(kind: type[Stepper], *, taught: bool = True) -> list[float]:
    """The losses of three epochs."""
    sizes = {"batch": 16, "negatives": 3, "compile": False, "precision": "fp32"}
    loop: Loop = toy("drpn-live", device=torch.device("cuda"), teachers=int(taught), **sizes)(Path())
    tables, model = loop.tables, loop.model.eval()  # without dropout: nothing is random
    plans = [loop.sampler.plan(epoch) for epoch in range(3)]
    if kind is HostStepper:
        assert tables.counts is not None
        counts = Counts(*(part.cpu() for part in vars(tables.counts).values()))
        tables = Tables(tables.news.to(CPU), tables.clicked.cpu(), tables.skipped.cpu(), counts=counts)
        plans = [Plan(*(column.cpu() for column in plan)) for plan in plans]
    settings = replace(loop.settings, schedule="constant")
    step = kind(model, tables, settings, optimiser=build_optimiser(model, settings))
    measured = []
    for plan in plans:
        step.prepare(plan)
        measured += [float(step(part)) for part in step.batches(plan)]
    return measured


@pytest.mark.parametrize("kind", [CapturedStepper, HostStepper])
def test_captured_steps_learn_from_teachers_as_eager_ones_do(kind: type[Stepper]) -> None:
    expected = losses(Stepper)
    torch.testing.assert_close(losses(kind), expected, rtol=1e-3, atol=1e-4)
    alone = losses(Stepper, taught=False)
    assert max(abs(one - other) for one, other in zip(expected, alone, strict=True)) > 0.05
