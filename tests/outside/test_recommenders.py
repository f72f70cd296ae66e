"""NRMS, NAML, NPA and LSTUR against the models of `recommenders` (once microsoft/recommenders) with the same weights.

Its models read padding, except for LSTUR: theirs and ours are compared on titles and histories without padding.
"""

from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from baseline_cases import randomised, rows_of
from batch_cases import make_batch
from drpn.batches.batch import NewsRows
from drpn.layers.attention import GatedAggregate, MultiHeadAttention
from drpn.layers.convolution import WordConvolution
from drpn.models.base import ClickModel, DataShape
from drpn.models.baselines.lstur import Lstur, LsturSettings
from drpn.models.baselines.naml import Naml, NamlSettings
from drpn.models.baselines.npa import CodeAttention, Npa, NpaSettings
from drpn.models.baselines.nrms import Nrms, NrmsSettings
from outside.official_modules import module_of

pytestmark = pytest.mark.filterwarnings("ignore")

NEWS, WORDS, USERS, CATEGORIES, SUBCATEGORIES = 9, 14, 4, 4, 5
TITLE, BODY, HISTORY, CANDIDATES = 5, 7, 4, 3
SIZE, FILTERS, WINDOW, HIDDEN, LABEL = 6, 8, 3, 4, 3
HEADS, HEAD_SIZE, USER = 2, 4, 3
SHAPE = DataShape(NEWS, WORDS, USERS, CATEGORIES, SUBCATEGORIES)

SETTINGS = {
    "title_size": TITLE, "body_size": BODY, "his_size": HISTORY, "npratio": CANDIDATES - 1, "word_emb_dim": SIZE,
    "head_num": HEADS, "head_dim": HEAD_SIZE, "attention_hidden_dim": HIDDEN, "filter_num": FILTERS,
    "window_size": WINDOW, "cnn_activation": "relu", "dense_activation": "relu", "vert_num": CATEGORIES,
    "subvert_num": SUBCATEGORIES, "vert_emb_dim": LABEL, "subvert_emb_dim": LABEL, "gru_unit": FILTERS,
    "user_emb_dim": USER, "type": "ini", "dropout": 0.2, "support_quick_scoring": True, "loss": "cross_entropy_loss",
    "optimizer": "adam", "learning_rate": 1e-3,
}  # fmt: skip


class Data:
    """Stands in for the reader of files."""

    uid2index = dict.fromkeys(range(USERS), 0)

    def __init__(self, *_: Any, **__: Any) -> None:
        pass


