"""Word vectors and convolutions over them, written as loops over floats."""

from collections.abc import Sequence

from reference.drpn_loops import Vector, Weights, linear


def relu(vector: Vector) -> list[float]:
    return [max(x, 0.0) for x in vector]


def word_vectors(weights: Weights, words: Sequence[int]) -> list[Vector]:
    vectors: list[Vector] = [weights["table.weight"][word] for word in words]
    return [linear(weights, "project", vector) for vector in vectors] if "project.weight" in weights else vectors


def convolution(weights: Weights, words: Sequence[Vector], window: int) -> list[list[float]]:
    """ReLU(F [w_(i-a); ...; w_(i+b)] + f) for each word; b = a in an odd window, b = a + 1 in an even one."""
    outputs = []
    for i in range(len(words)):
        first = i - (window - 1) // 2
        total = list(weights["filters.bias"])
        for offset in range(window):
            if 0 <= first + offset < len(words):
                word = words[first + offset]
                for f, row in enumerate(weights["filters.weight"]):
                    for d, x in enumerate(word):
                        total[f] += row[offset * len(word) + d] * x
        outputs.append(relu(total))
    return outputs
