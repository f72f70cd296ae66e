"""DRPN as its paper prints it, one float at a time: for one user, one candidate, and no padding anywhere.

Weights are nested lists named as in the model's state, `weight` being the transpose of the matrix in the paper. Where
the paper is silent, the scale of an attention is the square root of the size of the vectors that are multiplied, and
an attention over nothing gives a learned vector.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

Vector = Sequence[float]
Weights = dict[str, Any]
"""Name → a number, a list of numbers, or a list of lists of them."""


class News(NamedTuple):
    """One news: its words and neighbours are rows of tables, none of them padding."""

    words: list[int]
    row: int
    neighbours: list[int]
    seen: bool = True


class Variant(NamedTuple):
    """Which parts of the network there are."""

    denoise: bool = True
    graph: bool = True
    sides: tuple[str, ...] = ("clicked", "skipped")


VARIANTS = {
    "drpn": Variant(),
    "drpn-d": Variant(denoise=False),
    "drpn-g": Variant(graph=False),
    "drpn-dg": Variant(denoise=False, graph=False),
    "drpn-n": Variant(sides=("clicked",)),
    "drpn-p": Variant(sides=("skipped",)),
}
"""Section 5.5."""


class Heads(NamedTuple):
    """How many heads the attentions have."""

    attention: int
    graph: int


class Aggregated(NamedTuple):
    """A sequence as one vector, and how much each of its news counted."""

    vector: Vector
    weights: Vector


class Encoded(NamedTuple):
    """What is known of a news before any user comes in."""

    title: Vector
    id: Vector | None
    graph: Vector | None


class Viewed(NamedTuple):
    """One user as one view reads them for one candidate; `interests` and `beta` are in the order of Eq. 10."""

    interests: dict[str, Aggregated]
    beta: Vector
    user: Vector
    score: float


def part(weights: Weights, name: str) -> Weights:
    """The weights of one module of a module."""
    return {key.removeprefix(f"{name}."): value for key, value in weights.items() if key.startswith(f"{name}.")}


def dot(first: Vector, second: Vector) -> float:
    total = 0.0
    for a, b in zip(first, second, strict=True):
        total += a * b
    return total


def linear(weights: Weights, name: str, vector: Vector) -> list[float]:
    """x W + b; no b where the layer has none."""
    products = [dot(column, vector) for column in weights[f"{name}.weight"]]
    if f"{name}.bias" not in weights:
        return products
    return [product + b for product, b in zip(products, weights[f"{name}.bias"], strict=True)]


def add(first: Vector, second: Vector) -> list[float]:
    return [a + b for a, b in zip(first, second, strict=True)]


def tanh(vector: Vector) -> list[float]:
    return [math.tanh(x) for x in vector]


def softmax(logits: Vector) -> list[float]:
    exponentials = [math.exp(logit) for logit in logits]
    return [exponential / sum(exponentials) for exponential in exponentials]


def mix(weights: Vector, vectors: Sequence[Vector]) -> list[float]:
    """The sum of the vectors, each by its weight."""
    total = [0.0] * len(vectors[0])
    for weight, vector in zip(weights, vectors, strict=True):
        total = [t + weight * x for t, x in zip(total, vector, strict=True)]
    return total


def layer_norm(weights: Weights, vector: Vector) -> list[float]:
    mean = sum(vector) / len(vector)
    variance = sum((x - mean) ** 2 for x in vector) / len(vector)
    normal = [(x - mean) / math.sqrt(variance + 1e-5) for x in vector]
    return [n * w + b for n, w, b in zip(normal, weights["weight"], weights["bias"], strict=True)]


def attention_weights(query: Vector, keys: Sequence[Vector]) -> list[float]:
    """softmax(q K^T / sqrt(d))."""
    return softmax([dot(query, key) / math.sqrt(len(query)) for key in keys])


def attn(query: Vector, keys: Sequence[Vector], values: Sequence[Vector]) -> list[float]:
    """Eq. 1, for one row of Q."""
    return mix(attention_weights(query, keys), values)


def head(vector: Vector, i: int, heads: int) -> Vector:
    """What the i-th head has of a vector that was projected for all heads at once."""
    size = len(vector) // heads
    return vector[i * size : (i + 1) * size]


def multi_head(weights: Weights, sequence: Sequence[Vector], heads: int) -> list[list[float]]:
    """Eq. 2, of a sequence with itself."""
    queries, keys, values = (
        [linear(weights, name, vector) for vector in sequence] for name in ("query", "key", "value")
    )
    read = []
    for query in queries:
        joined: list[float] = []
        for i in range(heads):
            keys_i, values_i = ([head(vector, i, heads) for vector in vectors] for vectors in (keys, values))
            joined += attn(head(query, i, heads), keys_i, values_i)
        read.append(linear(weights, "join", joined))
    return read


def aggregate(weights: Weights, sequence: Sequence[Vector]) -> Aggregated:
    """Eq. 3."""
    logits = [linear(weights, "gate", tanh(linear(weights, "hidden", vector)))[0] for vector in sequence]
    importance = softmax(logits)
    return Aggregated(mix(importance, sequence), importance)


def in_context(weights: Weights, sequence: Sequence[Vector], heads: int) -> list[list[float]]:
    """LN(T + MH(T, T, T))."""
    read = multi_head(part(weights, "attention"), sequence, heads)
    return [layer_norm(part(weights, "norm"), add(own, around)) for own, around in zip(sequence, read, strict=True)]


def encode_title(weights: Weights, words: Sequence[int], heads: int) -> Vector:
    """Section 4.2."""
    if not words:
        return weights["untitled"]
    vectors = [weights["words.table.weight"][word] for word in words]
    if "words.project.weight" in weights:
        vectors = [linear(weights, "words.project", vector) for vector in vectors]
    return aggregate(part(weights, "aggregate"), in_context(weights, vectors, heads)).vector


def content_aggregator(weights: Weights, sequence: Sequence[Vector], heads: int | None) -> Aggregated:
    """Section 4.3.1; no heads: no self-attention either, as in section 4.5."""
    if not sequence:
        return Aggregated(weights["nothing"], [])
    if heads is not None:
        sequence = in_context(weights, sequence, heads)
    return aggregate(part(weights, "aggregate"), sequence)


def similarity(weights: Weights, own: Vector, read: Vector) -> float:
    """The first two lines of Eq. 6: [own; read] W_1 is what each half of W_1 makes of its half, added up."""
    hidden = add(linear(weights, "own", own), linear(weights, "read", read))
    return linear(weights, "out", tanh(hidden))[0]


def denoising_aggregator(weights: Weights, sequence: Sequence[Vector], opposite: Sequence[Vector] | None) -> Aggregated:
    """Section 4.3.2; `opposite` is None where the model reads one sequence only."""
    if not sequence:
        return Aggregated(weights["nothing"], [])
    logits = []
    for j, own in enumerate(sequence):
        query = linear(weights, "query", own)
        # intra-attention, Eq. 4
        rest = [vector for i, vector in enumerate(sequence) if i != j]
        if rest:
            alpha = attention_weights(query, [linear(weights, "key", vector) for vector in rest])
            same = linear(weights, "value", mix(alpha, rest))
        else:
            same = [0.0] * len(own)  # of one news the weight is 1, whatever this is
        logit = similarity(part(weights, "similar"), own, same)
        if opposite is not None:
            # inter-attention, Eq. 5
            if opposite:
                keys = [linear(weights, "opposite_key", vector) for vector in opposite]
                values = [linear(weights, "opposite_value", vector) for vector in opposite]
                contrary = attn(query, keys, values)
            else:
                contrary = weights["unopposed"]
            # the numerator of the third line of Eq. 6
            logit -= max(0.0, weights["gamma"]) * similarity(part(weights, "contrary"), own, contrary)
        logits.append(logit)
    importance = softmax(logits)
    return Aggregated(mix(importance, sequence), importance)


def read_neighbours(weights: Weights, own: Vector, neighbours: Sequence[Vector], heads: int) -> list[float]:
    """Section 4.4: the unnumbered equation and Eq. 7."""
    query = linear(weights, "query", own)
    keys, values = ([linear(weights, name, vector) for vector in neighbours] for name in ("key", "value"))
    read: list[float] = []
    for m in range(heads):
        keys_m, values_m = ([head(vector, m, heads) for vector in vectors] for vectors in (keys, values))
        read += attn(head(query, m, heads), keys_m, values_m)
    return read


def graph_network(weights: Weights, own: Vector, neighbours: Sequence[Vector], heads: int) -> list[float]:
    """Section 4.4, with Eq. 8 at its end."""
    read = read_neighbours(weights, own, neighbours, heads) if neighbours else weights["lonely"]
    both = [*own, *read]
    gate = [1 / (1 + math.exp(-x)) for x in linear(weights, "gate", both)]
    return [g * c for g, c in zip(gate, tanh(linear(weights, "content", both)), strict=True)]


def interests(
    weights: Weights, profile: dict[str, list[Vector]], variant: Variant, heads: int | None
) -> dict[str, Aggregated]:
    """p_s, n_s, p_h and n_h, those of them that the variant has, from the vectors of the clicked and skipped news."""
    found = {}
    for side in variant.sides:
        found[f"{side} content"] = content_aggregator(part(weights, f"sides.{side}.content"), profile[side], heads)
    if variant.denoise:
        for side in variant.sides:
            other = [profile[name] for name in variant.sides if name != side]
            found[f"{side} denoise"] = denoising_aggregator(
                part(weights, f"sides.{side}.denoise"), profile[side], other[0] if other else None
            )
    return found


def fusion_weights(weights: Weights, read: Sequence[Vector], candidate: Vector) -> list[float]:
    """Eq. 9 for each representation; `read` is [P|N]."""
    user = aggregate(part(weights, "reader"), read).vector if read else weights["nobody"]
    # [u_f; r_c] W_1 + b_1, of all representations one after the other
    hidden = tanh(add(linear(weights, "user", user), linear(weights, "candidate", candidate)))
    size = len(candidate)
    return [
        dot(hidden[f * size : (f + 1) * size], second) + bias
        for f, (second, bias) in enumerate(zip(weights["out"], weights["bias"], strict=True))
    ]


def view(
    weights: Weights,
    aggregated: dict[str, list[Vector]],
    plain: dict[str, list[Vector]],
    candidate: Vector,
    variant: Variant,
    heads: int | None,
) -> Viewed:
    """An interest encoder and its fusion net: `aggregated` are the vectors it reads, `plain` those the net reads."""
    found = interests(weights, aggregated, variant, heads)
    read = [vector for side in variant.sides for vector in plain[side]]
    beta = fusion_weights(part(weights, "fusion"), read, candidate)
    # Eq. 10, or 11
    user = mix(beta, [interest.vector for interest in found.values()])
    return Viewed(found, beta, user, dot(user, candidate))


def encode(weights: Weights, news: News, variant: Variant, heads: Heads) -> Encoded:
    """Sections 4.1, 4.2 and 4.4."""
    title = encode_title(part(weights, "title"), news.words, heads.attention)
    if not variant.graph:
        return Encoded(title, None, None)
    table = weights["id.table.weight"]
    own = table[news.row] if news.seen else weights["id.unknown"]
    neighbours = [table[row] for row in news.neighbours]
    return Encoded(title, own, graph_network(part(weights, "graph"), own, neighbours, heads.graph))


def views(
    weights: Weights, profile: dict[str, list[Encoded]], candidate: Encoded, variant: Variant, heads: Heads
) -> dict[str, Viewed]:
    """The semantic view (4.3) and the collaborative one (4.5), each with its fusion net (4.6)."""
    title, id, graph = (
        {side: [getattr(news, kind) for news in profile[side]] for side in variant.sides}
        for kind in ("title", "id", "graph")
    )
    found = {"semantic": view(part(weights, "semantic"), title, title, candidate.title, variant, heads.attention)}
    if variant.graph:
        found["collaborative"] = view(part(weights, "collaborative"), graph, id, candidate.id, variant, None)
    return found


def score(
    weights: Weights, profile: dict[str, list[Encoded]], candidate: Encoded, variant: Variant, heads: Heads
) -> float:
    """Section 4.7: u^t . r_c^t + u^o . r_c^o."""
    return sum(view.score for view in views(weights, profile, candidate, variant, heads).values())
