"""GPU kernels against their plain versions in float64, and captured training steps against plain ones."""

from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from batch_cases import as_rows, with_parts
from drpn.batches.batch import count_distinct_stories, distinct_stories
from drpn.batches.samples import Plan
from drpn.batches.tables import Tables
from drpn.bundle.files import data_shape
from drpn.evaluation.scoring import score_impressions
from drpn.layers.attention import plain_self_attention, self_attention
from drpn.layers.denoising import _kernel_similarities
from drpn.layers.gather import gather, gather_rows, plain_segment_sum, segment_sum, weighted_rows
from drpn.layers.news import forget_met
from drpn.layers.precision import matrix_precision
from drpn.layers.tables import TableRows
from drpn.models.base import DataShape
from drpn.models.catalogue import CATALOGUE
from drpn.models.drpn import DenoisingAggregator, Drpn, DrpnSettings
from drpn.progress import Silent
from drpn.recipes.train import train
from drpn.training.loss import click_loss
from drpn.training.optimiser import build_optimiser
from drpn.training.settings import TrainingSettings
from drpn.training.steps import CapturedStepper, HostStepper, Stepper
from random_steps import NEWS, WORDS, build, random_batch, random_news, random_tables, train_losses
from shape import ShapeSettings, kept_shape

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning"),  # of the compiler
]
DTYPES = {"fp32": (torch.float32, 1e-6), "bf16": (torch.bfloat16, 5e-3)}


@pytest.fixture(autouse=True)
def fixed_seed() -> None:
    torch.manual_seed(0)


def relative_error(result: Tensor, expected: Tensor) -> float:
    """|result - expected| / |expected|."""
    result, expected = result.detach().double(), expected.detach().double()
    return float((result - expected).norm() / expected.norm().clamp(min=1e-12))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("positions", "count", "columns"), [(1, 1, 1), (999, 50, 300), (90_000, 3_000, 301), (5_000, 7, 64)]
)
def test_segment_sum(positions: int, count: int, columns: int, dtype: str) -> None:
    kind, tolerance = DTYPES[dtype]
    # some rows occur much more often than others
    at = (torch.rand(positions, device="cuda") ** 4 * count).int().clamp(max=count - 1)
    values = torch.randn(positions, columns, device="cuda").to(kind)
    keys, order = torch.sort(at)
    sums = segment_sum(values, keys, order, count)
    assert sums.dtype == torch.float32
    assert not sums[0].any()
    assert relative_error(sums, plain_segment_sum(values.double(), keys, order, count)) < tolerance


def test_gathered_rows_have_the_gradient_of_indexed_rows() -> None:
    tables = [torch.randn(50, width, device="cuda", requires_grad=True) for width in (8, 1)]
    positions = torch.randint(0, 50, (20, 7), device="cuda", dtype=torch.int32)
    gathered = gather(tables, positions)
    weights = [torch.randn_like(rows) for rows in gathered]
    indexed = [table[positions.long()] for table in tables]
    for rows, expected in zip(gathered, indexed, strict=True):
        assert torch.equal(rows, expected)
    real = (positions > 0).unsqueeze(-1)
    gathered_sum = sum((a * b).sum() for a, b in zip(gathered, weights, strict=True))
    indexed_sum = sum((a * b * real).sum() for a, b in zip(indexed, weights, strict=True))
    gradients, expected_gradients = (torch.autograd.grad(total, tables) for total in (gathered_sum, indexed_sum))
    for gradient, expected in zip(gradients, expected_gradients, strict=True):
        assert relative_error(gradient, expected) < 1e-6


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("batch", "length", "heads", "size"), [(40, 15, 6, 50), (9, 60, 6, 50), (7, 30, 16, 16), (5, 1, 1, 8)]
)
def test_short_attention(batch: int, length: int, heads: int, size: int, dtype: str) -> None:
    kind, tolerance = DTYPES[dtype]
    packed = torch.randn(batch, length, 3 * heads * size + 7, device="cuda").to(kind)  # with columns that are not read
    mask = torch.rand(batch, length, device="cuda") < 0.6
    mask[0] = False
    up = torch.randn(batch, length, heads * size, device="cuda").to(kind) * mask.unsqueeze(-1)
    results = []
    for values in (packed, packed.double()):
        leaf = values.clone().requires_grad_()
        read = self_attention(leaf, mask, heads, heads * size)
        read.backward(up.to(read.dtype))
        results.append((read * mask.unsqueeze(-1), leaf.grad))
    for result, expected in zip(*results, strict=True):
        assert relative_error(result, expected) < tolerance


