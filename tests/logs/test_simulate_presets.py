"""The presets of the simulator: the default newsroom keeps its bytes, and personal noise has the promised shares."""

import hashlib
from pathlib import Path

import numpy as np
import pytest

from drpn.logs.simulate import PRESETS, Simulated, SimulationSettings, simulate
from newsroom_files import Newsroom, read

SMALL_HASHES = {
    "train/news.tsv": "38df0ba836d893e1b3ee7cfd62dcd35c052f838fd2afc9f5f031a5da554f60e0",
    "train/behaviors.tsv": "2211bd1ec08c8bffc0bffbbc322d857b50b01376c30c3bc958dd8adc0bda9151",
    "dev/news.tsv": "cbdd327db93e3953dbd5008feb0b7a7fe8857b6f3c40a0b4458c8ded4e3b4fee",
    "dev/behaviors.tsv": "7d9479f91491cf62b63a22fd19806fc7cfca8d038b706b331a5fc1d6130853bc",
    "simulation.json": "387c2b9ade80b2bc556308feba3f7424e180a55cea6e4f6c6df90bdb9322f41a",
}
"""sha256 of the files of `small`; those of truth.parquet depend on the version of Arrow."""


@pytest.fixture(scope="module")
def personal(tmp_path_factory: pytest.TempPathFactory) -> Newsroom:
    folder = tmp_path_factory.mktemp("personal") / "logs"
    simulate(folder, SimulationSettings(users=600, news=6_000, seed=2, preset="personal"))
    return read(folder)


def test_the_default_newsroom_keeps_its_bytes(small: tuple[Path, Simulated]) -> None:
    for name, expected in SMALL_HASHES.items():
        assert hashlib.sha256((small[0] / name).read_bytes()).hexdigest() == expected, name
    truth = read(small[0])
    assert hashlib.sha256(truth.column("opinion").tobytes()).hexdigest().startswith("6156b951646d2cbb")
    assert hashlib.sha256(truth.column("appeal").tobytes()).hexdigest().startswith("efc56ef13a837ddf")


@pytest.mark.parametrize("preset", [name for name in PRESETS if name != "newsroom"])
def test_a_preset_repeats_its_bytes_with_its_seed(preset: str, tmp_path: Path) -> None:
    for name, seed in (("first", 5), ("second", 5), ("other", 6)):
        simulate(tmp_path / name, SimulationSettings(users=40, news=2_000, days=2, seed=seed, preset=preset))
    first, second, other = (_bytes(tmp_path / name) for name in ("first", "second", "other"))
    assert first == second
    assert all(first[name] != other[name] for name in first)
    assert f'"preset": "{preset}"'.encode() in first["simulation.json"]


def test_readers_of_personal_have_two_to_four_topics(personal: Newsroom) -> None:
    topics: dict[str, set[str]] = {}
    for user, news, opinion in _rows(personal, "user_id", "news_id", "opinion"):
        if opinion == 1:
            topics.setdefault(user, set()).add(personal.news[news][1])
    counts = np.bincount([len(names) for names in topics.values()], minlength=5)
    assert counts[5:].sum() == 0
    assert counts[2:5].min() > 0.25 * len(topics)  # each number is equally likely; a topic may not have been shown
    assert counts[1] < 0.02 * len(topics)


def test_noise_of_personal_does_not_fit_the_reader(personal: Newsroom) -> None:
    liked: dict[str, set[str]] = {}
    rows = [(user, personal.news[news][1], opinion) for user, news, opinion in
            _rows(personal, "user_id", "news_id", "opinion")]  # fmt: skip
    for user, topic, opinion in rows:
        if opinion == 1:
            liked.setdefault(user, set()).add(topic)
    assert all((opinion == 1) == (topic in liked[user]) for user, topic, opinion in rows)
    assert set(personal.column("opinion").tolist()) == {1, -1}
    assert "clickbait" not in personal.column("cause").tolist()
    history = [personal.news[news][1] in liked[impression.user]
               for impression in personal.impressions for news in impression.history]  # fmt: skip
    assert np.mean(history) == pytest.approx(0.7, abs=0.07)  # a story is clicked once, which costs own topics more
    assert personal.column("seen").all()


