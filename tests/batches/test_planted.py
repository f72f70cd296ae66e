"""Planted feedback follows its rule, checked profile by profile with plain Python."""

from collections import Counter
from dataclasses import replace

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings
from torch import Tensor

from drpn.batches.batch import NewsRows, Profiles
from drpn.batches.planted import (
    Planted,
    click_odds,
    clicks_per_profile,
    half_of_each,
    plant_clicks_of_others,
    profile_plan,
    swap_clicks_and_skips,
)
from drpn.batches.tables import Tables

NEWS = 60


def random_profiles(seed: int, readers: int, clicks: int, skips: int) -> Profiles:
    """Readers with up to that many clicks and skips, each story once, padding last; the last two are one reader."""
    random = torch.Generator().manual_seed(seed)
    clicked, skipped = torch.zeros(readers, clicks), torch.zeros(readers, skips)
    for reader in range(readers):
        stories = 1 + torch.randperm(NEWS, generator=random)
        own, other = (int(torch.randint(0, most + 1, (), generator=random)) for most in (clicks, skips))
        clicked[reader, :own], skipped[reader, :other] = stories[:own], stories[own : own + other]
    users = torch.arange(readers)  # user 0 is unknown, and may be anybody
    if readers > 3:
        users[-1], clicked[-1], skipped[-1] = users[-2], clicked[-2], skipped[-2]
    return Profiles(users, clicked.int(), skipped.int())


def stories(row: Tensor) -> list[int]:
    return [story for story in row.tolist() if story]


def check(before: Profiles, after: Planted, share: float, skips: int) -> Counter[str]:
    """Compare every profile with the rule; return how often each part of the rule applied."""
    done: Counter[str] = Counter()
    clicks_of = [stories(row) for row in before.clicked]
    for reader in range(len(before)):
        clicked, skipped = before.clicked[reader].tolist(), before.skipped[reader].tolist()
        new_clicked, new_skipped = (getattr(after.profiles, side)[reader].tolist() for side in ("clicked", "skipped"))
        others = [
            clicks
            for other, clicks in enumerate(clicks_of)
            if other != reader and (int(before.users[other]) != int(before.users[reader]) or not before.users[reader])
        ]
        own, skips_before = clicks_of[reader], stories(before.skipped[reader])
        noise, real = (marks[reader].tolist() for marks in after.pairs["clicked"])
        planted = [new for old, new in zip(clicked, new_clicked, strict=True) if new != old]
        replaced = [old for old, new in zip(clicked, new_clicked, strict=True) if new != old]
        assert noise == [new != old for old, new in zip(clicked, new_clicked, strict=True)]
        assert real == [
            bool(planted) and old != 0 and new == old for old, new in zip(clicked, new_clicked, strict=True)
        ]
        assert 0 not in replaced
        assert len(set(planted)) == len(planted)
        assert not set(planted) & {*own, *skips_before}
        if len(own) < 2:
            assert not planted
        wanted = min(max(1, round(share * len(own))), len(own) - 1)
        if planted:
            donors = [clicks for clicks in others if set(planted) <= set(clicks)]
            assert donors, "all planted clicks are clicks of one other reader"
            free = [len(set(clicks) - {*own, *skips_before}) for clicks in donors]
            assert len(planted) in {min(wanted, count) for count in free}
            assert any(real)
            done["clicks"] += 1
        noise, real = (marks[reader].tolist() for marks in after.pairs["skipped"])
        changed = [new for old, new in zip(skipped, new_skipped, strict=True) if new != old]
        missed = [new for new, marked in zip(new_skipped, noise, strict=True) if marked]
        further = [new for new, marked in zip(new_skipped, real, strict=True) if marked]
        assert sorted(changed) == sorted(missed + further)
        if not planted or not skips or len(skips_before) <= skips:
            assert not changed
            continue
        assert len(missed) == 1
        assert missed[0] in replaced  # a click of the reader that has left the clicks
        assert len(further) <= skips - 1
        assert len(set(further)) == len(further)
        for story in further:
            assert any(story in clicks for clicks in others)
            assert story not in {*own, *skips_before, *planted}
        assert not any(old == 0 and new for old, new in zip(skipped, new_skipped, strict=True))
        done["skips"] += 1
        done["whole"] += len(further) == skips - 1
    return done