def sequences(batch: int, length: int, rows: int) -> Tensor:
    """Positions of sequences of random length, padded at the end; the first is empty, the second has length 1."""
    lengths = torch.randint(0, length + 1, (batch, 1), device="cuda")
    lengths[0], lengths[1] = 0, 1
    positions = torch.randint(1, rows, (batch, length), device="cuda", dtype=torch.int32)
    return positions * (torch.arange(length, device="cuda") < lengths)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("length", "heads", "size"), [(30, 6, 50), (60, 6, 50), (7, 3, 5)])
def test_short_attention_over_rows_of_a_table(length: int, heads: int, size: int, dtype: str) -> None:
    kind, tolerance = DTYPES[dtype]
    table, positions = torch.randn(90, 3 * heads * size + 4, device="cuda").to(kind), sequences(25, length, 90)
    real = (positions != 0).unsqueeze(-1)
    up = torch.randn(*positions.shape, heads * size, device="cuda").to(kind) * real
    short, double = table.clone().requires_grad_(), table.double().requires_grad_()
    result = self_attention(TableRows(positions, short, None), positions != 0, heads, heads * size)
    result.backward(up)
    expected = plain_self_attention(gather_rows(double, positions)[..., : 3 * heads * size], positions != 0, heads)
    expected.backward(up.double())
    assert relative_error(result * real, expected * real) < tolerance
    assert relative_error(short.grad, double.grad) < tolerance


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
            sums = weighted_rows(columns, positions, weight)
        else:
            sums = torch.einsum("bs,bsd->bd", weight, gather_rows(columns, positions))
        sums.backward(up.to(sums.dtype))
        results.append((sums, table.grad, weight.grad * (positions != 0)))
    for result, expected in zip(*results, strict=True):
        assert relative_error(result, expected) < tolerance


@pytest.mark.parametrize("opposite", [True, False])
@pytest.mark.parametrize(
    ("own", "other", "size", "dtype"),
    [(30, 60, 300, "bf16"), (60, 30, 300, "bf16"), (3, 17, 40, "bf16"), (3, 17, 40, "fp32"), (30, 12, 70, "fp32")],
)  # in fp32 the largest sizes take minutes to compile
def test_denoising(own: int, other: int, size: int, dtype: str, opposite: bool) -> None:
    """Vectors, weights and gradients of the aggregator, against its plain version in float64."""
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
        in_table = [TableRows(at, leaf, None) for leaf, at in zip(leaves, (positions, positions, others), strict=True)]
        gathered = [TableRows(rows.positions, None, rows.gather()) for rows in in_table]
        stories, projected, opposite_rows = in_table if wide == kind else gathered
        result = aggregator(stories, projected, opposite_rows if opposite else None)
        (result.vector * up).sum().backward()
        gradients = [leaf.grad for leaf in leaves if leaf.grad is not None]
        weight_gradients = [aggregator.similar.out.weight.grad, *([aggregator.unopposed.grad] if opposite else [])]
        results.append((result.vector, result.weight, *gradients, *weight_gradients))
    assert len(results[0]) == (7 if opposite else 5)
    for number, (result, expected) in enumerate(zip(*results, strict=True)):
        # gradients through the softmax are differences of larger numbers, so they have fewer correct digits
        assert relative_error(result, expected) < (tolerance if number < 2 else 10 * tolerance), number


