"""Inner products, and the precision of their results."""

import torch

from drpn.layers.attention import attention_logits
from drpn.layers.linear import at_least_float32, cast_like, dot_rowwise, dot_scores
from drpn.layers.normalisation import masked_moments


def numbers(*shape: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_inner_products_of_stories_and_users() -> None:
    stories, users = numbers(2, 3, 4), numbers(2, 4, seed=2)
    torch.testing.assert_close(dot_scores(stories, users), torch.einsum("bcd,bd->bc", stories, users))
    torch.testing.assert_close(dot_rowwise(stories, stories), stories.square().sum(-1))


def test_sums_are_in_float32_at_least() -> None:
    half, double = numbers(2, 3, 4).bfloat16(), numbers(2, 3, 4)
    for values, expected in ((half, torch.float32), (half.float(), torch.float32), (double, torch.float64)):
        assert at_least_float32(values).dtype == expected
        assert dot_scores(values, values[:, 0]).dtype == expected
        assert dot_rowwise(values, values).dtype == expected
        assert attention_logits(values, values).dtype == expected
    assert cast_like(double, half).dtype == torch.bfloat16


def test_attention_logits_of_masked_keys_are_the_smallest_number() -> None:
    query, key = numbers(2, 3, 4), numbers(2, 5, 4, seed=2)
    mask = torch.tensor([[True, False, True, True, False], [False] * 5])
    logits = attention_logits(query, key, mask[:, None])
    expected = query @ key.transpose(1, 2) / 2
    torch.testing.assert_close(logits[0][:, mask[0]], expected[0][:, mask[0]])
    assert (logits[1] == torch.finfo(torch.float64).min).all()


def test_mean_and_variance_of_masked_rows() -> None:
    values, mask = numbers(2, 3, 4), torch.tensor([[True, False, True], [False, True, True]])
    mean, variance = masked_moments(values, mask)
    torch.testing.assert_close(mean, values[mask].mean(0))
    torch.testing.assert_close(variance, values[mask].var(0, correction=0))
    for moment in masked_moments(values, mask & False):
        assert not moment.any()
