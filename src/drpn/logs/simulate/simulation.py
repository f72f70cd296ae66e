"""The simulation, from nothing to a folder of logs."""

from contextlib import closing
from pathlib import Path

import numpy as np

from drpn.logs.simulate.readers import Readers, gather_readers, read_before, visit_times
from drpn.logs.simulate.settings import Simulated, SimulationSettings
from drpn.logs.simulate.stories import Stories, shelve, tell_stories
from drpn.logs.simulate.visits import Site, Visits
from drpn.logs.simulate.write import Log, part_of, write_news, write_note
from drpn.output import atomic_folder
from drpn.progress import Progress, Silent

VISITS_AT_ONCE = 20_000
"""A busier hour is played in pieces, so that memory stays bounded."""


def simulate(
    out: Path,
    settings: SimulationSettings,
    *,
    titles: Path | None = None,
    replace: bool = False,
    progress: Progress = Silent(),
) -> Simulated:
    """Write the logs of a simulated newsroom, in MIND's format, and the truth behind them, into the folder `out`."""
    with atomic_folder(out, replace=replace) as folder:
        rng = np.random.default_rng(settings.seed)
        with progress.stage("telling stories"):
            stories = tell_stories(rng, settings.stories, settings.days, titles)
        with progress.stage("gathering users"):
            readers = gather_readers(rng, stories.topics, settings.users, settings.days)
            older = shelve(stories, np.where(stories.born < 0, stories.prominence, 0.0))
            histories = read_before(rng, stories, readers, older, settings)
        with closing(Log(folder, len(stories), histories)) as log:
            _play_all(rng, stories, readers, settings, log, progress)
        with progress.stage("writing news"):
            write_news(folder / "train" / "news.tsv", stories, before=(settings.days - 1) * 24)
            write_news(folder / "dev" / "news.tsv", stories, before=settings.days * 24)
        counts = Simulated(log.users, len(stories), log.impressions, log.clicks, log.shown)
        write_note(folder / "simulation.json", settings, borrowed=titles is not None, counts=counts)
    return counts


def _play_all(
    rng: np.random.Generator,
    stories: Stories,
    readers: Readers,
    settings: SimulationSettings,
    log: Log,
    progress: Progress,
) -> None:
    """All visits, hour by hour."""
    user, second = visit_times(rng, readers, settings.days)
    hours = settings.days * 24
    bounds = np.searchsorted(second, np.arange(hours + 1) * 3600).tolist()
    site = Site(stories, readers, settings)
    with progress.stage("visits", len(user)) as advance:
        for hour in range(hours):
            shelf = shelve(stories, stories.showing(hour))
            for start in range(bounds[hour], bounds[hour + 1], VISITS_AT_ONCE):
                end = min(start + VISITS_AT_ONCE, bounds[hour + 1])
                visits = Visits(user[start:end], second[start:end])
                log.write(part_of(hour, settings.days), visits, site.play(rng, visits, shelf))
                advance(end - start)