@pytest.mark.parametrize("name", CATALOGUE)
def test_scores_and_gradients_against_a_cpu_in_float64(name: str) -> None:
    model, news, batch = build(name), random_news(), random_batch()
    reference = build(name).double()
    reference.load_state_dict({key: value.double() for key, value in model.state_dict().items()})
    cpu = torch.device("cpu")
    expected = reference.score(reference.encode_news(news.to(cpu)), batch.to(cpu))
    model.cuda()
    scores = model.score(model.encode_news(news), batch)
    real = batch.candidate_mask.cpu()
    assert relative_error(scores.cpu()[real], expected[real]) < 1e-5
    (scores * batch.candidate_mask).square().mean().backward()
    (expected * real).square().mean().backward()
    gradient, expected_gradient = (
        torch.cat([weight.grad.flatten().cpu() for weight in network.parameters() if weight.grad is not None])
        for network in (model, reference)
    )
    assert relative_error(gradient, expected_gradient) < 1e-5
    for (key, weight), other in zip(model.named_parameters(), reference.parameters(), strict=True):
        if other.grad is not None:  # a gradient much smaller than the others has fewer correct digits in float32
            limit = 1e-4 * other.grad.norm() + 1e-8 * expected_gradient.norm()
            assert (weight.grad.cpu().double() - other.grad).norm() < limit, key
    with torch.no_grad():
        without_gradient = model.score(model.encode_news(news), batch)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            bf16 = model.score(model.encode_news(news), batch)
    assert relative_error(without_gradient.cpu()[real], expected[real]) < 1e-5
    assert relative_error(bf16.cpu()[real], expected[real]) < 0.05


@pytest.mark.parametrize("name", ["drpn", "drpn-g-ids", "nrms"])
def test_bf16_gradients_at_the_sizes_of_the_paper_against_float64(name: str) -> None:
    """30 clicked and 60 skipped stories, vectors of 300: every parameter, gamma and the contrary head included."""
    settings = replace(CATALOGUE[name].settings, **{"dropout": 0.0} | ({"id_dropout": 0.0} if "drpn" in name else {}))
    shape = DataShape(news=NEWS, words=WORDS, users=20, categories=2, subcategories=2)
    model = CATALOGUE[name].model(settings, shape).train()
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if parameter.ndim == 1 or "table" in key:
                parameter.add_(0.3 * torch.randn_like(parameter))
            elif "denoise" in key or "graph" in key:
                parameter.mul_(3)  # so that the denoising weights differ between stories, as after training
    reference = deepcopy(model).double()
    news, users, cpu = random_news(), 64, torch.device("cpu")
    rows = torch.randint(1, NEWS, (users, 30 + 60 + 5), device="cuda", dtype=torch.int32)
    candidates = rows[:, 90:]
    batch = with_parts(random_batch(users), clicked=rows[:, :30], skipped=rows[:, 30:90], candidates=candidates)
    click_loss(reference.score(reference.encode_news(news.to(cpu)), batch.to(cpu)), candidates.cpu() > 0).backward()
    model.cuda()
    with matrix_precision("bf16", torch.device("cuda")):
        scores = model.score(model.encode_news(news), batch)
    click_loss(scores, candidates > 0).backward()
    whole, expected = (
        torch.cat([weight.grad.flatten().cpu() for weight in network.parameters() if weight.grad is not None])
        for network in (model, reference)
    )
    assert relative_error(whole, expected) < 0.02
    gradients = {
        key: (weight.grad.cpu().double(), other.grad)
        for (key, weight), other in zip(model.named_parameters(), reference.parameters(), strict=True)
        if other.grad is not None
    }
    for part, count in {"gamma": 4, "contrary": 4 * 5}.items() if name.startswith("drpn") else ():
        assert sum(part in key for key in gradients) == count
    errors = {key: relative_error(*pair) for key, pair in gradients.items()}
    for key, (gradient, other) in gradients.items():  # below 1e-5 of the whole a gradient is rounding
        assert (gradient - other).norm() < 0.15 * other.norm() + 1e-5 * expected.norm(), (key, errors[key])


