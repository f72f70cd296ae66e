"""Every model drops values in training where its settings say so, and nothing passes around a dropout."""

from collections.abc import Set
from dataclasses import fields
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

from contract_cases import DRPNS, LIVE, build, impressions, real_scores, trained
from drpn.layers.news import IdVectors
from drpn.models.base import ClickModel
from drpn.models.catalogue import CATALOGUE


class Place(NamedTuple):
    """A call of a dropout in a training step."""

    module: str
    width: int
    """The last axis of the values that it drops."""
    source: str
    """Start of the names of the parameters that reach the scores through it alone, or through it and other places."""


class Network(NamedTuple):
    """A model with settings that change its places."""

    name: str
    settings: dict[str, Any]
    places: list[Place]
    """In the order of a training step."""
    unknown: dict[str, str]
    """Id vectors, each with the setting for the share that is replaced by the "unknown" vector."""


def convolved(module: str) -> list[Place]:
    """Dropout on words and after their convolution."""
    return [Place(f"{module}.dropout", 12, "words.table"), Place(f"{module}.dropout", 6, f"{module}.convolution")]


def has_ids(name: str) -> bool:
    """Whether a variant of DRPN reads ids."""
    return any(key.startswith("id.") for key in build(name).state_dict())


TITLE = [Place("title.dropout", 12, "title.words"), Place("title.dropout", 12, "title.attention")]
IN_FACTORS = {"features.users.ids": "id_dropout", "features.ids": "id_dropout"}

NETWORKS = {
    **{name: Network(name, {}, TITLE, {"id": "id_dropout"} if has_ids(name) else {}) for name in DRPNS},
    "libfm": Network("libfm", {}, [], IN_FACTORS),
    "deepfm": Network(
        "deepfm",
        {"layers": 3},
        [
            Place("deep.dropout", 8, "deep.user"),
            Place("deep.dropout", 8, "deep.deeper.0"),
            Place("deep.dropout", 8, "deep.deeper.1"),
        ],
        IN_FACTORS,
    ),
    "dkn": Network("dkn", {}, [Place("dropout", 36, "words.table")], {}),
    "dkn, its entities and contexts": Network("dkn", {}, [Place("dropout", 36, "knowledge.")], {}),
    "dkn of words": Network("dkn", {"channels": "words"}, [Place("dropout", 12, "words.table")], {}),
    "lstur": Network("lstur", {}, convolved("title"), {"users.ids": "masking"}),
    "lstur con": Network("lstur", {"combine": "con"}, convolved("title"), {"users.ids": "masking"}),
    "lstur of the official code": Network(
        "lstur", {"logits": "code", "categories": False}, convolved("title"), {"users.ids": "masking"}
    ),
    "npa": Network(
        "npa",
        {},
        [Place("dropout", 12, "words.table"), Place("dropout", 6, "convolution")],
        {"users.ids": "id_dropout"},
    ),
    "npa of the official code": Network(
        "npa",
        {"logits": "code", "pooled_dropout": True},
        [
            Place("dropout", 12, "words.table"),
            Place("dropout", 6, "convolution"),
            Place("dropout", 6, "convolution"),
            Place("dropout", 6, "convolution"),
        ],
        {"users.ids": "id_dropout"},
    ),
    "deers": Network("deers", {}, [Place("dropout", 48, "fields.")], {"fields.ids": "id_dropout"}),
    # the other tables of features hold the weights of the wide part, too
    "dfn": Network("dfn", {}, [Place("dropout", 48, "fields.words")], {"fields.ids": "id_dropout"}),
    "gerl": Network(
        "gerl",
        {},
        [Place("news.dropout", 12, "news.words"), Place("news.dropout", 10, "news.attention")],
        {"users.ids": "id_dropout"},
    ),
    "naml": Network("naml", {}, convolved("title"), {}),
    "naml with abstracts": Network("naml", {"abstract": True}, [*convolved("title"), *convolved("abstract")], {}),
    "nrms": Network(
        "nrms", {}, [Place("dropout", 12, "words.table"), Place("title.dropout", 10, "title.attention")], {}
    ),
    "nrms of the paper": Network("nrms", {"attention_dropout": False}, [Place("dropout", 12, "words.table")], {}),
}

