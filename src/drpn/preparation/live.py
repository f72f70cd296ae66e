"""The live protocol: profiles and counts as of each page view, from strictly earlier seconds alone.

readers/   clicked skipped user page columns: one row for each impression of training, validation and test, in this
           order, after the padding row
pairs/     counts: one row for each of their candidates
counts/    the counts as of the end of the log, which recommendations start from: all arrays of `LiveCounts`, and
           vectors, tastes and published of stories, word_vectors and taste_* for the texts of later stories, columns
           of users as last seen, and where the groups of a column of numbers begin
"""

from typing import Any

import ibis.expr.types as ir
import numpy as np
from numpy.typing import NDArray

from drpn.dataset.arrays import ArrayWriter
from drpn.dataset.folder import SPLITS, Dataset, Impressions
from drpn.dataset.reader_columns import COLUMNS, GROUP, edges, group_numbers
from drpn.dataset.taste_vectors import TasteVectors
from drpn.dataset.text_vectors import TextVectors
from drpn.logs.engines.engine import Engine
from drpn.preparation import tastes
from drpn.preparation.impressions import PAGE as PAGE_COLUMN
from drpn.preparation.settings import DataSettings
from drpn.preparation.split import Window
from drpn.progress import Progress
from drpn.state.count_columns import PAGE, PAIR
from drpn.state.counts import LiveCounts, Stories
from drpn.state.moving_profile import profiles_before
from drpn.state.page_views import PageViews, parts
from drpn.state.publication import UNPUBLISHED, first_appearances, id_numbers
from drpn.state.running import NEVER
from drpn.state.text_sums import units

_PAIRS_AT_ONCE = 200_000


def write_live(
    engine: Engine,
    warm_up: Window,
    impressions: ir.Table,
    shown: ir.Table,
    history: ir.Table | None,
    dataset: Dataset,
    writer: ArrayWriter,
    settings: DataSettings,
    progress: Progress,
) -> dict[str, Any]:
    """Write readers/, pairs/ and counts/; return what the manifest says. `dataset` holds what was written before."""
    splits = [dataset.impressions(name) for name in SPLITS]
    views, readers = _page_views(engine, warm_up, impressions, shown, history, splits)
    engine.release_memory()
    wanted = readers > 0
    texts = _text_vectors(dataset)
    learned = _tastes_before(views, int(views.times[wanted][0]), dataset, texts, progress)
    stories = describe_stories(dataset, views, texts, learned)
    rows, pairs = int(wanted.sum()) + 1, sum(len(split.candidates) for split in splits)
    with progress.stage("profiles as of each impression", len(wanted)) as advance:
        profiles = profiles_before(
            views, clicked=settings.clicked, skipped=settings.skipped, which=wanted, advance=advance
        )
        for name, array in zip(("clicked", "skipped"), profiles, strict=True):
            stored = writer.empty(f"readers/{name}", (rows, array.shape[1]), np.int32)
            stored[readers[wanted]] = array[wanted]
            writer.release(stored)
        del profiles
    writer.array("readers/user", np.concatenate([[0], *(split.users for split in splits)]).astype(np.int32))
    names, columns = _user_columns(splits, writer)
    writer.array("readers/columns", columns)
    first_pair = np.concatenate([[0, 0], np.cumsum(np.concatenate([np.diff(split.offsets) for split in splits]))])
    counts = writer.empty("pairs/counts", (pairs, len(PAIR)), np.float16, first_pair[writer.cuts(rows)].tolist())
    page = writer.empty("readers/page", (rows, len(PAGE)), np.float32)
    state, done = LiveCounts(stories), 0
    with progress.stage("counts as of each impression", len(wanted)) as advance:
        for part in parts(views, pairs=_PAIRS_AT_ONCE):
            known, reader, sizes = state.observe(part), readers[done : done + len(part.users)], np.diff(part.offsets)
            keep = reader > 0
            if keep.any():
                page[reader[keep]] = known.page[keep]
                start = np.repeat(first_pair[reader] - part.offsets[:-1], sizes)
                place, keep = start + np.arange(len(start)), np.repeat(keep, sizes)
                counts[place[keep]] = known.pairs[keep]
                writer.release(counts)
            done += len(part.users)
            advance(len(part.users))
    del views
    for name, table in learned.arrays().items():
        writer.array(name, table)
    _write_end(state, texts, splits, columns, dataset, writer)
    return {"pair": list(PAIR), "page": list(PAGE), "user": names}


def _write_end(
    state: LiveCounts,
    texts: TextVectors | None,
    splits: list[Impressions],
    columns: NDArray[np.int32],
    dataset: Dataset,
    writer: ArrayWriter,
) -> None:
    """Write counts/: the state after all page views."""
    for name, array in state.arrays().items():
        writer.array(f"counts/{name}", array)
    writer.array("counts/vectors", state.stories.vectors)
    writer.array("counts/tastes", state.stories.tastes)
    writer.array("counts/published", state.stories.published)
    if texts is not None:
        writer.array("counts/word_vectors", texts.table)
    latest = np.zeros((len(dataset.user_ids), columns.shape[1]), np.int32)
    latest[np.concatenate([split.users for split in splits])] = columns[1:]  # of several page views, the last remains
    writer.array("counts/columns", latest)


