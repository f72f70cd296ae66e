"""Read raw logs into plain lists and compute the contents of a dataset folder with loops."""

import json
import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from datetime import date, datetime, timedelta
from functools import cache
from itertools import compress, pairwise, permutations
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pyarrow.parquet as parquet

BEFORE_THE_LOG = -1
AFTER_THE_PAGE = 10**6
"""A position after all stories of a page."""
TOKEN = re.compile(r"\w+|[.,!?;|]")


class News(NamedTuple):
    """One story."""

    id: str
    category: str
    subcategory: str
    title: str
    abstract: str = ""
    entities: str = ""


class Impression(NamedTuple):
    """One page view; the first three fields sort impressions."""

    part: int
    time: datetime
    id: str
    user: str
    candidates: list[str]
    clicked: list[bool]
    history: list[str]
    read_seconds: float | None


class Moment(NamedTuple):
    """Sort key of an event."""

    part: int
    time: datetime
    impression: str
    position: int


class Event(NamedTuple):
    """One story shown once to one user, or clicked before the log."""

    moment: Moment
    user: str
    news: str
    clicked: bool
    read_seconds: float | None


class PastClick(NamedTuple):
    """One click of a history with times."""

    time: datetime
    """datetime.min if it is missing"""
    position: int
    news: str
    read_seconds: float | None


class RawLog(NamedTuple):
    """Stories sorted by id, and impressions sorted by part, time and id."""

    news: list[News]
    impressions: list[Impression]
    parts: int
    left_out: frozenset[str] = frozenset()
    """Users whose impressions after the profile window do not count."""
    repeats: tuple[int, int] = (0, 0)
    """Rows that repeat a story of their page, and stories both clicked and not clicked on one page."""
    histories: Mapping[str, list[PastClick]] = MappingProxyType({})
    """The histories with times, by user."""


class Split(NamedTuple):
    """The impressions of each of the four windows of time."""

    profile: list[Impression]
    train: list[Impression]
    validation: list[Impression]
    test: list[Impression]


Feedback = dict[str, dict[str, Event]]
"""user → news → the event that decided the feedback"""
Graph = dict[str, dict[str, int]]
"""news → neighbour → weight"""


def read_mind(folder: Path) -> RawLog:
    """Read a MIND folder with train/ and dev/, or a single part."""
    parts = [folder / "train", folder / "dev"] if (folder / "train").is_dir() else [folder]
    news, impressions, repeated, conflicts = {}, [], 0, 0
    for number, part in enumerate(parts):
        for line in _lines(part / "news.tsv"):
            id, category, subcategory, title, abstract, _, entities = line.split("\t")[:7]
            news[id] = News(id, category, subcategory, title, abstract, entities)
        lines = dict.fromkeys(_lines(part / "behaviors.tsv"))  # an exact duplicate counts once
        impressions += [_mind_impression(number, line) for line in lines]
        for line in lines:
            tokens = line.split("\t")[4].split()
            repeated += len(tokens) - len({token[:-2] for token in tokens})
            conflicts += len(set(tokens)) - len({token[:-2] for token in tokens})
    return RawLog(sorted(news.values()), sorted(impressions), len(parts), repeats=(repeated, conflicts))


def _mind_impression(part: int, line: str) -> Impression:
    """A story counts once on a page: at its first click, else at its first place."""
    id, user, time, history, shown = line.split("\t")
    tokens = shown.split()
    first: dict[str, int] = {}
    for place, token in sorted(enumerate(tokens), key=lambda item: (item[1][-1] != "1", item[0])):
        first.setdefault(token[:-2], place)
    pairs = [tokens[place].rsplit("-", 1) for place in sorted(first.values())]
    return Impression(
        part=part,
        time=datetime.strptime(time, "%m/%d/%Y %I:%M:%S %p"),
        id=id,
        user=user,
        candidates=[news for news, _ in pairs],
        clicked=[label == "1" for _, label in pairs],
        history=history.split(),
        read_seconds=None,
    )


def _lines(file: Path) -> list[str]:
    return [line for line in file.read_text(encoding="utf-8").split("\n") if line]


