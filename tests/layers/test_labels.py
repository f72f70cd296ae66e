"""Evidence from shared categories and subcategories."""

import math

import torch

from drpn.layers.labels import LabelEvidence, shared_labels
from reference import drpn_loops as loops

LABELS = torch.tensor([[7, 7], [1, 1], [1, 2], [2, 3], [0, 0], [0, 0]])
"""The labels of padding must not be read; the last two stories have none."""


def counts(own: list[int], other: list[int] | None) -> torch.Tensor:
    """The evidence of each story of `own`."""
    itself = int(other is None)
    second = torch.tensor([own if other is None else other])
    return torch.stack(shared_labels(LABELS, torch.tensor([own]), second, itself=itself), dim=2)[0]


def test_a_story_is_compared_with_the_rest_of_its_sequence() -> None:
    actual = counts([0, 1, 2, 3, 2, 0], None)
    # stories 1, 2 and 2 share a category, 2 and 2 a subcategory; three stories to compare with
    three = math.log(4)
    expected = [
        [three, math.log(3), 2 / 3, 0, 0],
        [three, math.log(3), 2 / 3, math.log(2), 1 / 3],
        [three, 0, 0, 0, 0],
        [three, math.log(3), 2 / 3, math.log(2), 1 / 3],
    ]
    torch.testing.assert_close(actual[1:5], torch.tensor(expected))


def test_stories_without_labels_share_none() -> None:
    assert not counts([4, 5], None)[:, 1:].any()
    assert not counts([4], [5, 0, 0])[:, 1:].any()


def test_an_only_story_and_an_empty_opposite_sequence_give_no_evidence() -> None:
    assert not counts([0, 3], None)[1].any()
    assert not counts([0, 3], [0, 0])[1].any()


def test_padding_is_not_compared() -> None:
    torch.testing.assert_close(counts([1, 2], [3, 2]), counts([0, 0, 1, 2], [0, 3, 0, 2])[2:])


def test_evidence_against_a_loop_and_zero_at_the_start() -> None:
    evidence = LabelEvidence(opposite=True)
    own, other = torch.tensor([[1, 2, 3, 2]]), torch.tensor([[3, 1, 0, 0]])
    assert not evidence(LABELS, own, other).any()
    torch.nn.init.normal_(evidence.out.weight)
    weights = {name: tensor.tolist() for name, tensor in evidence.state_dict().items()}
    labels, opposite = LABELS[own[0]].tolist(), LABELS[other[0, :2]].tolist()
    expected = []
    for place, mine in enumerate(labels):
        rest = [theirs for index, theirs in enumerate(labels) if index != place]
        known = loops.shared_labels(mine, rest) + loops.shared_labels(mine, opposite)
        expected += loops.linear(weights, "out", loops.tanh(loops.linear(weights, "hidden", known)))
    torch.testing.assert_close(evidence(LABELS, own, other)[0], torch.tensor(expected))
