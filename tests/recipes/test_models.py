"""The descriptions of the models match the models."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from drpn.batches.batch import Batch
from drpn.models.base import ClickModel, DataShape
from drpn.models.catalogue import CATALOGUE
from drpn.recipes.models import describe
from small_newsroom import CATEGORIES, NEWSROOM, SUBCATEGORIES, WORDS, everybody, scores
from small_training import small


def random_model(name: str) -> ClickModel:
    """A small model with random weights."""
    shape = DataShape(len(NEWSROOM) + 1, WORDS, 3, CATEGORIES, SUBCATEGORIES)
    model = CATALOGUE[name].model(small(name), shape).double().eval()
    random = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.5, generator=random)
    return model


def with_changed_input(batch: Batch, what: str) -> Batch:
    """The batch with other clicked stories, other skipped stories, or other user ids."""
    changed: dict[str, Tensor] = {
        "clicked": batch.clicked.roll(1, dims=0),
        "skipped": batch.skipped.roll(1, dims=0),
        "user id": torch.full_like(batch.users, 2),
    }
    return replace(batch, **{{"user id": "users"}.get(what, what): changed[what]})


@torch.no_grad()
@pytest.mark.parametrize("what", ["clicked", "skipped", "user id"])
@pytest.mark.parametrize("name", CATALOGUE)
def test_scores_depend_on_the_described_inputs_and_no_others(name: str, what: str) -> None:
    model, batch = random_model(name), everybody()
    change = (scores(model, with_changed_input(batch, what)) - scores(model, batch)).abs().max()
    assert (change > 1e-6) == (what in describe(name).reads)


def test_settings_to_prepare_the_folder_with() -> None:
    descriptions = {name: describe(name) for name in CATALOGUE}
    required = {name: description.prepare for name, description in descriptions.items() if description.prepare}
    assert required == {"gerl": ["data.user_neighbours=10"]}
    optional = {name: description.more for name, description in descriptions.items() if description.more}
    assert optional == {
        "dkn": {"model.entities=true": "data.entities=5"},
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
    ],
)
def test_sizes_of_models_and_differences_of_variants(name: str, sizes: str) -> None:
    assert describe(name).sizes == sizes


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_model_has_a_size_and_a_paper(name: str) -> None:
    description = describe(name)
    assert description.settings["size"] >= 1
    assert description.paper[-4:].isdigit() or description.paper.endswith("Table 3")
