"""Gradients that several processes average, and the steps that they take with them; threads play the processes."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from drpn.ranks import Ranks
from drpn.training.batch_loss import Samples
from drpn.training.exchange import FlatGradients, average_rows
from drpn.training.loop import Loop
from drpn.training.loss import truncated_loss
from drpn.training.optimiser import build_optimiser
from drpn.training.shared import SharedModel, SharedStepper
from drpn.training.shared_captured import SharedCapturedStepper, choose_shared_stepper
from drpn.training.steps import Stepper
from small_training import toy
from thread_ranks import together


def random_tensors(seed: int, *shapes: tuple[int, ...]) -> list[Tensor]:
    random = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=random) for shape in shapes]


def test_flat_gradients_of_two_dtypes_are_averaged_in_their_tensors() -> None:
    shapes = ((3, 4), (), (5,), (2, 3))

    def gradients(rank: int) -> list[Tensor]:
        first, second, third, fourth = random_tensors(rank, *shapes)
        return [first, second.double(), third, fourth.T]  # the last one is not contiguous

    def work(ranks: Ranks) -> list[Tensor]:
        own = gradients(ranks.rank)
        places = [one.data_ptr() for one in own]
        flat = FlatGradients(own)
        flat.pack()
        flat.average(ranks)
        flat.unpack()
        assert [one.data_ptr() for one in own] == places
        return own

    expected = [torch.stack(parts).mean(0) for parts in zip(*map(gradients, range(3)), strict=True)]
    for own in together(3, work):
        assert [one.dtype for one in own] == [one.dtype for one in expected]
        for mean, wanted in zip(own, expected, strict=True):
            torch.testing.assert_close(mean, wanted)


def test_flat_gradients_can_be_used_again() -> None:
    """As a captured step does: new values come into the same tensors."""

    def work(ranks: Ranks) -> list[float]:
        gradient = torch.zeros(2)
        flat, means = FlatGradients([gradient]), []
        for step in (1, 10):
            gradient.fill_(step * (ranks.rank + 1))
            flat.pack()
            flat.average(ranks)
            flat.unpack()
            means.append(float(gradient[0]))
        return means

    assert together(3, work) == [[2.0, 20.0]] * 3


@pytest.mark.parametrize("sparse", [False, True])
def test_rows_of_tables_are_averaged(sparse: bool) -> None:
    """Rows that one process used, that several used, and that none used; one process used no row at all."""
    used = [[1, 4], [4, 5, 6], []]

    def gradients(rank: int) -> list[Tensor]:
        tables = random_tensors(rank, (8, 3), (8, 1))
        for table in tables:
            table[[row for row in range(8) if row not in used[rank]]] = 0
        return tables

    def work(ranks: Ranks) -> list[Tensor]:
        own = gradients(ranks.rank)
        given = [one.to_sparse(1) for one in own] if sparse else own
        means = average_rows(given, ranks)
        assert sparse or [mean.data_ptr() for mean in means] == [one.data_ptr() for one in own]
        assert all(mean.is_sparse == sparse for mean in means)
        return [mean.to_dense() for mean in means]

    expected = [torch.stack(parts).mean(0) for parts in zip(*map(gradients, range(3)), strict=True)]
    results = together(3, work)
    for means in results:
        for mean, wanted, first in zip(means, expected, results[0], strict=True):
            torch.testing.assert_close(mean, wanted)
            assert torch.equal(mean, first)  # to the last bit, or weights drift apart


class Parts(nn.Module):
    """A weight and a table that all processes use, some that only the second one uses, and some that none uses."""

    def __init__(self) -> None:
        super().__init__()
        self.all, self.one, self.none = (nn.Linear(2, 2, bias=False) for _ in range(3))
        self.all_rows, self.one_row, self.no_row = (nn.Embedding(5, 2) for _ in range(3))


def test_weights_that_no_process_used_have_no_gradient() -> None:
    """So that the optimiser leaves them alone, as it does in one process."""

    def work(ranks: Ranks) -> dict[str, Tensor | None]:
        model = Parts()
        shared = SharedModel(model, ranks)
        row = torch.tensor([ranks.rank])
        loss = model.all(torch.ones(2)).sum() + model.all_rows(row).sum()
        if ranks.rank == 1:
            loss = loss + model.one(torch.ones(2)).sum() + model.one_row(row).sum()
        loss.backward()
        shared.average_gradients()
        return {name: weight.grad for name, weight in model.named_parameters()}

    ones = torch.ones(2, 2)
    rows, row = torch.zeros(5, 2), torch.zeros(5, 2)
    rows[:2], row[1] = 0.5, 0.5
    for gradients in together(2, work):
        assert gradients["none.weight"] is None
        assert gradients["no_row.weight"] is None
        for name, expected in {"all": ones, "one": ones / 2, "all_rows": rows, "one_row": row}.items():
            assert torch.equal(gradients[f"{name}.weight"], expected), name


def test_processes_start_with_the_weights_of_the_first() -> None:
    models = [nn.Linear(2, 2) for _ in range(2)]
    expected = models[0].weight.detach().clone()
    assert not torch.equal(models[1].weight, expected)
    together(2, lambda ranks: SharedModel(models[ranks.rank], ranks))
    assert all(torch.equal(model.weight, expected) for model in models)


@pytest.mark.parametrize("dropped", [0, 1, 13, 39])
@pytest.mark.parametrize("size", [1, 3, 50])
def test_parts_drop_the_samples_that_one_process_drops(size: int, dropped: int) -> None:
    """Some losses are equal, in one part and in different parts. Of 50 processes some have no sample."""
    scores = random_tensors(1, (40, 5))[0]
    scores[[3, 20, 21, 39]] = scores[2].clone()
    mask = torch.ones(40, 5, dtype=torch.bool)
    whole = scores.clone().requires_grad_()
    expected = truncated_loss(whole, mask, torch.tensor(dropped))
    expected.backward()
    loop = toy("nrms", loss="tce")(Path())
    samples = Samples(*(torch.zeros(40, dtype=torch.int32) for _ in range(4)))

    def work(ranks: Ranks) -> tuple[float, Tensor]:
        stepper = SharedStepper(
            loop.model, loop.tables, loop.settings, optimiser=torch.optim.SGD(loop.model.parameters()),
            shared=SharedModel(loop.model, ranks),
        )  # fmt: skip
        stepper._size = 40
        stepper._dropped.fill_(dropped)
        own = torch.arange(40)[ranks.part(40)] if stepper.share(samples) else torch.arange(1)
        part = scores.clone().requires_grad_()
        loss = stepper.share(samples) * stepper._truncated_loss(part[own], mask[own])
        loss.backward()
        assert part.grad is not None
        return float(loss.detach()), part.grad

    losses, gradients = zip(*together(size, work), strict=True)
    assert sum(losses) == pytest.approx(float(expected.detach()), rel=1e-5)
    assert whole.grad is not None
    torch.testing.assert_close(torch.stack(gradients).sum(0), whole.grad)


class WarmStepper(SharedCapturedStepper):
    """Takes every step as a captured one would, without capturing it."""

    def _run_in_side_stream(self) -> Tensor:
        self._warm = 0
        return self._run()


def new_loop(model: str, **training: Any) -> Loop:
    """A training with the same samples and initial weights on every call."""
    return toy(model, **({"batch": 15, "rate": 1e-2, "compile": False} | training))(Path())


def epoch_losses(kind: type[Stepper], loop: Loop, ranks: Ranks | None = None) -> list[float]:
    """The losses of two epochs."""
    shared = {} if ranks is None else {"shared": SharedModel(loop.model, ranks)}
    step = kind(
        loop.model, loop.tables, loop.settings, optimiser=build_optimiser(loop.model, loop.settings), total=10, **shared
    )
    losses = []
    for plan in map(loop.sampler.plan, range(2)):
        step.prepare(plan)
        losses += [float(step(samples)) for samples in step.batches(plan)]
    return losses


TCE = {"loss": "tce", "tce_rate": 0.5, "tce_steps": 5}


@pytest.mark.parametrize(
    ("kind", "model", "training"),
    [
        (SharedStepper, "nrms", {}),
        (SharedStepper, "nrms", TCE),
        (SharedStepper, "nrms", {"optimiser": "lazy-adam"}),
        (SharedStepper, "deepfm", {"loss": "log", "decay": 0.1}),
        (WarmStepper, "nrms", {"clip": 0.1}),
        (WarmStepper, "deepfm", {"loss": "log", "decay": 0.1}),
        (WarmStepper, "drpn", {"schedule": "one-cycle"}),
    ],
)
def test_steps_together_have_the_losses_of_one_process(
    kind: type[SharedStepper], model: str, training: dict[str, Any]
) -> None:
    """Three processes; an epoch has four batches of 15 samples and one of 4."""
    expected = epoch_losses(Stepper, new_loop(model, **training))
    loops = [new_loop(model, **training) for _ in range(3)]
    parts = together(3, lambda ranks: epoch_losses(kind, loops[ranks.rank], ranks))
    assert [sum(losses) for losses in zip(*parts, strict=True)] == pytest.approx(expected, abs=1e-5)
    assert expected[0] != pytest.approx(expected[-1], abs=1e-3)


def test_dropped_samples_change_the_losses() -> None:
    """Otherwise the test above would not see them."""
    whole = epoch_losses(Stepper, new_loop("nrms"))
    assert epoch_losses(Stepper, new_loop("nrms", **TCE)) != pytest.approx(whole, abs=1e-2)


@pytest.mark.parametrize("loss", ["softmax", "tce"])
def test_steps_on_a_cpu_are_not_captured(loss: str) -> None:
    loop = toy("nrms", loss=loss)(Path())
    (step,) = together(
        1,
        lambda ranks: choose_shared_stepper(
            SharedModel(loop.model, ranks), loop.tables, build_optimiser(loop.model, loop.settings), loop.settings
        ),
    )
    assert type(step) is SharedStepper