def describe_stories(dataset: Dataset, views: PageViews, texts: TextVectors | None, learned: TasteVectors) -> Stories:
    """Category, publication, text and taste vector of each story."""
    words, category, subcategory = _described(dataset)
    return Stories(
        category,
        subcategory,
        _published(dataset, views),
        _story_vectors(dataset, texts),
        learned.read(words, category, subcategory),
    )


def _tastes_before(
    views: PageViews, second: int, dataset: Dataset, texts: TextVectors | None, progress: Progress
) -> TasteVectors:
    """Taste vectors from the clicks before a second."""
    earlier = int(views.offsets[np.searchsorted(views.times, second)])
    clicks = np.flatnonzero(views.clicked[:earlier])
    users = views.users[np.searchsorted(views.offsets, clicks, side="right") - 1]
    categories, subcategories = (
        len(dataset.arrays.strings(f"{name}/name")) for name in ("categories", "subcategories")
    )
    return tastes.learn_tastes(
        tastes.Clicks(users, views.stories[clicks].astype(np.int64)),
        _described(dataset),
        None if texts is None else texts.table,
        (len(dataset.vocabulary), categories, subcategories),
        progress,
    )


def _described(dataset: Dataset) -> tastes.Stories:
    """The words and labels of all stories."""
    labels = (np.asarray(dataset.arrays.array(f"news/{name}")) for name in ("category", "subcategory"))
    return tastes.Stories(_text_words(dataset), *labels)


def _page_views(
    engine: Engine,
    warm_up: Window,
    impressions: ir.Table,
    shown: ir.Table,
    history: ir.Table | None,
    splits: list[Impressions],
) -> tuple[PageViews, NDArray[np.int64]]:
    """All page views and the clicks from outside them in time order, and the row of each in readers/, 0 for none."""
    window = _warm_up_views(engine, warm_up, impressions, shown)
    split_views = [_split_views(split) for split in splits]
    past = [] if history is None else [_past_views(engine, history, int(window.times[0]))]
    joined = _joined([*past, window, *split_views])
    count = sum(map(len, splits))
    readers = np.concatenate([np.zeros(len(joined.users) - count, np.int64), 1 + np.arange(count)])
    # clicks of a history may be later than the start of the log, and two parts of a log may overlap
    if (joined.times[1:] >= joined.times[:-1]).all():
        return joined, readers
    order = np.argsort(joined.times, kind="stable")
    return _ordered(joined, order), readers[order]


def _warm_up_views(engine: Engine, warm_up: Window, impressions: ir.Table, shown: ir.Table) -> PageViews:
    shown = warm_up.within(shown)
    sizes = shown.group_by("impression").aggregate(size=shown.count())
    views = warm_up.within(impressions).join(sizes, "impression").order_by("impression")
    names = ["user", "time", "size", *(name for name in (PAGE_COLUMN, GROUP) if name in views.columns)]
    columns = _columns(engine, views.select(*names))
    listed = shown.order_by("impression", "order", "news")
    seen = ["seen"] if "seen" in listed.columns else []
    rows = _columns(engine, listed.select("news", "clicked", **{name: listed[name].fill_null(True) for name in seen}))
    clicked = rows["clicked"].astype(np.bool_)
    skipped = ~clicked & (rows["seen"] if seen else True)
    pages = columns.get(PAGE_COLUMN, np.zeros(len(columns["user"])))
    groups = columns.get(GROUP, np.zeros(len(pages)))
    return PageViews(
        columns["user"].astype(np.int64),
        columns["time"].astype("datetime64[s]").astype(np.int64),
        np.nan_to_num(pages.astype(np.float64)).astype(np.int64),
        np.nan_to_num(groups.astype(np.float64)).astype(np.int64),
        np.zeros(len(pages), np.bool_),
        np.concatenate([[0], np.cumsum(columns["size"])]).astype(np.int64),
        rows["news"],
        clicked,
        skipped,
    )


def _split_views(split: Impressions) -> PageViews:
    pages, groups = (split.extras.get(name, np.zeros(len(split))) for name in (PAGE_COLUMN, GROUP))
    return PageViews(
        np.asarray(split.users).astype(np.int64),
        np.asarray(split.times).astype("datetime64[s]").astype(np.int64),
        np.asarray(pages).astype(np.int64),
        np.asarray(groups).astype(np.int64),
        np.zeros(len(split), np.bool_),
        np.asarray(split.offsets),
        np.asarray(split.candidates),
        np.asarray(split.clicked),
        split.skipped,
    )


