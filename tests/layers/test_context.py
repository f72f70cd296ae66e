"""The context view: its features, quantiles and attention, and what it must not read."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from drpn.layers.context import FEATURES, TEXT, ContextView, LiveShape, Pieces, Quantiles, derive
from drpn.state.count_columns import PAGE, PAIR, USER_PAGE, USER_PAIR

USER_COLUMNS = (4, 3)
"""Codes of two columns of the reader."""
NO_MASK = torch.ones(5, 6, dtype=torch.bool)


class Inputs:
    """Random counts of five pages with six candidates."""

    def __init__(self, seed: int = 0) -> None:
        random = torch.Generator().manual_seed(seed)
        self.pair = 3 * torch.rand(5, 6, len(PAIR), generator=random, dtype=torch.float64)
        self.page = 3 * torch.rand(5, len(PAGE), generator=random, dtype=torch.float64)
        self.codes = torch.stack([torch.randint(count, (5,), generator=random) for count in USER_COLUMNS], dim=1)


def view(**options: Any) -> ContextView:
    """A small view with random weights and the quantiles of random counts."""
    torch.manual_seed(1)
    model = ContextView(LiveShape(user=USER_COLUMNS), size=16, blocks=2, **options).double().eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    many = [Inputs(seed) for seed in range(2, 40)]
    features = [derive(one.pair, one.page.unsqueeze(1).expand(-1, 6, -1)).flatten(0, 1) for one in many]
    model.fit(torch.cat(features))
    return model


def scores(model: ContextView, inputs: Inputs, mask: Tensor = NO_MASK) -> Tensor:
    result: Tensor = model(inputs.pair, inputs.page, inputs.codes, mask)
    return result


def test_derived_features_of_a_story_by_hand() -> None:
    """10 shows and 3 clicks in two hours, of 100 and 20; the user saw it twice on four pages and clicked it once."""
    pair, page = torch.zeros(len(PAIR)), torch.zeros(len(PAGE))
    counts = {"shows 2 h": 10, "clicks 2 h": 3, "times shown to user": 2, "times clicked by user": 1}
    totals = {"all shows 2 h": 100, "all clicks 2 h": 20, "user page views": 4}
    for values, names, array in ((counts, PAIR, pair), (totals, PAGE, page)):
        for name, count in values.items():
            array[names.index(name)] = np.log1p(count)
    features = derive(pair, page)
    assert features.shape == (FEATURES,)
    assert torch.equal(features[: len(PAIR) + len(PAGE)], torch.cat([pair, page]))
    derived = features[len(PAIR) + len(PAGE) :].tolist()
    expected = [3.45 / 15, np.log(3.1 / 30), np.log(10.5 / 150), 2 / 5, 2 - 3]
    assert all(any(value == pytest.approx(one, rel=1e-4) for value in derived) for one in expected)


@given(st.integers(2, 600), st.integers(0, 100))
def test_quantiles_against_numpy(count: int, seed: int) -> None:
    """Edges are values of the sample; most columns have many equal values."""
    random = np.random.default_rng(seed)
    samples = np.stack([random.normal(size=count), random.integers(0, 3, count), np.zeros(count)], axis=1)
    samples = samples.astype(np.float32)
    quantiles = Quantiles(3)
    quantiles.fit(torch.from_numpy(samples))
    levels = (np.arange(256) + 0.5) / 256
    # of two samples that both are the quantile, the higher one
    expected = np.quantile(samples, levels + 1e-9, axis=0, method="inverted_cdf")
    assert quantiles.edges.T.tolist() == expected.tolist()
    values = quantiles(torch.from_numpy(samples)).numpy()
    edges = quantiles.edges.numpy()
    for column in range(3):
        below = (edges[column][None] < samples[:, column, None]).mean(1)
        equal = (edges[column][None] == samples[:, column, None]).mean(1)
        np.testing.assert_allclose(values[:, column], 2 * (below + equal / 2) - 1, atol=1e-6)
    np.testing.assert_allclose(values[:, 5], 0, atol=1e-6)  # a column without any spread


def test_equal_values_have_the_quantile_of_their_middle() -> None:
    quantiles = Quantiles(1)
    quantiles.fit(torch.tensor([[0.0]] * 3 + [[5.0]]))
    low, high, between, above = quantiles(torch.tensor([[0.0], [5.0], [1.0], [99.0]]))[:, 0].tolist()
    assert low == pytest.approx(between / 2 - 0.5)
    assert -1 < low < between < high < above == 1


def test_standard_values_are_cut() -> None:
    quantiles = Quantiles(1)
    quantiles.fit(torch.randn(1_000, 1))
    assert quantiles(torch.tensor([[1e6], [-1e6]]))[:, 1].tolist() == [5, -5]


def test_a_candidate_does_not_read_the_others_of_its_page() -> None:
    """The score of a story does not depend on the list that it is ranked in."""
    model, inputs = view(), Inputs()
    alone = Inputs()
    alone.pair = alone.pair.clone()
    alone.pair[:, 1:] = Inputs(9).pair[:, 1:]
    torch.testing.assert_close(scores(model, alone)[:, 0], scores(model, inputs)[:, 0])
    alone.pair = inputs.pair[:, :1]
    torch.testing.assert_close(scores(model, alone, NO_MASK[:, :1])[:, 0], scores(model, inputs)[:, 0])


def test_with_list_attention_a_candidate_reads_the_others() -> None:
    model, inputs, other = view(attention=True), Inputs(), Inputs()
    other.pair = other.pair.clone()
    other.pair[:, 1:] = Inputs(9).pair[:, 1:]
    assert ((scores(model, other)[:, 0] - scores(model, inputs)[:, 0]).abs() > 1e-4).all()


def test_list_attention_ignores_padding() -> None:
    model, inputs, padded = view(attention=True), Inputs(), Inputs()
    padded.pair = torch.cat([inputs.pair, Inputs(9).pair[:, :2]], dim=1)
    mask = torch.cat([NO_MASK, torch.zeros(5, 2, dtype=torch.bool)], dim=1)
    torch.testing.assert_close(scores(model, padded, mask)[:, :6], scores(model, inputs))


def changed(inputs: Inputs, pair: tuple[str, ...], page: tuple[str, ...]) -> Inputs:
    """The same counts with others in some columns."""
    result, other = Inputs(), Inputs(9)
    result.pair, result.page, result.codes = inputs.pair.clone(), inputs.page.clone(), inputs.codes
    for name in pair:
        result.pair[..., PAIR.index(name)] = other.pair[..., PAIR.index(name)]
    for name in page:
        result.page[..., PAGE.index(name)] = other.page[..., PAGE.index(name)]
    return result


@pytest.mark.parametrize("attention", [False, True])
def test_without_the_user_nothing_of_the_user_is_read(attention: bool) -> None:
    """Also counts of the group that the user is of."""
    of_user = tuple(name for name in PAIR if "user" in name or name.startswith(("group", "similarity to")))
    of_user = tuple(name for name in of_user if name != "similarity to page")
    of_user += ("clicked before the log", "clicks after last click")
    of_page = tuple(name for name in PAGE if "user" in name or "last" in name or "session" in name)
    assert set(USER_PAIR) == set(of_user)
    assert set(USER_PAGE) == set(of_page)
    inputs = Inputs()
    other = changed(inputs, of_user, of_page)
    other.codes = (inputs.codes + 1) % torch.tensor(USER_COLUMNS)
    model = view(user=False, attention=attention)
    assert torch.equal(scores(model, other), scores(model, inputs))
    for name in of_user:
        assert not torch.equal(scores(view(), changed(inputs, (name,), ())), scores(view(), inputs)), name
    for name in of_page:
        assert not torch.equal(scores(view(), changed(inputs, (), (name,))), scores(view(), inputs)), name


def test_with_the_user_every_column_is_read() -> None:
    for column in range(len(USER_COLUMNS)):
        other = Inputs()
        other.codes = other.codes.clone()
        other.codes[:, column] = (other.codes[:, column] + 1) % USER_COLUMNS[column]
        assert (scores(view(), other) != scores(view(), Inputs())).all()


def test_without_texts_no_similarity_is_read() -> None:
    names = tuple(name for name in PAIR if ("similarity" in name and not name.endswith("by clicks")) or "text" in name)
    assert set(names) == set(TEXT)
    inputs = Inputs()
    model = view(text=False)
    assert torch.equal(scores(model, changed(inputs, names, ())), scores(model, inputs))
    rest = tuple(name for name in PAIR if name not in names)
    assert all(not torch.equal(scores(model, changed(inputs, (name,), ())), scores(model, inputs)) for name in rest)


def test_features_that_are_left_out_have_no_weights() -> None:
    full, small = view(), view(user=False, text=False)
    assert small.first.weight.shape[1] < full.first.weight.shape[1]
    inputs = Inputs()
    scores(small, inputs).square().sum().backward()
    assert small.first.weight.grad is not None
    used = small.first.weight.grad.abs().sum(0) > 0
    pieces = small.pieces.weight.shape[0] * small.pieces.weight.shape[2]
    assert used[:-pieces].all()  # a piece can be rectified away for all inputs, a feature cannot
    assert used[-pieces:].unflatten(0, (-1, small.pieces.weight.shape[2])).any(1).all()


def test_counts_in_half_precision_are_read_as_single() -> None:
    """Counts are stored in half precision; the smoothed rates of many clicks would overflow in it."""
    model = view().float()
    many = Inputs()
    half, single = (many.pair + 8).half(), (many.pair + 8).half().float()
    page, codes = many.page.float() + 8, many.codes
    actual = model(half, page, codes, NO_MASK)
    assert actual.isfinite().all()
    assert torch.equal(actual, model(single, page, codes, NO_MASK))


def test_pieces_are_linear_between_quantiles_and_flat_beyond() -> None:
    pieces, edges = Pieces(2), torch.stack([torch.arange(13.0), torch.full((13,), 5.0)])
    with torch.no_grad():
        pieces.weight.copy_(torch.rand_like(pieces.weight))  # positive, so that nothing is rectified away

    def at(*values: float) -> Tensor:
        return pieces(torch.tensor(values)[:, None].expand(-1, 2), edges).unflatten(-1, (2, -1))[:, 0]

    low, middle, high = at(3.0, 3.5, 4.0)
    torch.testing.assert_close(middle, (low + high) / 2)
    assert (high > low).all()
    torch.testing.assert_close(at(-1.0, 0.0)[0], at(0.0)[0])
    torch.testing.assert_close(at(12.0, 40.0)[0], at(40.0)[0])
    same = pieces(torch.tensor([[0.0, 4.9], [0.0, 5.1]]), edges).unflatten(-1, (2, -1))[:, 1]
    assert not same[0].any()  # a feature that is always 5 only tells whether it is above
    torch.testing.assert_close(same[1], pieces.weight[1].sum(0))
