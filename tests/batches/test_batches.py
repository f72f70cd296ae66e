"""Impressions as tensors: nothing is lost, nothing is invented, and chance depends on seed and pass alone."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from batch_cases import make_row_batch
from drpn.batches.batch import NewsRows, RowBatch, distinct_stories
from drpn.batches.ranking import ranking_batches, user_pages
from drpn.batches.samples import Clicks, Sampler
from drpn.batches.tables import Tables
from drpn.dataset.arrays import Strings
from drpn.dataset.folder import Impressions

CPU = torch.device("cpu")
USERS, NEWS = 40, 400


def padded(lists: Sequence[Sequence[int]], width: int | None = None) -> Tensor:
    width = max(map(len, lists)) if width is None else width
    return torch.tensor([[*row, *[0] * (width - len(row))] for row in lists], dtype=torch.int32).view(len(lists), width)


def impressions(*shown: str, seen: Sequence[int] | None = None) -> Impressions:
    """One impression for each text such as '3+ 4 5': 3 was clicked, 4 and 5 were not; the n-th is of user n."""
    pages = [page.split() for page in shown]
    flat = [news for page in pages for news in page]
    return Impressions(
        ids=Strings.of(str(number) for number in range(len(pages))),
        users=np.arange(1, len(pages) + 1, dtype=np.int32),
        times=np.zeros(len(pages), dtype="datetime64[us]"),
        offsets=np.cumsum([0, *map(len, pages)]),
        candidates=np.array([int(news.rstrip("+")) for news in flat], dtype=np.int32),
        clicked=np.array([news.endswith("+") for news in flat], dtype=np.bool_),
        extras={} if seen is None else {"seen": np.array(seen, dtype=np.int8)},
    )


def tables(clicked: Sequence[Sequence[int]] = (), skipped: Sequence[Sequence[int]] = ()) -> Tables:
    """Profiles by user row, the rest of them empty, with sequences of up to 6 and 9 news."""
    rows = torch.arange(NEWS, dtype=torch.int32)
    nothing = torch.zeros_like(rows)
    news = NewsRows(rows, nothing[:, None], nothing[:, None], nothing, nothing, nothing.bool())
    one = padded([*clicked, *[[]] * (USERS - len(clicked))], 6)
    other = padded([*skipped, *[[]] * (USERS - len(skipped))], 9)
    return Tables(news, one, other)


def sampler(log: Impressions, *, batch: int = 4, negatives: int = 4, seed: int = 0) -> Sampler:
    return Sampler(Clicks.from_impressions(log, CPU), tables(), batch, negatives, seed)


def random_log(many: int = 30) -> Impressions:
    """Impressions of 1 to 9 news, 1 to 3 of them clicked; each news is shown once, so that it names its impression."""
    random = np.random.default_rng(3)
    pages, news = [], iter(range(1, NEWS))
    for size in random.integers(1, 10, many):
        clicks = int(random.integers(1, 4))
        pages.append(" ".join(f"{next(news)}{'+' if slot < clicks else ''}" for slot in range(size)))
    return impressions(*pages)


def by_impression(log: Impressions) -> list[tuple[set[int], set[int]]]:
    """What was clicked and what was skipped in each impression."""
    pages = [slice(start, stop) for start, stop in zip(log.offsets[:-1], log.offsets[1:], strict=True)]
    return [
        (set(log.candidates[page][log.clicked[page]].tolist()), set(log.candidates[page][~log.clicked[page]].tolist()))
        for page in pages
    ]


def lists(batches: Sequence[RowBatch]) -> list[list[list[int]]]:
    return [torch.cat([one.profiles.users[:, None], one.candidates], dim=1).tolist() for one in batches]


def test_distinct_positions_point_to_the_same_news() -> None:
    batch = make_row_batch(
        torch.tensor([5, 6]), padded([[9, 7, 9], [3]]), padded([[7], [30, 2]]), padded([[9, 4, 1], [30, 9]])
    )
    rows, local = distinct_stories(batch, news=NEWS)
    assert rows.tolist() == [0, 1, 2, 3, 4, 7, 9, 30]
    pairs = [(getattr(local.profiles, name), getattr(batch.profiles, name)) for name in ("clicked", "skipped")]
    for positions, expected in [*pairs, (local.candidates, batch.candidates)]:
        assert torch.equal(rows[positions.long()], expected)
        assert torch.equal(positions == 0, expected == 0)
    assert torch.equal(local.profiles.users, batch.profiles.users)


def test_distinct_has_padding_first_even_where_a_batch_has_none() -> None:
    rows, local = distinct_stories(
        make_row_batch(torch.tensor([1]), padded([[8]]), padded([[6]]), padded([[8, 7]])), news=NEWS
    )
    assert rows.tolist() == [0, 6, 7, 8]
    assert (local.profiles.clicked.tolist(), local.profiles.skipped.tolist(), local.candidates.tolist()) == (
        [[3]],
        [[1]],
        [[3, 2]],
    )


def test_distinct_of_empty_profiles() -> None:
    rows, local = distinct_stories(
        make_row_batch(torch.tensor([1]), padded([[0]]), padded([[0]]), padded([[2, 2]])), news=NEWS
    )
    assert rows.tolist() == [0, 2]
    assert not local.profiles.clicked_mask.any()
    assert not local.profiles.skipped_mask.any()
    assert local.candidate_mask.all()


def test_a_batch_cuts_nothing_but_padding() -> None:
    clicked = [[], [1, 2, 3], [4], []]
    skipped = [[], [5], [6, 7, 8, 9, 10], [11, 12]]
    known = tables(clicked, skipped)
    batch = known.batch(torch.tensor([2, 1, 3]), padded([[20, 21], [22], [23]]))
    assert batch.profiles.clicked.tolist() == [[4, 0, 0], [1, 2, 3], [0, 0, 0]]
    assert batch.profiles.skipped.tolist() == [[6, 7, 8, 9, 10], [5, 0, 0, 0, 0], [11, 12, 0, 0, 0]]
    assert batch.candidates.tolist() == [[20, 21], [22, 0], [23, 0]]
    assert batch.profiles.users.tolist() == [2, 1, 3]


def test_a_full_profile_is_not_cut() -> None:
    batch = tables([[], [1, 2, 3, 4, 5, 6]]).batch(torch.tensor([1]), padded([[7]]))
    assert batch.profiles.clicked.tolist() == [[1, 2, 3, 4, 5, 6]]


def test_empty_profiles_keep_one_column_of_padding() -> None:
    batch = tables().batch(torch.tensor([1, 2]), padded([[7], [8]]))
    assert batch.profiles.clicked.tolist() == batch.profiles.skipped.tolist() == [[0], [0]]


def skips_of(clicks: Clicks, place: int) -> list[int]:
    first = int(clicks.first_skip[place])
    return clicks.skipped[first : first + int(clicks.skips[place])].tolist()


def test_every_click_of_impressions_with_a_skip() -> None:
    log = impressions("1+ 2 3", "4+ 5+", "6 7", "8 9+ 10+ 11", "12+")
    clicks = Clicks.from_impressions(log, CPU)
    assert clicks.news.tolist() == [1, 9, 10]
    assert clicks.users.tolist() == [1, 4, 4]
    assert [skips_of(clicks, place) for place in range(len(clicks))] == [[2, 3], [8, 11], [8, 11]]


def test_news_that_never_came_into_view_are_no_negatives() -> None:
    log = impressions("1+ 2 3", "4+ 5", "6 7+ 8", seen=[1, 1, 0, 1, 0, 0, 1, 1])
    clicks = Clicks.from_impressions(log, CPU)
    assert clicks.news.tolist() == [1, 7]
    assert [skips_of(clicks, place) for place in range(len(clicks))] == [[2], [8]]


def test_a_click_on_what_was_not_seen_is_still_a_click() -> None:
    clicks = Clicks.from_impressions(impressions("1+ 2", seen=[0, 1]), CPU)
    assert clicks.news.tolist() == [1]


def test_clicks_of_a_random_log_against_a_loop() -> None:
    log = random_log()
    clicks = Clicks.from_impressions(log, CPU)
    expected = [
        (user, news, skipped)
        for user, (clicked, skipped) in zip(log.users.tolist(), by_impression(log), strict=True)
        for news in sorted(clicked)
        if skipped
    ]
    found = [
        (int(clicks.users[place]), int(clicks.news[place]), set(skips_of(clicks, place)))
        for place in range(len(clicks))
    ]
    assert found == expected
    assert any(not skipped for _, skipped in by_impression(log))  # the log has what must be left out


def test_negatives_are_different_skips_of_the_same_impression() -> None:
    log = random_log()
    skips = {news: skipped for clicked, skipped in by_impression(log) for news in clicked}
    users = {news: user for user, (clicked, _) in enumerate(by_impression(log), start=1) for news in clicked}
    for epoch in range(5):
        for batch in sampler(log).batches(epoch):
            for user, (click, *negatives) in zip(batch.profiles.users.tolist(), batch.candidates.tolist(), strict=True):
                real = [news for news in negatives if news]
                assert users[click] == user
                assert len(real) == len(set(real)) == min(4, len(skips[click]))
                assert set(real) <= skips[click]


def test_slots_that_no_skip_can_fill_are_padding() -> None:
    (batch,) = sampler(impressions("1+ 2", "3+ 4 5 6")).batches(0)
    of = {row[0]: sorted(row[1:]) for row in batch.candidates.tolist()}
    assert of == {1: [0, 0, 0, 2], 3: [0, 4, 5, 6]}
    assert (batch.candidates != 0).sum(1).tolist() == [2 if row[0] == 1 else 4 for row in batch.candidates.tolist()]


def test_each_pass_contains_each_click_once() -> None:
    one = sampler(random_log(), batch=7)
    orders = []
    for epoch in range(3):
        batches = list(one.batches(epoch))
        assert len(batches) == len(one)
        assert [len(batch) for batch in batches[:-1]] == [7] * (len(one) - 1)
        order = torch.cat([batch.candidates[:, 0] for batch in batches]).tolist()
        assert sorted(order) == sorted(one.clicks.news.tolist())
        orders.append(order)
    assert orders[0] != orders[1] != orders[2]


def test_batches_depend_on_seed_and_pass_alone() -> None:
    log = random_log()
    torch.manual_seed(1)
    first = lists(list(sampler(log, seed=5).batches(2)))
    torch.manual_seed(2)
    again = sampler(log, seed=5)
    list(again.batches(0))  # what was drawn before does not matter
    assert lists(list(again.batches(2))) == first
    assert lists(list(sampler(log, seed=6).batches(2))) != first
    assert lists(list(sampler(log, seed=5).batches(3))) != first


def test_the_global_randomness_is_left_alone() -> None:
    before = torch.get_rng_state()
    list(sampler(random_log()).batches(0))
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("start", [0, 1, 5, 1000])
def test_starting_at_a_step_gives_the_batches_of_running_through(start: int) -> None:
    one = sampler(random_log())
    assert lists(list(one.batches(1, start))) == lists(list(one.batches(1)))[start:]


@pytest.mark.parametrize(("skips", "expected"), [(5, 400), (10, 200)])
def test_every_skip_is_drawn_about_equally_often(skips: int, expected: int) -> None:
    """1,000 passes draw 2 skips each; one standard deviation is below 16."""
    shown = range(2, 2 + skips)
    one = sampler(impressions("1+ " + " ".join(map(str, shown))), negatives=2)
    rows = [batch.candidates[0].tolist() for epoch in range(1000) for batch in one.batches(epoch)]
    drawn = Counter(news for row in rows for news in row[1:])
    assert sorted(drawn) == list(shown)
    assert all(abs(times - expected) < 60 for times in drawn.values()), drawn


def test_no_clicks_no_batches() -> None:
    one = sampler(impressions("1 2", "3+"))
    assert len(one) == 0
    assert list(one.batches(0)) == []


@pytest.mark.parametrize("budget", [1, 5, 12, 40, 10_000])
def test_every_candidate_is_ranked_exactly_once(budget: int) -> None:
    log = random_log()
    places: Counter[int] = Counter()
    users: Counter[int] = Counter()
    for batch, at, _ in ranking_batches(log, tables(), candidates=budget):
        assert at.shape == batch.candidates.shape
        assert batch.candidates.numel() <= budget or len(batch) == 1
        assert torch.equal(at >= 0, batch.candidates != 0)
        assert batch.candidates[at >= 0].tolist() == log.candidates[at[at >= 0].numpy()].tolist()
        for user, row in zip(batch.profiles.users.tolist(), at.tolist(), strict=True):
            real = [place for place in row if place >= 0]
            # the candidates of that very impression, in its order
            assert real == list(range(log.offsets[user - 1], log.offsets[user]))
            places.update(real)
            users[user] += 1
    assert set(places.values()) == set(users.values()) == {1}
    assert len(places) == len(log.candidates)
    assert sorted(users) == log.users.tolist()


def test_a_long_impression_has_a_batch_of_its_own() -> None:
    log = impressions("1 2", " ".join(map(str, range(3, 23))), "23 24")
    shapes = [tuple(batch.candidates.shape) for batch, _, _ in ranking_batches(log, tables(), candidates=8)]
    assert shapes == [(2, 2), (1, 20)]


def test_short_impressions_are_not_padded_to_long_ones() -> None:
    log = impressions("1 2 3 4 5", "6", "7 8 9 10 11", "12")
    batches = list(ranking_batches(log, tables(), candidates=10))
    assert [batch.candidates.tolist() for batch, _, _ in batches] == [[[6], [12]], [[1, 2, 3, 4, 5], [7, 8, 9, 10, 11]]]


def test_ranked_with_the_profile_of_the_user() -> None:
    known = tables([[], [101, 102], [103]], [[], [], [104]])
    ((batch, _, _),) = ranking_batches(impressions("1 2", "3 4"), known, candidates=100)
    assert batch.profiles.clicked.tolist() == [[101, 102], [103, 0]]
    assert batch.profiles.skipped.tolist() == [[0], [104]]


@pytest.mark.parametrize("users", [1, 3, 100])
@pytest.mark.parametrize("budget", [1, 7, 1_000])
def test_pages_of_users_hold_every_candidate_once_whenever_they_are_read(users: int, budget: int) -> None:
    log = random_log()
    log = replace(log, users=np.random.default_rng(1).integers(1, 9, len(log.users)).astype(np.int32))
    found: Counter[int] = Counter()
    for some, pages in list(user_pages(log, CPU, users=users, candidates=budget)):  # all first, then read
        assert len(some) <= users
        for readers, candidates, places, moments in pages:
            assert candidates.numel() <= budget or len(readers) == 1
            assert torch.equal(places >= 0, candidates != 0)
            assert candidates[places >= 0].tolist() == log.candidates[places[places >= 0].numpy()].tolist()
            for user, row in zip(some[readers].tolist(), places.tolist(), strict=True):
                real = [place for place in row if place >= 0]
                page = int(np.searchsorted(log.offsets, real[0], side="right")) - 1
                assert real == list(range(log.offsets[page], log.offsets[page + 1]))
                assert user == log.users[page]
                found.update(real)
            assert len(moments) == len(readers)
    assert found == Counter(range(len(log.candidates)))


def test_moving_to_a_device_keeps_everything() -> None:
    batch = make_row_batch(torch.tensor([1]), padded([[2]]), padded([[3]]), padded([[4, 5]]))
    before, after = tensors(batch), tensors(batch.to(CPU))
    assert len(before) == len(after) == 9
    assert all(torch.equal(one, other) for one, other in zip(before, after, strict=True))
    news = tables().news
    assert len(news.part(slice(3, 7))) == 4
    assert news.select(torch.tensor([3, 1])).rows.tolist() == [3, 1]


def tensors(batch: RowBatch) -> list[Tensor]:
    found: list[Tensor] = []
    batch.map_tensors(lambda tensor: found.append(tensor) or tensor)
    return found


def test_batches_carry_the_moments_of_their_impressions() -> None:
    times = np.array(["2026-01-01T00:00:01", "2026-01-02"], "datetime64[us]")
    log = replace(impressions("1+ 2 3", "4+ 5"), times=times)
    moments = dict(zip([1, 4], log.times.astype("datetime64[s]").astype(np.int64).tolist(), strict=True))
    (batch,) = sampler(log).batches(0)
    assert batch.context.moment.tolist() == [moments[row[0]] for row in batch.candidates.tolist()]
    ((ranked, _, _),) = ranking_batches(log, tables(), candidates=100)
    assert sorted(ranked.context.moment.tolist()) == sorted(moments.values())
    ((_, pages),) = user_pages(log, CPU, users=10, candidates=100)
    (page,) = pages
    assert page.moments.tolist() == ranked.context.moment.tolist()
