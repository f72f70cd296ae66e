"""When stories were published: the rule over a whole log, and as an update by one page view."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from drpn.state.publication import UNPUBLISHED, Appearances, first_appearances, id_number, id_numbers

IDS = st.lists(st.integers(0, 30), unique=True, min_size=1, max_size=12)


def test_a_story_is_as_old_as_its_first_appearance() -> None:
    first = first_appearances(np.array([2, 1, 2]), np.array([50, 60, 70]), None, 4)
    assert first.tolist() == [UNPUBLISHED, 60, 50, UNPUBLISHED]


def test_a_story_is_as_old_as_one_with_a_higher_number() -> None:
    first = first_appearances(np.array([2, 1]), np.array([50, 60]), np.array([7, 9, 8, 10]), 5)
    assert first.tolist() == [UNPUBLISHED, 50, 50, 50, UNPUBLISHED]


def test_numbers_of_ids() -> None:
    assert id_number("0042") == 42
    assert id_number("9" * 18) == 10**18 - 1
    assert [id_number(text) for text in ("", "N1", "-1", "\u0663", "9" * 19)] == [None] * 5
    assert id_numbers(["1", "N2"]) is None


@given(IDS, st.data())
def test_the_update_rule_is_that_of_a_whole_log(numbers: list[int], data: st.DataObject) -> None:
    """Some stories are known at the start; the others are added at any time, and page views show those known."""
    rows = range(1, len(numbers) + 1)
    count = data.draw(st.integers(0, len(numbers)))
    published = np.full(len(numbers) + 1, UNPUBLISHED)
    told = list[tuple[int, int]]()  # stories that were shown, and when
    appearances = Appearances(rows[:count], numbers[:count], published[1 : count + 1])
    for time in range(100, 100 + data.draw(st.integers(0, 8))):
        if count < len(numbers) and data.draw(st.booleans()):
            count += 1
            published[count] = appearances.add(count, numbers[count - 1])
        if not count:
            continue
        row = data.draw(st.integers(1, count))
        told.append((row, time))
        published[appearances.show(numbers[row - 1], time)] = time
        if data.draw(st.booleans()):  # as a service that starts with these
            appearances = Appearances(rows[:count], numbers[:count], published[1 : count + 1])
        stories, times = (np.array(column, np.int64) for column in zip(*told, strict=True))
        expected = first_appearances(stories, times, np.array(numbers[:count]), count + 1)
        assert published[: count + 1].tolist() == expected.tolist()
