"""DeepFM against loops: the sum of a factorisation machine and a plain network over the same fields."""

import pytest
import torch
from torch import nn

from baseline_cases import check_order_of_clicks_does_not_matter
from drpn.models.base import DataShape
from drpn.models.baselines.deepfm import DeepFm, DeepFmSettings
from reference import fm_loops as loops
from reference.drpn_loops import Weights
from reference.fm_newsroom import (
    CANDIDATES,
    NEWS,
    READERS,
    SHAPE,
    batch_of_all,
    close,
    news_rows,
    scores,
    with_random_weights,
)


def case(seed: int = 1, *, layers: int = 3) -> tuple[DeepFm, Weights]:
    model = DeepFm(DeepFmSettings(size=3, hidden=5, layers=layers), SHAPE)
    return model, with_random_weights(model, model.features, seed).weights


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_scores(layers: int) -> None:
    model, weights = case(layers, layers=layers)
    expected = [[loops.deepfm(weights, user, NEWS[name]) for name in CANDIDATES] for user in READERS]
    close(scores(model), expected)


def test_the_deep_part_is_a_plain_network_over_all_fields() -> None:
    model, _ = case()
    news, batch, count = news_rows(), batch_of_all(), len(CANDIDATES)
    fields = model.features.news_features(news)
    users = model.features.user_features(fields.clicked, batch.profiles).flatten(1)
    first = nn.Linear(2 * users.shape[1], 5).double()
    first.weight.data = torch.cat([model.deep.user.weight, model.deep.news.weight], dim=1).detach()
    first.bias.data = model.deep.user.bias.detach()
    second, third = model.deep.deeper
    plain = nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), third, nn.ReLU(), model.deep.out)
    both = torch.cat([users.unsqueeze(1).expand(-1, count, -1), fields.fields.flatten(1)[batch.candidates]], dim=-1)
    encoded = model.encode_news(news)
    with torch.no_grad():
        model.deep.out.weight *= 2  # doubles the score of the network, not that of the machine
    twice = model.score(encoded, batch)
    with torch.no_grad():
        model.deep.out.weight /= 2
    close(twice - model.score(encoded, batch), plain(both).squeeze(-1).detach())


def test_both_parts_learn_the_same_vectors() -> None:
    """The gradient of a shared vector is the sum of its gradients in the two parts."""

    def gradient(of: str) -> torch.Tensor:
        model, _ = case()
        with torch.no_grad():
            if of == "machine":
                model.deep.out.weight.zero_()
        actual = scores(model)
        if of == "network":
            encoded = model.encode_news(news_rows())
            users = model.read(encoded, batch_of_all().profiles).half.unsqueeze(1)
            actual = model.deep(users, encoded.half[batch_of_all().candidates])
        actual.sum().backward()
        assert model.features.words.weight.grad is not None
        return model.features.words.weight.grad

    machine, network = gradient("machine"), gradient("network")
    assert machine[1:].abs().max() > 1e-3
    assert network[1:].abs().max() > 1e-3
    close(gradient("both"), machine + network)


def test_skipped_stories_are_not_read() -> None:
    model, _ = case()
    close(scores(model, batch_of_all(["bonds", "vote", "derby"])), scores(model))


def test_clicks_matter_but_not_their_order() -> None:
    model, _ = case()
    check_order_of_clicks_does_not_matter(lambda batch: scores(model, batch), batch_of_all())


def test_dropout_does_not_change_the_factorisation_machine() -> None:
    """With nearly everything dropped the last layer reads zeros; the score of the machine is left."""
    model = DeepFm(DeepFmSettings(size=3, hidden=5, dropout=1 - 1e-12, id_dropout=0.0), SHAPE)
    with_random_weights(model, model.features, 1)
    actual = scores(model.train())
    with torch.no_grad():
        model.deep.out.weight.zero_()
    close(actual.detach(), scores(model.eval()).detach())


def test_the_defaults_are_those_of_the_paper() -> None:
    model = DeepFm(DeepFmSettings(), DataShape(news=3, words=9, users=4, categories=2, subcategories=6))
    shapes = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
    assert shapes == {
        "features.nothing": (30,),
        "features.users.ids.table.weight": (4, 10),
        "features.users.ids.unknown": (10,),
        "features.ids.table.weight": (3, 11),
        "features.ids.unknown": (11,),
        "features.category.weight": (2, 21),
        "features.subcategory.weight": (6, 21),
        "features.words.weight": (9, 21),
        "deep.user.weight": (400, 40),
        "deep.user.bias": (400,),
        "deep.news.weight": (400, 40),
        "deep.deeper.0.weight": (400, 400),
        "deep.deeper.0.bias": (400,),
        "deep.deeper.1.weight": (400, 400),
        "deep.deeper.1.bias": (400,),
        "deep.out.weight": (1, 400),
    }
    assert model.deep.dropout.p == 0.5


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"size": 0}, "^size is 0; it takes 1 or more$"),
        ({"hidden": -1}, "^hidden is -1; it takes 1 or more$"),
        ({"layers": 0}, "^layers is 0; it takes 1 or more$"),
        ({"dropout": 1.0}, "^dropout is 1.0; it takes a share from 0 to below 1$"),
        ({"id_dropout": -0.1}, "^id_dropout is -0.1; it takes a share from 0 to below 1$"),
    ],
)
def test_invalid_settings_are_refused(setting: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DeepFmSettings(**setting)
