"""Starting weights with which similarity heads compare stories."""

import pytest
import torch
from torch import nn

from drpn.layers.similar_start import start_as_similarity


@pytest.mark.parametrize(("size", "length"), [(32, 0.5), (33, 0.5), (32, 0.01)])
def test_a_head_that_starts_as_similarity_grows_with_the_inner_product(size: int, length: float) -> None:
    """Also for small vectors; a head with other random weights does not."""
    torch.manual_seed(0)
    a, b = (length * torch.randn(2_000, size) for _ in range(2))
    b += torch.randn(2_000, 1) * a  # from opposite to equal
    products = torch.stack([(a * b).sum(1), (a * a).sum(1) + (b * b).sum(1)])

    def agreement() -> float:
        """The correlation with a.b of what |a|^2 + |b|^2 does not explain."""
        values = layers[2](torch.tanh(layers[0](a) + layers[1](b))).squeeze(1)
        basis = torch.stack([torch.ones(2_000), products[1]], 1)
        rest = values - basis @ torch.linalg.lstsq(basis, values[:, None]).solution.squeeze(1)
        own = products[0] - basis @ torch.linalg.lstsq(basis, products[0][:, None]).solution.squeeze(1)
        return float(torch.corrcoef(torch.stack([rest, own]))[0, 1])

    layers = nn.Linear(size, size), nn.Linear(size, size, bias=False), nn.Linear(size, 1)
    value, *keys = (nn.Linear(size, size, bias=False) for _ in range(4))
    with torch.no_grad():
        assert abs(agreement()) < 0.4
        start_as_similarity([layers], values=[value], keys=keys, scale=0.5 / length)
        assert agreement() > 0.7
        assert torch.equal(value(a), a)
        assert all(torch.equal(key.weight, keys[0].weight) for key in keys)
        torch.testing.assert_close(keys[0](a).norm(dim=1), a.norm(dim=1))  # a rotation keeps lengths
