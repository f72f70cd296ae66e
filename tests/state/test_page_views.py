"""The parts in which a log is counted."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from drpn.state.count_columns import DAY
from drpn.state.page_views import LONGEST_PART, PageViews, midnight, parts


def views_at(times: list[int], sizes: list[int]) -> PageViews:
    """Page views at some times and with some numbers of stories, which are numbered from 0."""
    count, total = len(times), sum(sizes)
    zeros, nothing = np.zeros(count, np.int64), np.zeros(total, np.bool_)
    offsets = np.cumsum([0, *sizes])
    return PageViews(
        np.arange(count), np.array(times), zeros, zeros, zeros > 0, offsets, np.arange(total), nothing, nothing
    )


@given(
    st.lists(st.tuples(st.integers(0, 3 * DAY), st.integers(1, 5)), min_size=1, max_size=30),
    st.integers(1, 40),
    st.booleans(),
)
def test_parts_are_whole_seconds_of_one_day(shown: list[tuple[int, int]], pairs: int, late: bool) -> None:
    """`late` puts all page views within minutes of midnight."""
    times = sorted(DAY - 60 + time % 120 if late else time for time, _ in shown)
    views = views_at(times, [size for _, size in shown])
    some = list(parts(views, pairs=pairs))
    assert np.concatenate([part.times for part in some]).tolist() == times
    assert np.concatenate([part.stories for part in some]).tolist() == list(range(len(views.stories)))
    for part in some:
        assert midnight(int(part.times[0])) == midnight(int(part.times[-1]))
        assert part.times[-1] - part.times[0] < LONGEST_PART
        assert part.offsets[-1] == len(part.stories)
    assert all(one.times[-1] < other.times[0] for one, other in pairwise(some))
