"""The recurrent layer with padding against that of torch without padding."""

import pytest
import torch
from torch import Tensor, nn

from drpn.layers.linear import joint_linear
from drpn.layers.recurrent import Gru

SIZE, HIDDEN = 5, 4
LENGTHS = [6, 1, 3, 0, 4]


def drawn() -> tuple[Gru, nn.GRU, list[Tensor], Tensor]:
    """The layer, torch's layer with the same weights, sequences of several lengths, and a first state for each."""
    torch.manual_seed(7)
    layer, whole = Gru(SIZE, HIDDEN).double(), nn.GRU(SIZE, HIDDEN).double()
    whole.load_state_dict(
        {
            "weight_ih_l0": layer.items.weight,
            "bias_ih_l0": layer.items.bias,
            "weight_hh_l0": layer.state.weight,
            "bias_hh_l0": layer.state.bias,
        }
    )
    return layer, whole, [torch.randn(n, SIZE).double() for n in LENGTHS], torch.randn(len(LENGTHS), HIDDEN).double()


def at_the_end(sequence: Tensor, width: int) -> tuple[Tensor, Tensor]:
    places = torch.arange(width) < len(sequence)
    return torch.cat([sequence, torch.full((width - len(sequence), SIZE), 9.0).double()]), places


def in_front(sequence: Tensor, width: int) -> tuple[Tensor, Tensor]:
    padded, places = at_the_end(sequence, width)
    return padded.roll(width - len(sequence), dims=0), places.roll(width - len(sequence))


def in_between(sequence: Tensor, width: int) -> tuple[Tensor, Tensor]:
    padded, places = at_the_end(sequence, width)
    return torch.stack([padded, padded], 1).flatten(0, 1), torch.stack([places, places & False], 1).flatten()


def states(layer: Gru, padded: list[tuple[Tensor, Tensor]], first: Tensor | None) -> Tensor:
    items, mask = (torch.stack(parts) for parts in zip(*padded, strict=True))
    actual: Tensor = layer(joint_linear(items, layer.weights()), mask, first)
    return actual


@pytest.mark.parametrize("pad", [at_the_end, in_front, in_between])
@pytest.mark.parametrize("given", [True, False], ids=["a first state", "no first state"])
def test_the_last_state_against_torch(pad, given: bool) -> None:
    layer, whole, sequences, first = drawn()
    begin = first if given else torch.zeros_like(first)
    expected = [
        whole(sequence, state[None])[1][0] if len(sequence) else state
        for sequence, state in zip(sequences, begin, strict=True)
    ]
    actual = states(layer, [pad(sequence, 7) for sequence in sequences], first if given else None)
    torch.testing.assert_close(actual, torch.stack(expected), rtol=1e-9, atol=0)


def test_gradients_against_torch() -> None:
    layer, whole, sequences, first = drawn()
    actual = states(layer, [at_the_end(sequence, 7) for sequence in sequences], first.requires_grad_())
    of_layer = torch.autograd.grad(actual.square().sum(), [*layer.parameters(), first])
    expected = torch.stack(
        [
            whole(sequence, state[None])[1][0] if len(sequence) else state
            for sequence, state in zip(sequences, first, strict=True)
        ]
    )
    weights = [whole.weight_ih_l0, whole.bias_ih_l0, whole.weight_hh_l0, whole.bias_hh_l0]
    of_torch = torch.autograd.grad(expected.square().sum(), [*weights, first])
    for one, other in zip(of_layer, of_torch, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("width", [0, 3])
def test_an_empty_sequence_keeps_the_first_state(width: int) -> None:
    layer, _, _, first = drawn()
    nothing = torch.zeros(len(first), width, 3 * HIDDEN).double()
    mask = torch.zeros(len(first), width, dtype=torch.bool)
    assert torch.equal(layer(nothing, mask, first), first)
    assert not layer(nothing, mask).any()


def test_the_state_is_float32_for_bf16_items() -> None:
    layer = Gru(SIZE, HIDDEN)
    projected = joint_linear(torch.randn(2, 3, SIZE), layer.weights()).bfloat16()
    mask = torch.ones(2, 3, dtype=torch.bool)
    actual = layer(projected, mask)
    assert actual.dtype == torch.float32
    assert torch.equal(actual, layer(projected.float(), mask))
