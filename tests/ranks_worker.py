"""Prints the losses of the first steps of a training: `torchrun ... ranks_worker.py DATASET MODEL STEPS SETTING ..`."""

import json
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
from drpn.training.optimiser import build_optimiser
from drpn.training.shared import SharedModel, SharedStepper
from drpn.training.steps import Stepper, choose_stepper


def main(folder: str, model: str, steps: str, *sets: str) -> None:
    torch.set_num_threads(1)
    ranks, settings = current(), load_settings(None, sets, model=model)
    training, cpu = settings.training, torch.device("cpu")
    dataset = Dataset.open(Path(folder))
    torch.manual_seed(training.seed)
    network = entry(model).model(settings.model, data_shape(dataset)).train()
    forget_met(network)
    tables = Tables.from_dataset(network.limit(dataset), cpu, needs=network.requirements)
    clicks = Clicks.from_impressions(dataset.impressions("train"), cpu)
    plan = Sampler(clicks, tables, training.batch, training.negatives, training.seed).plan(0)
    optimiser = build_optimiser(network, training)
    step: Stepper = choose_stepper(network, tables, optimiser, training)
    if ranks.together:
        step = SharedStepper(network, tables, training, optimiser=optimiser, shared=SharedModel(network, ranks))
    losses = []
    for number, samples in zip(range(int(steps)), step.batches(plan), strict=False):
        losses.append(float(ranks.add(step(samples).double())))
        assert number == len(losses) - 1
    if isinstance(step, SharedStepper) and step.shared is not None:
        step.shared.share_met()
    sums = {name: float(value.double().abs().sum()) for name, value in network.state_dict().items()}
    if ranks.first:
        print(json.dumps({"losses": losses, "sums": sums}))
    ranks.leave()


if __name__ == "__main__":
    main(*sys.argv[1:])