def test_evaluation_has_the_precision_that_was_asked_for() -> None:
    dataset = kept_shape(ShapeSettings().scaled(0.005))
    impressions = dataset.impressions("test")
    model = Drpn(DrpnSettings(size=48), data_shape(dataset))
    tables = {place: Tables.from_dataset(dataset, torch.device(place)) for place in ("cpu", "cuda")}
    expected = torch.from_numpy(score_impressions(model, tables["cpu"], impressions, Silent()))
    in_fp32, in_bf16 = (
        torch.from_numpy(score_impressions(model.cuda(), tables["cuda"], impressions, Silent(), precision=precision))
        for precision in ("fp32", "auto")
    )
    assert relative_error(in_fp32, expected) < 1e-5
    assert 1e-4 < relative_error(in_bf16, expected) < 0.05


@pytest.mark.parametrize("compiled", [False, True])
def test_captured_steps_meet_the_stories_of_plain_steps(compiled: bool) -> None:
    """A captured step marks the stories of its batches, not only those of the steps before the capture."""
    met = {}
    for kind in (Stepper, CapturedStepper):
        torch.manual_seed(3)
        shape = DataShape(news=NEWS, words=WORDS, users=64, categories=2, subcategories=2)
        settings = TrainingSettings(batch=4, precision="fp32", compile=compiled)
        model, batch = build("drpn", shape).cuda().train(), random_batch(users=64)
        forget_met(model)
        tables = random_tables(batch)
        users = torch.arange(32, device="cuda") // 16  # two users, so that most stories are in no batch
        candidates = torch.randint(1, 40, (32, 5), device="cuda")
        step = kind(model, tables, settings, optimiser=build_optimiser(model, settings))
        plan = Plan(users, candidates, torch.zeros_like(users), torch.zeros_like(candidates))
        step.prepare(plan)
        for part in step.batches(plan):
            step(part)
        met[kind] = model.id.met.clone()
    assert 20 < int(met[Stepper][1:].sum()) < NEWS - 1
    assert torch.equal(met[CapturedStepper][1:], met[Stepper][1:])


