"""DEERS as its paper describes it, one float at a time: one user, one candidate, no padding.

Weights are nested lists named as in the model's state. The two halves of the first layer of a side are concatenated.
The loops depart from the paper where the model does; see its module.
"""

import math
from collections.abc import Sequence
from itertools import chain

from reference.drpn_loops import Vector, Weights, dot, linear, part
from reference.fields_loops import Story, fields, relu


def item(weights: Weights, story: Story) -> list[float]:
    """The features, concatenated."""
    return list(chain.from_iterable(fields(part(weights, "fields"), story)))


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def gru(weights: Weights, items: Sequence[Vector]) -> list[float]:
    """The state after the last item; the first state is zero."""
    size = len(weights["state.weight"]) // 3
    state = [0.0] * size
    for vector in items:
        new_item, old = linear(weights, "items", vector), linear(weights, "state", state)
        reset = [sigmoid(new_item[i] + old[i]) for i in range(size)]
        update = [sigmoid(new_item[size + i] + old[size + i]) for i in range(size)]
        new = [math.tanh(new_item[2 * size + i] + reset[i] * old[2 * size + i]) for i in range(size)]
        state = [(1 - update[i]) * new[i] + update[i] * state[i] for i in range(size)]
    return state


def side(weights: Weights, items: Sequence[Vector], action: Vector) -> list[float]:
    """The output of the layers of one side for [s; a]."""
    state = gru(part(weights, "gru"), items) if items else weights["nothing"]
    first = [[*s, *a] for s, a in zip(weights["state.weight"], weights["action.weight"], strict=True)]
    whole = {"first.weight": first, "first.bias": weights["state.bias"]}
    hidden = relu(linear(whole, "first", [*state, *action]))
    for i in range(_count(weights, "deeper")):
        hidden = relu(linear(weights, f"deeper.{i}", hidden))
    return hidden


def score(weights: Weights, clicked: Sequence[Story], skipped: Sequence[Story], candidate: Story) -> float:
    """Q(s_+, s_-, a)."""
    action = item(weights, candidate)
    liked = side(part(weights, "clicked"), [item(weights, story) for story in clicked], action)
    disliked = side(part(weights, "skipped"), [item(weights, story) for story in skipped], action)
    hidden = [*liked, *disliked]
    for i in range(_count(weights, "joined")):
        hidden = relu(linear(weights, f"joined.{i}", hidden))
    return dot(weights["out.weight"][0], hidden)


def _count(weights: Weights, name: str) -> int:
    """The number of layers."""
    return len([key for key in weights if key.startswith(f"{name}.") and key.endswith("weight")])
