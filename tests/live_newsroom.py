"""A small live log with a bundle, and a newsroom that continues it."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from contract_cases import small_settings
from drpn.batches.tables import Tables
from drpn.bundle.files import data_shape, write_bundle
from drpn.dataset.folder import Dataset
from drpn.layers.context import derive
from drpn.models.base import ClickModel
from drpn.models.catalogue import CATALOGUE
from drpn.preparation.settings import DataSettings
from drpn.recipes.prepare import prepare
from drpn.service.newsroom import Newsroom
from drpn.service.requests import Answer
from drpn.service.settings import NewsroomSettings
from drpn.service.variants import Variant
from drpn.store.base import Store
from drpn.store.opening import open_store
from drpn.store.records import Impression, Shown
from drpn.store.settings import StoreSettings

CPU = torch.device("cpu")
WORDS = ["goal", "market", "storm", "coach", "bank", "snow", "league", "profit", "sunny", "tariff"]
STORIES = [f"n{number}" for number in range(10, 40)]
START = datetime(2026, 1, 1, tzinfo=UTC)
PATIENT = NewsroomSettings(seconds=30.0)
"""Nothing falls back on a busy machine."""


class View(NamedTuple):
    """A page view of the log."""

    number: int
    user: str
    moment: datetime
    device: str
    age: str
    subscriber: str
    page: str
    shown: tuple[str, ...]
    clicked: tuple[str, ...]

    def lines(self) -> list[str]:
        moment = self.moment.replace(tzinfo=None).isoformat()
        facts = f"{self.user},{moment},{self.device},{self.age},{self.subscriber},{self.page}"
        return [
            f"i{self.number:04},{facts},{story},{int(story in self.clicked)},{place}"
            for place, story in enumerate(self.shown)
        ]

    @property
    def about(self) -> dict[str, str | float]:
        return {"device": self.device, "age": self.age, "subscriber": self.subscriber}

    def impression(self, *, complete: bool = True) -> Impression:
        return Impression(
            f"i{self.number:04}",
            self.user,
            tuple(Shown(story, story in self.clicked) for story in self.shown),
            self.moment,
            page=self.page or None,
            device=self.device,
            age=float(self.age),
            subscriber=self.subscriber,
            complete=complete,
        )


def some_views(stories: list[str], *, clicked: float) -> list[View]:
    """Six days of page views in time order, none in the same minute; `clicked` of the shown stories are clicked."""
    random = np.random.default_rng(5)
    views = []
    for number, minute in enumerate(sorted(random.choice(6 * 24 * 60, 300, replace=False).tolist())):
        user = int(random.integers(9))
        shown = random.choice(stories, 6, replace=False).tolist()
        views.append(
            View(
                number,
                f"u{user}",
                START + timedelta(minutes=minute),
                str(random.choice(["phone", "desktop"])),
                str(20 + 5 * user),
                ["no", "yes"][user % 2],
                str(random.choice(stories)) if random.random() < 0.5 else "",
                tuple(shown),
                tuple(story for story in shown if random.random() < clicked),
            )
        )
    return views


VIEWS = some_views(STORIES, clicked=0.1)
REPLAYED = 40
"""Page views of the log that a newsroom is told, one after the other."""
END = VIEWS[-REPLAYED - 1].moment
"""The end of the log that the bundle of `made` knows."""


def make_dataset(folder: Path, views: list[View], protocol: str = "live") -> Dataset:
    """The log of some page views, prepared."""
    logs = folder / "logs"
    logs.mkdir(parents=True)
    header = "impression_id,user_id,time,device,age,subscriber,page,news_id,clicked,position"
    (logs / "impressions.csv").write_text(
        "\n".join([header, *(line for view in views for line in view.lines())]) + "\n"
    )
    random = np.random.default_rng(6)
    stories = [f"{story},topic{row % 3},{' '.join(random.choice(WORDS, 4))}" for row, story in enumerate(STORIES)]
    (logs / "news.csv").write_text("\n".join(["news_id,category,title", *stories]) + "\n")
    settings = DataSettings(clicked=20, skipped=60, vector_size=8, protocol=protocol)  # type: ignore[arg-type]
    return prepare(logs, folder / "data", settings)


def make_model(dataset: Dataset, name: str = "drpn-live", **settings: Any) -> ClickModel:
    """A model with random weights, whose quantiles are those of the dataset."""
    torch.manual_seed(3)
    options = {"context_size": 16} if name.startswith("drpn-live") else {}
    model = CATALOGUE[name].model(small_settings(name, **options, **settings), data_shape(dataset)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    if model.context is not None:
        counts = Tables.from_dataset(dataset, CPU).counts
        assert counts is not None
        # about the page view of each pair, which is near enough for quantiles
        readers = np.linspace(1, len(counts.page) - 1, len(counts.pairs)).astype(np.int64)
        model.context.fit(derive(counts.pairs.float(), counts.page[torch.from_numpy(readers)]))
    return model


def make_bundle(folder: Path, dataset: Dataset, model: ClickModel, name: str = "drpn-live") -> Path:
    """A bundle of a model and a dataset."""
    write_bundle(folder, model, name=name, settings=model.settings, dataset=dataset, facts={})
    return folder


class Made(NamedTuple):
    """The whole log, the log without its last page views, and bundles of the latter."""

    whole: Dataset
    short: Dataset
    model: ClickModel
    bundle: Path
    whole_bundle: Path
    plain_bundle: Path
    """Of a DRPN that reads no counts."""


def make(folder: Path) -> Made:
    """Make all of it."""
    whole, short = (make_dataset(folder / name, VIEWS[:stop]) for name, stop in (("whole", None), ("short", -REPLAYED)))
    model = make_model(whole)
    return Made(
        whole,
        short,
        model,
        make_bundle(folder / "counts", short, model),
        make_bundle(folder / "longer", whole, model),
        make_bundle(folder / "plain", short, make_model(short, "drpn"), "drpn"),
    )


class Clock:
    """A clock that tests move."""

    def __init__(self, now: datetime) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now


class Running(NamedTuple):
    """A newsroom with its store and clock."""

    newsroom: Newsroom
    store: Store
    clock: Clock

    def show(self, user: str, shown: list[str], clicked: tuple[str, ...] = (), **facts: Any) -> Impression:
        """Report a page view, open unless said otherwise."""
        self.clock.now += timedelta(minutes=1)
        stories = tuple(Shown(story, story in clicked) for story in shown)
        name = facts.pop("impression_id", f"site-{self.clock.now.isoformat()}-{user}")
        impression = Impression(name, user, stories, self.clock.now, **facts)
        self.newsroom.record(impression).result()
        self.clock.now += timedelta(minutes=1)
        return impression


@contextmanager
def running(
    folder: Path,
    *bundles: Path,
    settings: NewsroomSettings = PATIENT,
    now: datetime = END + timedelta(hours=1),
    shares: tuple[float, ...] | None = None,
    key: bytes | None = None,
) -> Iterator[Running]:
    """A newsroom over the store in a folder, which is made if it is not there."""
    clock = Clock(now)
    folder.mkdir(exist_ok=True)
    store = open_store(f"sqlite:///{folder / 'store.db'}", StoreSettings(retention_days=3650), clock=clock)
    shares = shares or tuple(1 / len(bundles) for _ in bundles)
    variants = [Variant("ab"[place], path, shares[place]) for place, path in enumerate(bundles)]
    newsroom = Newsroom(variants, store, settings, key=key, clock=clock)
    try:
        yield Running(newsroom, store, clock)
    finally:
        newsroom.close()
        store.close()


def scores(answer: Answer) -> dict[str, float]:
    """Scores by story."""
    return {story.news_id: story.score for story in answer.stories}
