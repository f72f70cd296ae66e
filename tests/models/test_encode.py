"""Encoding stories in steps gives the same tables as encoding them at once."""

import pytest
import torch

from drpn.batches.batch import NewsRows
from drpn.layers.tables import map_tables
from drpn.models.base import DataShape
from drpn.models.catalogue import CATALOGUE
from drpn.models.encode import empty_like, encode_all
from small_training import small

NEWS, WORDS, WIDTH = 40, 30, 9


def random_stories() -> NewsRows:
    """Titles of 0 to 9 words, not in the order of their lengths; the first is padding."""
    random = torch.Generator().manual_seed(4)
    rows = torch.arange(NEWS)
    lengths = torch.randint(0, WIDTH + 1, (NEWS, 1), generator=random)
    lengths[0], lengths[7] = 0, WIDTH
    words = torch.randint(1, WORDS, (NEWS, WIDTH), generator=random) * (torch.arange(WIDTH) < lengths)
    neighbours = torch.randint(0, NEWS, (NEWS, 3), generator=random)
    labels = torch.randint(0, 4, (NEWS,), generator=random)
    return NewsRows(rows, words, neighbours, labels, labels, neighbour_positions=neighbours)


@pytest.mark.parametrize("step", [1, 7, NEWS, 100])
@pytest.mark.parametrize("name", CATALOGUE)
def test_encoding_in_steps_or_at_once(name: str, step: int) -> None:
    torch.manual_seed(0)
    shape = DataShape(news=NEWS, words=WORDS, users=5, categories=4, subcategories=4)
    model = CATALOGUE[name].model(small(name), shape).double().eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    with torch.no_grad():
        at_once, in_steps = model.encode_news(random_stories()), encode_all(model, random_stories(), step=step)
    map_tables(
        lambda actual, expected: torch.testing.assert_close(actual, expected, rtol=1e-9, atol=1e-9), in_steps, at_once
    )


def test_a_table_that_occurs_twice_is_stored_once() -> None:
    shared, other = torch.ones(2, 3), torch.ones(2, dtype=torch.float64)
    empty = empty_like({"first": shared, "second": (shared, other, None)}, 5)
    assert empty["first"] is empty["second"][0]
    assert empty["first"].shape == (5, 3)
    assert (empty["second"][1].shape, empty["second"][1].dtype) == ((5,), torch.float64)
    assert empty["second"][2] is None
