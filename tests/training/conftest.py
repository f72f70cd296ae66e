"""A newsroom in which only the skips distinguish readers, prepared once."""

from pathlib import Path

import numpy as np
import pytest

from writing import MindLine, write_mind

TOPICS = {
    "A": ["goal", "match", "league", "coach", "striker", "referee", "stadium", "penalty"],
    "B": ["market", "shares", "profit", "bank", "invest", "inflation", "tariff", "budget"],
    "C": ["rain", "storm", "sunny", "forecast", "snow", "cloud", "thunder", "heatwave"],
}


@pytest.fixture(autouse=True)
def _single_thread(one_thread: None) -> None:
    """Every test here uses one thread."""


@pytest.fixture(scope="session")
def newsroom(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset folder of 80 readers: even readers never want topic A, odd readers never want topic B.

    For five days each page shows the unwanted topic, which is skipped, and the weather, which is clicked. On the sixth
    day pages show A and B. On the seventh day they do so again, with stories that are all new.
    """
    from drpn.recipes.prepare import prepare

    random = np.random.default_rng(0)
    stories: list[str] = []

    def story(topic: str) -> str:
        words = " ".join(random.choice(TOPICS[topic], 5, replace=False))
        stories.append(f"N{len(stories) + 1}\t{topic}\t\t{words}")
        return f"N{len(stories)}"

    old = {topic: [story(topic) for _ in range(25)] for topic in TOPICS}
    new = {topic: [story(topic) for _ in range(15)] for topic in TOPICS}
    lines = []

    def page(day: int, user: int, *shown: str) -> None:
        time = f"11/{day}/2019 {len(lines) % 11 + 1}:00:00 AM"
        lines.append(MindLine(str(len(lines) + 1), f"U{user}", time, " ".join(shown)))

    for user in range(80):
        wanted, unwanted = "BA" if user % 2 == 0 else "AB"
        for day in range(10, 15):
            page(day, user, f"{random.choice(old[unwanted])}-0", f"{random.choice(old['C'])}-1")
        for _ in range(3):
            page(15, user, f"{random.choice(old[wanted])}-1", f"{random.choice(old[unwanted])}-0")
        page(16, user, f"{random.choice(new[unwanted])}-0", f"{random.choice(new[wanted])}-1")
    folder = tmp_path_factory.mktemp("newsroom")
    write_mind(folder / "logs", lines, stories)
    prepare(folder / "logs", folder / "data")
    return folder / "data"


@pytest.fixture
def data(newsroom: Path, tmp_path: Path) -> Path:
    """The newsroom as `data` in the test's folder."""
    (tmp_path / "data").symlink_to(newsroom)
    return tmp_path / "data"
