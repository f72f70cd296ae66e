"""What the tests of several baselines are made of: titles, clicks, batches, random weights, how near is the same."""

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
"""Rows of a table of their words, with padding."""
POSITION = {name: position for position, name in enumerate(TITLES, start=1)}
CANDIDATES = ["derby", "bonds", "vote", "untitled"]

CLICKED = {
    "ordinary": ["derby", "cup", "storm", "vote"],
    "one click": ["cup"],
    "no clicks": [],
    "titles without words": ["untitled", "derby", "bare"],
    "nothing but a bare news": ["bare"],
    "duplicates": ["storm", "bonds", "storm", "storm"],
}

_CLICKS, _SKIPS = small_newsroom.READERS["ordinary"]
OTHER_SKIPS = [
    (_CLICKS, skips) for skips in (_SKIPS, [], ["bonds", "unseen"], ["bonds", "unseen", "cup"], _SKIPS[::-1])
]
"""The ordinary reader of the small newsroom; then one who skipped nothing, some who skipped other news, and one who
skipped the same in another order."""
OTHER_CLICKS = [
    (clicks, _SKIPS) for clicks in (_CLICKS, [], _CLICKS[1:], ["derby", "cup", "storm", "bonds"], _CLICKS[::-1])
]
"""As above, of clicks."""

Model = TypeVar("Model", bound=ClickModel)


class Case(NamedTuple, Generic[Model]):
    """A model with random weights, and the same weights for the loops."""

    model: Model
    weights: Weights


def case_of(model: Model) -> Case[Model]:
    """The model, and its weights as they are now, as lists."""
    return Case(model, {name: tensor.tolist() for name, tensor in model.state_dict().items()})


def randomised(model: Model, random: torch.Generator, *, std: float = 0.7) -> Model:
    """The model in float64; all its weights are random, those of padding and those that start at zero too."""
    model = model.double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=std, generator=random)
    return model


def random_case(model: Model, seed: int, *, std: float = 0.7) -> Case[Model]:
    """The model with weights that are all random, those of padding and those that start at zero too."""
    return case_of(randomised(model, torch.Generator().manual_seed(seed), std=std))


def padded(lists: Sequence[list[int]], *, more: int = 1, at_the_end: bool = True) -> Tensor:
    """The lists as rows that are longer than the longest of them; padding stands at the end or in front."""
    width = max(map(len, lists)) + more
    return torch.tensor(
        [[*row, *[0] * (width - len(row))] if at_the_end else [*[0] * (width - len(row)), *row] for row in lists]
    )


def rows_of(words: Sequence[list[int]], *, more: int = 1, **columns: Tensor) -> NewsRows:
    """News with these words, those of padding first; what is not given in columns is nothing."""
    nothing = torch.zeros(len(words), dtype=torch.long)
    neighbours = torch.zeros(len(words), 5, dtype=torch.long)
    plain = NewsRows(nothing, padded(words, more=more), neighbours, nothing, nothing, nothing == 0)
    return replace(plain, **columns)


def titles() -> NewsRows:
    """All titles after the padding, which is given one that nobody may read."""
    return rows_of([[1, 2], *TITLES.values()])


def batch_of(
    clicked: list[list[str]],
    users: list[int] | None = None,
    skipped: list[str] | None = None,
    *,
    candidates: list[str] = CANDIDATES,
    at_the_end: bool = True,
) -> Batch:
    """The users, each with all candidates; padding stands after their clicks or in front of them."""
    return make_batch(
        users=torch.tensor([1] * len(clicked) if users is None else users),
        clicked=padded([[POSITION[name] for name in names] for names in clicked], at_the_end=at_the_end),
        skipped=padded([[POSITION[name] for name in skipped or []]] * len(clicked)),
        candidates=torch.tensor([[POSITION[name] for name in candidates]] * len(clicked)),
    )


def known_and_unknown(skipped: list[str] | None = None, *, at_the_end: bool = True) -> Batch:
    """Each profile as that of a user whom training knows, and then as that of one whom it does not."""
    users = [1, 2, 3, 1, 2, 3]
    return batch_of([*CLICKED.values()] * 2, [*users, *[0] * len(users)], skipped, at_the_end=at_the_end)


def close(found: Tensor, expected: object, *, rtol: float = 1e-9, atol: float = 1e-12) -> None:
    """They are the same but for rounding."""
    torch.testing.assert_close(found, torch.as_tensor(expected, dtype=torch.float64), rtol=rtol, atol=atol)


def only_nothing_learns(found: Tensor, nothing: nn.Parameter, unread: nn.Parameter) -> None:
    """Two users have the same scores, of which all of one vector learns, and nothing of what they do not read."""
    assert torch.equal(found[0], found[1])
    found.sum().backward()
    assert nothing.grad is not None
    assert nothing.grad.abs().min() > 0
    assert unread.grad is None or not unread.grad.any()


def every_weight_learns(found: Tensor, part: nn.Module | None) -> None:
    """The part is there, and each of its weights has a say in the scores."""
    (found**2).sum().backward()
    assert part is not None
    for name, parameter in part.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().max() > 1e-9, name


def share_not_known(model: ClickModel, score: Callable[[list[list[str]], list[int]], Tensor]) -> float:
    """How often a user is read, in training, as one whom training does not know; else they are themselves."""
    clicked = [CLICKED["ordinary"]] * 4_000  # 0.25 of them has a standard deviation of 0.007
    known, unknown = (score(clicked[:1], [user]) for user in (2, 0))
    model.train()
    torch.manual_seed(0)
    found = score(clicked, [2] * len(clicked))
    dropped = torch.isclose(found, unknown).all(1)
    assert torch.isclose(found[~dropped], known).all()
    return dropped.double().mean().item()


def only_which_clicks_matters(score: Callable[[Batch], Tensor], batch: Batch) -> None:
    """With clicks in another order the scores are the same; with another user's clicks some of each user's differ."""
    found = score(batch)
    close(score(with_parts(batch, clicked=batch.profiles.clicked.flip(1))), found)
    other = score(with_parts(batch, clicked=batch.profiles.clicked.roll(1, dims=0)))
    assert (other - found).abs().max(1).values.min() > 1e-6


def moved(model: ClickModel, readers: list[tuple[list[str], list[str]]]) -> Tensor:
    """How far the scores of other readers of the small newsroom are from those of the first, at most."""
    found = small_newsroom.scores(model, small_newsroom.batch_of(readers))
    return (found[1:] - found[0]).abs().amax(1)
