"""Raw logs read into plain lists, and everything a dataset folder says about them computed with loops."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta
from itertools import pairwise, permutations
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as parquet

BEFORE_THE_LOG = -1
TOKEN = re.compile(r"\w+|[.,!?;|]")


class News(NamedTuple):
    """One news of the catalogue."""

    id: str
    category: str
    subcategory: str
    title: str
    abstract: str = ""
    entities: str = ""


class Impression(NamedTuple):
    """One page view; the first three fields are its place in the order of events."""

    part: int
    time: datetime
    id: str
    user: str
    candidates: list[str]
    clicked: list[bool]
    history: list[str]
    read_seconds: float | None


class Moment(NamedTuple):
    """The place of one event in the order of all events."""

    part: int
    time: datetime
    impression: str
    position: int


class Event(NamedTuple):
    """One news shown once to one user, or clicked before the log began."""

    moment: Moment
    user: str
    news: str
    clicked: bool
    read_seconds: float | None


class RawLog(NamedTuple):
    """News in the order of their ids, impressions in the order of events."""

    news: list[News]
    impressions: list[Impression]
    parts: int


class Split(NamedTuple):
    """The impressions of each of the four windows of time."""

    profile: list[Impression]
    train: list[Impression]
    validation: list[Impression]
    test: list[Impression]


Feedback = dict[str, dict[str, Event]]
"""user → news → the event that gave the moment"""
Graph = dict[str, dict[str, int]]
"""news → neighbour → weight"""


def read_mind(folder: Path) -> RawLog:
    """A MIND folder with train/ and dev/, or one such part alone."""
    parts = [folder / "train", folder / "dev"] if (folder / "train").is_dir() else [folder]
    news, impressions = {}, []
    for number, part in enumerate(parts):
        for line in _lines(part / "news.tsv"):
            id, category, subcategory, title, abstract, _, entities = line.split("\t")[:7]
            news[id] = News(id, category, subcategory, title, abstract, entities)
        lines = dict.fromkeys(_lines(part / "behaviors.tsv"))  # an exact duplicate counts once
        impressions += [_mind_impression(number, line) for line in lines]
    return RawLog(sorted(news.values()), sorted(impressions), len(parts))


def _mind_impression(part: int, line: str) -> Impression:
    id, user, time, history, shown = line.split("\t")
    pairs = [candidate.rsplit("-", 1) for candidate in shown.split()]
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
    """An EB-NeRD folder with train/ and perhaps validation/; shown news that are not in the articles are left out."""
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
    return RawLog(sorted(news.values()), sorted(impressions), len(parts))


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
    """Everybody who has an impression, in the order of their ids."""
    return sorted({impression.user for impression in log.impressions})


def split(log: RawLog) -> Split:
    """The log cut into profile window, training, validation and test."""
    first = log.impressions[0].time.date()
    if log.parts == 2:
        training = [impression for impression in log.impressions if impression.part == 0]
        evaluation = [impression for impression in log.impressions if impression.part == 1]
        train_day = training[-1].time.date()
    else:
        days = (log.impressions[-1].time.date() - first).days + 1
        train_day = first + timedelta(days=5 if days > 6 else days - 2)
        training = [impression for impression in log.impressions if impression.time.date() <= train_day]
        evaluation = [impression for impression in log.impressions if impression.time.date() > train_day]
    border = evaluation[max(1, len(evaluation) // 10)].time
    return Split(
        profile=[impression for impression in training if impression.time.date() < train_day],
        train=[impression for impression in training if impression.time.date() == train_day],
        validation=[impression for impression in evaluation if impression.time < border],
        test=[impression for impression in evaluation if impression.time >= border],
    )


def shown_events(impressions: Iterable[Impression]) -> list[Event]:
    """Every news shown, one event for each time it was."""
    events = []
    for part, time, id, user, candidates, labels, _, read_seconds in impressions:
        for position, (news, clicked) in enumerate(zip(candidates, labels, strict=True)):
            moment = Moment(part, time, id, position)
            events.append(Event(moment, user, news, clicked, read_seconds if clicked else None))
    return events


def history_events(log: RawLog) -> list[Event]:
    """The clicks that each user's earliest impression says came before the log."""
    earliest: dict[str, Impression] = {}
    for impression in log.impressions:
        earliest.setdefault(impression.user, impression)
    events = []
    for user, impression in earliest.items():
        for position, news in enumerate(impression.history):
            events.append(Event(Moment(BEFORE_THE_LOG, datetime.min, "", position), user, news, True, None))
    return events


def profile_events(log: RawLog, *, history: bool) -> list[Event]:
    """Every event that profiles are made of."""
    return (history_events(log) if history else []) + shown_events(split(log).profile)


def feedback(events: Iterable[Event]) -> Feedback:
    """One value for each user and news: clicked beats skipped, then the last event of that value."""
    found: Feedback = defaultdict(dict)
    for event in events:
        known = found[event.user].get(event.news)
        if known is None or (event.clicked, event.moment) > (known.clicked, known.moment):
            found[event.user][event.news] = event
    return dict(found)


def sequence(of_user: dict[str, Event], *, clicked: bool) -> list[Event]:
    """What a user clicked or skipped, oldest first."""
    return sorted((event for event in of_user.values() if event.clicked == clicked), key=lambda event: event.moment)