every_network = pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
SHARES = ("dropout", "id_dropout", "masking")


def drops_nothing(network: Network) -> ClickModel:
    """The network in training, with every share at zero."""
    return trained(network.name, **dict.fromkeys(SHARES, 0.0) | network.settings).train()


def step(model: ClickModel, detached: Set[int] = frozenset()) -> tuple[list[tuple[str, int]], dict[str, Tensor]]:
    """The dropouts that are called, with the width of their values, and the gradients of all parameters.

    No gradient passes through the calls whose numbers are in `detached`.
    """
    calls: list[tuple[str, int]] = []

    def note(name: str, result: Tensor) -> Tensor:
        calls.append((name, result.shape[-1]))
        return result.detach() if len(calls) - 1 in detached else result

    hooks = [
        module.register_forward_hook(lambda _module, _given, result, name=name: note(name, result))
        for name, module in model.named_modules()
        if isinstance(module, nn.Dropout)
    ]
    model.zero_grad()
    actual = real_scores(model, impressions())
    (actual * torch.linspace(-1, 2, len(actual), dtype=actual.dtype)).sum().backward()
    for hook in hooks:
        hook.remove()
    return calls, {
        name: torch.zeros_like(parameter) if parameter.grad is None else parameter.grad.clone()
        for name, parameter in model.named_parameters()
    }


def test_every_model_is_listed() -> None:
    """Models with a loss of their own are the networks of other models, and drpn-live is drpn with a context view."""
    assert {network.name for network in NETWORKS.values()} == {
        name for name in CATALOGUE if not name.endswith(("-tce", "-planted")) and name not in LIVE
    }


@every_network
def test_every_dropout_is_called_at_its_places(network: Network) -> None:
    model = drops_nothing(network)
    assert step(model)[0] == [(place.module, place.width) for place in network.places]
    assert {name for name, module in model.named_modules() if isinstance(module, nn.Dropout)} == {
        place.module for place in network.places
    }


@every_network
def test_nothing_passes_around_a_dropout(network: Network) -> None:
    """Its source gets no gradient if none passes through the dropout, and more if some does."""
    model = drops_nothing(network)
    _, full = step(model)
    for source in {place.source for place in network.places}:
        through = {number for number, place in enumerate(network.places) if place.source == source}
        # without id dropout no story of a batch is unknown
        names = [name for name in full if name.startswith(source) and not name.endswith("unknown")]
        assert names
        _, without = step(model, through)
        for name in names:
            assert full[name].abs().max() > 1e-9, name
            assert not without[name].any(), name
        for number in through:
            _, part = step(model, {number})
            assert all((part[name] - full[name]).abs().max() > 1e-9 for name in names), number


@every_network
def test_every_share_is_that_of_the_settings(network: Network) -> None:
    """And no setting is without effect."""
    known = {field.name for field in fields(CATALOGUE[network.name].settings)}
    shares = {name: share for name, share in zip(SHARES, (0.37, 0.41, 0.43), strict=True) if name in known}
    model = build(network.name, **shares | network.settings)
    dropped = {module.p for module in model.modules() if isinstance(module, nn.Dropout)}
    unknown = {name: module.dropped for name, module in model.named_modules() if isinstance(module, IdVectors)}
    assert dropped == ({0.37} if network.places else set())
    assert unknown == {name: shares[setting] for name, setting in network.unknown.items()}


@every_network
def test_unknown_ids_are_drawn_in_training(network: Network) -> None:
    """With nearly all ids replaced, a step reads the "unknown" vector instead of each; ids of neighbours stay."""
    for name in network.unknown:
        model, unknown = drops_nothing(network), drops_nothing(network)
        calls: list[int] = []
        model.get_submodule(name).register_forward_hook(lambda _, given, __, calls=calls: calls.append(given[0].dim()))
        known = real_scores(model, impressions())
        assert calls == [1]  # for the users of a batch, or for its stories
        model.get_submodule(name).dropped = 1 - 1e-12
        unknown.get_submodule(name).register_forward_hook(lambda module, _, ids: module.unknown.expand_as(ids))
        actual = real_scores(model, impressions())
        torch.testing.assert_close(actual, real_scores(unknown, impressions()), rtol=0, atol=1e-10)
        assert (actual - known).abs().max() > 1e-6
