"""LibFM and DeepFM as their papers print them, one float at a time: one user, one candidate, no padding.

Weights are nested lists named as in the model's state. Features have names, so that a repeated feature is one feature,
and pairs of features are summed one by one. The machine has w_0 and weights for all features; those that the models
leave out have an arbitrary value here.
"""

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

from reference.drpn_loops import Vector, Weights, add, dot, mix

LEFT_OUT = 0.3
"""w_0, and the weight of every feature of a user: anything but zero."""


class Story(NamedTuple):
    """Category 0 means none; words are without padding."""

    row: int
    category: int
    subcategory: int
    words: list[int]
    seen: bool = True


class User(NamedTuple):
    """The user's row, 0 if unknown, and the clicked stories."""

    row: int
    clicked: Sequence[Story]


class Feature(NamedTuple):
    """x_i, w_i, v_i."""

    value: float
    weight: float
    vector: Vector


Fields = dict[str, dict[int, Feature]]
"""The features of each field, by row."""


def content(story: Story) -> dict[str, dict[int, float]]:
    """x_i of the content of a story."""
    values: dict[str, dict[int, float]] = {"category": {}, "subcategory": {}, "words": {}}
    if story.category:
        values["category"][story.category] = 1.0
    if story.subcategory:
        values["subcategory"][story.subcategory] = 1.0
    for word in story.words:
        values["words"][word] = story.words.count(word) / len(story.words)
    return values


def size_of(weights: Weights) -> int:
    return len(weights["features.ids.unknown"]) - 1


def candidate_fields(weights: Weights, story: Story) -> Fields:
    """The features of a candidate: a row of a table is w_i, then v_i."""
    size = size_of(weights)
    own = weights["features.ids.table.weight"][story.row] if story.seen else weights["features.ids.unknown"]
    fields = {"id": {story.row: Feature(1.0, own[0], own[1:])}}
    for field, values in content(story).items():
        table = weights[f"features.{field}.weight"]
        fields[field] = {row: Feature(x, table[row][0], table[row][1 : 1 + size]) for row, x in values.items()}
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
        for story in user.clicked:
            for row, x in content(story)[field].items():
                so_far = fields[f"clicked {field}"].get(row, Feature(0.0, 0.0, []))
                value = so_far.value + x / len(user.clicked)
                fields[f"clicked {field}"][row] = Feature(value, LEFT_OUT, table[row][1 + size :])
    return fields


def machine(fields: Fields) -> float:
    """y(x) = w_0 + sum of w_i x_i + sum over i < j of <v_i, v_j> x_i x_j."""
    features = [feature for field in fields.values() for feature in field.values()]
    total = LEFT_OUT
    for feature in features:
        total += feature.weight * feature.value
    for first, second in combinations(features, 2):
        total += dot(first.vector, second.vector) * first.value * second.value
    return total


def own_part(weights: Weights, story: Story) -> float:
    """The terms that only hold features of the story."""
    return machine(candidate_fields(weights, story)) - LEFT_OUT


def whole_machine(weights: Weights, user: User, story: Story) -> float:
    """y(x) of all features of a user and of a candidate."""
    return machine(user_fields(weights, user) | candidate_fields(weights, story))


def libfm(weights: Weights, user: User, story: Story) -> float:
    """y(x) without the terms that only hold features of the user."""
    return whole_machine(weights, user, story) - machine(user_fields(weights, user))


def deep(weights: Weights, user: User, story: Story) -> float:
    """y_DNN: all fields, concatenated, through all layers."""
    size = size_of(weights)
    activation: list[float] = []
    for field in (user_fields(weights, user) | candidate_fields(weights, story)).values():
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


def deepfm(weights: Weights, user: User, story: Story) -> float:
    """y_FM + y_DNN."""
    return libfm(weights, user, story) + deep(weights, user, story)