def co_click_graph(found: Feedback) -> Graph:
    """The weight of two news is the number of users who clicked both."""
    graph: Graph = defaultdict(Counter)
    for of_user in found.values():
        for one, other in permutations([event.news for event in sequence(of_user, clicked=True)], 2):
            graph[one][other] += 1
    return graph


def consecutive_graph(found: Feedback) -> Graph:
    """The weight of two news is the number of users who clicked one directly after the other."""
    graph: Graph = defaultdict(Counter)
    for of_user in found.values():
        for earlier, later in pairwise(sequence(of_user, clicked=True)):
            graph[earlier.news][later.news] += 1
            graph[later.news][earlier.news] += 1
    return graph


def heaviest(graph: Graph, one: str, count: int) -> list[tuple[str, int]]:
    """The heaviest neighbours of a news or user, ties in the order of their ids."""
    return sorted(graph.get(one, {}).items(), key=lambda item: (-item[1], item[0]))[:count]


def user_graph(found: Feedback) -> Graph:
    """The weight of two users is the number of news that both clicked."""
    clicked = {user: {event.news for event in sequence(of_user, clicked=True)} for user, of_user in found.items()}
    graph: Graph = defaultdict(Counter)
    for one, other in permutations(clicked, 2):
        if clicked[one] & clicked[other]:
            graph[one][other] = len(clicked[one] & clicked[other])
    return graph


def trained_users(log: RawLog) -> set[str]:
    """Whoever has, on the day that trains, an impression with a click and a skip."""
    return {impression.user for impression in split(log).train if len(set(impression.clicked)) == 2}


def title_words(news: News) -> list[str]:
    """The words and marks of the title alone."""
    return TOKEN.findall(news.title.lower())


def all_words(news: News) -> list[str]:
    """Category and subcategory as one word each, where there are any, then those of the title."""
    labels = [news.category.strip().lower(), news.subcategory.strip().lower()]
    return [label for label in labels if label] + title_words(news)


def abstract_words(news: News, count: int) -> list[str]:
    """The first words and marks of the abstract."""
    return TOKEN.findall(news.abstract.lower())[:count]


def vocabulary(catalogue: Iterable[News], *, abstracts: int = 0) -> list[str]:
    """All words of titles, then those of abstracts alone; most frequent first, ties in alphabetical order."""
    counts = Counter(word for news in catalogue for word in all_words(news))
    more = Counter(word for news in catalogue for word in abstract_words(news, abstracts) if word not in counts)
    return [word for part in (counts, more) for word in sorted(part, key=lambda word: (-part[word], word))]


def title_entities(log: RawLog) -> dict[str, list[str]]:
    """Of each news the entities of its title that a news shown up to the end of training has, each once."""
    shown = times_shown_and_clicked(log)
    named = {news.id: re.findall(r'"WikidataId": "(\w+)"', news.entities) for news in log.news}
    known = {entity for id, entities in named.items() if shown[id][0] for entity in entities}
    return {id: list(dict.fromkeys(each for each in entities if each in known)) for id, entities in named.items()}


def times_shown_and_clicked(log: RawLog) -> dict[str, tuple[int, int]]:
    """How often each news was shown and clicked in the profile window and in training."""
    windows = split(log)
    events = shown_events(windows.profile + windows.train)
    shown = Counter(event.news for event in events)
    clicked = Counter(event.news for event in events if event.clicked)
    return {news.id: (shown[news.id], clicked[news.id]) for news in log.news}


def statistics(log: RawLog, *, history: bool, newest_clicked: int, newest_skipped: int) -> dict[str, Any]:
    """The paper's Table 1, and more, under the names of the manifest."""
    windows = split(log)
    return {
        "users": len(users(log)),
        "news": len(log.news),
        "words": len(vocabulary(log.news)),
        "mean_title_words": mean(len(title_words(news)) for news in log.news),
        **_sample_statistics(windows),
        **_profile_statistics(profile_events(log, history=history), newest_clicked, newest_skipped),
        **_user_statistics(windows, feedback(profile_events(log, history=history))),
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


def _profile_statistics(events: list[Event], newest_clicked: int, newest_skipped: int) -> dict[str, Any]:
    found = feedback(events)
    clicked = [len(sequence(of_user, clicked=True)) for of_user in found.values()]
    skipped = [len(sequence(of_user, clicked=False)) for of_user in found.values()]
    return {
        "profile_users": len(found),
        "mean_clicked": mean(clicked),
        "mean_skipped": mean(skipped),
        "mean_clicked_with_repeats": sum(event.clicked for event in events) / len(found),
        "mean_skipped_with_repeats": sum(not event.clicked for event in events) / len(found),
        "mean_clicked_kept": mean(min(count, newest_clicked) for count in clicked),
        "mean_skipped_kept": mean(min(count, newest_skipped) for count in skipped),
    }


def _user_statistics(windows: Split, found: Feedback) -> dict[str, Any]:
    train, validation, test = (
        {impression.user for impression in impressions}
        for impressions in (windows.train, windows.validation, windows.test)
    )
    return {
        "users_without_profile": {
            "train": mean(user not in found for user in train),
            "validation": mean(user not in found for user in validation),
            "test": mean(user not in found for user in test),
        },
        "users_not_in_training": {
            "validation": mean(user not in train for user in validation),
            "test": mean(user not in train for user in test),
        },
    }


def mean(values: Iterable[float]) -> float:
    """The plain mean."""
    listed = list(values)
    return sum(listed) / len(listed)
