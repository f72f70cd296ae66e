"""The convolution over words against loops, and against more padding."""

import pytest
import torch
from torch import Tensor

from drpn.layers.convolution import WordConvolution, masked_max
from reference.word_loops import convolution as loops

SIZE, FILTERS = 3, 4
LENGTHS = [5, 1, 0, 3, 6]

every_window = pytest.mark.parametrize("window", [1, 2, 3, 4, 5])


def layer(window: int) -> WordConvolution:
    torch.manual_seed(window)
    return WordConvolution(SIZE, FILTERS, window).double()


def texts(width: int = max(LENGTHS)) -> tuple[Tensor, Tensor]:
    """Word vectors of texts of these lengths, with large numbers at padding, and their mask."""
    torch.manual_seed(9)
    words = torch.randn(len(LENGTHS), max(LENGTHS), SIZE).double()
    mask = torch.arange(width) < torch.tensor(LENGTHS).unsqueeze(1)
    filled = torch.full((len(LENGTHS), width, SIZE), 1e3).double()
    filled[:, : max(LENGTHS)] = torch.where(mask[:, : max(LENGTHS), None], words, 1e3)
    return filled, mask


@every_window
def test_against_loops(window: int) -> None:
    convolution, (words, mask) = layer(window), texts()
    weights = {name: tensor.tolist() for name, tensor in convolution.state_dict().items()}
    actual = convolution(words, mask)
    assert (actual[mask] == 0).any()  # the ReLU has an effect
    expected = [
        one
        for text, length in zip(words, LENGTHS, strict=True)
        for one in loops(weights, text[:length].tolist(), window)
    ]
    torch.testing.assert_close(actual[mask], torch.tensor(expected, dtype=torch.float64), rtol=1e-9, atol=1e-12)


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths:UserWarning")
@every_window
def test_against_the_convolution_of_torch(window: int) -> None:
    convolution, (words, mask) = layer(window), texts()
    weight = convolution.filters.weight.view(FILTERS, window, SIZE).transpose(1, 2)
    expected = torch.nn.functional.conv1d(
        (words * mask.unsqueeze(-1)).transpose(1, 2), weight, convolution.filters.bias, padding="same"
    )
    torch.testing.assert_close(convolution(words, mask), expected.transpose(1, 2).relu(), rtol=1e-9, atol=1e-12)


@every_window
def test_more_padding_does_not_change_the_output(window: int) -> None:
    convolution, (words, mask) = layer(window), texts()
    longer, longer_mask = texts(width=max(LENGTHS) + 3)
    assert torch.equal(convolution(longer, longer_mask)[longer_mask], convolution(words, mask)[mask])


@every_window
def test_padding_gets_no_gradient(window: int) -> None:
    convolution, (words, mask) = layer(window), texts()
    words.requires_grad_()
    convolution(words, mask)[mask].sum().backward()
    assert words.grad is not None
    assert not words.grad[~mask].any()
    assert words.grad[mask].any()


def test_masked_maximum() -> None:
    values = torch.tensor([[[1.0, -5.0], [3.0, -2.0], [9.0, 9.0]], [[-4.0, 0.5], [8.0, 8.0], [8.0, 8.0]]])
    mask = torch.tensor([[True, True, False], [True, False, False]])
    assert masked_max(values, mask).tolist() == [[3.0, -2.0], [-4.0, 0.5]]


@pytest.mark.parametrize("width", [0, 2])
def test_the_maximum_of_an_empty_text_is_finite_and_has_no_gradient(width: int) -> None:
    values = torch.ones(3, width, 5, requires_grad=True)
    actual = masked_max(values, torch.zeros(3, width, dtype=torch.bool))
    assert actual.shape == (3, 5)
    assert (actual == torch.finfo(torch.float32).min).all()
    if width:
        actual.sum().backward()
        assert values.grad is not None
        assert not values.grad.any()