def _past_views(engine: Engine, history: ir.Table, start: int) -> PageViews:
    """The clicks from outside the impressions, each at its own time, or before all of them if no time is known."""
    rows = _columns(engine, history.select("user", "news", "order", *(["time"] if "time" in history.columns else [])))
    count = len(rows["user"])
    if "time" in rows:
        moments = rows["time"].astype("datetime64[s]")
        known, times = ~np.isnat(moments), moments.astype(np.int64)
        times[~known] = times[known].min(initial=start) - 1
    else:
        times = np.full(count, start - 1)
    order = np.lexsort((rows["user"], rows["order"], times))
    clicked = np.ones(count, np.bool_)
    return PageViews(
        rows["user"][order].astype(np.int64),
        times[order],
        np.zeros(count, np.int64),
        np.zeros(count, np.int64),
        clicked,
        np.arange(count + 1),
        rows["news"][order],
        clicked,
        ~clicked,
    )


def _joined(several: list[PageViews]) -> PageViews:
    ends = np.cumsum([views.offsets[-1] for views in several])
    shifted = [views.offsets[1:] + end - views.offsets[-1] for views, end in zip(several, ends, strict=True)]
    columns = {
        name: np.concatenate([getattr(views, name) for views in several])
        for name in PageViews._fields
        if name != "offsets"
    }
    return PageViews(**columns, offsets=np.concatenate([[0], *shifted]).astype(np.int64))


def _ordered(views: PageViews, order: NDArray[np.int64]) -> PageViews:
    """The page views in another order."""
    sizes = np.diff(views.offsets)[order]
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    pairs = np.repeat(views.offsets[order] - offsets[:-1], sizes) + np.arange(offsets[-1])
    by_story = {name: getattr(views, name)[pairs] for name in ("stories", "clicked", "skipped")}
    by_view = {name: getattr(views, name)[order] for name in ("users", "times", "pages", "groups", "past")}
    return PageViews(**by_view, **by_story, offsets=offsets)


def _columns(engine: Engine, table: ir.Table) -> dict[str, NDArray[Any]]:
    """The columns of a small table as arrays."""
    batches = list(engine.stream(table))
    return {
        name: np.concatenate([batch[name].to_numpy(zero_copy_only=False) for batch in batches])
        if batches
        else np.zeros(0)
        for name in table.columns
    }


def _published(dataset: Dataset, views: PageViews) -> NDArray[np.int64]:
    """When each story was published, in seconds; `NEVER` if nothing tells.

    Stories without a time in the log are as old as `state.publication` says, by their ids only if no story has a time.
    """
    has_times, times = "news/published" in dataset.arrays, np.repeat(views.times, np.diff(views.offsets))
    numbers = None if has_times else id_numbers(list(dataset.news_ids)[1:])
    first = first_appearances(views.stories, times, numbers, len(dataset.news_ids))
    first = np.where(first == UNPUBLISHED, NEVER, first)
    if not has_times:
        return first
    published = np.asarray(dataset.arrays.array("news/published")).astype("datetime64[s]")
    return np.where(np.isnat(published), first, published.astype(np.int64))


def _text_vectors(dataset: Dataset) -> TextVectors | None:
    """The vectors of words; None if the log has vectors of stories, or nothing has vectors."""
    if "news/vector" in dataset.arrays or "words/vector" not in dataset.arrays:
        return None
    return TextVectors.of(dataset.arrays.array("words/vector"), _text_words(dataset))


def _text_words(dataset: Dataset) -> NDArray[np.int32]:
    words = np.asarray(dataset.news_words)
    if "news/abstract_words" in dataset.arrays:
        words = np.concatenate([words, np.asarray(dataset.arrays.array("news/abstract_words"))], axis=1)
    return words


def _story_vectors(dataset: Dataset, texts: TextVectors | None) -> NDArray[np.float32]:
    """A unit vector for each story: the log's own, or that of its words."""
    if texts is not None:
        return texts.read(_text_words(dataset))
    if "news/vector" in dataset.arrays:
        return units(np.nan_to_num(np.asarray(dataset.arrays.array("news/vector"), np.float32)))
    return np.zeros((len(dataset.news_ids), 1), np.float32)


def _user_columns(splits: list[Impressions], writer: ArrayWriter) -> tuple[dict[str, int], NDArray[np.int32]]:
    """The columns of the log on each reader, as codes from 1 on (0: unknown), and how many codes each column has."""
    names, columns = dict[str, int](), []
    for name in COLUMNS:
        if name not in splits[0].extras:
            continue
        values = np.concatenate([np.asarray(split.extras[name]) for split in splits])
        if values.dtype.kind == "f":
            begins = edges(np.asarray(splits[0].extras[name]))
            writer.array(f"counts/{name}_edges", begins)
            codes = group_numbers(values, begins)
        else:
            codes = values
        names[name] = int(codes.max(initial=0)) + 1
        columns.append(np.concatenate([[0], codes]).astype(np.int32))
    count = 1 + sum(map(len, splits))
    return names, np.stack(columns, axis=1) if columns else np.zeros((count, 0), np.int32)
