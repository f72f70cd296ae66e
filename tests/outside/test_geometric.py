"""GERL's attentions over neighbours against the attentional aggregation of PyTorch Geometric with the same weights."""

import pytest
import torch
from torch import nn

from baseline_cases import close
from drpn.models.baselines.gerl import Attention


@pytest.mark.filterwarnings("ignore")
def test_the_attention_of_gerl() -> None:
    """Over neighbours of nodes in a graph; PyG has zeros for a node without neighbours, where ours is learned."""
    aggregations = pytest.importorskip("torch_geometric.nn.aggr", reason="PyTorch Geometric is not installed")
    size, hidden = 6, 4
    torch.manual_seed(3)
    own = Attention(size, hidden).double()
    gate = nn.Sequential(nn.Linear(size, hidden), nn.Tanh(), nn.Linear(hidden, 1, bias=False)).double()
    gate[0].load_state_dict(own.gate.hidden.state_dict())
    gate[2].load_state_dict(own.gate.gate.state_dict())
    items = torch.randn(7, 5, size).double()
    mask = torch.rand(7, 5) < 0.6
    mask[:, 0] = True
    node, _ = mask.nonzero(as_tuple=True)
    expected = aggregations.AttentionalAggregation(gate)(items[mask], node, dim_size=len(items))
    close(own(items, own.logits(items), mask), expected)
