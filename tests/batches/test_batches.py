"""Batches hold exactly the stories of their impressions; random draws depend only on seed and epoch."""

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
    """One impression for each text such as '3+ 4 5': 3 was clicked, 4 and 5 were not. The n-th belongs to user n."""
    pages = [page.split() for page in shown]
    flat = [story for page in pages for story in page]
    return Impressions(
        ids=Strings.of(str(number) for number in range(len(pages))),
        users=np.arange(1, len(pages) + 1, dtype=np.int32),
        times=np.zeros(len(pages), dtype="datetime64[us]"),
        offsets=np.cumsum([0, *map(len, pages)]),
        candidates=np.array([int(story.rstrip("+")) for story in flat], dtype=np.int32),
        clicked=np.array([story.endswith("+") for story in flat], dtype=np.bool_),
        extras={} if seen is None else {"seen": np.array(seen, dtype=np.int8)},
    )


def tables(clicked: Sequence[Sequence[int]] = (), skipped: Sequence[Sequence[int]] = ()) -> Tables:
    """Profiles of the first users, with up to 6 clicked and 9 skipped stories; those of the others are empty."""
    rows = torch.arange(NEWS, dtype=torch.int32)
    zeros = torch.zeros_like(rows)
    news = NewsRows(rows, zeros[:, None], zeros[:, None], zeros, zeros)
    clicked_rows = padded([*clicked, *[[]] * (USERS - len(clicked))], 6)
    skipped_rows = padded([*skipped, *[[]] * (USERS - len(skipped))], 9)
    return Tables(news, clicked_rows, skipped_rows)


def sampler(log: Impressions, *, batch: int = 4, negatives: int = 4, seed: int = 0) -> Sampler:
    return Sampler(Clicks.from_impressions(log, CPU), tables(), batch, negatives, seed)


def random_log(count: int = 30) -> Impressions:
    """Impressions of 1 to 9 stories, 1 to 3 of them clicked; every story is shown in one impression only."""
    random = np.random.default_rng(3)
    pages, stories = [], iter(range(1, NEWS))
    for size in random.integers(1, 10, count):
        clicks = int(random.integers(1, 4))
        pages.append(" ".join(f"{next(stories)}{'+' if slot < clicks else ''}" for slot in range(size)))
    return impressions(*pages)


def by_impression(log: Impressions) -> list[tuple[set[int], set[int]]]:
    """The clicked and the skipped stories of each impression."""
    pages = [slice(start, stop) for start, stop in zip(log.offsets[:-1], log.offsets[1:], strict=True)]
    return [
        (set(log.candidates[page][log.clicked[page]].tolist()), set(log.candidates[page][~log.clicked[page]].tolist()))
        for page in pages
    ]


def lists(batches: Sequence[RowBatch]) -> list[list[list[int]]]:
    """User and candidates of each row of each batch."""
    return [torch.cat([batch.profiles.users[:, None], batch.candidates], dim=1).tolist() for batch in batches]


def test_distinct_positions_point_to_the_same_stories() -> None:
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


def test_distinct_stories_start_with_padding() -> None:
    rows, local = distinct_stories(
        make_row_batch(torch.tensor([1]), padded([[8]]), padded([[6]]), padded([[8, 7]])), news=NEWS
    )
    assert rows.tolist() == [0, 6, 7, 8]
    assert (local.profiles.clicked.tolist(), local.profiles.skipped.tolist(), local.candidates.tolist()) == (
        [[3]],
        [[1]],
        [[3, 2]],
    )


def test_distinct_stories_of_empty_profiles() -> None:
    rows, local = distinct_stories(
        make_row_batch(torch.tensor([1]), padded([[0]]), padded([[0]]), padded([[2, 2]])), news=NEWS
    )
    assert rows.tolist() == [0, 2]
    assert not local.profiles.clicked_mask.any()
    assert not local.profiles.skipped_mask.any()
    assert local.candidate_mask.all()


def test_a_batch_trims_only_padding() -> None:
    clicked = [[], [1, 2, 3], [4], []]
    skipped = [[], [5], [6, 7, 8, 9, 10], [11, 12]]
    batch = tables(clicked, skipped).batch(torch.tensor([2, 1, 3]), padded([[20, 21], [22], [23]]))
    assert batch.profiles.clicked.tolist() == [[4, 0, 0], [1, 2, 3], [0, 0, 0]]
    assert batch.profiles.skipped.tolist() == [[6, 7, 8, 9, 10], [5, 0, 0, 0, 0], [11, 12, 0, 0, 0]]
    assert batch.candidates.tolist() == [[20, 21], [22, 0], [23, 0]]
    assert batch.profiles.users.tolist() == [2, 1, 3]


def test_a_full_profile_is_not_trimmed() -> None:
    batch = tables([[], [1, 2, 3, 4, 5, 6]]).batch(torch.tensor([1]), padded([[7]]))
    assert batch.profiles.clicked.tolist() == [[1, 2, 3, 4, 5, 6]]


