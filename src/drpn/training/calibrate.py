"""Fit the probabilities of a model's denoising weights to planted feedback."""

from collections import defaultdict
from itertools import islice

import torch
from torch import Tensor

from drpn.batches.planted import profile_plan
from drpn.layers.calibration import Calibration
from drpn.layers.precision import matrix_precision
from drpn.training.batch_loss import BatchLoss, Samples

_PROFILES = 2048
"""About how many profiles are planted to fit two numbers for each view and sequence."""


def calibrate(losses: BatchLoss) -> None:
    """Fit the calibrations of a model to its trust in planted and other stories, with its present weights.

    The same weights and settings give the same result. The random numbers of the training are not touched.
    """
    calibrations, settings = losses.model.calibrations(), losses.settings
    if not (calibrations and settings.plants):
        return
    device = losses.device
    examples: dict[Calibration, list[tuple[Tensor, Tensor, Tensor]]] = defaultdict(list)
    profiles = profile_plan(losses.tables, settings.seed, 0).batches(settings.batch)
    with torch.no_grad(), torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(settings.seed)
        losses.model.eval()
        for part in islice(profiles, -(-_PROFILES // settings.batch)):
            news, batch = losses.look_up(Samples(*part))
            news, batch = news.to(device), batch.to(device)
            planted = losses.plant(news, batch)
            assert planted is not None
            with matrix_precision(settings.precision, device):
                trust = losses.model.trust(losses.model.encode_news(news), planted.profiles)
            for view, by_sequence in calibrations.items():
                for sequence, calibration in by_sequence.items():
                    noise, real = planted.pairs[sequence]
                    known, weight = noise | real, planted.weight.unsqueeze(1).expand(noise.shape)
                    examples[calibration].append((trust[view][sequence][known], real[known], weight[known]))
    for calibration, parts in examples.items():
        trusted, is_real, weights = (torch.cat(column) for column in zip(*parts, strict=True))
        calibration.fit(trusted, is_real, weights)
