"""Planted feedback: profiles in which some stories are put in the wrong sequence, to train denoising weights.

No marked noise is needed: it is known which stories were planted. Planted stories must not differ from the others by
anything but the taste of the reader. By popularity they do not: everything planted was clicked by somebody, or is drawn
in proportion to `click_odds`. Where only weights are trained that cannot tell how popular a story is, any skip may be
drawn. Planting never waits for the device, and all shapes are fixed, so that it can be part of a captured step.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from drpn.batches.batch import Profiles
from drpn.batches.samples import Plan, seeded
from drpn.batches.tables import Tables

_FEWEST_CLICKS = 2
"""Profiles with fewer clicks stay as they are: after planting, none of their own clicks would remain."""
_MOST_WEIGHT = 5.0
"""The largest weight of a profile, as a multiple of the mean."""
_PASSES = 1
"""Keeps the draws of planted passes apart from those of epochs."""


class Pairs(NamedTuple):
    """Stories of one sequence to rank: in each profile every `noise` below every `real`."""

    noise: Bool[Tensor, "B S"]
    real: Bool[Tensor, "B S"]


@dataclass(frozen=True)
class Planted:
    """Profiles with planted stories, and the stories that their weights must rank, by sequence."""

    profiles: Profiles
    pairs: dict[str, Pairs]
    weight: Float[Tensor, "B"]
    """How much the pairs of each profile count."""


def plant_clicks_of_others(profiles: Profiles, *, share: float, skips: int) -> Planted:
    """The profiles with clicks of other readers of the batch, planted at random.

    Of a profile with two or more clicks, max(1, round(share n)) of the n clicks are replaced by clicks of one other
    reader, never all of them: these are noise, the clicks that stay are real. If it also has more than `skips` skips,
    that many of them are overwritten: one by a replaced click of the reader, which is noise there (a missed interest),
    the others by one click each of further readers, which are real. A story that the profile already holds is not
    planted. With `skips` 0 the skipped stories stay.
    """
    clicked, skipped = profiles.clicked, profiles.skipped
    others = _other_rows(len(profiles), max(skips, 1), clicked.device)  # (B max(skips, 1))
    held = torch.cat([clicked, skipped], dim=1)
    # clicks of the first other reader that the profile does not hold, in random order
    offered = torch.where(_allowed(profiles, others[:, 0], held), clicked[others[:, 0]], 0)  # (B H)
    offered = offered.gather(1, _random_order(offered))
    rank = _random_order(clicked).argsort(dim=1)  # (B H)
    wanted = _replaced_clicks(clicked, share).minimum(_count(offered))  # (B 1)
    planted = rank < wanted
    mixed = torch.where(planted, offered.gather(1, rank), clicked)
    none = torch.zeros_like(skipped, dtype=torch.bool)
    pairs = {"clicked": Pairs(planted, (clicked != 0) & ~planted & (wanted > 0)), "skipped": Pairs(none, none)}
    if 0 < skips < skipped.shape[1]:
        # the first story is a click of the reader that has left the clicks, the others are clicks of further readers
        missed = torch.where(planted & (rank == 0), clicked, 0).amax(1, keepdim=True)  # (B 1)
        rank = _random_order(skipped).argsort(dim=1)  # (B N)
        stories, held = [missed], torch.cat([held, mixed], dim=1)
        for column in range(1, skips):
            other = others[:, column]
            story = torch.where(_allowed(profiles, other, held), clicked[other], 0)
            stories.append(story.gather(1, _random_order(story))[:, :1])
            held = torch.cat([held, stories[-1]], dim=1)
        story = torch.cat(stories, dim=1).gather(1, rank.clamp(max=skips - 1))  # (B N), 0 for none
        chosen = (rank < skips) & (_count(skipped) > skips) & (missed != 0) & (story != 0)
        skipped = torch.where(chosen, story, skipped)
        pairs["skipped"] = Pairs(chosen & (rank == 0), chosen & (rank > 0))
    weight = torch.ones(len(profiles), device=clicked.device)
    return Planted(replace(profiles, clicked=mixed, skipped=skipped), pairs, weight)


def swap_clicks_and_skips(profiles: Profiles, odds: Float[Tensor, "U"], *, share: float, skips: int) -> Planted:
    """The profiles with some clicks and skips of the same reader swapped at random.

    Of a profile with two or more clicks, max(1, round(share n)) of the n clicks, never all of them, trade places with
    skips. Both are noise in their new sequence; the clicks that stay are real, and so are `skips` - 1 of the skips that
    stay. Both kinds of skips are drawn in proportion to `odds`. A profile counts as much as the mean odds of its skips;
    one with too few skips stays as it is.

    With `click_odds`, the clicks of a story for each of its skips, the drawn skips are as popular as clicks are: over
    all readers a story is drawn as often as it is clicked. With equal odds any skip may be drawn.
    """
    clicked, skipped = profiles.clicked, profiles.skipped
    order, by_odds = _random_order(clicked), _random_order(skipped, odds)
    rank, skip_rank = order.argsort(dim=1), by_odds.argsort(dim=1)  # (B H) and (B N)
    wanted, count, compared = _replaced_clicks(clicked, share), _count(skipped), _compared(skips)  # (B 1) both
    wanted = torch.where(count >= wanted + compared, wanted, 0)
    planted, missed = rank < wanted, skip_rank < wanted
    mixed = torch.where(planted, _at(skipped.gather(1, by_odds), rank), clicked)
    mixed_skips = torch.where(missed, _at(clicked.gather(1, order), skip_rank), skipped)
    stay = (skip_rank >= wanted) & (skip_rank < wanted + compared) & (wanted > 0)
    pairs = {"clicked": Pairs(planted, (clicked != 0) & ~planted & (wanted > 0)), "skipped": Pairs(missed, stay)}
    own_odds = torch.where(skipped != 0, odds[skipped], 0).sum(1) / count.squeeze(1).clamp(min=1)  # (B)
    swapped = (wanted.squeeze(1) > 0).to(own_odds.dtype)
    mean = (own_odds * swapped).sum() / swapped.sum().clamp(min=1)
    weight = (own_odds / mean.clamp(min=1e-6)).clamp(max=_MOST_WEIGHT)
    return Planted(replace(profiles, clicked=mixed, skipped=mixed_skips), pairs, weight)


def half_of_each(first: Planted, second: Planted) -> Planted:
    """About half of the profiles as planted by one rule, the others as planted by a second one, drawn at random."""
    chosen = _uniform((len(first.profiles), 1), first.weight.device) < 1 / 2  # (B 1)
    clicked, skipped = (
        torch.where(chosen, getattr(first.profiles, side), getattr(second.profiles, side))
        for side in ("clicked", "skipped")
    )
    pairs = {
        side: Pairs(*(torch.where(chosen, *each) for each in zip(first.pairs[side], second.pairs[side], strict=True)))
        for side in first.pairs
    }
    weight = torch.where(chosen[:, 0], first.weight, second.weight)
    return Planted(replace(first.profiles, clicked=clicked, skipped=skipped), pairs, weight)


def click_odds(tables: Tables) -> Float[Tensor, "news"]:
    """How often each story was clicked for each time it was skipped, in the profiles of all users, before validation.

    Smoothed as if each story had one more click, and as many more skips as a click has on average.
    """
    clicks, skips = (
        torch.bincount(side.flatten().long(), minlength=len(tables.news)).float()
        for side in (tables.clicked[: tables.before_validation], tables.skipped[: tables.before_validation])
    )
    clicks[0] = skips[0] = 0  # padding
    return (clicks + 1) / (skips + skips.sum() / clicks.sum().clamp(min=1)).clamp(min=1e-6)


def profile_plan(tables: Tables, seed: int, number: int) -> Plan:
    """One pass over the profiles with two or more clicks, in random order, without candidates.

    They are those of all users or, with the live protocol, those of training's impressions.
    """
    users = ((tables.clicked[: tables.before_validation] != 0).sum(1) >= _FEWEST_CLICKS).nonzero().squeeze(1)
    users = users[torch.randperm(len(users), generator=seeded(seed, number, _PASSES)).to(users.device)]
    none = users.new_zeros(len(users), 1)
    return Plan(users, none, none[:, 0], none)


def clicks_per_profile(tables: Tables) -> float:
    """The clicks of a profile, on average over the profiles with two or more; 0 if there are none."""
    clicks = (tables.clicked[: tables.before_validation] != 0).sum(1)
    clicks = clicks[clicks >= _FEWEST_CLICKS]
    return float(clicks.float().mean()) if len(clicks) else 0.0


def swappable_profiles(tables: Tables, *, share: float, skips: int) -> float:
    """The share of the profiles with two or more clicks that have enough skips for `swap_clicks_and_skips`."""
    clicked, skipped = tables.clicked[: tables.before_validation], tables.skipped[: tables.before_validation]
    wanted = _replaced_clicks(clicked, share)
    enough = (wanted > 0) & (_count(skipped) >= wanted + _compared(skips))
    return int(enough.sum()) / max(int((wanted > 0).sum()), 1)


def _other_rows(rows: int, count: int, device: torch.device) -> Int[Tensor, "B count"]:
    """For each row of a batch, random other rows, different from each other as far as there are as many."""
    others = max(rows - 1, 1)
    start = (_uniform((rows, 1), device) * others).long()
    step = 1 + (start + torch.arange(count, device=device)) % others
    return (torch.arange(rows, device=device).unsqueeze(1) + step) % rows


def _allowed(profiles: Profiles, other: Int[Tensor, "B"], held: Int[Tensor, "B Q"]) -> Bool[Tensor, "B H"]:
    """Which clicks of the other reader can be planted: those of somebody else that the profile does not hold."""
    itself = torch.arange(len(other), device=other.device)
    users = profiles.users
    same = (other == itself) | ((users[other] == users) & (users != 0))  # user 0 can be anybody
    offered = profiles.clicked[other]  # (B H)
    known = (offered.unsqueeze(2) == held.unsqueeze(1)).any(2)
    return (offered != 0) & ~known & ~same.unsqueeze(1)


def _uniform(shape: tuple[int, ...], device: torch.device) -> Float[Tensor, "..."]:
    """Random numbers from 0 to below 1; a captured step draws new ones at each replay."""
    return torch.rand(shape, device=device)


def _random_order(stories: Int[Tensor, "B S"], odds: Float[Tensor, "U"] | None = None) -> Int[Tensor, "B S"]:
    """Indices that put the stories of each row in random order, padding last; large `odds` come early.

    The first story is drawn in proportion to the odds, the second likewise from the others, and so on: the stories are
    sorted by log odds plus Gumbel noise.
    """
    uniform = _uniform(stories.shape, stories.device).clamp(1e-7, 1 - 1e-7)
    keys = uniform if odds is None else torch.log(odds[stories]) - torch.log(-torch.log(uniform))
    return keys.masked_fill(stories == 0, -torch.inf).argsort(dim=1, descending=True)


def _replaced_clicks(clicked: Int[Tensor, "B H"], share: float) -> Int[Tensor, "B 1"]:
    """How many clicks of each profile are to be replaced: max(1, round(share n)), less than n, of n clicks."""
    count = _count(clicked)
    wanted = (count.double() * share).round().long().clamp(min=1).minimum(count - 1)
    return torch.where(count >= _FEWEST_CLICKS, wanted, 0)


def _compared(skips: int) -> int:
    """How many of the skips that stay are compared with the swapped ones."""
    return max(skips, 1) - 1


def _count(stories: Int[Tensor, "B S"]) -> Int[Tensor, "B 1"]:
    return (stories != 0).sum(1, keepdim=True)


def _at(stories: Int[Tensor, "B S"], places: Int[Tensor, "B T"]) -> Int[Tensor, "B T"]:
    """The story at each place, or the last one."""
    return stories.gather(1, places.clamp(max=stories.shape[1] - 1))