def test_empty_profiles_keep_one_column_of_padding() -> None:
    batch = tables().batch(torch.tensor([1, 2]), padded([[7], [8]]))
    assert batch.profiles.clicked.tolist() == batch.profiles.skipped.tolist() == [[0], [0]]


def skips_of(clicks: Clicks, number: int) -> list[int]:
    first = int(clicks.first_skip[number])
    return clicks.skipped[first : first + int(clicks.skips[number])].tolist()


def test_clicks_of_impressions_with_a_skip() -> None:
    log = impressions("1+ 2 3", "4+ 5+", "6 7", "8 9+ 10+ 11", "12+")
    clicks = Clicks.from_impressions(log, CPU)
    assert clicks.news.tolist() == [1, 9, 10]
    assert clicks.readers.tolist() == [1, 4, 4]
    assert [skips_of(clicks, number) for number in range(len(clicks))] == [[2, 3], [8, 11], [8, 11]]


def test_stories_that_were_not_seen_are_not_negatives() -> None:
    log = impressions("1+ 2 3", "4+ 5", "6 7+ 8", seen=[1, 1, 0, 1, 0, 0, 1, 1])
    clicks = Clicks.from_impressions(log, CPU)
    assert clicks.news.tolist() == [1, 7]
    assert [skips_of(clicks, number) for number in range(len(clicks))] == [[2], [8]]


def test_a_click_counts_even_if_marked_as_not_seen() -> None:
    clicks = Clicks.from_impressions(impressions("1+ 2", seen=[0, 1]), CPU)
    assert clicks.news.tolist() == [1]


def test_clicks_of_a_random_log_against_a_loop() -> None:
    log = random_log()
    clicks = Clicks.from_impressions(log, CPU)
    expected = [
        (user, story, skipped)
        for user, (clicked, skipped) in zip(log.users.tolist(), by_impression(log), strict=True)
        for story in sorted(clicked)
        if skipped
    ]
    samples = [
        (int(clicks.readers[number]), int(clicks.news[number]), set(skips_of(clicks, number)))
        for number in range(len(clicks))
    ]
    assert samples == expected
    assert any(not skipped for _, skipped in by_impression(log))  # the log has impressions to leave out


def test_negatives_are_different_skips_of_the_same_impression() -> None:
    log = random_log()
    skips = {story: skipped for clicked, skipped in by_impression(log) for story in clicked}
    users = {story: user for user, (clicked, _) in enumerate(by_impression(log), start=1) for story in clicked}
    for epoch in range(5):
        for batch in sampler(log).batches(epoch):
            for user, (click, *negatives) in zip(batch.profiles.users.tolist(), batch.candidates.tolist(), strict=True):
                real = [story for story in negatives if story]
                assert users[click] == user
                assert len(real) == len(set(real)) == min(4, len(skips[click]))
                assert set(real) <= skips[click]


def test_missing_negatives_are_padding() -> None:
    (batch,) = sampler(impressions("1+ 2", "3+ 4 5 6")).batches(0)
    negatives = {row[0]: sorted(row[1:]) for row in batch.candidates.tolist()}
    assert negatives == {1: [0, 0, 0, 2], 3: [0, 4, 5, 6]}
    assert (batch.candidates != 0).sum(1).tolist() == [2 if row[0] == 1 else 4 for row in batch.candidates.tolist()]


def test_each_epoch_contains_each_click_once() -> None:
    samples = sampler(random_log(), batch=7)
    orders = []
    for epoch in range(3):
        batches = list(samples.batches(epoch))
        assert len(batches) == len(samples)
        assert [len(batch) for batch in batches[:-1]] == [7] * (len(samples) - 1)
        order = torch.cat([batch.candidates[:, 0] for batch in batches]).tolist()
        assert sorted(order) == sorted(samples.clicks.news.tolist())
        orders.append(order)
    assert orders[0] != orders[1] != orders[2]


def test_batches_depend_only_on_seed_and_epoch() -> None:
    log = random_log()
    torch.manual_seed(1)
    first = lists(list(sampler(log, seed=5).batches(2)))
    torch.manual_seed(2)
    again = sampler(log, seed=5)
    list(again.batches(0))  # earlier draws do not matter
    assert lists(list(again.batches(2))) == first
    assert lists(list(sampler(log, seed=6).batches(2))) != first
    assert lists(list(sampler(log, seed=5).batches(3))) != first


def test_the_global_random_state_does_not_change() -> None:
    before = torch.get_rng_state()
    list(sampler(random_log()).batches(0))
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("start", [0, 1, 5, 1000])
def test_starting_at_a_later_step_gives_the_same_batches(start: int) -> None:
    samples = sampler(random_log())
    assert lists(list(samples.batches(1, start))) == lists(list(samples.batches(1)))[start:]


