"""Facts that hold for every log: time never leaks, and the order of lines does not matter."""

import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from drpn.dataset.folder import SPLITS, Dataset
from drpn.prepare.settings import DataSettings
from drpn.recipes.prepare import prepare
from writing import MindLine, write_mind

START = datetime(2019, 11, 9)
SHORT = DataSettings(clicked=2, skipped=3, neighbours=2, user_neighbours=2)
"""So short that most random users have more than is kept."""
NEWS = [f"N{number}\tnews\tlocal\tTitle {number}" for number in range(9)]
few = settings(
    max_examples=20,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # shrinking would prepare thousands of logs
)


@dataclass(frozen=True)
class Shown:
    """One impression of a random log."""

    impression_id: str
    user: str
    time: datetime
    candidates: tuple[tuple[str, bool], ...]

    def line(self) -> MindLine:
        clock = f"{self.time.month}/{self.time.day}/{self.time.year} {self.time:%I:%M:%S %p}"
        words = " ".join(f"{news}-{int(clicked)}" for news, clicked in self.candidates)
        return MindLine(self.impression_id, self.user, clock, words)


@st.composite
def logs(draw: st.DrawFn) -> list[Shown]:
    """Three days of a few users and news; times are coarse, so that many are equal."""
    hours = draw(st.lists(st.sampled_from([*range(48), *range(49, 72)]), min_size=8, max_size=24))
    hours += [1, 30, 48, 60, 60, 70]  # every stretch of time has an impression, and evaluation a first one
    made = []
    for number, hour in enumerate(hours):
        news = draw(st.lists(st.integers(0, 8), min_size=1, max_size=5, unique=True))
        labels = draw(st.lists(st.booleans(), min_size=len(news), max_size=len(news)))
        candidates = tuple((f"N{one}", label) for one, label in zip(news, labels, strict=True))
        made.append(Shown(str(number), f"U{draw(st.integers(1, 3))}", START + timedelta(hours=hour), candidates))
    return made


@contextmanager
def prepared(lines: list[MindLine]) -> Iterator[Dataset]:
    """The dataset of one part of a MIND folder."""
    with tempfile.TemporaryDirectory() as folder:
        write_mind(Path(folder) / "logs", lines, NEWS)
        yield prepare(Path(folder) / "logs", Path(folder) / "data", SHORT)


def profiles(dataset: Dataset) -> dict[str, tuple[list[str], list[str]]]:
    """The clicked and skipped news ids of each user who has any."""
    found = {}
    for row in range(1, len(dataset.user_ids)):
        sides = [[dataset.news_ids[news] for news in side[row] if news] for side in (dataset.clicked, dataset.skipped)]
        if any(sides):
            found[dataset.user_ids[row]] = (sides[0], sides[1])
    return found


@few
@given(logs())
def test_a_profile_holds_the_newest_of_what_came_before(log: list[Shown]) -> None:
    boundary = START + timedelta(days=1)
    with prepared([one.line() for one in log]) as dataset:
        for user, (clicked, skipped) in profiles(dataset).items():
            before = [one for one in log if one.user == user and one.time < boundary]
            last = {True: {}, False: {}}
            for one in sorted(before, key=lambda one: (one.time, one.impression_id)):
                for position, (news, label) in enumerate(one.candidates):
                    last[label][news] = (one.time, one.impression_id, position)
            # only from before the boundary, and each news on one side: clicked beats skipped
            assert set(clicked) <= set(last[True])
            assert set(skipped) <= set(last[False]) - set(last[True])
            assert set(clicked).isdisjoint(skipped)
            # oldest first, and nothing newer was left out
            for kept, times in (
                (clicked, last[True]),
                (skipped, {n: t for n, t in last[False].items() if n not in last[True]}),
            ):
                assert kept == sorted(times, key=times.__getitem__)[len(times) - len(kept) :]
                assert len(kept) == min(len(times), SHORT.clicked if kept is clicked else SHORT.skipped)


@few
@given(logs())
def test_splits_are_disjoint_in_time_and_lose_nothing(log: list[Shown]) -> None:
    with prepared([one.line() for one in log]) as dataset:
        ends = [START + timedelta(days=1)]
        ids = []
        for name in SPLITS:
            part = dataset.impressions(name)
            assert part.times.min() >= ends[-1]
            assert all(part.times.min() > end for end in ends[1:])
            ends.append(part.times.max())
            ids += list(part.ids)
        assert sorted(ids) == sorted(one.impression_id for one in log if one.time >= START + timedelta(days=1))


@few
@given(logs())
def test_no_test_click_reaches_the_profiles_or_the_graph(log: list[Shown]) -> None:
    """Flipping every label after the profile window changes neither."""
    boundary = START + timedelta(days=1)
    flipped = [
        Shown(one.impression_id, one.user, one.time, tuple((news, not label) for news, label in one.candidates))
        if one.time >= boundary
        else one
        for one in log
    ]
    with prepared([one.line() for one in log]) as first, prepared([one.line() for one in flipped]) as second:
        for name in (
            "users/clicked", "users/skipped", "users/neighbours", "news/neighbours", "news/neighbour_weight"
        ):  # fmt: skip
            assert first.arrays.checksums[f"{name}.npy"] == second.arrays.checksums[f"{name}.npy"]
        changed = [
            name for name in SPLITS if (first.impressions(name).clicked != second.impressions(name).clicked).all()
        ]
        assert changed == list(SPLITS)


@few
@given(logs(), st.randoms(use_true_random=False))
def test_neither_the_order_of_lines_nor_their_repetition_matters(log: list[Shown], chance: random.Random) -> None:
    lines = [one.line() for one in log]
    shuffled = lines + chance.sample(lines, k=3)
    chance.shuffle(shuffled)
    with prepared(lines) as first, prepared(shuffled) as second:
        assert first.arrays.checksums == second.arrays.checksums
        assert first.statistics == second.statistics
