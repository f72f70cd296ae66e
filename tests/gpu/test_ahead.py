"""Kernels that are compiled before the first step, all at the same time."""

from pathlib import Path
from typing import Any

import pytest
import torch

from drpn.layers.kernels import launch
from drpn.training.ahead import compile_kernels
from drpn.training.batch_loss import BatchLoss
from drpn.training.optimiser import build_optimiser
from drpn.training.steps import CapturedStepper
from small_training import toy

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")]


@pytest.fixture
def compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of kernels that are compiled from here on, as on a machine that never ran them."""
    import triton

    from drpn.layers.kernels import attention, denoising, scoring, segments  # need Triton

    names: list[str] = []

    def heard(*, metadata: dict[str, Any], cache_hit: bool, **_: object) -> None:
        if not cache_hit:
            names.append(metadata["name"])

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    for module in (attention, denoising, scoring, segments):
        for value in vars(module).values():
            if isinstance(value, triton.JITFunction):
                value.device_caches.clear()
    monkeypatch.setattr(triton.knobs.compilation, "listener", heard)
    return names


@pytest.mark.parametrize("planted", [0.0, 0.5])
def test_no_kernel_is_left_to_compile_in_the_first_steps(compiled: list[str], planted: float) -> None:
    loop = toy("drpn", device=torch.device("cuda"), batch=16, compile=False, planted=planted)(Path())
    before = {name: value.clone() for name, value in loop.model.state_dict().items() if not name.endswith("met")}
    random, validated = torch.cuda.get_rng_state(), []
    compile_kernels(BatchLoss(loop.model, loop.tables, loop.settings), loop.sampler, lambda: validated.append(1))
    assert torch.equal(torch.cuda.get_rng_state(), random)
    assert all(torch.equal(loop.model.state_dict()[name], value) for name, value in before.items())
    assert all(parameter.grad is None for parameter in loop.model.parameters())
    assert validated
    step = CapturedStepper(loop.model, loop.tables, loop.settings, optimiser=build_optimiser(loop.model, loop.settings))
    assert launch._compiler is not None
    launch._compiler.finish()
    ahead = len(compiled)
    assert ahead >= 10
    plan = loop.sampler.plan(0)
    step.prepare(plan)
    for samples in step.batches(plan):
        assert torch.isfinite(step(samples))
    assert compiled[ahead:] == []
