"""Run the simulation and write a folder of logs."""

from contextlib import closing
from itertools import pairwise
from pathlib import Path

import numpy as np

from drpn.logs.simulate.live import LiveSite, make_sessions
from drpn.logs.simulate.readers import Readers, make_histories, make_readers, visit_times
from drpn.logs.simulate.settings import Simulated, SimulationSettings
from drpn.logs.simulate.stories import Stories, make_sampler, make_stories
from drpn.logs.simulate.visits import Site, Visits
from drpn.logs.simulate.write import LogWriter, part_of, write_news, write_summary
from drpn.logs.simulate.write_events import EventsWriter, write_news_table
from drpn.output import atomic_folder
from drpn.progress import Progress, Silent

VISITS_AT_ONCE = 20_000
"""Visits simulated together; a busier hour is split, so that memory stays bounded."""


def simulate(
    out: Path,
    settings: SimulationSettings,
    *,
    titles: Path | None = None,
    replace: bool = False,
    progress: Progress = Silent(),
) -> Simulated:
    """Write the logs of a simulated newsroom, and the truth behind them, to the folder `out`.

    The format is MIND's; a live site has the events format, because MIND's cannot hold its columns.
    """
    with atomic_folder(out, replace=replace) as folder:
        rng = np.random.default_rng(settings.seed)
        with progress.stage("making stories"):
            stories = make_stories(rng, settings.stories, settings.days, titles, settings.newsroom)
        with progress.stage("making users"):
            readers = make_readers(rng, stories.topics, settings.users, settings.days, settings.newsroom)
        write = _write_newsroom if settings.newsroom.live is None else _write_live_site
        counts = write(rng, folder, stories, readers, settings, progress)
        write_summary(folder / "simulation.json", settings, borrowed=titles is not None, counts=counts)
    return counts


def _write_newsroom(
    rng: np.random.Generator,
    folder: Path,
    stories: Stories,
    readers: Readers,
    settings: SimulationSettings,
    progress: Progress,
) -> Simulated:
    """Simulate histories and visits, and write them in MIND's format."""
    with progress.stage("making histories"):
        older = make_sampler(stories, np.where(stories.born < 0, stories.prominence, 0.0))
        histories = make_histories(rng, stories, readers, older, settings)
    with closing(LogWriter(folder, len(stories), histories)) as log:
        _simulate_visits(rng, stories, readers, settings, log, progress)
    with progress.stage("writing news"):
        write_news(folder / "train" / "news.tsv", stories, before=(settings.days - 1) * 24)
        write_news(folder / "dev" / "news.tsv", stories, before=settings.days * 24)
    return Simulated(log.users, len(stories), log.impressions, log.clicks, log.shown)


def _write_live_site(
    rng: np.random.Generator,
    folder: Path,
    stories: Stories,
    readers: Readers,
    settings: SimulationSettings,
    progress: Progress,
) -> Simulated:
    """Simulate sessions hour by hour, and write them in the events format."""
    sessions = make_sessions(rng, readers, *visit_times(rng, readers, settings.days))
    hours = settings.days * 24
    bounds = np.searchsorted(sessions.second, np.arange(hours + 1) * 3600).tolist()
    site = LiveSite(rng, stories, readers, settings)
    with (
        closing(EventsWriter(folder, len(stories), len(readers))) as log,
        progress.stage("simulating sessions", len(sessions)) as advance,
    ):
        for hour, (start, end) in enumerate(pairwise(bounds)):
            sampler = make_sampler(stories, stories.display_weight(hour))
            log.write(list(site.simulate(rng, sessions, range(start, end), sampler)))
            advance(end - start)
    with progress.stage("writing news"):
        write_news_table(folder / "news.parquet", stories)
    return Simulated(log.users, len(stories), log.impressions, log.clicks, log.shown)


def _simulate_visits(
    rng: np.random.Generator,
    stories: Stories,
    readers: Readers,
    settings: SimulationSettings,
    log: LogWriter,
    progress: Progress,
) -> None:
    """Simulate and write all visits, hour by hour."""
    user, second = visit_times(rng, readers, settings.days)
    hours = settings.days * 24
    bounds = np.searchsorted(second, np.arange(hours + 1) * 3600).tolist()
    site = Site(stories, readers, settings)
    with progress.stage("simulating visits", len(user)) as advance:
        for hour in range(hours):
            sampler = make_sampler(stories, stories.display_weight(hour))
            for start in range(bounds[hour], bounds[hour + 1], VISITS_AT_ONCE):
                end = min(start + VISITS_AT_ONCE, bounds[hour + 1])
                visits = Visits(user[start:end], second[start:end])
                log.write(part_of(hour, settings.days), visits, site.simulate(rng, visits, sampler))
                advance(end - start)
