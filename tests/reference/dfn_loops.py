"""DFN as its paper describes it, one float at a time: for one user, one candidate, and no padding anywhere.

Weights are nested lists named as in the model's state. The candidate stands in each sequence and everything is computed
anew for it; concatenations are made, and pairs of vectors are gone through one by one. Where the model departs from the
paper, so do the loops: see its module.
"""

import math
from collections.abc import Sequence
from itertools import chain, combinations
from typing import Any

from reference.drpn_loops import Vector, Weights, add, attn, dot, head, linear, mix, part, softmax
from reference.fields_loops import News, fields, mean, relu


def item(weights: Weights, one: News) -> list[float]:
    """The features side by side, without the weights that stand in front of them."""
    return list(chain.from_iterable(field[1:] for field in fields(part(weights, "fields"), one)))


def behaviours(weights: Weights, items: Sequence[Vector]) -> list[list[float]]:
    """x = W [item; place] of each item, oldest first; the newest is at place 1, and places end where the table does."""
    table = weights["places.weight"]
    joined = [[*a, *b] for a, b in zip(weights["item.weight"], weights["place.weight"], strict=True)]
    found = []
    for i, one in enumerate(items):
        place = table[min(len(items) - i, len(table) - 1)]
        found.append(linear({"whole.weight": joined}, "whole", [*one, *place]))
    return found


def transformer(weights: Weights, sequence: Sequence[Vector], heads: int) -> list[float]:
    """The mean of what the feed-forward network makes of what each item reads."""
    queries, keys, values = (
        [linear(weights, f"attention.{name}", one) for one in sequence] for name in ("query", "key", "value")
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
    """The items, each by its share in a softmax of w^T ReLU(W [f; x; f * x; f - x] + b) / sqrt(d)."""
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
    for one, other in combinations(vectors, 2):
        total = add(total, [a * b for a, b in zip(one, other, strict=True)])
    return total


def score(weights: Weights, clicked: Sequence[News], skipped: Sequence[News], candidate: News, heads: int) -> float:
    """w^T [wide; FM; deep]."""
    target = item(weights, candidate)
    clicks = behaviours(part(weights, "clicked"), [item(weights, one) for one in clicked])
    skips = behaviours(part(weights, "skipped"), [item(weights, one) for one in skipped])
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