@pytest.mark.parametrize(("skips", "expected"), [(5, 400), (10, 200)])
def test_every_skip_is_drawn_about_equally_often(skips: int, expected: int) -> None:
    """1,000 epochs draw 2 skips each; the standard deviation of a count is below 16."""
    shown = range(2, 2 + skips)
    samples = sampler(impressions("1+ " + " ".join(map(str, shown))), negatives=2)
    rows = [batch.candidates[0].tolist() for epoch in range(1000) for batch in samples.batches(epoch)]
    counts = Counter(story for row in rows for story in row[1:])
    assert sorted(counts) == list(shown)
    assert all(abs(count - expected) < 60 for count in counts.values()), counts


def test_without_clicks_there_are_no_batches() -> None:
    samples = sampler(impressions("1 2", "3+"))
    assert len(samples) == 0
    assert list(samples.batches(0)) == []


@pytest.mark.parametrize("budget", [1, 5, 12, 40, 10_000])
def test_every_candidate_is_ranked_exactly_once(budget: int) -> None:
    log = random_log()
    ranked: Counter[int] = Counter()
    users: Counter[int] = Counter()
    for batch, positions, _ in ranking_batches(log, tables(), candidates=budget):
        assert positions.shape == batch.candidates.shape
        assert batch.candidates.numel() <= budget or len(batch) == 1
        assert torch.equal(positions >= 0, batch.candidates != 0)
        assert batch.candidates[positions >= 0].tolist() == log.candidates[positions[positions >= 0].numpy()].tolist()
        for user, row in zip(batch.profiles.users.tolist(), positions.tolist(), strict=True):
            real = [position for position in row if position >= 0]
            # all candidates of the user's impression, in their order
            assert real == list(range(log.offsets[user - 1], log.offsets[user]))
            ranked.update(real)
            users[user] += 1
    assert set(ranked.values()) == set(users.values()) == {1}
    assert len(ranked) == len(log.candidates)
    assert sorted(users) == log.users.tolist()


def test_a_long_impression_has_its_own_batch() -> None:
    log = impressions("1 2", " ".join(map(str, range(3, 23))), "23 24")
    shapes = [tuple(batch.candidates.shape) for batch, _, _ in ranking_batches(log, tables(), candidates=8)]
    assert shapes == [(2, 2), (1, 20)]


def test_short_impressions_are_not_padded_to_long_ones() -> None:
    log = impressions("1 2 3 4 5", "6", "7 8 9 10 11", "12")
    batches = list(ranking_batches(log, tables(), candidates=10))
    assert [batch.candidates.tolist() for batch, _, _ in batches] == [[[6], [12]], [[1, 2, 3, 4, 5], [7, 8, 9, 10, 11]]]


def test_ranking_batches_hold_the_profile_of_the_user() -> None:
    profiles = tables([[], [101, 102], [103]], [[], [], [104]])
    ((batch, _, _),) = ranking_batches(impressions("1 2", "3 4"), profiles, candidates=100)
    assert batch.profiles.clicked.tolist() == [[101, 102], [103, 0]]
    assert batch.profiles.skipped.tolist() == [[0], [104]]


@pytest.mark.parametrize("users", [1, 3, 100])
@pytest.mark.parametrize("budget", [1, 7, 1_000])
def test_user_pages_hold_every_candidate_once_even_if_read_later(users: int, budget: int) -> None:
    log = random_log()
    log = replace(log, users=np.random.default_rng(1).integers(1, 9, len(log.users)).astype(np.int32))
    ranked: Counter[int] = Counter()
    for page_users, pages in list(user_pages(log, CPU, users=users, candidates=budget)):  # all are made, then read
        assert len(page_users) <= users
        for readers, candidates, positions, moments in pages:
            assert candidates.numel() <= budget or len(readers) == 1
            assert torch.equal(positions >= 0, candidates != 0)
            assert candidates[positions >= 0].tolist() == log.candidates[positions[positions >= 0].numpy()].tolist()
            for user, row in zip(page_users[readers].tolist(), positions.tolist(), strict=True):
                real = [position for position in row if position >= 0]
                page = int(np.searchsorted(log.offsets, real[0], side="right")) - 1
                assert real == list(range(log.offsets[page], log.offsets[page + 1]))
                assert user == log.users[page]
                ranked.update(real)
            assert len(moments) == len(readers)
    assert ranked == Counter(range(len(log.candidates)))


def test_moving_to_a_device_keeps_all_tensors() -> None:
    batch = make_row_batch(torch.tensor([1]), padded([[2]]), padded([[3]]), padded([[4, 5]]))
    before, after = tensors(batch), tensors(batch.to(CPU))
    assert len(before) == len(after) == 10
    assert all(torch.equal(old, new) for old, new in zip(before, after, strict=True))
    news = tables().news
    assert len(news.part(slice(3, 7))) == 4
    assert news.select(torch.tensor([3, 1])).rows.tolist() == [3, 1]


def tensors(batch: RowBatch) -> list[Tensor]:
    collected: list[Tensor] = []
    batch.map_tensors(lambda tensor: collected.append(tensor) or tensor)
    return collected


def test_batches_hold_the_times_of_their_impressions() -> None:
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
