"""Properties of every log: no information leaks from the future, and the order of lines does not matter."""

import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from drpn.dataset.folder import SPLITS, Dataset
from drpn.preparation.settings import DataSettings
from drpn.recipes.prepare import prepare
from writing import MindLine, write_mind

START = datetime(2019, 11, 9)
SHORT = DataSettings(clicked=2, skipped=3, neighbours=2, user_neighbours=2)
"""So short that most random users have more feedback than is kept."""
NEWS = [f"N{number}\tnews\tlocal\tTitle {number}" for number in range(9)]
few_examples = settings(
    max_examples=settings.default.max_examples // 5,  # preparing a log takes a fifth of a second
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # shrinking would prepare thousands of logs
)


@dataclass(frozen=True)
class Impression:
    """One impression of a random log."""

    impression_id: str
    user: str
    time: datetime
    candidates: tuple[tuple[str, bool], ...]

    def line(self) -> MindLine:
        clock = f"{self.time.month}/{self.time.day}/{self.time.year} {self.time:%I:%M:%S %p}"
        candidates = " ".join(f"{news}-{int(clicked)}" for news, clicked in self.candidates)
        return MindLine(self.impression_id, self.user, clock, candidates)


@st.composite
def logs(draw: st.DrawFn) -> list[Impression]:
    """Three days with a few users and stories; times are coarse, so that many are equal."""
    hours = draw(st.lists(st.sampled_from([*range(48), *range(49, 72)]), min_size=8, max_size=24))
    hours += [1, 30, 48, 60, 60, 70]  # every split has an impression, and evaluation has a unique first one
    impressions = []
    for index, hour in enumerate(hours):
        news = draw(st.lists(st.integers(0, 8), min_size=1, max_size=5, unique=True))
        labels = draw(st.lists(st.booleans(), min_size=len(news), max_size=len(news)))
        candidates = tuple((f"N{number}", label) for number, label in zip(news, labels, strict=True))
        impressions.append(
            Impression(str(index), f"U{draw(st.integers(1, 3))}", START + timedelta(hours=hour), candidates)
        )
    return impressions


@contextmanager
def prepared(lines: list[MindLine]) -> Iterator[Dataset]:
    """The dataset of one part of a MIND folder."""
    with tempfile.TemporaryDirectory() as folder:
        write_mind(Path(folder) / "logs", lines, NEWS)
        yield prepare(Path(folder) / "logs", Path(folder) / "data", SHORT)


def lines_of(log: list[Impression]) -> list[MindLine]:
    return [impression.line() for impression in log]


def profiles(dataset: Dataset) -> dict[str, tuple[list[str], list[str]]]:
    """The clicked and skipped news ids of each user with a profile."""
    by_user = {}
    for row in range(1, len(dataset.user_ids)):
        sides = [[dataset.news_ids[news] for news in side[row] if news] for side in (dataset.clicked, dataset.skipped)]
        if any(sides):
            by_user[dataset.user_ids[row]] = (sides[0], sides[1])
    return by_user


@few_examples
@given(logs())
def test_profiles_contain_the_newest_earlier_feedback(log: list[Impression]) -> None:
    boundary = START + timedelta(days=1)
    with prepared(lines_of(log)) as dataset:
        for user, (clicked, skipped) in profiles(dataset).items():
            earlier = [impression for impression in log if impression.user == user and impression.time < boundary]
            last = {True: {}, False: {}}
            for impression in sorted(earlier, key=lambda impression: (impression.time, impression.impression_id)):
                for position, (news, label) in enumerate(impression.candidates):
                    last[label][news] = (impression.time, impression.impression_id, position)
            # only from before the boundary, and each story on one side: clicked beats skipped
            assert set(clicked) <= set(last[True])
            assert set(skipped) <= set(last[False]) - set(last[True])
            assert set(clicked).isdisjoint(skipped)
            # oldest first, and nothing newer is missing
            for sequence, times in (
                (clicked, last[True]),
                (skipped, {news: time for news, time in last[False].items() if news not in last[True]}),
            ):
                assert sequence == sorted(times, key=times.__getitem__)[len(times) - len(sequence) :]
                assert len(sequence) == min(len(times), SHORT.clicked if sequence is clicked else SHORT.skipped)


@few_examples
@given(logs())
def test_splits_are_disjoint_in_time_and_complete(log: list[Impression]) -> None:
    with prepared(lines_of(log)) as dataset:
        ends = [START + timedelta(days=1)]
        ids = []
        for name in SPLITS:
            part = dataset.impressions(name)
            assert part.times.min() >= ends[-1]
            assert all(part.times.min() > end for end in ends[1:])
            ends.append(part.times.max())
            ids += list(part.ids)
        assert sorted(ids) == sorted(impression.impression_id for impression in log if impression.time >= ends[0])


@few_examples
@given(logs())
def test_later_labels_do_not_change_profiles_or_graph(log: list[Impression]) -> None:
    """Flip every label after the profile window."""
    boundary = START + timedelta(days=1)
    flipped = [
        replace(impression, candidates=tuple((news, not label) for news, label in impression.candidates))
        if impression.time >= boundary
        else impression
        for impression in log
    ]
    with prepared(lines_of(log)) as first, prepared(lines_of(flipped)) as second:
        for name in ("users/clicked", "users/skipped", "users/neighbours", "news/neighbours"):
            assert first.arrays.checksums[f"{name}.npy"] == second.arrays.checksums[f"{name}.npy"]
        changed = [
            name for name in SPLITS if (first.impressions(name).clicked != second.impressions(name).clicked).all()
        ]
        assert changed == list(SPLITS)


@few_examples
@given(logs(), st.randoms(use_true_random=False))
def test_order_and_repetition_of_lines_do_not_matter(log: list[Impression], shuffler: random.Random) -> None:
    lines = lines_of(log)
    shuffled = lines + shuffler.sample(lines, k=3)
    shuffler.shuffle(shuffled)
    with prepared(lines) as first, prepared(shuffled) as second:
        assert first.arrays.checksums == second.arrays.checksums
        assert first.statistics == second.statistics