def read_ebnerd(folder: Path) -> RawLog:
    """Read an EB-NeRD folder with train/ and optionally validation/; candidates without an article are left out."""
    parts = [folder / name for name in ("train", "validation") if (folder / name).is_dir()]
    news = {}
    for row in parquet.read_table(folder / "articles.parquet").to_pylist():
        id, subcategories = str(row["article_id"]), row["subcategory"] or []
        subcategory = str(subcategories[0]) if subcategories else ""
        news[id] = News(id, str(row["category"]), subcategory, row["title"] or "")
    impressions = []
    for number, part in enumerate(parts):
        rows = parquet.read_table(part / "behaviors.parquet").to_pylist()
        for row in {repr(row): row for row in rows}.values():
            impression = _ebnerd_impression(number, row, news)
            if impression.candidates:
                impressions.append(impression)
    histories: dict[str, list[PastClick]] = {}
    for part in parts:
        for row in parquet.read_table(part / "history.parquet").to_pylist():
            histories.setdefault(str(row["user_id"]), _past_clicks(row, news))
    return RawLog(sorted(news.values()), sorted(impressions), len(parts), histories=histories)


def _past_clicks(row: dict[str, Any], known: dict[str, News]) -> list[PastClick]:
    stories = [str(story) for story in row["article_id_fixed"]]
    nothing = [None] * len(stories)
    times, seconds = (row[name] or nothing for name in ("impression_time_fixed", "read_time_fixed"))
    clicks = enumerate(zip(times, stories, seconds, strict=True))
    return sorted(
        PastClick(time or datetime.min, position, story, read)
        for position, (time, story, read) in clicks
        if story in known
    )


def _ebnerd_impression(part: int, row: dict[str, Any], known: dict[str, News]) -> Impression:
    candidates = [str(news) for news in row["article_ids_inview"] if str(news) in known]
    clicks = [str(news) for news in row["article_ids_clicked"]]
    return Impression(
        part=part,
        time=row["impression_time"],
        id=str(row["impression_id"]),
        user=str(row["user_id"]),
        candidates=candidates,
        clicked=[news in clicks for news in candidates],
        history=[],
        read_seconds=row["next_read_time"] if len(clicks) == 1 else None,
    )


def users(log: RawLog) -> list[str]:
    """The users with an impression, sorted by id."""
    return sorted({impression.user for impression in log.impressions})


def split(log: RawLog) -> Split:
    """Split the log into profile window, training, validation and test."""
    first, last = log.impressions[0].time, log.impressions[-1].time
    if log.parts == 2:
        training = [impression for impression in log.impressions if impression.part == 0]
        first_train = training[-1].time.date()
        first_validation = log.impressions[len(training)].time
        first_test = _after_a_tenth(log.impressions[len(training) :])
    elif last - first <= timedelta(days=7):
        days = (last.date() - first.date()).days + 1
        first_train = first.date() + timedelta(days=5 if days > 6 else days - 2)
        first_validation = _midnight(first_train + timedelta(days=1))
        first_test = _after_a_tenth(
            [impression for impression in log.impressions if impression.time >= first_validation]
        )
    else:
        dates = sorted({impression.time.date() for impression in log.impressions})
        test = last_full_day(log)
        first_train = dates[test - 1 - max(1, min(5, test - 6))]
        first_validation = _midnight(dates[test - 1])
        first_test = _midnight(dates[test])
    first_training = _midnight(first_train)
    windows: tuple[list[Impression], ...] = ([], [], [], [])
    for impression in log.impressions:
        place = sum(impression.time >= start for start in (first_training, first_validation, first_test))
        if place == 0 or impression.user not in log.left_out:
            windows[place].append(impression)
    return Split(*windows)


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day)


