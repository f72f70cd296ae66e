"""LibFM, DeepFM and a part of DFN against DeepCTR-Torch with the same weights."""

from typing import Any

import pytest
import torch
from torch import Tensor

from baseline_cases import close, padded
from batch_cases import make_batch
from drpn.batches.batch import NewsRows
from drpn.models.base import DataShape
from drpn.models.baselines.deepfm import DeepFm, DeepFmSettings
from drpn.models.baselines.dfn import ExternalAttention
from drpn.models.baselines.libfm import LibFm, LibFmSettings
from drpn.models.factorisation import Features
from reference.fm_loops import Story
from reference.fm_newsroom import CANDIDATES, CLICKED, NEWS, SHAPE, scores, with_random_weights

pytestmark = pytest.mark.filterwarnings("ignore")
REASON = "deepctr-torch is not installed"
SIZE = 3


def differences(actual: Tensor) -> Tensor:
    """Terms that are the same for all candidates of a user are left out here, but not there."""
    return actual - actual[:, :1]


def features_of(features: Features, user: int, clicked: list[str], candidate: Story) -> tuple[Tensor, Tensor]:
    """The value times the vector of each feature of a user and a candidate, and the weights times values, summed."""
    own, read = slice(1, 1 + SIZE), slice(1 + SIZE, None)
    identity = features.ids.table.weight[candidate.row] if candidate.seen else features.ids.unknown
    rows = [identity, features.category.weight[candidate.category], features.subcategory.weight[candidate.subcategory]]
    share = 1 / max(1, len(candidate.words))
    rows += [candidate.words.count(word) * share * features.words.weight[word] for word in set(candidate.words)]
    user_ids = features.users.ids
    vectors = [*(row[own] for row in rows), user_ids.table.weight[user] if user else user_ids.unknown]
    for story in (NEWS[name] for name in clicked):
        vectors += [features.category.weight[story.category][read] / len(clicked)]
        vectors += [features.subcategory.weight[story.subcategory][read] / len(clicked)]
        vectors += [features.words.weight[word][read] / len(story.words) / len(clicked) for word in story.words]
    if not clicked:
        vectors += list(features.nothing.view(3, SIZE))
    return torch.stack(vectors), torch.stack([row[0] for row in rows]).sum()


def test_libfm_against_the_factorisation_machine() -> None:
    """The layer gets every feature of user and story with its value, and sums over all pairs."""
    layers = pytest.importorskip("deepctr_torch.layers", reason=REASON)
    model = LibFm(LibFmSettings(size=SIZE), SHAPE)
    with_random_weights(model, model.features, 2)
    machine = layers.FM()
    expected = torch.zeros(len(CLICKED), len(CANDIDATES), dtype=torch.float64)
    for row, (user, clicked) in enumerate(CLICKED.values()):
        for column, name in enumerate(CANDIDATES):
            vectors, weight = features_of(model.features, user, clicked, NEWS[name])
            expected[row, column] = weight + machine(vectors.unsqueeze(0)).squeeze()
    close(differences(scores(model)), differences(expected))


ONE_WORD = {
    "derby": Story(1, 1, 2, [3]),
    "cup": Story(2, 1, 3, [5]),
    "storm": Story(3, 2, 1, [9]),
    "bonds": Story(4, 3, 4, [11]),
    "vote": Story(5, 2, 3, [3]),
}
"""DeepCTR multiplies the vectors of whole fields, so pairs within a title are left out there."""
HISTORIES = [[1, 2, 3], [4], [5, 3], [2, 2, 5]]


