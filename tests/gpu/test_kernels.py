"""On a GPU: each kernel against its plain version in float64, and a step that is recorded against one that is not."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from batch_cases import as_rows, make_batch, with_parts
from drpn.batches.batch import Batch, NewsRows, count_distinct_stories, distinct_stories
from drpn.batches.samples import Plan
from drpn.batches.tables import Tables
from drpn.layers.attention import plain_self_attention, self_attention
from drpn.layers.denoising import _in_place as denoising_kernel
from drpn.layers.gather import gather, gather_rows, plain_segment_sum, segment_sum, weighted_rows
from drpn.layers.tables import TableRows
from drpn.models.base import DataShape
from drpn.models.catalogue import CATALOGUE
from drpn.models.drpn import DenoisingAggregator, DrpnSettings
from drpn.progress import Silent
from drpn.recipes.train import train
from drpn.training.optimiser import build_optimiser
from drpn.training.settings import TrainingSettings
from drpn.training.steps import CapturedStepper, HostStepper, Stepper
from shape import ShapeSettings, kept_shape

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning"),  # of the compiler
]
DTYPES = {"fp32": (torch.float32, 1e-6), "bf16": (torch.bfloat16, 5e-3)}
NEWS, WORDS = 300, 80
SMALL = {"size": 36, "hidden": 20, "heads": 6, "head_size": 6, "graph_heads": 2, "filters": 16, "attention": 8,
         "category_size": 6, "user_size": 6}  # fmt: skip


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
    assert found.dtype == torch.float32
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
    for values in (packed, packed.double()):
        leaf = values.clone().requires_grad_()
        read = self_attention(leaf, mask, heads, heads * size)
        read.backward(up.to(read.dtype))
        results.append((read * mask.unsqueeze(-1), leaf.grad))
    for found, expected in zip(*results, strict=True):
        assert off_by(found, expected) < tolerance


def sequences(batch: int, length: int, rows: int) -> Tensor:
    """Positions of sequences of any length, padding behind them; the first is empty, the second has one."""
    lengths = torch.randint(0, length + 1, (batch, 1), device="cuda")
    lengths[0], lengths[1] = 0, 1
    drawn = torch.randint(1, rows, (batch, length), device="cuda", dtype=torch.int32)
    return drawn * (torch.arange(length, device="cuda") < lengths)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("length", "heads", "size"), [(30, 6, 50), (60, 6, 50), (7, 3, 5)])
def test_short_attention_in_a_table(length: int, heads: int, size: int, dtype: str) -> None:
    kind, tolerance = DTYPES[dtype]
    table, positions = torch.randn(90, 3 * heads * size + 4, device="cuda").to(kind), sequences(25, length, 90)
    real = (positions != 0).unsqueeze(-1)
    up = torch.randn(*positions.shape, heads * size, device="cuda").to(kind) * real
    one, other = table.clone().requires_grad_(), table.double().requires_grad_()
    found = self_attention(TableRows(positions, one, None), positions != 0, heads, heads * size)
    found.backward(up)
    expected = plain_self_attention(gather_rows(other, positions)[..., : 3 * heads * size], positions != 0, heads)
    expected.backward(up.double())
    assert off_by(found * real, expected * real) < tolerance
    assert off_by(one.grad, other.grad) < tolerance


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("length", "size"), [(90, 300), (3, 5)])
def test_weighted_rows(length: int, size: int, dtype: str) -> None:
    kind, tolerance = DTYPES[dtype]
    positions = sequences(25, length, 90)
    weights = torch.rand(positions.shape, device="cuda") * (positions != 0)
    up = torch.randn(len(positions), size, device="cuda").to(kind)
    results = []
    for wide in (kind, torch.float64):
        torch.manual_seed(1)
        table = torch.randn(90, size + 3, device="cuda").to(kind).to(wide).requires_grad_()
        weight = weights.clone().to(torch.promote_types(wide, torch.float32)).requires_grad_()
        columns = table[:, :size]
        if wide == kind:
            found = weighted_rows(columns, positions, weight)
        else:
            found = torch.einsum("bs,bsd->bd", weight, gather_rows(columns, positions))
        found.backward(up.to(found.dtype))
        results.append((found, table.grad, weight.grad * (positions != 0)))
    for found, expected in zip(*results, strict=True):
        assert off_by(found, expected) < tolerance


@pytest.mark.parametrize("opposite", [True, False])
@pytest.mark.parametrize(
    ("own", "other", "size", "dtype"),
    [(30, 60, 300, "bf16"), (60, 30, 300, "bf16"), (3, 17, 40, "bf16"), (3, 17, 40, "fp32"), (30, 12, 70, "fp32")],
)  # in fp32 the largest sizes take minutes to compile
def test_denoising(own: int, other: int, size: int, dtype: str, opposite: bool) -> None:
    """The whole aggregator, weights and gradients, against its plain formulation."""
    kind, tolerance = DTYPES[dtype]
    plain = DenoisingAggregator(size, opposite=opposite).cuda()
    for parameter in plain.parameters():
        torch.nn.init.normal_(parameter, std=size**-0.5)
    positions, others = sequences(25, own, 90), sequences(25, other, 90).flip(0)
    tables = [torch.randn(90, width * size, device="cuda").to(kind) for width in (1, 5 if opposite else 4, 2)]
    up = torch.randn(len(positions), size, device="cuda")
    results = []
    for wide in (kind, torch.float64):
        aggregator = DenoisingAggregator(size, opposite=opposite).cuda().to(torch.promote_types(wide, torch.float32))
        aggregator.load_state_dict(plain.state_dict())
        leaves = [table.clone().to(wide).requires_grad_() for table in tables]
        in_place = [TableRows(at, leaf, None) for leaf, at in zip(leaves, (positions, positions, others), strict=True)]
        gathered = [TableRows(rows.positions, None, rows.gather()) for rows in in_place]
        stories, projected, opposed = in_place if wide == kind else gathered
        found = aggregator(stories, projected, opposed if opposite else None)
        (found.vector * up).sum().backward()
        gradients = [leaf.grad for leaf in leaves if leaf.grad is not None]
        learnt = [aggregator.similar.out.weight.grad, *([aggregator.unopposed.grad] if opposite else [])]
        results.append((found.vector, found.weight, *gradients, *learnt))
    assert len(results[0]) == (7 if opposite else 5)
    for number, (found, expected) in enumerate(zip(*results, strict=True)):
        # gradients through the softmax are differences of larger numbers, which keep fewer digits
        assert off_by(found, expected) < (tolerance if number < 2 else 10 * tolerance), number


def some_news() -> NewsRows:
    rows = torch.arange(NEWS, device="cuda")
    words = torch.randint(0, WORDS, (NEWS, 9), device="cuda")
    neighbours = torch.randint(0, NEWS, (NEWS, 5), device="cuda")
    labels = torch.randint(0, 2, (2, NEWS), device="cuda")
    return NewsRows(rows, words, neighbours, *labels, rows % 3 != 0, neighbour_positions=neighbours)


def some_batch(users: int = 12) -> Batch:
    def positions(width: int) -> Tensor:
        drawn = torch.randint(1, NEWS, (users, width), device="cuda")
        lengths = torch.randint(0, width + 1, (users, 1), device="cuda")
        return drawn * (torch.arange(width, device="cuda") < lengths)  # padding stands at the end

    around = torch.randint(0, 20, (users, 4), device="cuda")
    return make_batch(torch.arange(users, device="cuda") % 20, positions(7), positions(11), positions(6), around)


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
        if other.grad is not None:  # of a gradient far smaller than the whole, float32 keeps fewer digits
            limit = 1e-4 * other.grad.norm() + 1e-8 * gradient.norm()
            assert (one.grad.cpu().double() - other.grad).norm() < limit, key
    with torch.no_grad():
        quick = model.score(model.encode_news(news), batch)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            half = model.score(model.encode_news(news), batch)
    assert off_by(quick.cpu()[real], expected[real]) < 1e-5
    assert off_by(half.cpu()[real], expected[real]) < 0.05


@pytest.mark.parametrize(("clicked", "skipped"), [(30, 60), (5, 9)])
def test_in_bf16_denoising_is_read_in_the_tables(clicked: int, skipped: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the paper's lengths, too: the vectors of news are in float32 then, their projections are not."""
    model, news, calls = build("drpn").cuda(), some_news(), []

    def counted(own: TableRows, *rest: Any) -> Any:
        calls.append(own.positions.shape[1])
        return denoising_kernel(own, *rest)

    monkeypatch.setattr("drpn.layers.denoising._in_place", counted)
    long = torch.randint(1, NEWS, (4, clicked + skipped), device="cuda", dtype=torch.int32)
    batch = with_parts(some_batch(users=4), clicked=long[:, :clicked], skipped=long[:, clicked:])
    with torch.no_grad(), torch.autocast("cuda", dtype=torch.bfloat16):
        model.score(model.encode_news(news), batch)
    assert sorted(calls) == sorted(2 * [clicked, skipped])  # of both views


