"""Titles, clicks, batches, random weights and comparisons for the tests of several baselines."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Generic, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

import small_newsroom
from batch_cases import make_batch, with_parts
from drpn.batches.batch import Batch, NewsRows
from drpn.models.base import ClickModel
from reference.drpn_loops import Weights

TITLES = {
    "derby": [3, 5, 7, 4],
    "cup": [3, 8, 6],
    "storm": [9, 2, 10, 2],
    "bonds": [11],
    "vote": [4, 6, 1, 5, 3],
    "untitled": [],
    "bare": [],
}
WORDS = 12
"""Rows of the table of words, including padding."""
POSITION = {name: position for position, name in enumerate(TITLES, start=1)}
CANDIDATES = ["derby", "bonds", "vote", "untitled"]

CLICKED = {
    "ordinary": ["derby", "cup", "storm", "vote"],
    "one click": ["cup"],
    "no clicks": [],
    "titles without words": ["untitled", "derby", "bare"],
    "one story without words": ["bare"],
    "duplicates": ["storm", "bonds", "storm", "storm"],
}

_CLICKS, _SKIPS = small_newsroom.READERS["ordinary"]
OTHER_SKIPS = [
    (_CLICKS, skips) for skips in (_SKIPS, [], ["bonds", "unseen"], ["bonds", "unseen", "cup"], _SKIPS[::-1])
]
"""The ordinary reader of the small newsroom; then the same clicks with no skips, other skips, and the same skips in
another order."""
OTHER_CLICKS = [
    (clicks, _SKIPS) for clicks in (_CLICKS, [], _CLICKS[1:], ["derby", "cup", "storm", "bonds"], _CLICKS[::-1])
]
"""The same for clicks."""

Model = TypeVar("Model", bound=ClickModel)


class Case(NamedTuple, Generic[Model]):
    """A model with random weights, and the same weights for the loops."""

    model: Model
    weights: Weights


def case_of(model: Model) -> Case[Model]:
    """The model, and its current weights as lists."""
    return Case(model, {name: tensor.tolist() for name, tensor in model.state_dict().items()})


def randomised(model: Model, random: torch.Generator, *, std: float = 0.7) -> Model:
    """The model in float64 with random weights, including those of padding and those that start at zero."""
    model = model.double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=std, generator=random)
    return model


def random_case(model: Model, seed: int, *, std: float = 0.7) -> Case[Model]:
    """The model with random weights, including those of padding and those that start at zero."""
    return case_of(randomised(model, torch.Generator().manual_seed(seed), std=std))


def padded(lists: Sequence[list[int]], *, more: int = 1, at_the_end: bool = True) -> Tensor:
    """The lists as rows with `more` columns than the longest; padding is at the end or at the start."""
    width = max(map(len, lists)) + more
    return torch.tensor(
        [[*row, *[0] * (width - len(row))] if at_the_end else [*[0] * (width - len(row)), *row] for row in lists]
    )


def rows_of(words: Sequence[list[int]], *, more: int = 1, **columns: Tensor) -> NewsRows:
    """Stories with these words, the padding row first; other columns are zero unless given."""
    nothing = torch.zeros(len(words), dtype=torch.long)
    neighbours = torch.zeros(len(words), 5, dtype=torch.long)
    plain = NewsRows(nothing, padded(words, more=more), neighbours, nothing, nothing)
    return replace(plain, **columns)


def titles() -> NewsRows:
    """The padding row, with a title that must not be read, and all titles."""
    return rows_of([[1, 2], *TITLES.values()])


def batch_of(
    clicked: list[list[str]],
    users: list[int] | None = None,
    skipped: list[str] | None = None,
    *,
    candidates: list[str] = CANDIDATES,
    at_the_end: bool = True,
) -> Batch:
    """The users, each with all candidates; padding is after the clicks or before them."""
    return make_batch(
        users=torch.tensor([1] * len(clicked) if users is None else users),
        clicked=padded([[POSITION[name] for name in names] for names in clicked], at_the_end=at_the_end),
        skipped=padded([[POSITION[name] for name in skipped or []]] * len(clicked)),
        candidates=torch.tensor([[POSITION[name] for name in candidates]] * len(clicked)),
    )


def known_and_unknown(skipped: list[str] | None = None, *, at_the_end: bool = True) -> Batch:
    """Each profile with a known user, then with an unknown user."""
    users = [1, 2, 3, 1, 2, 3]
    return batch_of([*CLICKED.values()] * 2, [*users, *[0] * len(users)], skipped, at_the_end=at_the_end)


def close(actual: Tensor, expected: object, *, rtol: float = 1e-9, atol: float = 1e-12) -> None:
    """Check that values are equal except for rounding."""
    torch.testing.assert_close(actual, torch.as_tensor(expected, dtype=torch.float64), rtol=rtol, atol=atol)


def check_only_nothing_learns(actual: Tensor, nothing: nn.Parameter, unread: nn.Parameter) -> None:
    """Check that two users have the same scores, and that only `nothing` gets a gradient, not `unread`."""
    assert torch.equal(actual[0], actual[1])
    actual.sum().backward()
    assert nothing.grad is not None
    assert nothing.grad.abs().min() > 0
    assert unread.grad is None or not unread.grad.any()


def check_every_weight_learns(actual: Tensor, part: nn.Module | None) -> None:
    """Check that every weight of a part gets a gradient from the scores."""
    (actual**2).sum().backward()
    assert part is not None
    for name, parameter in part.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().max() > 1e-9, name


def share_of_unknown_users(model: ClickModel, score: Callable[[list[list[str]], list[int]], Tensor]) -> float:
    """The share of users that have the scores of an unknown user in training; the others keep theirs."""
    clicked = [CLICKED["ordinary"]] * 4_000  # a share of 0.25 then has a standard deviation of 0.007
    known, unknown = (score(clicked[:1], [user]) for user in (2, 0))
    model.train()
    torch.manual_seed(0)
    actual = score(clicked, [2] * len(clicked))
    dropped = torch.isclose(actual, unknown).all(1)
    assert torch.isclose(actual[~dropped], known).all()
    return dropped.double().mean().item()


def check_order_of_clicks_does_not_matter(score: Callable[[Batch], Tensor], batch: Batch) -> None:
    """Check that the order of clicks does not change scores, and that other clicks do."""
    actual = score(batch)
    close(score(with_parts(batch, clicked=batch.profiles.clicked.flip(1))), actual)
    other = score(with_parts(batch, clicked=batch.profiles.clicked.roll(1, dims=0)))
    assert (other - actual).abs().max(1).values.min() > 1e-6


def moved(model: ClickModel, readers: list[tuple[list[str], list[str]]]) -> Tensor:
    """The largest difference between the scores of each other reader and those of the first."""
    actual = small_newsroom.scores(model, small_newsroom.batch_of(readers))
    return (actual[1:] - actual[0]).abs().amax(1)
