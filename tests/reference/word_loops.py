"""Words and filters over them, one float at a time."""

from collections.abc import Sequence

from reference.drpn_loops import Vector, Weights, linear


def relu(vector: Vector) -> list[float]:
    return [max(x, 0.0) for x in vector]


def word_vectors(weights: Weights, words: Sequence[int]) -> list[Vector]:
    vectors: list[Vector] = [weights["table.weight"][word] for word in words]
    return [linear(weights, "project", vector) for vector in vectors] if "project.weight" in weights else vectors


def convolution(weights: Weights, words: Sequence[Vector], window: int) -> list[list[float]]:
    """ReLU(F [w_(i-a); ...; w_(i+b)] + f) of each word; b is a in an odd window, one more in an even one."""
    result = []
    for i in range(len(words)):
        first = i - (window - 1) // 2
        total = list(weights["filters.bias"])
        for place in range(window):
            if 0 <= first + place < len(words):
                word = words[first + place]
                for f, row in enumerate(weights["filters.weight"]):
                    for d, x in enumerate(word):
                        total[f] += row[place * len(word) + d] * x
        result.append(relu(total))
    return result