def _after_a_tenth(evaluation: list[Impression]) -> datetime:
    return evaluation[max(1, len(evaluation) // 10)].time


def last_full_day(log: RawLog) -> int:
    """The index, among days with impressions, of the last one that is like the seven before it."""
    by_day: dict[date, list[datetime]] = defaultdict(list)
    for impression in log.impressions:
        by_day[impression.time.date()].append(impression.time)
    counts = [len(by_day[day]) for day in sorted(by_day)]
    ends = [max(by_day[day]) - _midnight(day) for day in sorted(by_day)]
    full = [
        place
        for place in range(1, len(counts))
        if 4 * counts[place] >= _middle(counts[max(0, place - 7) : place])
        and ends[place] >= _middle(ends[max(0, place - 7) : place]) - timedelta(hours=2)
    ]
    return full[-1]


def _middle(values: list[Any]) -> Any:
    """The median."""
    ordered = sorted(values)
    return (ordered[len(ordered) // 2] + ordered[(len(ordered) - 1) // 2]) / 2


def leave_out_users_without_profile(log: RawLog, *, history: bool) -> RawLog:
    """The log without the impressions after the profile window of users who have no profile."""
    profiles = feedback(profile_events(log, history=history))
    return log._replace(left_out=frozenset(user for user in users(log) if user not in profiles))


def shown_events(impressions: Iterable[Impression]) -> list[Event]:
    """One event per shown candidate."""
    events = []
    for part, time, id, user, candidates, labels, _, read_seconds in impressions:
        for position, (news, clicked) in enumerate(zip(candidates, labels, strict=True)):
            moment = Moment(part, time, id, position)
            events.append(Event(moment, user, news, clicked, read_seconds if clicked else None))
    return events


def history_events(log: RawLog) -> list[Event]:
    """The clicks before the log, from the history of each user's earliest impression, or from histories with times.

    A click with a time comes after the impressions that are not later.
    """
    earliest: dict[str, Impression] = {}
    for impression in log.impressions:
        earliest.setdefault(impression.user, impression)
    events = []
    for user, impression in earliest.items():
        for position, news in enumerate(impression.history):
            events.append(Event(Moment(BEFORE_THE_LOG, datetime.min, "", position), user, news, True, None))
    times = [impression.time for impression in log.impressions]
    for user in earliest:
        for place, click in enumerate(log.histories.get(user, [])):
            count = bisect_right(times, click.time)
            part, time, id = log.impressions[count - 1][:3] if count else (BEFORE_THE_LOG, datetime.min, "")
            moment = Moment(part, time, id, AFTER_THE_PAGE + place)
            events.append(Event(moment, user, click.news, True, click.read_seconds))
    return events


def profile_events(log: RawLog, *, history: bool) -> list[Event]:
    """The events that profiles are computed from: none that is later than the profile window."""
    end = Moment(*split(log._replace(left_out=frozenset())).train[0][:3], position=0)
    earlier = [event for event in history_events(log) if event.moment < end] if history else []
    return earlier + shown_events(split(log).profile)


def feedback(events: Iterable[Event]) -> Feedback:
    """One event per user and story: a click rather than a skip, then the latest."""
    result: Feedback = defaultdict(dict)
    for event in events:
        current = result[event.user].get(event.news)
        if current is None or (event.clicked, event.moment) > (current.clicked, current.moment):
            result[event.user][event.news] = event
    return dict(result)


def sequence(user_feedback: dict[str, Event], *, clicked: bool) -> list[Event]:
    """The clicked or skipped events of a user, oldest first."""
    return sorted(
        (event for event in user_feedback.values() if event.clicked == clicked), key=lambda event: event.moment
    )


def co_click_graph(feedback: Feedback) -> Graph:
    """The weight of two stories is the number of users who clicked both."""
    graph: Graph = defaultdict(Counter)
    for user_feedback in feedback.values():
        for first, second in permutations([event.news for event in sequence(user_feedback, clicked=True)], 2):
            graph[first][second] += 1
    return graph


def consecutive_graph(feedback: Feedback) -> Graph:
    """The weight of two stories is the number of users who clicked one directly after the other."""
    graph: Graph = defaultdict(Counter)
    for user_feedback in feedback.values():
        for earlier, later in pairwise(sequence(user_feedback, clicked=True)):
            graph[earlier.news][later.news] += 1
            graph[later.news][earlier.news] += 1
    return graph


def heaviest(graph: Graph, node: str, count: int) -> list[tuple[str, int]]:
    """The heaviest neighbours of a story or user; ties are sorted by id."""
    return sorted(graph.get(node, {}).items(), key=lambda item: (-item[1], item[0]))[:count]


def user_graph(feedback: Feedback) -> Graph:
    """The weight of two users is the number of stories that both clicked."""
    clicked = {
        user: {event.news for event in sequence(user_feedback, clicked=True)}
        for user, user_feedback in feedback.items()
    }
    graph: Graph = defaultdict(Counter)
    for first, second in permutations(clicked, 2):
        if clicked[first] & clicked[second]:
            graph[first][second] = len(clicked[first] & clicked[second])
    return graph


def trained_users(log: RawLog) -> set[str]:
    """The users with a training impression that has a click and a skip."""
    return {impression.user for impression in split(log).train if len(set(impression.clicked)) == 2}


def title_words(news: News) -> list[str]:
    """The words and marks of the title."""
    return TOKEN.findall(news.title.lower())


def all_words(news: News) -> list[str]:
    """Category and subcategory as one word each, if present, then the words of the title."""
    labels = [news.category.strip().lower(), news.subcategory.strip().lower()]
    return [label for label in labels if label] + title_words(news)


def abstract_words(news: News, count: int) -> list[str]:
    """The first `count` words and marks of the abstract."""
    return TOKEN.findall(news.abstract.lower())[:count]


def vocabulary(catalogue: Iterable[News], *, abstracts: int = 0) -> list[str]:
    """The words of titles, then the words that occur only in abstracts; most frequent first, ties alphabetical."""
    counts = Counter(word for news in catalogue for word in all_words(news))
    others = Counter(word for news in catalogue for word in abstract_words(news, abstracts) if word not in counts)
    return [word for part in (counts, others) for word in sorted(part, key=lambda word: (-part[word], word))]


def word_entities(log: RawLog, *, words: int, keep: int) -> dict[str, list[str]]:
    """The entity that each of the first `words` words of each story names, '' for none.

    Only entities count that such a word names in a story shown before the end of training.
    """
    shown = times_shown_and_clicked(log)
    named = {news.id: [one for one in named_words(news) if one[1][0] < words] for news in log.news}
    known = {entity for id, mentions in named.items() if shown[id][0] for entity, _ in mentions}
    result = {}
    for id, mentions in named.items():
        kept = list(dict.fromkeys(entity for entity, _ in mentions if entity in known))[:keep]
        result[id] = [_longest([one for one in mentions if one[0] in kept], place) for place in range(words)]
    return result


def _longest(mentions: list[tuple[str, list[int]]], place: int) -> str:
    """The entity with the most words among those that the word at `place` names; the first of several."""
    here = [(len(places), entity) for entity, places in mentions if place in places]
    return next((entity for size, entity in here if size == max(here)[0]), "")


@cache
def named_words(news: News) -> list[tuple[str, list[int]]]:
    """(entity, places of its words in the story) of each surface form that is found in the title."""
    letters = [(letter, place) for place, character in enumerate(news.title) for letter in character.lower()]
    matches = TOKEN.finditer("".join(letter for letter, _ in letters))
    tokens = [(match.group(), {letters[i][1] for i in range(*match.span())}) for match in matches]
    before = len(all_words(news)) - len(tokens)
    result = []
    for entity in json.loads(news.entities) if news.entities.strip() else []:
        offsets = entity.get("OccurrenceOffsets", [])
        for number, form in enumerate(entity.get("SurfaceForms", [])):
            offset = offsets[number] if number < len(offsets) else None
            places: list[int] = []
            if offset is not None and news.title[offset : offset + len(form)].lower() == form.lower() != "":
                covered = set(range(offset, offset + len(form)))
                places = [i for i, (_, characters) in enumerate(tokens) if characters & covered]
            name = TOKEN.findall(form.lower())
            if not places and name:
                starts = [i for i in range(len(tokens)) if [word for word, _ in tokens[i : i + len(name)]] == name]
                starts.sort(key=lambda i: abs(min(tokens[i][1]) - (offset or 0)))
                places = [starts[0] + i for i in range(len(name))] if starts else []
            if places:
                result.append((entity["WikidataId"], [before + place for place in places]))
    return result


def times_shown_and_clicked(log: RawLog) -> dict[str, tuple[int, int]]:
    """How often each story was shown and clicked in the profile window and in training."""
    windows = split(log)
    shown: Counter[str] = Counter()
    clicked: Counter[str] = Counter()
    for impression in windows.profile + windows.train:
        shown.update(impression.candidates)
        clicked.update(compress(impression.candidates, impression.clicked))
    return {news.id: (shown[news.id], clicked[news.id]) for news in log.news}


def statistics(log: RawLog, *, history: bool, newest_clicked: int, newest_skipped: int) -> dict[str, Any]:
    """The paper's Table 1 and more, with the keys of the manifest."""
    windows, events = split(log), profile_events(log, history=history)
    profiles = feedback(events)
    return {
        "users": len(users(log)),
        "news": len(log.news),
        "words": len(vocabulary(log.news)),
        "mean_title_words": mean(len(title_words(news)) for news in log.news),
        "mean_title_words_with_labels": mean(len(all_words(news)) for news in log.news),
        "mean_title_words_of_15": mean(min(len(all_words(news)), 15) for news in log.news),
        **_sample_statistics(windows),
        **_profile_statistics(events, profiles, newest_clicked, newest_skipped),
        **_user_statistics(windows, profiles),
        "of_profile_users": _of_profile_users(windows, profiles),
        "stretches": {name: _stretch(getattr(windows, name), name) for name in Split._fields},
    }


def _stretch(impressions: list[Impression], name: str) -> dict[str, Any]:
    samples = sum(len(set(impression.clicked)) == 2 for impression in impressions)
    return {
        "first": impressions[0].time.isoformat(),
        "last": impressions[-1].time.isoformat(),
        "impressions": len(impressions),
    } | ({} if name == "profile" else {"samples": samples})


def _of_profile_users(windows: Split, profiles: Feedback) -> dict[str, Any]:
    train, validation, test = (
        [impression for impression in impressions if impression.user in profiles]
        for impressions in (windows.train, windows.validation, windows.test)
    )
    train_users = {impression.user for impression in train}
    labels = [label for impression in train + validation + test for label in impression.clicked]
    return {
        "clicked_samples": labels.count(True),
        "skipped_samples": labels.count(False),
        "users_not_in_training": {
            name: mean(user not in train_users for user in {impression.user for impression in impressions})
            for name, impressions in (("validation", validation), ("test", test))
        },
    }


def _sample_statistics(windows: Split) -> dict[str, Any]:
    sampled = windows.train + windows.validation + windows.test
    return {
        "impressions": {
            "train": len(windows.train),
            "validation": len(windows.validation),
            "test": len(windows.test),
        },
        "clicked_samples": sum(impression.clicked.count(True) for impression in sampled),
        "skipped_samples": sum(impression.clicked.count(False) for impression in sampled),
        "mean_candidates": mean(len(impression.candidates) for impression in sampled),
    }


def _profile_statistics(
    events: list[Event], profiles: Feedback, newest_clicked: int, newest_skipped: int
) -> dict[str, Any]:
    clicked = [len(sequence(user_feedback, clicked=True)) for user_feedback in profiles.values()]
    skipped = [len(sequence(user_feedback, clicked=False)) for user_feedback in profiles.values()]
    return {
        "profile_users": len(profiles),
        "mean_clicked": mean(clicked),
        "mean_skipped": mean(skipped),
        "mean_clicked_with_repeats": sum(event.clicked for event in events) / len(profiles),
        "mean_skipped_with_repeats": sum(not event.clicked for event in events) / len(profiles),
        "mean_clicked_kept": mean(min(count, newest_clicked) for count in clicked),
        "mean_skipped_kept": mean(min(count, newest_skipped) for count in skipped),
    }


def _user_statistics(windows: Split, profiles: Feedback) -> dict[str, Any]:
    train, validation, test = (
        {impression.user for impression in impressions}
        for impressions in (windows.train, windows.validation, windows.test)
    )
    return {
        "users_without_profile": {
            "train": mean(user not in profiles for user in train),
            "validation": mean(user not in profiles for user in validation),
            "test": mean(user not in profiles for user in test),
        },
        "users_not_in_training": {
            "validation": mean(user not in train for user in validation),
            "test": mean(user not in train for user in test),
        },
    }


def mean(values: Iterable[float]) -> float:
    """The arithmetic mean."""
    items = list(values)
    return sum(items) / len(items)
