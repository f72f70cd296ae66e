"""Small models of the whole catalogue with fixed weights, stories, and users of every kind."""

import zlib
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from batch_cases import leave_out_of_training, make_batch
from drpn.batches.batch import Batch, NewsRows
from drpn.layers.calibration import Calibration
from drpn.layers.labels import LabelEvidence
from drpn.models.base import ClickModel, DataShape
from drpn.models.catalogue import CATALOGUE
from drpn.models.drpn import ABLATIONS
from drpn.models.drpn_live import LIVE_ABLATIONS
from drpn.models.drpn_planted import DrpnPlanted

CONTEXTS = np.random.default_rng(9).normal(size=(9, 4)).astype(np.float32)
SHAPE = DataShape(
    news=24, words=30, users=8, categories=4, subcategories=6, entities=len(CONTEXTS), context_vectors=CONTEXTS
)

SMALL: dict[str, Any] = {
    "size": 12,
    "hidden": 8,
    "heads": 2,
    "head_size": 5,
    "graph_heads": 2,
    "filters": 6,
    "attention": 6,
    "category_size": 5,
    "user_size": 5,
}
"""Settings of small networks, for every model that has them."""

DRPNS = ["drpn", *ABLATIONS]
LIVE = ["drpn-live", *LIVE_ABLATIONS]
"""DRPN with a context view; `test_context.py` tests the view."""


def has_no_effect(model: ClickModel, parameter: str) -> bool:
    """Whether the click loss has no gradient for a parameter."""
    # a bias of all logits of a softmax; probabilities change with it
    return not isinstance(model, DrpnPlanted) and parameter.endswith(("similar.out.bias", "contrary.out.bias"))


PLANTED_PARTS: dict[str, dict[str, Any]] = {
    "drpn-planted, softmax": {"weights": "softmax"},
    "drpn-planted, no labels": {"compare_labels": False},
    "drpn-planted, clicks alone": {"skipped": False},
    "drpn-planted, no graph": {"graph": False},
}
"""Settings of drpn-planted without one of its parts."""

every_model = pytest.mark.parametrize("name", CATALOGUE)


def small_settings(name: str, **settings: Any) -> Any:
    defaults = CATALOGUE[name].settings
    known = {field.name for field in fields(defaults)}
    return replace(defaults, **{key: value for key, value in {**SMALL, **settings}.items() if key in known})


def build(name: str, **settings: Any) -> ClickModel:
    return CATALOGUE[name].model(small_settings(name, **settings), SHAPE).double()


def draw_calibrations(model: nn.Module) -> None:
    """Give calibrations and factors of similarities numbers that their names decide, so that no two are equal."""
    for name, module in model.named_modules():
        if isinstance(module, LabelEvidence):
            module.similarity.fill_(np.random.default_rng(zlib.crc32(name.encode())).uniform(0.5, 1.5))
        if isinstance(module, Calibration):
            random = np.random.default_rng(zlib.crc32(name.encode()))
            module.slope.fill_(random.uniform(0.5, 1.5))
            module.offset.fill_(random.normal(scale=2.0))


def trained(name: str, **settings: Any) -> ClickModel:
    """A model without zero weights except for padding; weights of the same name are equal in all models."""
    model = build(name, **settings).eval()
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            values = np.random.default_rng(zlib.crc32(key.encode())).normal(scale=0.4, size=parameter.shape)
            parameter.copy_(torch.from_numpy(np.asarray(values)))
            if key.endswith("gamma"):
                parameter.abs_()
        for module in model.modules():
            if isinstance(module, nn.Embedding) and module.padding_idx is not None:
                module.weight[module.padding_idx] = 0
    draw_calibrations(model)
    leave_out_of_training(model, range(SHAPE.news - 5, SHAPE.news))
    return model


def newsroom() -> NewsRows:
    """All stories of the dataset; 2 and 3 have no words, 3 and 4 no neighbours, training did not meet the last five.

    No word of 2, 3 and 4 names an entity; 3 and 4 have no abstract.
    """
    random = torch.Generator().manual_seed(5)
    words = torch.randint(1, SHAPE.words, (SHAPE.news, 6), generator=random)
    neighbours = torch.randint(1, SHAPE.news, (SHAPE.news, 5), generator=random)
    words[torch.rand(words.shape, generator=random) < 0.3] = 0
    neighbours[torch.rand(neighbours.shape, generator=random) < 0.3] = 0
    words[[0, 2, 3]] = 0
    neighbours[[0, 3, 4]] = 0
    category = torch.randint(1, SHAPE.categories, (SHAPE.news,), generator=random)
    subcategory = torch.randint(1, SHAPE.subcategories, (SHAPE.news,), generator=random)
    category[0] = subcategory[0] = 0
    rows = torch.arange(SHAPE.news)
    entities = torch.randint(0, SHAPE.entities, words.shape, generator=random)
    abstract = torch.randint(0, SHAPE.words, (SHAPE.news, 7), generator=random)
    entities[[0, 4]] = abstract[[0, 3, 4]] = 0
    entities[words == 0] = 0
    return NewsRows(rows, words, neighbours, category, subcategory, entities, abstract, neighbour_positions=neighbours)


def impressions() -> Batch:
    """Users with many stories, one, none of one kind, and none at all; positions are rows of the newsroom.

    The last user is unknown.
    """
    clicked = [[1, 2, 3, 4, 20], [5], [], [6, 7, 8], [], [9, 22, 5], [10]]
    skipped = [[9, 10, 11, 21], [12, 3, 4], [13, 14, 2], [], [], [15], [16]]
    candidates = [[17, 1, 23], [2, 3, 18, 4], [19, 7], [1, 13], [21, 5, 6], [7, 8, 17, 22], [3, 9]]
    neighbours = [[2, 3, 5], [1], [], [6, 7], [], [4, 1], [3, 2]]
    users = torch.tensor([1, 2, 3, 4, 5, 6, 0])
    return make_batch(users, *map(padded, (clicked, skipped, candidates, neighbours)))


def padded(lists: list[list[int]]) -> Tensor:
    width = max(map(len, lists))
    return torch.tensor([row + [0] * (width - len(row)) for row in lists])


def scores(model: ClickModel, batch: Batch, news: NewsRows | None = None) -> Tensor:
    return model.score(model.encode_news(newsroom() if news is None else news), batch)


def real_scores(model: ClickModel, batch: Batch) -> Tensor:
    """The scores of real candidates, user by user."""
    return scores(model, batch)[batch.candidate_mask]


def same(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-10)
