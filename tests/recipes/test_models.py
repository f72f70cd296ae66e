"""The description of each model is correct."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from batch_cases import with_parts
from drpn.batches.batch import Batch
from drpn.models.base import ClickModel, DataShape
from drpn.models.catalogue import CATALOGUE
from drpn.recipes.models import describe
from small_newsroom import CATEGORIES, NEWSROOM, SUBCATEGORIES, WORDS, everybody, scores
from small_training import small


def any_weights(name: str) -> ClickModel:
    """A small model without zero weights."""
    shape = DataShape(len(NEWSROOM) + 1, WORDS, 3, CATEGORIES, SUBCATEGORIES)
    model = CATALOGUE[name].model(small(name), shape).double().eval()
    random = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.5, generator=random)
    return model


def others(batch: Batch, what: str) -> Batch:
    """The same readers with other clicks, other skips, or another user id."""
    profiles = batch.profiles
    changed: dict[str, Tensor] = {
        "clicked": profiles.clicked.roll(1, dims=0),
        "skipped": profiles.skipped.roll(1, dims=0),
        "user id": torch.full_like(profiles.users, 2),
    }
    other = with_parts(batch, **{{"user id": "users"}.get(what, what): changed[what]})
    return replace(other, context=batch.context)  # the counts stay those of the same reader


@torch.no_grad()
@pytest.mark.parametrize("what", ["clicked", "skipped", "user id"])
@pytest.mark.parametrize("name", CATALOGUE)
def test_a_model_reads_only_what_its_description_lists(name: str, what: str) -> None:
    model, batch = any_weights(name), everybody()
    moved = (scores(model, others(batch, what)) - scores(model, batch)).abs().max()
    assert (moved > 1e-6) == (what in describe(name).reads)


def test_settings_of_preparation_that_models_need() -> None:
    actual = {name: one.prepare for name in CATALOGUE if (one := describe(name)).prepare}
    live = [name for name, entry in CATALOGUE.items() if entry.settings.context]
    assert actual == {
        "gerl": ["data.user_neighbours=15", "data.neighbours=15"],
        **{name: ["data.protocol=live"] for name in live},
    }
    more = {name: one.more for name in CATALOGUE if (one := describe(name)).more}
    assert more == {
        "dkn": {"model.channels=auto": "data.entities=5"},
        "naml": {"model.abstract=true": "data.abstracts=40"},
        "naml-tce": {"model.abstract=true": "data.abstracts=40"},
    }


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("drpn", "size=300, heads=6, hidden=200, graph_heads=2"),
        ("drpn-dg", "drpn with model.denoise=false, model.graph=false"),
        ("nrms", "size=300, heads=16, head_size=16, hidden=200"),
        ("nrms-tce", "nrms with training.loss=tce"),
        ("drpn-live", "size=60, heads=6, hidden=200, graph_heads=2"),
        ("drpn-live-ids", "drpn-live with model.graph=true"),
    ],
)
def test_sizes_and_differences_of_variants(name: str, sizes: str) -> None:
    assert describe(name).sizes == sizes


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_model_has_a_size_and_a_paper(name: str) -> None:
    one: Any = describe(name)
    assert one.settings["size"] >= 1
    assert one.paper[-4:].isdigit() or one.paper.endswith("Table 3")
