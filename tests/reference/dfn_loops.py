"""DFN as its paper describes it, one float at a time: one user, one candidate, no padding.

Weights are nested lists named as in the model's state. The candidate is part of each sequence, everything is computed
for each candidate, vectors are concatenated, and pairs are summed one by one. The loops depart from the paper where the
model does; see its module.
"""

import math
from collections.abc import Sequence
from itertools import chain, combinations
from typing import Any

from reference.drpn_loops import Vector, Weights, add, attn, dot, head, linear, mix, part, softmax
from reference.fields_loops import Story, fields, mean, relu


def item(weights: Weights, story: Story) -> list[float]:
    """The features, concatenated, without their weights in the first column."""
    return list(chain.from_iterable(field[1:] for field in fields(part(weights, "fields"), story)))


def behaviours(weights: Weights, items: Sequence[Vector]) -> list[list[float]]:
    """x = W [item; place] of each item, oldest first; the newest has place 1, the oldest share the last place."""
    table = weights["places.weight"]
    joined = [[*a, *b] for a, b in zip(weights["item.weight"], weights["place.weight"], strict=True)]
    result = []
    for i, vector in enumerate(items):
        place = table[min(len(items) - i, len(table) - 1)]
        result.append(linear({"whole.weight": joined}, "whole", [*vector, *place]))
    return result


def transformer(weights: Weights, sequence: Sequence[Vector], heads: int) -> list[float]:
    """The mean over items of the output of the feed-forward network."""
    queries, keys, values = (
        [linear(weights, f"attention.{name}", vector) for vector in sequence] for name in ("query", "key", "value")
    )
    made = []
    for query in queries:
        read: list[float] = []
        for i in range(heads):
            keys_i, values_i = ([head(vector, i, heads) for vector in vectors] for vectors in (keys, values))
            read += attn(head(query, i, heads), keys_i, values_i)
        made.append(linear(weights, "narrow", relu(linear(weights, "widen", read))))
    return mean(made)


def external(weights: Weights, feedback: Vector, items: Sequence[Vector]) -> Any:
    """The sum of the items, weighted by the softmax of w^T ReLU(W [f; x; f * x; f - x] + b) / sqrt(d)."""
    if not items:
        return weights["nothing"]
    logits = []
    for x in items:
        product = [a * b for a, b in zip(feedback, x, strict=True)]
        difference = [a - b for a, b in zip(feedback, x, strict=True)]
        hidden = relu(linear(weights, "hidden", [*feedback, *x, *product, *difference]))
        logits.append(dot(weights["gate.weight"][0], hidden) / math.sqrt(len(x)))
    return mix(softmax(logits), items)


def machine(vectors: Sequence[Vector]) -> list[float]:
    """The sum of v_i * v_j over all pairs."""
    total = [0.0] * len(vectors[0])
    for first, second in combinations(vectors, 2):
        total = add(total, [a * b for a, b in zip(first, second, strict=True)])
    return total


def score(weights: Weights, clicked: Sequence[Story], skipped: Sequence[Story], candidate: Story, heads: int) -> float:
    """w^T [wide; FM; deep]."""
    target = item(weights, candidate)
    clicks = behaviours(part(weights, "clicked"), [item(weights, story) for story in clicked])
    skips = behaviours(part(weights, "skipped"), [item(weights, story) for story in skipped])
    by_clicks = transformer(part(weights, "clicked"), [target, *clicks], heads)
    by_skips = transformer(part(weights, "skipped"), [target, *skips], heads)
    seen = external(part(weights, "external"), by_clicks, skips)
    together = [*target, *by_clicks, *by_skips, *seen]
    size = len(target) // 4
    pairs = machine([together[i : i + size] for i in range(0, len(together), size)])
    wide = [field[0] for field in fields(part(weights, "fields"), candidate)]
    first = [[*a, *b] for a, b in zip(weights["deep_target.weight"], weights["deep_feedback.weight"], strict=True)]
    deep = relu(linear({"first.weight": first, "first.bias": weights["deep_target.bias"]}, "first", together))
    deep = relu(linear(weights, "deepest", deep))
    return dot([*weights["out_wide.weight"][0], *weights["out.weight"][0]], [*wide, *pairs, *deep])
