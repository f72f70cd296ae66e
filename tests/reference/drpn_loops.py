"""DRPN as its paper prints it, one float at a time: one user, one candidate, no padding.

Weights are nested lists named as in the model's state; a `weight` is the transpose of the matrix in the paper. Where
the paper is silent, the scale of an attention is the square root of the size of the multiplied vectors, and attention
over an empty sequence gives a learned vector.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

Vector = Sequence[float]
Weights = dict[str, Any]
"""Name → a number, a list of numbers, or a list of lists of them."""
Labels = dict[str, list[tuple[int, int]]]
"""Category and subcategory of each story of each sequence, 0 for none."""


class Story(NamedTuple):
    """Words and neighbours are rows of tables, without padding."""

    words: list[int]
    row: int
    neighbours: list[int]
    seen: bool = True
    category: int = 0
    subcategory: int = 0


class Variant(NamedTuple):
    """The parts of a network."""

    denoise: bool = True
    graph: bool = True
    network: bool = True
    """Whether stories read their graph neighbours."""
    sides: tuple[str, ...] = ("clicked", "skipped")
    labels: bool = False
    """Whether labels are compared."""
    probability: bool = False
    """Whether weights are in proportion to the probability that a story is real."""


VARIANTS = {
    "drpn": Variant(),
    "drpn-d": Variant(denoise=False),
    "drpn-g": Variant(graph=False),
    "drpn-g-ids": Variant(network=False),
    "drpn-dg": Variant(denoise=False, graph=False),
    "drpn-n": Variant(sides=("clicked",)),
    "drpn-p": Variant(sides=("skipped",)),
    "drpn-planted": Variant(labels=True, probability=True),
    "drpn-planted, softmax": Variant(labels=True),
    "drpn-planted, no labels": Variant(probability=True),
    "drpn-planted, clicks alone": Variant(labels=True, probability=True, sides=("clicked",)),
    "drpn-planted, no graph": Variant(labels=True, probability=True, graph=False),
}
"""Section 5.5, id vectors without the graph network, and DRPN that is trained to find noise, also without its parts."""


class Heads(NamedTuple):
    """Numbers of heads."""

    attention: int
    graph: int


class Aggregated(NamedTuple):
    """A sequence as one vector, and the weight of each story."""

    vector: Vector
    weights: Vector


class Encoded(NamedTuple):
    """The vectors of a story."""

    title: Vector
    id: Vector | None
    graph: Vector | None
    labels: tuple[int, int]


class Viewed(NamedTuple):
    """One view of a user for one candidate; `interests` and `beta` are in the order of Eq. 10."""

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
    """x W + b, or x W for a layer without bias."""
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
    """The weighted sum of the vectors."""
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
    """The part of the i-th head in a vector that holds all heads."""
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
    """Section 4.3.1; without heads there is no self-attention, as in section 4.5."""
    if not sequence:
        return Aggregated(weights["nothing"], [])
    if heads is not None:
        sequence = in_context(weights, sequence, heads)
    return aggregate(part(weights, "aggregate"), sequence)


def similarity(weights: Weights, own: Vector, read: Vector) -> float:
    """The first two lines of Eq. 6; [own; read] W_1 is the sum of the products with both halves of W_1."""
    hidden = add(linear(weights, "own", own), linear(weights, "read", read))
    return linear(weights, "out", tanh(hidden))[0]


def shared_labels(labels: Sequence[int], others: Sequence[Sequence[int]]) -> list[float]:
    """How a story's labels occur among others: log(1 + their number), then for each label log(1 + count) and share."""
    evidence = [math.log(1 + len(others))]
    for kind, label in enumerate(labels):
        count = sum(label != 0 and other[kind] == label for other in others)
        evidence += [math.log(1 + count), count / max(len(others), 1)]
    return evidence