def official_deepfm(columns: Any, models: Any, model: DeepFm, hidden: int) -> Any:
    """DeepCTR's whole model, with the weights of ours."""

    def one(name: str, table: Tensor) -> Any:
        return columns.SparseFeat(name, len(table), embedding_dim=SIZE)

    features = model.features
    own, read = slice(1, 1 + SIZE), slice(1 + SIZE, None)
    labels = {"category": features.category, "subcategory": features.subcategory, "words": features.words}
    tables = {"user": features.users.ids.table.weight, "id": features.ids.table.weight[:, own]}
    tables |= {name: table.weight[:, own] for name, table in labels.items()}
    clicked = {f"clicked {name}": table.weight[:, read] for name, table in labels.items()}
    feature_columns = [one(name, table) for name, table in tables.items()]
    feature_columns += [
        columns.VarLenSparseFeat(one(name, table), maxlen=3, combiner="mean") for name, table in clicked.items()
    ]
    official = models.DeepFM(feature_columns, feature_columns, dnn_hidden_units=(hidden, hidden), task="regression")
    official = official.double().eval()
    with torch.no_grad():
        for name, table in (tables | clicked).items():
            official.embedding_dict[name].weight.copy_(table)
            official.linear_model.embedding_dict[name].weight.zero_()
        for name, table in (("id", features.ids.table), *labels.items()):
            official.linear_model.embedding_dict[name].weight.copy_(table.weight[:, :1])
        # there the fields are: user, four of the story, three of the clicked stories
        user, *others = model.deep.user.weight.split(SIZE, dim=1)
        first, second = official.dnn.linears
        first.weight.copy_(torch.cat([user, model.deep.news.weight, *others], dim=1))
        first.bias.copy_(model.deep.user.bias)
        second.load_state_dict(model.deep.deeper[0].state_dict())
        official.dnn_linear.weight.copy_(model.deep.out.weight)
    return official


def test_deepfm() -> None:
    """The whole model, from ids to scores."""
    inputs = pytest.importorskip("deepctr_torch.inputs", reason=REASON)
    models = pytest.importorskip("deepctr_torch.models", reason=REASON)
    model = DeepFm(DeepFmSettings(size=SIZE, hidden=5, layers=2), DataShape(6, 12, len(HISTORIES) + 1, 4, 5))
    with_random_weights(model, model.features, 3, unmet=())
    stories = [Story(0, 0, 0, [0]), *ONE_WORD.values()]
    category, subcategory, words = (
        torch.tensor([of(story) for story in stories])
        for of in (lambda story: story.category, lambda story: story.subcategory, lambda story: story.words[0])
    )
    rows, nothing = torch.arange(len(stories)), torch.zeros(len(stories), 5, dtype=torch.long)
    news = NewsRows(rows, words.unsqueeze(1), nothing, category, subcategory)
    users, clicked = torch.arange(1, len(HISTORIES) + 1), padded(HISTORIES, more=0)
    candidates = rows[1:].expand(len(HISTORIES), -1)
    batch = make_batch(users, clicked, clicked[:, :0], candidates)
    # columns: user, id, category, subcategory and word of the story, the last three of the clicked stories
    count = candidates.shape[1]
    given = torch.cat(
        [
            users.repeat_interleave(count).unsqueeze(1),
            torch.stack([table[candidates.flatten()] for table in (rows, category, subcategory, words)], dim=1),
            torch.cat([table[clicked] for table in (category, subcategory, words)], dim=1).repeat_interleave(count, 0),
        ],
        dim=1,
    )
    with torch.no_grad():
        expected = official_deepfm(inputs, models, model, hidden=5)(given.double()).view(len(HISTORIES), count)
        actual = model.score(model.encode_news(news), batch)
    # there a mean is divided by the number of clicks + 1e-8
    close(differences(actual), differences(expected), rtol=1e-6, atol=1e-6)
    assert differences(actual)[:, 1:].abs().min() > 1e-3


def test_the_external_attention_of_dfn_against_din() -> None:
    """DIN's attention pools the skipped stories, with f_c as its query."""
    sequence = pytest.importorskip("deepctr_torch.layers.sequence", reason=REASON)
    width, hidden = 6, 4
    torch.manual_seed(2)
    own = ExternalAttention(width, hidden).double()
    din = sequence.AttentionSequencePoolingLayer(
        att_hidden_units=(hidden,),
        att_activation="relu",
        weight_normalization=True,
        supports_masking=True,
        embedding_dim=width,
    ).double()
    with torch.no_grad():
        query, item, product, difference = own.hidden.weight.chunk(4, dim=1)
        (first,) = din.local_att.dnn.linears
        first.weight.copy_(torch.cat([query, item, difference, product], dim=1))
        first.bias.copy_(own.hidden.bias)
        din.local_att.dense.weight.copy_(own.gate.weight / own.scale)
    feedback, items = torch.randn(3, 4, width).double(), torch.randn(3, 5, width).double()
    mask = torch.arange(5) < torch.tensor([[5], [1], [3]])
    actual = own(feedback, items, items @ own.weight().matrix.T, mask)
    for place in range(feedback.shape[1]):
        expected = din(feedback[:, place : place + 1], items, None, mask)
        close(actual[:, place], expected.squeeze(1))
