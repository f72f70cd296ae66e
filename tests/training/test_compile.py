"""The scores of a model compile as one graph: a break would cost most of the speed on a GPU."""

import pytest
import torch

from contract_cases import impressions, newsroom, trained
from drpn.layers.linear import joint_linear
from drpn.layers.news import WordVectors


@pytest.mark.parametrize("name", ["drpn", "drpn-d", "drpn-n", "drpn-g", "nrms", "npa", "dkn"])
def test_a_model_compiles_without_a_graph_break(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # on a GPU, titles are encoded in one piece, and each word is projected by itself
    for module in ("drpn.layers.news", "drpn.models.baselines.nrms", "drpn.models.baselines.dkn"):
        monkeypatch.setattr(f"{module}.encode_by_length", lambda encode, *features: encode(*features))
    monkeypatch.setattr(WordVectors, "projected", lambda self, words, weights: joint_linear(self(words), weights))
    model, batch, news = trained(name), impressions(), newsroom()
    torch.compiler.reset()
    compiled = torch.compile(
        lambda rows, part: model.score(model.encode_news(rows), part), fullgraph=True, backend="eager"
    )
    torch.testing.assert_close(compiled(news, batch), model.score(model.encode_news(news), batch))
