"""News encoded some at a time give what they give all at once, whatever their lengths."""

import pytest
import torch
from drpn.models.encoded import LazyProjection, at_positions, encode_all, map_tensors

from drpn.batches.batch import NewsRows
from drpn.layers.attention import Weight
from drpn.models.base import DataShape
from drpn.models.catalogue import CATALOGUE
from small_training import small

NEWS, WORDS, WIDTH = 40, 30, 9


def some_news() -> NewsRows:
    """Titles of 0 to 9 words, not in the order of their lengths; the first is padding."""
    random = torch.Generator().manual_seed(4)
    rows = torch.arange(NEWS)
    lengths = torch.randint(0, WIDTH + 1, (NEWS, 1), generator=random)
    lengths[0], lengths[7] = 0, WIDTH
    words = torch.randint(1, WORDS, (NEWS, WIDTH), generator=random) * (torch.arange(WIDTH) < lengths)
    around = torch.randint(0, NEWS, (NEWS, 3), generator=random)
    labels = torch.randint(0, 4, (NEWS,), generator=random)
    return NewsRows(rows, words, around, labels, labels, rows % 3 != 0, places=around)


@pytest.mark.parametrize("step", [1, 7, NEWS, 100])
@pytest.mark.parametrize("name", CATALOGUE)
def test_in_steps_or_at_once(name: str, step: int) -> None:
    torch.manual_seed(0)
    shape = DataShape(news=NEWS, words=WORDS, users=5, categories=4, subcategories=4)
    model = CATALOGUE[name].model(small(name), shape).double().eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    with torch.no_grad():
        expected, found = model.encode_news(some_news()), encode_all(model, some_news(), step=step)
    map_tensors(lambda one, other: torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9), found, expected)


def test_what_is_made_later_is_what_would_have_been_made_at_once() -> None:
    random = torch.Generator().manual_seed(3)
    items = torch.randn(9, 4, generator=random, dtype=torch.float64, requires_grad=True)
    matrix = torch.randn(5, 4, generator=random, dtype=torch.float64, requires_grad=True)
    positions = torch.tensor([[7, 0, 7], [2, 8, 0]])
    found = []
    for table in (LazyProjection(items, [Weight(matrix)]), items @ matrix.T):
        (rows,) = at_positions((table,), positions)
        real = rows[positions != 0]
        found.append((real, *torch.autograd.grad(real.square().sum(), (items, matrix))))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)
