"""Prints the losses of the first steps of a training: `torchrun ... ranks_worker.py DATASET MODEL STEPS SETTING ..`.

It also prints how many steps had the usual number of samples, and how often a CUDA graph was replayed. Two variables
of the environment change how processes train together:
WARM_STEPS=1 takes all steps as those before a capture, also on a CPU; ONE_GPU=1 puts all processes on the first GPU,
where tensors travel by gloo.
"""

import json
import os
import sys
from pathlib import Path

import torch

from drpn.batches.samples import Clicks, Sampler
from drpn.batches.tables import Tables
from drpn.bundle.files import data_shape
from drpn.dataset.folder import Dataset
from drpn.layers.news import forget_met
from drpn.ranks import current
from drpn.recipes.settings import entry, load_settings
from drpn.training.devices import choose_device
from drpn.training.optimiser import build_optimiser
from drpn.training.shared import SharedModel, SharedStepper
from drpn.training.shared_captured import SharedCapturedStepper, choose_shared_stepper
from drpn.training.steps import Stepper, choose_stepper


class WarmStepper(SharedCapturedStepper):
    """Takes every step as a captured one would, without capturing it."""

    def _run_in_side_stream(self) -> torch.Tensor:
        self._warm = 0
        return self._run()


def count_replays() -> list[int]:
    """A list that gets an entry whenever a CUDA graph is replayed."""
    replays: list[int] = []
    replay = torch.cuda.CUDAGraph.replay

    def counted(graph: torch.cuda.CUDAGraph) -> None:
        replays.append(1)
        replay(graph)

    torch.cuda.CUDAGraph.replay = counted  # type: ignore[method-assign]
    return replays


def main(folder: str, model: str, steps: str, *sets: str) -> None:
    torch.set_num_threads(1)
    ranks, settings = current(), load_settings(None, sets, model=model)
    training, replays = settings.training, count_replays()
    if os.environ.get("ONE_GPU") and ranks.together:
        torch.distributed.init_process_group("cpu:gloo,cuda:gloo")
    ranks.join()
    device = choose_device(training)
    dataset = Dataset.open(Path(folder))
    torch.manual_seed(training.seed)
    network = entry(model).model(settings.model, data_shape(dataset)).to(device).train()
    forget_met(network)
    tables = Tables.from_dataset(network.limit(dataset), device, needs=network.requirements)
    clicks = Clicks.from_impressions(dataset.impressions("train"), device)
    plan = Sampler(clicks, tables, training.batch, training.negatives, training.seed).plan(0)
    optimiser = build_optimiser(network, training)
    step: Stepper = choose_stepper(network, tables, optimiser, training)
    if ranks.together:
        shared = SharedModel(network, ranks)
        step = choose_shared_stepper(shared, tables, optimiser, training)
        if os.environ.get("WARM_STEPS"):
            step = WarmStepper(network, tables, training, optimiser=optimiser, shared=shared)
    step.prepare(plan)
    losses, usual = [], 0
    for number, samples in zip(range(int(steps)), step.batches(plan), strict=False):
        losses.append(float(ranks.add(step(samples).double())))
        assert number == len(losses) - 1
        usual += samples.size == training.batch
    if isinstance(step, SharedStepper):
        step.shared.share_met()
    sums = {name: float(value.double().abs().sum()) for name, value in network.state_dict().items()}
    if ranks.first:
        facts = {"usual": usual, "replays": len(replays), "stepper": type(step).__name__}
        print(json.dumps({"losses": losses, "sums": sums, **facts}))
    ranks.leave()


if __name__ == "__main__":
    main(*sys.argv[1:])
