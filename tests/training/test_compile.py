"""The scores of a model compile as one graph: a break would cost most of the speed on a GPU."""

import pytest
import torch
from torch import Tensor

from contract_cases import impressions, newsroom, trained
from drpn.batches.batch import NewsRows, Profiles
from drpn.batches.planted import Planted, swap_clicks_and_skips
from drpn.layers.linear import joint_linear
from drpn.layers.news import WordVectors
from drpn.training.planted import planted_loss


def as_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Titles are encoded in one piece, and each word is projected by itself."""
    for module in ("drpn.layers.news", "drpn.models.baselines.nrms", "drpn.models.baselines.dkn"):
        monkeypatch.setattr(f"{module}.encode_by_length", lambda encode, *features: encode(*features))
    monkeypatch.setattr(WordVectors, "projected", lambda self, words, weights: joint_linear(self(words), weights))


@pytest.mark.parametrize("name", ["drpn", "drpn-d", "drpn-n", "drpn-g", "nrms", "npa", "dkn"])
def test_a_model_compiles_without_a_graph_break(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    as_on_a_gpu(monkeypatch)
    model, batch, news = trained(name), impressions(), newsroom()
    torch.compiler.reset()
    compiled = torch.compile(
        lambda rows, part: model.score(model.encode_news(rows), part), fullgraph=True, backend="eager"
    )
    torch.testing.assert_close(compiled(news, batch), model.score(model.encode_news(news), batch))


@pytest.mark.parametrize("name", ["drpn", "drpn-planted", "drpn-n", "drpn-p"])
@pytest.mark.parametrize("vectors", [False, True])
def test_planted_feedback_compiles_without_a_graph_break(
    name: str, vectors: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_on_a_gpu(monkeypatch)
    model, news, random = trained(name), newsroom(), torch.Generator().manual_seed(1)
    stories = 1 + torch.stack([torch.randperm(22, generator=random) for _ in range(6)])
    profiles = Profiles(torch.arange(1, 7), stories[:, :4], stories[:, 4:10])
    planted = swap_clicks_and_skips(profiles, torch.ones(24), share=0.2, skips=3)

    def loss(rows: NewsRows, part: Planted) -> Tensor:
        with torch.set_grad_enabled(vectors):  # as in planted passes
            encoded = model.encode_news(rows)
        return planted_loss(model.trust(encoded, part.profiles, vectors=vectors), part)

    torch.compiler.reset()
    compiled = torch.compile(loss, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(news, planted), loss(news, planted))


def test_evidence_of_labels_compiles_without_a_graph_break() -> None:
    model, news = trained("drpn-planted"), newsroom()
    stories = torch.arange(1, 21).view(2, 10)
    profiles = Profiles(torch.arange(1, 3), stories[:, :4], stories[:, 4:])
    planted = swap_clicks_and_skips(profiles, torch.ones(24), share=0.2, skips=3)

    def loss(rows: NewsRows, part: Planted) -> Tensor:
        return planted_loss(model.label_trust(rows, part.profiles), part)

    torch.compiler.reset()
    compiled = torch.compile(loss, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(news, planted), loss(news, planted))