@settings(deadline=None, max_examples=60, report_multiple_bugs=False)
@given(
    seed=st.integers(0, 1_000),
    readers=st.integers(1, 12),
    clicks=st.integers(1, 9),
    skips=st.integers(1, 9),
    share=st.sampled_from([0.05, 0.2, 0.5, 0.9]),
    overwritten=st.sampled_from([0, 2, 3, 5]),
)
def test_every_profile_follows_the_rule(
    seed: int, readers: int, clicks: int, skips: int, share: float, overwritten: int
) -> None:
    profiles = random_profiles(seed, readers, clicks, skips)
    torch.manual_seed(seed)
    check(profiles, plant_clicks_of_others(profiles, share=share, skips=overwritten), share, overwritten)


def test_most_profiles_are_planted_in_full() -> None:
    profiles = random_profiles(1, 200, 8, 12)
    torch.manual_seed(1)
    done = check(profiles, plant_clicks_of_others(profiles, share=0.2, skips=3), 0.2, 3)
    assert done["clicks"] > 110
    assert done["skips"] > 70
    assert done["whole"] > 0.6 * done["skips"]


def test_every_slot_and_every_other_reader_is_drawn() -> None:
    profiles = Profiles(torch.arange(4), 1 + torch.arange(24).view(4, 6), 30 + torch.arange(28).view(4, 7))
    slots, donors, skips = Counter[int](), Counter[int](), Counter[int]()
    torch.manual_seed(0)
    for _ in range(300):
        planted = plant_clicks_of_others(profiles, share=0.2, skips=3)
        (slot,) = planted.pairs["clicked"].noise[0].nonzero().flatten().tolist()
        slots[slot] += 1
        donors[(int(planted.profiles.clicked[0, slot]) - 1) // 6] += 1
        skips.update((planted.profiles.skipped[0] != profiles.skipped[0]).nonzero().flatten().tolist())
    assert set(donors) == {1, 2, 3}
    assert min(donors.values()) > 60
    assert set(slots) == set(range(6))
    assert min(slots.values()) > 25
    assert set(skips) == set(range(7))
    assert min(skips.values()) > 80


def test_a_reader_alone_or_with_one_click_stays_as_it_is() -> None:
    alone = Profiles(torch.tensor([1]), torch.tensor([[1, 2, 3]]), torch.tensor([[4, 5, 6, 7]]))
    twice = alone.map_tensors(lambda tensor: tensor.repeat(2, *[1] * (tensor.dim() - 1)))
    short = Profiles(torch.tensor([1, 2]), torch.tensor([[1, 0], [2, 0]]), torch.tensor([[4, 5, 6, 7], [8, 9, 10, 11]]))
    at_two_times = replace(twice, clicked=torch.tensor([[1, 2, 3], [8, 9, 10]]))  # one reader, whose profile grew
    for profiles in (alone, twice, at_two_times, short):
        planted = plant_clicks_of_others(profiles, share=0.2, skips=3)
        assert torch.equal(planted.profiles.clicked, profiles.clicked)
        assert torch.equal(planted.profiles.skipped, profiles.skipped)
        assert not any(marks.any() for pairs in planted.pairs.values() for marks in pairs)


def test_passes_visit_every_profile_with_two_clicks_once() -> None:
    rows = torch.arange(9)
    clicked = torch.tensor([[0, 0], [1, 2], [3, 0], [4, 5], [0, 0], [6, 7], [8, 1]])
    trained = torch.tensor([False, True, True, False, False, False, False])
    tables = Tables(NewsRows(rows, rows[:, None], rows[:, None], rows, rows), clicked, clicked, trained)
    plans = [profile_plan(tables, 3, number) for number in range(20)]
    assert all(sorted(plan.readers.tolist()) == [1, 3, 5, 6] for plan in plans)
    assert len({tuple(plan.readers.tolist()) for plan in plans}) > 5
    assert torch.equal(profile_plan(tables, 3, 7).readers, plans[7].readers)
    assert any(not torch.equal(profile_plan(tables, 4, number).readers, plans[number].readers) for number in range(20))


def test_profiles_of_validation_and_test_are_left_out() -> None:
    rows = torch.arange(9)
    clicked = torch.tensor([[0, 0, 0], [1, 2, 0], [3, 4, 5], [4, 5, 6], [6, 7, 8]])
    tables = Tables(NewsRows(rows, rows[:, None], rows[:, None], rows, rows), clicked, (clicked + 3) % 9)
    early = replace(tables, before_validation=3)
    shorter = replace(tables, clicked=clicked[:3], skipped=tables.skipped[:3])
    assert sorted(profile_plan(tables, 3, 0).readers.tolist()) == [1, 2, 3, 4]
    assert sorted(profile_plan(early, 3, 0).readers.tolist()) == [1, 2]
    assert clicks_per_profile(tables) == pytest.approx(11 / 4)
    assert clicks_per_profile(early) == pytest.approx(5 / 2)
    assert torch.equal(click_odds(early), click_odds(shorter))
    assert not torch.equal(click_odds(early), click_odds(tables))


@pytest.mark.parametrize("skips", [0, 3])
def test_planting_has_fixed_shapes_and_types(skips: int) -> None:
    profiles = random_profiles(2, 7, 5, 9)
    planted = plant_clicks_of_others(profiles, share=0.2, skips=skips)
    for side in ("clicked", "skipped"):
        before, after = getattr(profiles, side), getattr(planted.profiles, side)
        assert (after.shape, after.dtype) == (before.shape, before.dtype)
        assert all(marks.shape == before.shape for marks in planted.pairs[side])
    assert torch.equal(planted.profiles.users, profiles.users)


def random_odds(seed: int) -> Tensor:
    return torch.rand(NEWS + 1, generator=torch.Generator().manual_seed(seed)) + 0.1


def check_swaps(before: Profiles, after: Planted, share: float, skips: int) -> int:
    """Compare every profile with the rule of swapped clicks and skips; return how many were changed."""
    changed = 0
    for reader in range(len(before)):
        rows = {side: getattr(before, side)[reader].tolist() for side in ("clicked", "skipped")}
        mixed = {side: getattr(after.profiles, side)[reader].tolist() for side in ("clicked", "skipped")}
        marks = {side: [one[reader].tolist() for one in after.pairs[side]] for side in ("clicked", "skipped")}
        clicks, skipped = ([story for story in rows[side] if story] for side in ("clicked", "skipped"))
        wanted = min(max(1, round(share * len(clicks))), len(clicks) - 1)
        compared = max(skips, 1) - 1
        if len(clicks) < 2 or len(skipped) < wanted + compared:
            assert mixed == rows
            assert not any(any(one) for side in marks.values() for one in side)
            continue
        changed += 1
        for side, other in (("clicked", skipped), ("skipped", clicks)):
            noise, real = marks[side]
            assert sum(noise) == wanted
            for old, new, planted in zip(rows[side], mixed[side], noise, strict=True):
                assert new in other if planted else new == old
                assert old != 0 or not planted
            assert not any(first and second for first, second in zip(noise, real, strict=True))
            assert not any(mark and not story for mark, story in zip(real, rows[side], strict=True))
            assert sum(real) == (len(clicks) - wanted if side == "clicked" else compared)
        both = sorted(story for side in mixed.values() for story in side if story)
        assert both == sorted(clicks + skipped)
    return changed


@settings(deadline=None, max_examples=60, report_multiple_bugs=False)
@given(
    seed=st.integers(0, 1_000),
    readers=st.integers(1, 12),
    clicks=st.integers(1, 9),
    skips=st.integers(1, 9),
    share=st.sampled_from([0.05, 0.2, 0.5, 0.9]),
    compared=st.sampled_from([0, 2, 3, 5]),
)
def test_swaps_follow_the_rule(seed: int, readers: int, clicks: int, skips: int, share: float, compared: int) -> None:
    profiles = random_profiles(seed, readers, clicks, skips)
    torch.manual_seed(seed)
    check_swaps(
        profiles, swap_clicks_and_skips(profiles, random_odds(seed), share=share, skips=compared), share, compared
    )


def test_most_profiles_are_swapped() -> None:
    profiles = random_profiles(1, 200, 8, 12)
    torch.manual_seed(1)
    planted = swap_clicks_and_skips(profiles, random_odds(1), share=0.2, skips=3)
    assert check_swaps(profiles, planted, 0.2, 3) > 110


def test_skips_are_drawn_in_proportion_to_their_odds() -> None:
    """The chance of each skip to trade places, and of the others to be compared with, is its share of the odds."""
    odds = torch.tensor([1.0, 1, 1, 1, 2, 4, 8])
    profiles = Profiles(torch.ones(4_000, dtype=torch.int64), *(
        torch.tensor([row]).repeat(4_000, 1) for row in ([1, 2, 0], [3, 4, 5, 6, 0])
    ))  # fmt: skip
    torch.manual_seed(0)
    planted = swap_clicks_and_skips(profiles, odds, share=0.2, skips=2)
    moved = planted.pairs["skipped"].noise.float().mean(0)
    torch.testing.assert_close(moved, torch.tensor([1, 2, 4, 8, 0]) / 15, atol=0.03, rtol=0)
    first_is_six = planted.pairs["skipped"].noise[:, 3]
    compared = planted.pairs["skipped"].real[first_is_six].float().mean(0)
    torch.testing.assert_close(compared, torch.tensor([1, 2, 4, 0, 0]) / 7, atol=0.03, rtol=0)


def test_with_equal_odds_all_swapped_profiles_count_as_much() -> None:
    profiles = random_profiles(3, 200, 8, 12)
    profiles.skipped[::2] = 0
    planted = swap_clicks_and_skips(profiles, torch.ones(NEWS + 1), share=0.2, skips=3)
    swapped = planted.pairs["clicked"].noise.any(1)
    assert swapped.any()
    assert not swapped.all()
    torch.testing.assert_close(planted.weight[swapped], torch.ones(int(swapped.sum())))


def test_over_all_readers_swapped_skips_are_as_popular_as_clicks() -> None:
    """The weights make up for readers whose skips are all popular, or none of them."""
    random = torch.Generator().manual_seed(4)
    readers, rate = 6_000, torch.linspace(0.05, 0.6, NEWS)
    clicked, skipped = torch.zeros(readers, 14, dtype=torch.int32), torch.zeros(readers, 30, dtype=torch.int32)
    for reader in range(readers):
        shown = torch.randperm(NEWS, generator=random)[:10]
        clicks = torch.rand(10, generator=random) < rate[shown]
        for sequence, stories_ in ((clicked, shown[clicks]), (skipped, shown[~clicks])):
            sequence[reader, : min(len(stories_), sequence.shape[1])] = 1 + stories_[: sequence.shape[1]].int()
    rows = torch.arange(NEWS + 1)
    tables = Tables(NewsRows(rows, rows[:, None], rows[:, None], rows, rows), clicked, skipped)
    profiles = Profiles(torch.arange(readers), clicked, skipped)
    planted = swap_clicks_and_skips(profiles, click_odds(tables), share=0.05, skips=2)
    weight = planted.weight[:, None].expand(clicked.shape)
    rates = torch.cat([torch.zeros(1), rate])[planted.profiles.clicked]
    noise, real = planted.pairs["clicked"]
    drawn, kept = ((rates * marks * weight).sum() / (marks * weight).sum() for marks in (noise, real))
    assert abs(float(drawn - kept)) < 0.01
    plain = torch.cat([torch.zeros(1), rate])[skipped[skipped != 0]].mean()
    assert float(kept - plain) > 0.1  # skips as they are would be much less popular


def test_odds_count_clicks_and_skips_of_all_profiles() -> None:
    rows = torch.arange(5)
    clicked, skipped = torch.tensor([[1, 2], [1, 0], [1, 0]]), torch.tensor([[3, 0, 0], [3, 2, 0], [3, 2, 4]])
    tables = Tables(NewsRows(rows, rows[:, None], rows[:, None], rows, rows), clicked, skipped)
    more = 6 / 4  # skips for each click
    expected = [(3 + 1) / (0 + more), (1 + 1) / (2 + more), (0 + 1) / (3 + more), (0 + 1) / (1 + more)]
    torch.testing.assert_close(click_odds(tables)[1:], torch.tensor(expected))


def test_half_of_the_profiles_follow_each_rule() -> None:
    profiles = random_profiles(seed=3, readers=400, clicks=6, skips=9)
    swapped = swap_clicks_and_skips(profiles, torch.ones(NEWS + 1), share=0.2, skips=3)
    swapped = replace(swapped, weight=torch.full((400,), 2.0))
    planted = plant_clicks_of_others(profiles, share=0.2, skips=3)
    both = half_of_each(swapped, planted)
    rules = {2.0: swapped, 1.0: planted}
    for reader in range(400):
        rule = rules[float(both.weight[reader])]
        for side in ("clicked", "skipped"):
            assert torch.equal(getattr(both.profiles, side)[reader], getattr(rule.profiles, side)[reader])
            for mine, theirs in zip(both.pairs[side], rule.pairs[side], strict=True):
                assert torch.equal(mine[reader], theirs[reader])
    assert 150 < int((both.weight == 2).sum()) < 250
