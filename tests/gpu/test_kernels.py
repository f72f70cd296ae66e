"""On a GPU: each kernel against its plain version in float64, and a step that is recorded against one that is not."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from drpn.batches.batch import Batch, NewsRows, count_distinct, distinct
from drpn.batches.samples import Plan
from drpn.batches.tables import Tables
from drpn.layers.attention import plain_self_attention, self_attention
from drpn.layers.gather import gather, plain_segment_sum, segment_sum
from drpn.models.base import DataShape
from drpn.models.catalogue import CATALOGUE
from drpn.training.optimiser import optimiser_of
from drpn.training.settings import TrainingSettings
from drpn.training.steps import RecordedStepper, Stepper

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning"),  # of the compiler
]
DTYPES = {"fp32": (torch.float32, 1e-6), "bf16": (torch.bfloat16, 5e-3)}
NEWS, WORDS = 300, 80
SMALL = {"size": 36, "hidden": 20, "heads": 6, "head_size": 6, "graph_heads": 2}


@pytest.fixture(autouse=True)
def drawn() -> None:
    torch.manual_seed(0)


def off_by(found: Tensor, expected: Tensor) -> float:
    """|found - expected| / |expected|."""
    found, expected = found.detach().double(), expected.detach().double()
    return float((found - expected).norm() / expected.norm().clamp(min=1e-12))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("positions", "count", "columns"), [(1, 1, 1), (999, 50, 300), (90_000, 3_000, 301), (5_000, 7, 64)]
)
def test_segment_sum(positions: int, count: int, columns: int, dtype: str) -> None:
    kind, tolerance = DTYPES[dtype]
    at = (torch.rand(positions, device="cuda") ** 4 * count).int().clamp(max=count - 1)  # some rows far more often
    values = torch.randn(positions, columns, device="cuda").to(kind)
    keys, order = torch.sort(at)
    found = segment_sum(values, keys, order, count)
    assert found.dtype == kind
    assert not found[0].any()
    assert off_by(found, plain_segment_sum(values.double(), keys, order, count)) < tolerance


def test_a_gathered_row_has_the_gradient_of_an_indexed_one() -> None:
    tables = [torch.randn(50, width, device="cuda", requires_grad=True) for width in (8, 1)]
    positions = torch.randint(0, 50, (20, 7), device="cuda", dtype=torch.int32)
    found = gather(tables, positions)
    weights = [torch.randn_like(each) for each in found]
    expected = [table[positions.long()] for table in tables]
    for one, other in zip(found, expected, strict=True):
        assert torch.equal(one, other)
    real = (positions > 0).unsqueeze(-1)
    got = torch.autograd.grad(sum((a * b).sum() for a, b in zip(found, weights, strict=True)), tables)
    want = torch.autograd.grad(sum((a * b * real).sum() for a, b in zip(expected, weights, strict=True)), tables)
    for one, other in zip(got, want, strict=True):
        assert off_by(one, other) < 1e-6


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("batch", "length", "heads", "size"), [(40, 15, 6, 50), (9, 60, 6, 50), (7, 30, 16, 16), (5, 1, 1, 8)]
)
def test_short_attention(batch: int, length: int, heads: int, size: int, dtype: str) -> None:
    kind, tolerance = DTYPES[dtype]
    packed = torch.randn(batch, length, 3 * heads * size + 7, device="cuda").to(kind)  # a part of wider rows
    mask = torch.rand(batch, length, device="cuda") < 0.6
    mask[0] = False
    up = torch.randn(batch, length, heads * size, device="cuda").to(kind) * mask.unsqueeze(-1)
    results = []
    for attention, values in ((self_attention, packed), (plain_self_attention, packed.double())):
        leaf = values.clone().requires_grad_()
        read = attention(leaf[..., : 3 * heads * size], mask, heads)
        read.backward(up.to(read.dtype))
        results.append((read * mask.unsqueeze(-1), leaf.grad))
    for found, expected in zip(*results, strict=True):
        assert off_by(found, expected) < tolerance


def some_news() -> NewsRows:
    rows = torch.arange(NEWS, device="cuda")
    words = torch.randint(0, WORDS, (NEWS, 9), device="cuda")
    neighbours = torch.randint(0, NEWS, (NEWS, 5), device="cuda")
    return NewsRows(rows, words, neighbours, torch.zeros_like(rows), torch.zeros_like(rows), rows % 3 != 0)


def some_batch(users: int = 12) -> Batch:
    def positions(width: int) -> Tensor:
        drawn = torch.randint(1, NEWS, (users, width), device="cuda")
        lengths = torch.randint(0, width + 1, (users, 1), device="cuda")
        return drawn * (torch.arange(width, device="cuda") < lengths)  # padding stands at the end

    return Batch(torch.arange(users, device="cuda"), positions(7), positions(11), positions(6))


def build(name: str, shape: DataShape | None = None) -> torch.nn.Module:
    entry = CATALOGUE[name]
    known = {key: value for key, value in SMALL.items() if hasattr(entry.settings, key)}
    shape = shape or DataShape(news=NEWS, words=WORDS, users=20, categories=2, subcategories=2)
    model = entry.model(replace(entry.settings, **known), shape).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return model


@pytest.mark.parametrize("name", CATALOGUE)
def test_scores_and_gradients_are_those_of_a_cpu_in_float64(name: str) -> None:
    model, news, batch = build(name), some_news(), some_batch()
    slow = build(name).double()
    slow.load_state_dict({key: value.double() for key, value in model.state_dict().items()})
    cpu = torch.device("cpu")
    expected = slow.score(slow.encode_news(news.to(cpu)), batch.to(cpu))
    model.cuda()
    found = model.score(model.encode_news(news), batch)
    real = batch.candidate_mask.cpu()
    assert off_by(found.cpu()[real], expected[real]) < 1e-5
    (found * batch.candidate_mask).square().mean().backward()
    (expected * real).square().mean().backward()
    found_gradient, gradient = (
        torch.cat([one.grad.flatten().cpu() for one in each.parameters() if one.grad is not None])
        for each in (model, slow)
    )
    assert off_by(found_gradient, gradient) < 1e-5
    for (key, one), other in zip(model.named_parameters(), slow.parameters(), strict=True):
        if other.grad is not None and other.grad.norm() > 1e-9:  # below that float32 has nothing left to compare
            assert off_by(one.grad.cpu(), other.grad) < 1e-4, key
    with torch.no_grad():
        quick = model.score(model.encode_news(news), batch)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            half = model.score(model.encode_news(news), batch)
    assert off_by(quick.cpu()[real], expected[real]) < 1e-5
    assert off_by(half.cpu()[real], expected[real]) < 0.05


def test_a_fixed_capacity_changes_no_score() -> None:
    model, news, batch = build("drpn").cuda(), some_news(), some_batch()
    needed = int(count_distinct(batch, news=NEWS))
    scores = []
    with torch.no_grad():
        for capacity in (None, needed, needed + 40):
            rows, local = distinct(batch, news=NEWS, capacity=capacity)
            scores.append(model.score(model.encode_news(news[rows]), local))
    assert off_by(scores[1], scores[0]) < 1e-6
    assert off_by(scores[2], scores[0]) < 1e-6


def losses_of(kind: type[Stepper], name: str, settings: TrainingSettings, steps: int = 8) -> list[float]:
    """The losses of a few steps, the same samples and first weights for every kind of step."""
    torch.manual_seed(3)
    model, batch = build(name).cuda().eval(), some_batch(users=64)  # no dropout: both must draw nothing
    tables = Tables(some_news(), batch.clicked, batch.skipped)
    users = torch.randint(0, 64, (steps * settings.batch,), device="cuda")
    plan = Plan(users, torch.randint(1, NEWS, (len(users), 5), device="cuda"))
    step = kind(model, tables, optimiser_of(model, settings), settings)
    step.prepare(plan)
    size = settings.batch
    return [
        float(step(plan.users[first : first + size], plan.candidates[first : first + size]))
        for first in range(0, len(users), size)
    ]


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", ["drpn", "nrms"])
def test_a_recorded_step_does_what_a_plain_one_does(name: str, compiled: bool) -> None:
    settings = TrainingSettings(batch=16, precision="fp32", rate=1e-3, compile=compiled)
    expected = losses_of(Stepper, name, settings)
    found = losses_of(RecordedStepper, name, settings)
    assert expected[-1] != expected[0]
    assert found == pytest.approx(expected, rel=2e-3)