def test_a_fixed_capacity_changes_no_score() -> None:
    model, news, batch = build("drpn").cuda(), some_news(), some_batch()
    needed = int(count_distinct_stories(as_rows(batch), news=NEWS))
    scores = []
    with torch.no_grad():
        for capacity in (None, needed, needed + 40):
            rows, local = distinct_stories(as_rows(batch), news=NEWS, capacity=capacity)
            scores.append(model.score(model.encode_news(news.select(rows)), local))
    assert off_by(scores[1], scores[0]) < 1e-6
    assert off_by(scores[2], scores[0]) < 1e-6


def losses_of(
    kind: type[Stepper], name: str, settings: TrainingSettings, samples: int = 128, *, host: bool = False
) -> list[float]:
    """The losses of two passes, the same samples and first weights for every kind of step; the second needs more."""
    torch.manual_seed(3)
    shape = DataShape(news=NEWS, words=WORDS, users=64, categories=2, subcategories=2)
    model, batch = build(name, shape).cuda().eval(), some_batch(users=64)  # no dropout: both must draw nothing
    tables = Tables(some_news(), batch.profiles.clicked, batch.profiles.skipped)
    users = torch.randint(0, 64, (2, samples), device="cuda")
    candidates = torch.randint(1, NEWS, (2, samples, 5), device="cuda")
    candidates[0] = candidates[0] % 20 + 1  # few distinct news: the second pass has to be recorded anew
    if host:
        cpu = torch.device("cpu")
        users, candidates = users.cpu(), candidates.cpu()
        tables = Tables(tables.news.to(cpu), tables.clicked.cpu(), tables.skipped.cpu())
    step = kind(model, tables, build_optimiser(model, settings), settings)
    losses = []
    for plan in map(Plan, users, candidates, torch.zeros_like(users)):
        step.prepare(plan)
        losses += [float(step(one)) for one in step.batches(plan)]
    return losses


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", ["drpn", "nrms"])
def test_a_recorded_step_does_what_a_plain_one_does(name: str, compiled: bool) -> None:
    settings = TrainingSettings(batch=16, precision="fp32", rate=1e-3, compile=compiled)
    expected = losses_of(Stepper, name, settings)
    found = losses_of(CapturedStepper, name, settings)
    assert expected[-1] != expected[0]
    assert found == pytest.approx(expected, rel=2e-3)


