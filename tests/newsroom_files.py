"""Read the files of a simulated newsroom."""

from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from drpn.logs.simulate import SimulationSettings

SMALL = SimulationSettings(users=40, news=600, days=2, seed=5)


class Impression(NamedTuple):
    """One line of behaviors.tsv."""

    part: str
    impression_id: str
    user: str
    time: datetime
    history: list[str]
    news: list[str]
    clicked: list[bool]


class Newsroom(NamedTuple):
    """A simulation read from its files."""

    folder: Path
    impressions: list[Impression]
    news: dict[str, list[str]]
    truth: pa.Table
    columns: dict[str, np.ndarray]

    def column(self, name: str) -> np.ndarray:
        """A column of the truth file as an array."""
        if name not in self.columns:
            column = self.truth[name].combine_chunks()
            if pa.types.is_dictionary(column.type):
                column = column.cast(pa.string())
            self.columns[name] = column.to_numpy(zero_copy_only=False)
        return self.columns[name]

    def pages(self, part: str) -> list[slice]:
        """The rows of the truth file for each impression of a part."""
        starts = np.flatnonzero(self.column("position") == 0)
        in_part = self.column("part")[starts] == part
        ends = np.append(starts[1:], len(self.truth))
        return [slice(start, end) for start, end, included in zip(starts, ends, in_part, strict=True) if included]


def read(folder: Path) -> Newsroom:
    """Read the files of a simulation."""
    impressions = []
    for part in ("train", "dev"):
        for line in (folder / part / "behaviors.tsv").read_text(encoding="utf-8").splitlines():
            impression_id, user, time, history, candidates = line.split("\t")
            parsed_time = datetime.strptime(time, "%m/%d/%Y %I:%M:%S %p")
            news = [token[:-2] for token in candidates.split(" ")]
            clicked = [token[-2:] == "-1" for token in candidates.split(" ")]
            impressions.append(Impression(part, impression_id, user, parsed_time, history.split(), news, clicked))
    lines = (folder / "dev" / "news.tsv").read_text(encoding="utf-8").splitlines()
    news = {line.split("\t")[0]: line.split("\t") for line in lines}
    return Newsroom(folder, impressions, news, pq.read_table(folder / "truth.parquet"), {})


def auc(score: np.ndarray, clicked: np.ndarray) -> float:
    """The share of (clicked, skipped) pairs that the scores put in the right order; ties count half."""
    clicked_score, skipped_score = score[clicked][:, None], score[~clicked][None]
    return float(((clicked_score > skipped_score) + 0.5 * (clicked_score == skipped_score)).mean())
