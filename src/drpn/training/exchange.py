"""Average the gradients of several processes.

Gradients of ordinary weights are copied into one tensor, which is summed over all processes in one exchange. Of tables
of words and ids only the rows that some process used are exchanged.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from drpn.ranks import Ranks


class FlatGradients:
    """Copies of gradients in one tensor for each dtype; all processes have gradients of the same shapes.

    `pack`, `average` and `unpack` are called in this order. Only `average` exchanges, so that the others can be
    captured as parts of CUDA graphs.
    """

    def __init__(self, gradients: Sequence[Tensor]) -> None:
        self._gradients: list[list[Tensor]] = []
        self._flat: list[Tensor] = []
        self._views: list[list[Tensor]] = []
        for dtype in dict.fromkeys(gradient.dtype for gradient in gradients):
            own = [gradient for gradient in gradients if gradient.dtype == dtype]
            sizes = [gradient.numel() for gradient in own]
            flat = own[0].new_empty(sum(sizes))
            pieces = zip(torch.split(flat, sizes), own, strict=True)
            self._gradients.append(own)
            self._flat.append(flat)
            self._views.append([piece.view(gradient.shape) for piece, gradient in pieces])

    def pack(self) -> None:
        """Copy the gradients into the flat tensors."""
        for views, gradients in zip(self._views, self._gradients, strict=True):
            torch._foreach_copy_(views, gradients)

    def average(self, ranks: Ranks) -> None:
        """Replace the flat tensors by their mean over all processes."""
        for flat in self._flat:
            ranks.add(flat).div_(ranks.size)

    def unpack(self) -> None:
        """Copy the flat tensors back into the gradients."""
        for views, gradients in zip(self._views, self._gradients, strict=True):
            torch._foreach_copy_(gradients, views)


def average_rows(gradients: Sequence[Tensor], ranks: Ranks) -> list[Tensor]:
    """The mean gradients of tables over all processes; dense gradients are changed in place and returned."""
    if not gradients:
        return []
    used = [_used_rows(gradient) for gradient in gradients]
    # the host knows these numbers: they travel from there, and no process waits for its GPU again
    counts = torch.stack(ranks.each(torch.tensor([len(rows) for rows, _ in used]))).T.tolist()
    return [
        _mean_rows(gradient, ranks.rows(rows, numbers), ranks.rows(values, numbers))
        for gradient, (rows, values), numbers in zip(gradients, used, counts, strict=True)
    ]


def _used_rows(gradient: Tensor) -> tuple[Tensor, Tensor]:
    """The rows of a gradient that are not zero: their numbers, each once, and their values."""
    if gradient.is_sparse:
        gradient = gradient.coalesce()
        return gradient.indices()[0], gradient.values()
    rows = gradient.any(1).nonzero().flatten()
    return rows, gradient[rows]


def _mean_rows(gradient: Tensor, rows: list[Tensor], values: list[Tensor]) -> Tensor:
    """The mean gradient, from the rows of every process."""
    parts = [part / len(rows) for part in values]
    if gradient.is_sparse:
        both = torch.cat(rows)[None], torch.cat(parts)
        return torch.sparse_coo_tensor(*both, gradient.shape, check_invariants=False).coalesce()
    gradient.zero_()
    # process by process: a GPU adds to a row that is given twice in any order, and weights would drift apart
    for own, part in zip(rows, parts, strict=True):
        gradient.index_add_(0, own, part)
    return gradient
