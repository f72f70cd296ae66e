"""A wrong clock of one impression changes neither the recommended stories nor the end of the log."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import ibis
import numpy as np
import pyarrow as pa
import pytest
import torch

from contract_cases import small_settings
from drpn.bundle.files import Bundle, data_shape, write_bundle
from drpn.bundle.recommender import Recommender
from drpn.dataset.folder import SPLITS, Dataset
from drpn.logs.engines.duckdb import duckdb_engine
from drpn.models.catalogue import CATALOGUE
from drpn.preparation.times import leave_out_implausible
from drpn.progress import Lines, Silent
from drpn.recipes.prepare import prepare
from writing import MindLine, write_mind

STORIES = 140
START = datetime(2019, 11, 9)
DAYS, PAGES = 7, 40
END = datetime(2019, 11, 15, 19, 30)
NEWS = [f"N{number}\ttopic{number % 3}\t\tstory {number}" for number in range(STORIES)]


def line(name: str, time: datetime, stories: list[int]) -> MindLine:
    clock = f"{time.month}/{time.day}/{time.year} {time:%I:%M:%S %p}"
    shown = " ".join(f"N{story}-{int(not place)}" for place, story in enumerate(stories))
    return MindLine(name, f"U{int(name) % 11}", clock, shown)


def clean() -> list[MindLine]:
    """A week with 40 impressions a day, half an hour apart; each day shows its own 20 stories."""
    random = np.random.default_rng(0)
    lines = []
    for day in range(DAYS):
        for page in range(PAGES):
            shown = (20 * day + random.choice(20, 4, replace=False)).tolist()
            lines.append(line(str(len(lines)), START + timedelta(days=day, minutes=30 * page), shown))
    return lines


def prepared(folder: Path, lines: list[MindLine], notes: list[str] | None = None) -> Dataset:
    logs = write_mind(folder / "logs", lines, NEWS)
    return prepare(logs, folder / "data", progress=Lines((notes if notes is not None else []).append))


def bundle(dataset: Dataset) -> Bundle:
    settings = small_settings("nrms")
    torch.manual_seed(3)
    model = CATALOGUE["nrms"].model(settings, data_shape(dataset))
    folder = dataset.path.parent / "bundle"
    write_bundle(folder, model, name="nrms", settings=settings, dataset=dataset, facts={})
    return Bundle.open(folder)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The live stories of the log without wrong clocks."""
    opened = bundle(prepared(tmp_path_factory.mktemp("clean"), clean()))
    live = Recommender(opened, torch.device("cpu")).live
    assert len(live) > 15
    assert opened.as_of == END.replace(tzinfo=UTC)
    return live


@pytest.mark.parametrize(
    "time", [datetime(2999, 1, 1), datetime(2020, 11, 15), END + timedelta(days=3), END + timedelta(days=1, minutes=1)]
)
def test_one_impression_in_the_future_changes_no_recommendation(
    tmp_path: Path, expected: list[str], time: datetime
) -> None:
    lines = [*clean(), line("999", time, [3, 1, 2])]
    opened = bundle(prepared(tmp_path, lines))
    assert opened.as_of == END.replace(tzinfo=UTC)
    recommender = Recommender(opened, torch.device("cpu"))
    assert recommender.live == expected
    young = [row.news_id for row in recommender.recommend("nobody", max_age_hours=48, top=99).rows]
    assert set(young) == set(expected)


@pytest.mark.parametrize("time", [datetime(2999, 1, 1), datetime(1970, 1, 1), datetime(2019, 10, 25)])
def test_implausible_times_are_reported_and_left_out(tmp_path: Path, time: datetime) -> None:
    notes: list[str] = []
    dataset = prepared(tmp_path / "wrong", [*clean(), line("999", time, [3, 1, 2])], notes)
    (note,) = [note for note in notes if "days before or after" in note]
    assert note == (
        f"impressions more than 7 days before or after the main part of the log: 1 of 281, such as 999 of {time}; "
        "their clocks are wrong, so they are left out"
    )
    assert dataset.statistics["implausible_times"] == 1
    assert prepared(tmp_path / "clean", clean()).arrays.checksums == dataset.arrays.checksums


def test_many_impressions_far_from_the_others_are_kept(tmp_path: Path) -> None:
    """Fifty of 330 are too many to be wrong clocks."""
    notes: list[str] = []
    late = [line(str(900 + number), datetime(2020, 3, 1 + number % 5), [3, 1, 2]) for number in range(50)]
    dataset = prepared(tmp_path, [*clean(), *late], notes)
    (note,) = [note for note in notes if "days before or after" in note]
    assert note.endswith("50 of 330, such as 900 of 2020-03-01 00:00:00; they are too many for wrong clocks and are "
                         "kept: correct or remove them if they are")  # fmt: skip
    names = {name for split in SPLITS for name in dataset.impressions(split).ids}
    assert names >= {f"{900 + number}" for number in range(50)}
    assert dataset.statistics["implausible_times"] == 0


def test_a_wrong_clock_in_one_of_twenty_impressions_does_not_cut_recommendations(tmp_path: Path) -> None:
    """All at one time, as exports write it; more than on any real day."""
    wrong = [line(str(900 + number), datetime(1970, 1, 1), [3, 1, 2]) for number in range(15)]
    opened = bundle(prepared(tmp_path, [*clean(), *wrong]))
    assert opened.as_of == END.replace(tzinfo=UTC)


def test_no_impressions_have_no_implausible_times(tmp_path: Path) -> None:
    with duckdb_engine(tmp_path) as engine:
        nothing = {"impression": pa.array([], pa.int64()), "day": pa.array([], pa.int64())}
        impressions = engine.materialize("none", ibis.memtable(pa.table(nothing)))
        assert leave_out_implausible(engine, impressions, impressions, Silent())[2] == 0


def test_a_log_without_wrong_clocks_has_no_note(tmp_path: Path) -> None:
    notes: list[str] = []
    assert prepared(tmp_path, clean(), notes).statistics["implausible_times"] == 0
    assert not [note for note in notes if "days before or after" in note]