def denoising_aggregator(
    weights: Weights,
    sequence: Sequence[Vector],
    opposite: Sequence[Vector] | None,
    labels: Sequence[Sequence[int]] | None = None,
    opposite_labels: Sequence[Sequence[int]] | None = None,
    *,
    probability: bool = False,
) -> Aggregated:
    """Section 4.3.2; `opposite` is None if the model reads only one sequence, labels if they are not compared."""
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
            same = [0.0] * len(own)  # a single story has weight 1 anyway
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
        if labels is not None:
            evidence = shared_labels(labels[j], [*labels[:j], *labels[j + 1 :]])
            evidence += [] if opposite_labels is None else shared_labels(labels[j], opposite_labels)
            logit *= weights["evidence.similarity"]
            logit += linear(weights, "evidence.out", tanh(linear(weights, "evidence.hidden", evidence)))[0]
        logits.append(logit)
    if not probability:
        importance = softmax(logits)
    else:
        a, b = weights["calibration.slope"], weights["calibration.offset"]
        real = [1 / (1 + math.exp(-a * logit - b)) for logit in logits]
        importance = [probability / sum(real) for probability in real]
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
    weights: Weights, profile: dict[str, list[Vector]], labels: Labels, variant: Variant, heads: int | None
) -> dict[str, Aggregated]:
    """p_s, n_s, p_h and n_h, as far as the variant has them, from the vectors of clicked and skipped stories."""
    result = {}
    for side in variant.sides:
        result[f"{side} content"] = content_aggregator(part(weights, f"sides.{side}.content"), profile[side], heads)
    if variant.denoise:
        for side in variant.sides:
            own = part(weights, f"sides.{side}.denoise")
            other = next((name for name in variant.sides if name != side), None)
            opposite = None if other is None else profile[other]
            compared = (labels[side], labels.get(other or "")) if variant.labels else ()
            result[f"{side} denoise"] = denoising_aggregator(
                own, profile[side], opposite, *compared, probability=variant.probability
            )
    return result


def fusion_weights(weights: Weights, read: Sequence[Vector], candidate: Vector) -> list[float]:
    """Eq. 9 for each representation; `read` is [P|N]."""
    user = aggregate(part(weights, "reader"), read).vector if read else weights["nobody"]
    # [u_f; r_c] W_1 + b_1 of all representations, concatenated
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
    labels: Labels,
    candidate: Vector,
    variant: Variant,
    heads: int | None,
) -> Viewed:
    """An interest encoder, which reads `aggregated`, and its fusion net, which reads `plain`."""
    result = interests(weights, aggregated, labels, variant, heads)
    read = [vector for side in variant.sides for vector in plain[side]]
    beta = fusion_weights(part(weights, "fusion"), read, candidate)
    # Eq. 10, or 11
    user = mix(beta, [interest.vector for interest in result.values()])
    return Viewed(result, beta, user, dot(user, candidate))


def encode(weights: Weights, story: Story, variant: Variant, heads: Heads) -> Encoded:
    """Sections 4.1, 4.2 and 4.4."""
    title = encode_title(part(weights, "title"), story.words, heads.attention)
    labels = story.category, story.subcategory
    if not variant.graph:
        return Encoded(title, None, None, labels)
    table = weights["id.table.weight"]
    own = table[story.row] if story.seen else weights["id.unknown"]
    if not variant.network:
        return Encoded(title, own, own, labels)
    # a neighbour that training never met is unknown too
    neighbours = [table[row] if weights["id.met"][row] else weights["id.unknown"] for row in story.neighbours]
    return Encoded(title, own, graph_network(part(weights, "graph"), own, neighbours, heads.graph), labels)


def views(
    weights: Weights, profile: dict[str, list[Encoded]], candidate: Encoded, variant: Variant, heads: Heads
) -> dict[str, Viewed]:
    """The semantic view (4.3) and the collaborative one (4.5), each with its fusion net (4.6)."""
    title, id, graph, labels = (
        {side: [getattr(story, kind) for story in profile[side]] for side in variant.sides}
        for kind in ("title", "id", "graph", "labels")
    )
    result = {
        "semantic": view(part(weights, "semantic"), title, title, labels, candidate.title, variant, heads.attention)
    }
    if variant.graph:
        result["collaborative"] = view(part(weights, "collaborative"), graph, id, labels, candidate.id, variant, None)
    return result


def score(
    weights: Weights, profile: dict[str, list[Encoded]], candidate: Encoded, variant: Variant, heads: Heads
) -> float:
    """Section 4.7: u^t . r_c^t + u^o . r_c^o."""
    return sum(view.score for view in views(weights, profile, candidate, variant, heads).values())