@pytest.mark.parametrize("optimiser", ["adam", "lazy-adam"])
def test_a_smaller_last_batch_and_both_optimisers_are_recorded_too(optimiser: str) -> None:
    settings = TrainingSettings(batch=24, precision="fp32", rate=1e-3, compile=False, optimiser=optimiser)
    expected = losses_of(Stepper, "nrms", settings)
    assert len(expected) == 2 * 6  # five of 24, one of 8
    assert losses_of(CapturedStepper, "nrms", settings) == pytest.approx(expected, rel=2e-3)


def test_data_in_the_hosts_memory_give_the_same_losses() -> None:
    settings = TrainingSettings(batch=24, precision="fp32", rate=1e-3, compile=False)
    expected = losses_of(CapturedStepper, "drpn", settings)
    assert losses_of(HostStepper, "drpn", settings, host=True) == pytest.approx(expected, rel=2e-3)
    assert losses_of(Stepper, "drpn", settings, host=True) == pytest.approx(expected, rel=2e-3)


class Noting(Silent):
    """Keeps the remarks of a job."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def note(self, text: str) -> None:
        self.lines.append(text)


def test_data_in_the_hosts_memory_train_and_validate_a_model(tmp_path: Path) -> None:
    folder = kept_shape(ShapeSettings().scaled(0.01)).path
    aucs = {}
    for place in ("host", "device"):
        training = TrainingSettings(batch=256, epochs=1, compile=False, data=place)
        said = Noting()
        small = DrpnSettings(size=48)
        run = train(folder, tmp_path / place, settings=small, training=training, progress=said)
        assert any("host's memory" in line for line in said.lines) == (place == "host")
        aucs[place] = run.bundle().manifest["metrics"]["validation_auc"]
    assert aucs["host"] == pytest.approx(aucs["device"], abs=0.02)


@pytest.mark.parametrize("compiled", [False, True])
def test_a_recorded_step_drops_more_samples_from_step_to_step(compiled: bool) -> None:
    """One more of the 16 each time: what was recorded in the fourth step drops seven in the last."""
    settings = TrainingSettings(
        batch=16, precision="fp32", rate=1e-3, compile=compiled, loss="tce", tce_rate=0.5, tce_steps=8
    )
    expected = losses_of(Stepper, "nrms", settings)
    found = losses_of(CapturedStepper, "nrms", settings)
    assert found == pytest.approx(expected, rel=2e-3)
    assert expected[-1] < losses_of(Stepper, "nrms", replace(settings, loss="softmax"))[-1]


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_model_can_be_recorded(name: str) -> None:
    settings = TrainingSettings(batch=16, precision="fp32", rate=1e-3, compile=False)
    expected = losses_of(Stepper, name, settings)
    assert losses_of(CapturedStepper, name, settings) == pytest.approx(expected, rel=5e-3)


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_model_trains_in_bf16(name: str) -> None:
    """As it is done: dropout, buffers that move, one step recorded and played."""
    torch.manual_seed(3)
    shape = DataShape(news=NEWS, words=WORDS, users=64, categories=2, subcategories=2)
    model, batch = build(name, shape).cuda().train(), some_batch(users=64)
    settings = TrainingSettings(batch=16, rate=1e-3, compile=False)
    profiles = batch.profiles
    tables = Tables(some_news(), profiles.clicked, profiles.skipped, neighbours=profiles.neighbours)
    step = CapturedStepper(model, tables, build_optimiser(model, settings), settings)
    users = torch.arange(64, device="cuda").repeat(2)
    plan = Plan(users, torch.randint(1, NEWS, (128, 5), device="cuda"), torch.zeros_like(users))
    before = {key: value.clone() for key, value in model.named_buffers()}
    step.prepare(plan)
    losses = [float(step(samples)) for samples in step.batches(plan)]
    assert len(losses) == 8
    assert all(torch.isfinite(torch.tensor(losses)))
    assert all(value.isfinite().all() for value in model.state_dict().values())
    assert all(not torch.equal(value, before[key]) for key, value in model.named_buffers())
