"""LibFM and DeepFM as their papers print them, one float at a time: for one user, one candidate, and no padding.

Weights are nested lists named as in the model's state. Every feature is named, so that one that stands twice is one,
and pairs of features are summed one by one. A machine has weights for all features and w_0; those that the models leave
out have an arbitrary value here.
"""

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

from reference.drpn_loops import Vector, Weights, add, dot, mix

LEFT_OUT = 0.3
"""w_0, and the weight of every feature of a user: anything but zero."""


class News(NamedTuple):
    """One news; no category is 0, and words are none of them padding."""

    row: int
    category: int
    subcategory: int
    words: list[int]
    seen: bool = True


class User(NamedTuple):
    """One user, 0 when unknown, and what they clicked."""

    row: int
    clicked: Sequence[News]


class Feature(NamedTuple):
    """x_i, w_i, v_i."""

    value: float
    weight: float
    vector: Vector


Fields = dict[str, dict[int, Feature]]
"""The features of each field, by what they stand for."""


def content(news: News) -> dict[str, dict[int, float]]:
    """x_i of what a news is about."""
    values: dict[str, dict[int, float]] = {"category": {}, "subcategory": {}, "words": {}}
    if news.category:
        values["category"][news.category] = 1.0
    if news.subcategory:
        values["subcategory"][news.subcategory] = 1.0
    for word in news.words:
        values["words"][word] = news.words.count(word) / len(news.words)
    return values


def size_of(weights: Weights) -> int:
    return len(weights["features.ids.unknown"]) - 1


def candidate_fields(weights: Weights, news: News) -> Fields:
    """The features of a candidate: a row of a table is w_i, then v_i."""
    size = size_of(weights)
    own = weights["features.ids.table.weight"][news.row] if news.seen else weights["features.ids.unknown"]
    fields = {"id": {news.row: Feature(1.0, own[0], own[1:])}}
    for field, values in content(news).items():
        table = weights[f"features.{field}.weight"]
        fields[field] = {one: Feature(x, table[one][0], table[one][1 : 1 + size]) for one, x in values.items()}
    return fields


def user_fields(weights: Weights, user: User) -> Fields:
    """The features of a user: in a row of a table their v_i comes after that of a candidate."""
    size = size_of(weights)
    ids = "features.users.ids"
    own = weights[f"{ids}.table.weight"][user.row] if user.row else weights[f"{ids}.unknown"]
    fields = {"user": {user.row: Feature(1.0, LEFT_OUT, own)}}
    for place, field in enumerate(("category", "subcategory", "words")):
        table = weights[f"features.{field}.weight"]
        nothing = weights["features.nothing"][place * size : (place + 1) * size]
        fields[f"clicked {field}"] = {} if user.clicked else {0: Feature(1.0, LEFT_OUT, nothing)}
        for news in user.clicked:
            for one, x in content(news)[field].items():
                so_far = fields[f"clicked {field}"].get(one, Feature(0.0, 0.0, []))
                value = so_far.value + x / len(user.clicked)
                fields[f"clicked {field}"][one] = Feature(value, LEFT_OUT, table[one][1 + size :])
    return fields


def machine(fields: Fields) -> float:
    """y(x) = w_0 + sum of w_i x_i + sum over i < j of <v_i, v_j> x_i x_j."""
    features = [feature for field in fields.values() for feature in field.values()]
    total = LEFT_OUT
    for feature in features:
        total += feature.weight * feature.value
    for one, other in combinations(features, 2):
        total += dot(one.vector, other.vector) * one.value * other.value
    return total


def own_part(weights: Weights, news: News) -> float:
    """What the features of a news come to, whoever reads it."""
    return machine(candidate_fields(weights, news)) - LEFT_OUT


def whole_machine(weights: Weights, user: User, news: News) -> float:
    """y(x) of all features of a user and of a candidate."""
    return machine(user_fields(weights, user) | candidate_fields(weights, news))


def libfm(weights: Weights, user: User, news: News) -> float:
    """What of y(x) is not the user's alone."""
    return whole_machine(weights, user, news) - machine(user_fields(weights, user))


def deep(weights: Weights, user: User, news: News) -> float:
    """y_DNN: all fields side by side, through all layers."""
    size = size_of(weights)
    activation: list[float] = []
    for field in (user_fields(weights, user) | candidate_fields(weights, news)).values():
        zeros = Feature(0.0, 0.0, [0.0] * size)
        features = [zeros, *field.values()]
        activation += mix([feature.value for feature in features], [feature.vector for feature in features])
    halves = zip(weights["deep.user.weight"], weights["deep.news.weight"], strict=True)
    matrices, biases = [[of_user + news_features for of_user, news_features in halves]], [weights["deep.user.bias"]]
    while f"deep.deeper.{len(matrices) - 1}.weight" in weights:
        biases.append(weights[f"deep.deeper.{len(matrices) - 1}.bias"])
        matrices.append(weights[f"deep.deeper.{len(matrices) - 1}.weight"])
    for matrix, bias in zip(matrices, biases, strict=True):
        activation = [max(z, 0.0) for z in add([dot(row, activation) for row in matrix], bias)]
    return dot(weights["deep.out.weight"][0], activation)


def deepfm(weights: Weights, user: User, news: News) -> float:
    """y_FM + y_DNN."""
    return libfm(weights, user, news) + deep(weights, user, news)
