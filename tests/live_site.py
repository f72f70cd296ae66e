"""A small log of a live site, with pages of stories, subscribers, publication times and unseen stories."""

import json
import math
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from drpn.dataset.folder import Dataset
from drpn.preparation.settings import DataSettings
from drpn.recipes.prepare import prepare
from reference.live_counts import Story, View

START = datetime(2026, 5, 18, 7)
DAYS = 5
LIVE = DataSettings(protocol="live", clicked=3, skipped=4, vector_size=0)


class Shown(NamedTuple):
    """One story of an impression."""

    news: str
    clicked: bool
    seen: bool | None


class Impression(NamedTuple):
    """One page view."""

    id: str
    user: str
    time: datetime
    page: str | None
    subscriber: str | None
    device: str | None
    age: float | None
    shown: tuple[Shown, ...]

    def rows(self) -> list[dict[str, Any]]:
        """The lines of the log."""
        whole = {
            "impression_id": self.id,
            "user_id": self.user,
            "time": self.time.isoformat(),
            "page": self.page,
            "subscriber": self.subscriber,
            "device": self.device,
            "age": self.age,
        }
        return [
            {**whole, "news_id": story.news, "clicked": int(story.clicked), "position": position, "seen": story.seen}
            for position, story in enumerate(self.shown)
        ]


NEWS = [f"n{number:02}" for number in range(1, 13)]


def stories() -> list[dict[str, Any]]:
    """The lines of the news table; the third story has no topic and no time, the fourth an empty text."""
    rng = random.Random(2)
    lines = []
    for number, news in enumerate(NEWS):
        vector = [0.0] * 3 if number == 3 else [round(rng.uniform(-1, 1), 3) for _ in range(3)]
        published = None if number == 2 else (START + timedelta(hours=8 * number - 20)).isoformat()
        category, subcategory = (None, None) if number == 2 else (f"topic{number % 3}", f"part{number % 5}")
        words = " ".join(rng.choices(["storm", "goal", "vote", "bank", "snow"], k=3))
        line = {"news_id": news, "title": words, "category": category, "subcategory": subcategory}
        lines.append(line | {"published": published, "vector": vector})
    return lines


def impressions(seed: int = 1, *, each_day: int = 14) -> list[Impression]:
    """Page views in time order; some share a second, and the last page view of a day is late."""
    rng, log = random.Random(seed), list[Impression]()
    for day in range(DAYS):
        seconds = sorted(rng.choice([0, 60, 61, rng.randrange(50_000)]) for _ in range(each_day - 1))
        for second in [*seconds, 57_000]:
            clicks = rng.randrange(3)
            shown = tuple(
                Shown(news, place < clicks, None if rng.random() < 0.2 else place < clicks or rng.random() < 0.7)
                for place, news in enumerate(rng.sample(NEWS, rng.randrange(2, 6)))
            )
            user = rng.randrange(5)
            log.append(
                Impression(
                    f"i{len(log):03}",
                    f"u{user}",
                    START + timedelta(days=day, seconds=second),
                    rng.choice([None, *NEWS[:4]]),
                    rng.choice([None, "free", "paying"]),
                    rng.choice(["phone", "desktop"]),
                    None if user == 2 else 20.0 + user,
                    shown,
                )
            )
    return log


def write(folder: Path, log: list[Impression]) -> Path:
    """Write the log as a folder of events."""
    folder.mkdir(parents=True)
    rows = [row for impression in log for row in impression.rows()]
    for name, lines in (("news", stories()), ("impressions", rows)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def prepared(folder: Path, log: list[Impression], settings: DataSettings = LIVE) -> Dataset:
    """The log, written and prepared."""
    return prepare(write(folder / "logs", log), folder / "data", settings)


def reference_log(log: list[Impression], dataset: Dataset) -> tuple[list[View], list[Story]]:
    """The same log for `reference.live_counts`, with the taste vectors of a prepared dataset."""
    tastes = np.asarray(dataset.arrays.array("counts/tastes")).tolist()
    rows = {news: row for row, news in enumerate(NEWS, 1)}
    groups = {None: 0, "free": 1, "paying": 2}
    views = []
    for impression in log:
        clicked = tuple(story.clicked for story in impression.shown)
        skipped = tuple(not story.clicked and story.seen is not False for story in impression.shown)
        shown = tuple(rows[story.news] for story in impression.shown)
        page, group = rows[impression.page] if impression.page else 0, groups[impression.subscriber]
        views.append(
            View(int(impression.user[1:]), _seconds(impression.time), page, group, False, shown, clicked, skipped)
        )
    names = ["", *sorted({f"{line[key]}" for line in stories() for key in ("category", "subcategory") if line[key]})]
    known = [Story(0, 0, None, (0.0, 0.0, 0.0), tuple(tastes[0]))]
    for line in stories():
        length = math.hypot(*line["vector"]) or 1
        if line["published"] is None:
            time = min(view.time for view in views if len(known) in view.stories)  # then it first appears
        else:
            time = _seconds(datetime.fromisoformat(line["published"]))
        category, subcategory = (names.index(line[key] or "") for key in ("category", "subcategory"))
        vector = tuple(value / length for value in line["vector"])
        known.append(Story(category, subcategory, time, vector, tuple(tastes[len(known)])))
    return views, known


def _seconds(time: datetime) -> int:
    return int(time.replace(tzinfo=UTC).timestamp())