def official(name: str, weights: list[Tensor], folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The Keras model with these weights."""
    module = module_of(f"newsrec.models.{name}", monkeypatch)
    np.save(folder / "words.npy", np.zeros((WORDS, SIZE), dtype=np.float32))
    model = getattr(module, f"{name.upper()}Model")(
        SimpleNamespace(**SETTINGS, wordEmb_file=str(folder / "words.npy")), Data, seed=1
    )
    model.model.set_weights([weight.detach().float().numpy() for weight in weights])
    return model


def of_attention(layer: MultiHeadAttention) -> list[Tensor]:
    return [layer.query.weight.T, layer.key.weight.T, layer.value.weight.T]


def of_aggregate(layer: GatedAggregate) -> list[Tensor]:
    return [layer.hidden.weight.T, layer.hidden.bias, layer.gate.weight.T]


def of_dense(layer: nn.Linear) -> list[Tensor]:
    return [layer.weight.T, layer.bias]


def of_convolution(layer: WordConvolution) -> list[Tensor]:
    return [layer.filters.weight.view(FILTERS, WINDOW, SIZE).permute(1, 2, 0), layer.filters.bias]


def random_news(*, padding: bool = False) -> NewsRows:
    """Stories with words, abstracts and labels; full of words, or with padding at their ends."""
    random = torch.Generator().manual_seed(3)

    def texts(width: int) -> Tensor:
        words = torch.randint(1, WORDS, (NEWS, width), generator=random)
        if padding:
            words *= torch.arange(width) < torch.randint(1, width + 1, (NEWS, 1), generator=random)
        words[0] = 0
        return words

    title, abstract = texts(TITLE), texts(BODY)
    labels = [torch.randint(1, count, (NEWS,), generator=random) for count in (CATEGORIES, SUBCATEGORIES)]
    plain = rows_of([[]] * NEWS, abstract=abstract, category=labels[0], subcategory=labels[1])
    return replace(plain, rows=torch.arange(NEWS), words=title)


CLICKED = torch.tensor([[1, 2, 3, 4], [5, 5, 8, 1], [7, 6, 2, 3]])
SHOWN = torch.tensor([[5, 6, 7], [2, 3, 4], [8, 1, 5]])
READERS = torch.tensor([1, 2, 3])


def shares(model: ClickModel, news: NewsRows, clicked: Tensor = CLICKED) -> Tensor:
    """The softmax of the scores, which the official models give."""
    scores = model.score(model.encode_news(news), make_batch(READERS, clicked, clicked[:, :0], SHOWN))
    assert (scores - scores.roll(1, dims=1)).abs().min() > 1e-3
    return scores.softmax(1)


def same(actual: Tensor, expected: NDArray[np.float32]) -> None:
    """The official models compute in float32."""
    torch.testing.assert_close(actual.detach().float(), torch.from_numpy(expected), rtol=1e-4, atol=1e-6)


def test_nrms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = NrmsSettings(size=SIZE, heads=HEADS, head_size=HEAD_SIZE, hidden=HIDDEN)
    model = randomised(Nrms(settings, SHAPE), torch.Generator().manual_seed(1))
    weights = [model.words.table.weight]
    for part in (model.title, model.user):
        weights += [*of_attention(part.attention), *of_aggregate(part.aggregate)]
    theirs = official("nrms", weights, tmp_path, monkeypatch)
    news = random_news()
    words = news.words.numpy()
    same(model.encode_news(news).vector[1:], theirs.newsencoder.predict_on_batch(words[1:]))
    same(shares(model, news), theirs.model.predict_on_batch([words[CLICKED], words[SHOWN]]))


def test_naml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = NamlSettings(
        size=SIZE, filters=FILTERS, window=WINDOW, category_size=LABEL, hidden=HIDDEN, abstract=True
    )
    model = randomised(Naml(settings, SHAPE), torch.Generator().manual_seed(2))
    assert model.abstract is not None
    weights = [model.words.table.weight]
    for text in (model.title, model.abstract):
        weights += [*of_convolution(text.convolution), *of_aggregate(text.aggregate)]
    for labels in (model.category, model.subcategory):
        weights += [labels.table.weight, *of_dense(labels.dense)]
    weights += [*of_aggregate(model.views), *of_aggregate(model.user)]
    theirs = official("naml", weights, tmp_path, monkeypatch)
    news = random_news()
    columns = [part.reshape(NEWS, -1).numpy() for part in (news.words, news.abstract, news.category, news.subcategory)]
    same(model.encode_news(news).vector[1:], theirs.newsencoder.predict_on_batch(np.concatenate(columns, axis=1)[1:]))
    given = [column[stories] for stories in (CLICKED, SHOWN) for column in columns]
    same(shares(model, news), theirs.model.predict_on_batch(given))


def test_npa(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = NpaSettings(
        size=SIZE, user_size=USER, filters=FILTERS, window=WINDOW, hidden=HIDDEN, logits="code", pooled_dropout=True
    )
    model = randomised(Npa(settings, SHAPE), torch.Generator().manual_seed(4))
    weights = [model.words.table.weight, model.users.ids.table.weight, *of_convolution(model.convolution)]
    for part in (model.title, model.clicks):
        assert isinstance(part, CodeAttention)
        weights += [*of_dense(part.query), *of_dense(part.key)]
    theirs = official("npa", weights, tmp_path, monkeypatch)
    news = random_news()
    words = news.words.numpy()
    given = [READERS.unsqueeze(1).numpy(), words[CLICKED], words[SHOWN]]
    same(shares(model, news), theirs.model.predict_on_batch(given))


def test_lstur(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With padding, which their model masks.

    The recurrent layer there has hard sigmoids, and its reset gate acts on h: Keras's layer with the gates of torch
    takes its place.
    """
    settings = LsturSettings(
        size=SIZE, filters=FILTERS, window=WINDOW, hidden=HIDDEN, logits="code", categories=False, zero_users=True
    )
    model = randomised(Lstur(settings, SHAPE), torch.Generator().manual_seed(3))
    with torch.no_grad():
        model.words.table.weight[0] = 0
    assert isinstance(model.title.aggregate, GatedAggregate)

    def gates(weight: Tensor) -> Tensor:
        """Reset, update and new state here; update, reset and new state there."""
        reset, update, new = weight.view(3, FILTERS, -1)
        return torch.cat([update, reset, new]).T

    gru = model.recent
    weights = [
        model.words.table.weight,
        *of_convolution(model.title.convolution),
        *of_aggregate(model.title.aggregate),
        model.users.ids.table.weight,
        gates(gru.items.weight),
        gates(gru.state.weight),
        torch.cat([gates(gru.items.bias), gates(gru.state.bias)]),
    ]
    layers = module_of("newsrec.models.lstur", monkeypatch).layers
    monkeypatch.setattr(layers, "GRU", partial(layers.GRU, recurrent_activation="sigmoid", reset_after=True))
    theirs = official("lstur", weights, tmp_path, monkeypatch)
    news = random_news(padding=True)
    clicked = CLICKED.clone()
    clicked[0, :2] = clicked[2, :3] = 0  # padding in front
    words = news.words.numpy()
    same(model.encode_news(news).vector[1:], theirs.newsencoder.predict_on_batch(words[1:]))
    given = [READERS.unsqueeze(1).numpy(), words[clicked], words[SHOWN]]
    same(shares(model, news, clicked), theirs.model.predict_on_batch(given))
