"""Do early, and at the same time, what a training on a GPU needs before its first step: imports and kernels."""

import gc
import importlib
import threading
from collections.abc import Callable

import torch

from drpn.batches.batch import count_distinct_stories
from drpn.batches.samples import Sampler
from drpn.training.batch_loss import BatchLoss, Samples

_SLOW_IMPORTS = ("drpn.layers.kernels.denoising", "torch._dynamo")
"""Triton, by a module that needs it, and what PyTorch's optimisers import: seconds, if the disk is slow."""


def import_ahead(device: torch.device) -> None:
    """Start to import what a training on a GPU will need, while its data are read."""
    if device.type == "cpu":
        return

    def import_all() -> None:
        for module in _SLOW_IMPORTS:
            importlib.import_module(module)

    threading.Thread(target=import_all, name="imports", daemon=True).start()


def compile_kernels(losses: BatchLoss, sampler: Sampler, validate: Callable[[], object]) -> None:
    """Start to compile, at the same time, all kernels that training and validation will launch; for GPUs alone.

    One batch and one validation are computed without running their kernels, so that every kernel is seen. Weights and
    random numbers stay as they are.
    """
    if losses.device.type == "cpu":
        return
    from drpn.layers.kernels.launch import compile_only  # Triton comes with torch for GPUs alone

    samples = Samples(*next(sampler.plan(0).batches(sampler.batch_size)))
    with torch.random.fork_rng(devices=[losses.device]), compile_only():
        losses.model.train()
        all_news = losses.tables.news
        rows = losses.tables.batch(*samples[:4], trim=False)
        stories = count_distinct_stories(rows, news=len(all_news), reach=all_news.neighbour_positions)
        news, batch = losses.look_up(samples, int(stories))
        news, batch = news.to(losses.device), batch.to(losses.device)
        losses.loss(news, batch, losses.plant(news, batch)).backward()  # type: ignore[no-untyped-call]
        losses.model.zero_grad(set_to_none=True)
        validate()
    gc.collect()  # what autograd kept of the batch
