"""Evidence from labels: how many other stories of a profile have the category and the subcategory of a story."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from drpn.layers.linear import dot

Labels = Int[Tensor, "U 2"]
"""Category and subcategory of each story; 0 for none."""
_HIDDEN = 16


class LabelEvidence(nn.Module):
    """A logit for each story from the other stories of both sequences that share its labels, as counts and as shares.

    It is 0 before training.
    """

    similarity: Tensor
    """1 if the similarities of Eq. 6 are added to the logit; 0 if the logit alone is the trust in a story."""

    def __init__(self, *, opposite: bool) -> None:
        super().__init__()
        self.register_buffer("similarity", torch.ones(()))
        self.hidden = nn.Linear(10 if opposite else 5, _HIDDEN)
        self.out = nn.Linear(_HIDDEN, 1, bias=False)
        nn.init.zeros_(self.out.weight)

    def forward(
        self, labels: Labels, own: Int[Tensor, "B S"], other: Int[Tensor, "B T"] | None
    ) -> Float[Tensor, "B S"]:
        """The logit of each story of `own`; `other` is the opposite sequence."""
        dtype = self.hidden.weight.dtype
        counts = shared_labels(labels, own, own, itself=1, dtype=dtype)
        if other is not None:
            counts = counts + shared_labels(labels, own, other, itself=0, dtype=dtype)
        read = torch.tanh(self.hidden(torch.stack(counts, dim=2)))  # (B S hidden)
        return dot(read, self.out.weight[0])


def trust_labels_alone(model: nn.Module, alone: bool) -> None:
    """Choose whether labels alone make the trust in a story, or also the similarities of Eq. 6."""
    for module in model.modules():
        if isinstance(module, LabelEvidence):
            module.similarity.fill_(0.0 if alone else 1.0)


def shared_labels(
    labels: Labels,
    own: Int[Tensor, "B S"],
    other: Int[Tensor, "B T"],
    *,
    itself: int,
    dtype: torch.dtype = torch.float32,
) -> list[Float[Tensor, "B S"]]:
    """log(1 + n) of the number of stories to compare with and, for each label, of those that share it, and their share.

    `itself` is 1 if `other` is the same sequence: a story is not compared with itself.
    """
    present, mine, theirs = other != 0, labels[own.long()], labels[other.long()]  # (B T), (B S 2), (B T 2)
    total = (present.sum(1, keepdim=True) - itself).clamp(min=0).to(dtype).expand(own.shape)
    counts = [torch.log1p(total)]
    for label, other_label in zip(mine.unbind(2), theirs.unbind(2), strict=True):
        known = (own != 0) & (label != 0)
        same = (label.unsqueeze(2) == other_label.unsqueeze(1)) & known.unsqueeze(2) & present.unsqueeze(1)  # (B S T)
        shared = (same.sum(2) - itself).clamp(min=0).to(dtype)
        counts += [torch.log1p(shared), shared / total.clamp(min=1)]
    return counts