@pytest.mark.parametrize(("clicked", "skipped"), [(30, 60), (5, 9)])
def test_in_bf16_the_denoising_kernel_is_used(clicked: int, skipped: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also at the paper's lengths, where story vectors are in float32 but their projections are not."""
    model, news, calls = build("drpn").cuda(), random_news(), []

    def recording(own: TableRows, *rest: Any) -> Any:
        calls.append(own.positions.shape[1])
        return _kernel_similarities(own, *rest)

    monkeypatch.setattr("drpn.layers.denoising._kernel_similarities", recording)
    rows = torch.randint(1, NEWS, (4, clicked + skipped), device="cuda", dtype=torch.int32)
    batch = with_parts(random_batch(users=4), clicked=rows[:, :clicked], skipped=rows[:, clicked:])
    with torch.no_grad(), torch.autocast("cuda", dtype=torch.bfloat16):
        model.score(model.encode_news(news), batch)
    assert sorted(calls) == sorted(2 * [clicked, skipped])  # in both views


def test_a_fixed_capacity_does_not_change_the_scores() -> None:
    model, news, batch = build("drpn").cuda(), random_news(), random_batch()
    needed = int(count_distinct_stories(as_rows(batch), news=NEWS))
    scores = []
    with torch.no_grad():
        for capacity in (None, needed, needed + 40):
            rows, local = distinct_stories(as_rows(batch), news=NEWS, capacity=capacity)
            scores.append(model.score(model.encode_news(news.select(rows)), local))
    assert relative_error(scores[1], scores[0]) < 1e-6
    assert relative_error(scores[2], scores[0]) < 1e-6


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", ["drpn", "nrms"])
def test_captured_steps_give_the_losses_of_plain_steps(name: str, compiled: bool) -> None:
    settings = TrainingSettings(batch=16, precision="fp32", rate=1e-3, compile=compiled)
    expected = train_losses(Stepper, name, settings)
    losses = train_losses(CapturedStepper, name, settings)
    assert expected[-1] != expected[0]
    assert losses == pytest.approx(expected, rel=2e-3)


@pytest.mark.parametrize("optimiser", ["adam", "lazy-adam"])
def test_captured_steps_with_a_smaller_last_batch_and_each_optimiser(optimiser: str) -> None:
    settings = TrainingSettings(batch=24, precision="fp32", rate=1e-3, compile=False, optimiser=optimiser)
    expected = train_losses(Stepper, "nrms", settings)
    assert len(expected) == 2 * 6  # five batches of 24, one of 8
    assert train_losses(CapturedStepper, "nrms", settings) == pytest.approx(expected, rel=2e-3)


def test_data_in_host_memory_give_the_same_losses() -> None:
    settings = TrainingSettings(batch=24, precision="fp32", rate=1e-3, compile=False)
    expected = train_losses(CapturedStepper, "drpn", settings)
    assert train_losses(HostStepper, "drpn", settings, host=True) == pytest.approx(expected, rel=2e-3)
    assert train_losses(Stepper, "drpn", settings, host=True) == pytest.approx(expected, rel=2e-3)


class NoteRecorder(Silent):
    """Collects the notes of a job."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def note(self, text: str) -> None:
        self.lines.append(text)


def test_training_with_data_in_host_memory(tmp_path: Path) -> None:
    folder = kept_shape(ShapeSettings().scaled(0.01)).path
    aucs = {}
    for place in ("host", "device"):
        training = TrainingSettings(batch=256, epochs=1, compile=False, data=place)
        notes = NoteRecorder()
        small = DrpnSettings(size=48)
        run = train(folder, tmp_path / place, settings=small, training=training, progress=notes)
        assert any("host memory" in line for line in notes.lines) == (place == "host")
        aucs[place] = run.bundle().manifest["metrics"]["validation_auc"]
    assert aucs["host"] == pytest.approx(aucs["device"], abs=0.02)


@pytest.mark.parametrize("compiled", [False, True])
def test_captured_steps_drop_more_samples_at_each_step(compiled: bool) -> None:
    """The number of dropped samples rises from step to step, also while a captured step is replayed."""
    settings = TrainingSettings(
        batch=16, precision="fp32", rate=1e-3, compile=compiled, loss="tce", tce_rate=0.5, tce_steps=8
    )
    expected = train_losses(Stepper, "nrms", settings)
    losses = train_losses(CapturedStepper, "nrms", settings)
    assert losses == pytest.approx(expected, rel=2e-3)
    assert expected[-1] < train_losses(Stepper, "nrms", replace(settings, loss="softmax"))[-1]


@pytest.mark.parametrize("name", CATALOGUE)
def test_the_step_of_every_model_can_be_captured(name: str) -> None:
    settings = TrainingSettings(batch=16, precision="fp32", rate=1e-3, compile=False)
    expected = train_losses(Stepper, name, settings)
    assert train_losses(CapturedStepper, name, settings) == pytest.approx(expected, rel=5e-3)


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_model_trains_in_bf16(name: str) -> None:
    """With dropout and buffers that change; the step is captured and replayed."""
    torch.manual_seed(3)
    shape = DataShape(news=NEWS, words=WORDS, users=64, categories=2, subcategories=2)
    model, batch = build(name, shape).cuda().train(), random_batch(users=64)
    settings = TrainingSettings(batch=16, rate=1e-3, compile=False)
    tables = random_tables(batch)
    forget_met(model)
    step = CapturedStepper(model, tables, settings, optimiser=build_optimiser(model, settings))
    users = torch.arange(64, device="cuda").repeat(2)
    candidates = torch.randint(1, NEWS, (128, 5), device="cuda")
    plan = Plan(users, candidates, torch.zeros_like(users), torch.zeros_like(candidates))
    buffers = {key: value.clone() for key, value in model.named_buffers() if key.endswith("met")}
    step.prepare(plan)
    losses = [float(step(samples)) for samples in step.batches(plan)]
    assert len(losses) == 8
    assert all(torch.isfinite(torch.tensor(losses)))
    assert all(value.isfinite().all() for value in model.state_dict().values())
    assert all(not torch.equal(model.get_buffer(key), value) for key, value in buffers.items())