def test_thirty_percent_of_the_feedback_of_personal_is_noise(personal: Newsroom) -> None:
    assert _noise(personal) == pytest.approx((0.3, 0.3), abs=0.015)


def test_profiles_of_personal_have_eleven_clicks_or_more(personal: Newsroom) -> None:
    last = max(impression.time for impression in personal.impressions if impression.part == "train").date()
    window = [i for i in personal.impressions if i.part == "train" and i.time.date() < last]
    clicked: dict[str, set[str]] = {}
    for impression in window:
        names = clicked.setdefault(impression.user, set())
        names.update(name for name, click in zip(impression.news, impression.clicked, strict=True) if click)
    assert np.mean([len(names) for names in clicked.values()]) >= 11


def test_topics_of_personal_are_of_equal_size(personal: Newsroom) -> None:
    _, counts = np.unique([row[1] for row in personal.news.values()], return_counts=True)
    assert len(counts) == 18
    assert counts.min() > 0.7 * counts.max()


@pytest.mark.parametrize("preset", ["newsroom", "personal"])
@pytest.mark.parametrize("share", [0.0, 0.2, 0.5])
def test_noise_sets_the_share_of_noise(preset: str, share: float, tmp_path: Path) -> None:
    simulate(tmp_path / "logs", SimulationSettings(users=300, news=6_000, days=2, preset=preset, noise=share))
    # a newsroom has few interesting stories, so that pages with half of them cannot all be filled
    tolerance = 0.04 if share else 0.0
    assert _noise(read(tmp_path / "logs")) == pytest.approx((share, share), abs=tolerance)


def test_appeal_is_high_for_stories_that_interest_readers_of_personal(personal: Newsroom) -> None:
    appeal, opinion = personal.column("appeal"), personal.column("opinion")
    page = next(p for p in personal.pages("dev") if set(opinion[p].tolist()) == {1, -1})
    assert appeal[page].sum() == pytest.approx(1.0, abs=1e-4)
    interesting = appeal[page][opinion[page] == 1]
    assert interesting.sum() == pytest.approx(0.7, abs=1e-3)  # 1 - noise


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"preset": "paper"}, "preset is 'paper'; it takes one of newsroom, personal, live"),
        ({"noise": 0.6}, "noise is 0.6; it takes a share of clicks and skips, from 0 to 0.5"),
        ({"noise": -0.1}, "noise is -0.1; it takes a share"),
        ({"noise": 0.1, "accidents": 0.2}, "accidents is 0.2, but noise, 0.1, replaces it; set noise"),
        ({"preset": "live", "noise": 0.1}, "noise is 0.1, but in the preset live noise in skips follows"),
        ({"preset": "personal", "accidents": 0.2}, "accidents is 0.2, but noise, 0.3, replaces it; set noise"),
    ],
)
def test_bad_presets_and_shares_of_noise_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        SimulationSettings(**settings)


def _bytes(folder: Path) -> dict[str, bytes]:
    """The files of a folder, without its empty mark."""
    files = [file for file in folder.rglob("*") if file.is_file() and file.stat().st_size]
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


def _rows(newsroom: Newsroom, *names: str) -> list[tuple[object, ...]]:
    return list(zip(*(newsroom.column(name).tolist() for name in names), strict=True))


def _noise(newsroom: Newsroom) -> tuple[float, float]:
    """The share of noise in clicks and in skips."""
    clicked, opinion = newsroom.column("clicked"), newsroom.column("opinion")
    return float(np.mean(opinion[clicked] < 1)), float(np.mean(opinion[~clicked] == 1))
