"""Compare the statistics of a simulated newsroom with those of real logs, in docs/simulator.md."""

import argparse
import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from drpn.provenance import commit

HERE = Path(__file__).resolve().parent.parent
BEGIN, END = "<!-- newsroom table: begin -->", "<!-- newsroom table: end -->"
SHARES = [0, 5, 25, 50, 75, 95, 99, 100]
PROFILE_DAYS = 5
CLICK_NOISE, SKIPS = ("accident", "clickbait"), ("missed", "disliked", "indifferent")
PAPER = {
    "title words, mean": "12.66",
    "profile: clicked stories per user": "4.14",
    "profile: skipped stories per user": "96.80",
    "dev users without a visit on the day before": "44.6 % (validation), 48.7 % (test)",
}


@dataclass(frozen=True)
class Impression:
    """One line of behaviors.tsv."""

    name: str
    user: str
    time: datetime
    history: int
    news: list[str]
    clicked: list[bool]


@dataclass(frozen=True)
class Story:
    """The columns of news.tsv that are counted."""

    category: str
    subcategory: str
    words: int


def read_impressions(path: Path) -> list[Impression]:
    """The impressions of a behaviors.tsv, sorted by time."""
    with path.open(encoding="utf-8") as file:
        return sorted(map(_impression, file), key=lambda impression: impression.time)


def _impression(line: str) -> Impression:
    name, user, time, history, shown = line.rstrip("\n").split("\t")
    marked = [token.rsplit("-", 1) for token in shown.split()]
    when = datetime.strptime(time, "%m/%d/%Y %I:%M:%S %p")
    return Impression(name, user, when, len(history.split()), [n for n, _ in marked], [m == "1" for _, m in marked])


def read_news(path: Path) -> dict[str, Story]:
    """The stories of a news.tsv by id."""
    with path.open(encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file]
    return {row[0]: Story(row[1], row[2], len(row[3].split())) for row in rows}


def describe(impressions: list[Impression], news: dict[str, Story]) -> dict[str, str]:
    """Statistics of impressions and stories."""
    lengths = [len(impression.news) for impression in impressions]
    clicks = [sum(impression.clicked) for impression in impressions]
    histories = [impression.history for impression in impressions]
    words = [row.words for row in news.values()]
    shown = Counter(name for impression in impressions for name in impression.news)
    counts = np.array(sorted(shown.values(), reverse=True))
    topics = _topic_rates(impressions, news)
    largest = ", ".join(f"{share:.3f}" for share, _ in topics[:10])
    rates = [rate for share, rate in topics if share >= 0.01]
    hours = Counter(impression.time.hour for impression in impressions)
    days = Counter(impression.time.weekday() for impression in impressions)
    weekend, week = (np.mean([days[day] for day in part if days[day]]) for part in ((5, 6), range(5)))
    return {
        "impressions": f"{len(impressions):,}",
        "users": f"{len({impression.user for impression in impressions}):,}",
        "stories in the file": f"{len(news):,}",
        "stories shown": f"{len(shown):,}",
        "categories": f"{len({row.category for row in news.values()})}",
        "subcategories": f"{len({(row.category, row.subcategory) for row in news.values()})}",
        "candidates, mean": f"{np.mean(lengths):.2f}",
        "candidates, percentiles": _percentiles(lengths),
        "clicks, mean": f"{np.mean(clicks):.3f}",
        "clicks, percentiles": _percentiles(clicks),
        "impressions with one click": f"{np.mean(np.array(clicks) == 1):.1%}",
        "click rate": f"{sum(clicks) / sum(lengths):.2%}",
        "history, mean": f"{np.mean(histories):.2f}",
        "history, percentiles": _percentiles(histories),
        "history empty": f"{np.mean(np.array(histories) == 0):.1%}",
        "title words, mean": f"{np.mean(words):.2f}",
        "title words, percentiles": _percentiles(words),
        "share of shown stories, ten largest categories": largest,
        "click rate of categories with 1 % or more": f"{min(rates):.3f} to {max(rates):.3f}",
        "click rate of stories shown 100 times or more, percentiles 5, 25, 50, 75, 95": _rates(impressions, shown),
        "share of the top 10, 100, 1000 stories": ", ".join(
            f"{counts[:top].sum() / counts.sum():.3f}" for top in (10, 100, 1000)
        ),
        "hours from first to last showing (stories shown 20 times or more), quartiles": _spans(impressions, shown),
        "visits on a weekend day, relative to a working day": f"{weekend / week:.2f}",
        "visits from 5 to 14 h": f"{sum(hours[hour] for hour in range(5, 14)) / len(impressions):.1%}",
    }


def describe_profiles(train: list[Impression], dev: list[Impression]) -> dict[str, str]:
    """Statistics of the paper: profiles of the first five days, and the share of new dev users."""
    first = train[0].time.date()
    window = [i for i in train if (i.time.date() - first).days < PROFILE_DAYS]
    clicked: dict[str, set[str]] = defaultdict(set)
    shown: dict[str, set[str]] = defaultdict(set)
    for impression in window:
        shown[impression.user].update(impression.news)
        clicked[impression.user].update(n for n, c in zip(impression.news, impression.clicked, strict=True) if c)
    clicks = np.array([len(clicked[user]) for user in shown])
    skipped = np.array([len(shown[user] - clicked[user]) for user in shown])
    last = train[-1].time.date()
    day_before = {impression.user for impression in train if impression.time.date() == last}
    dev_users = {impression.user for impression in dev}
    return {
        "profile: clicked stories per user": f"{clicks.mean():.2f}",
        "profile: skipped stories per user": f"{skipped.mean():.2f}",
        "profile: users with one click": f"{np.mean(clicks == 1):.1%}",
        "profile: visits per user": f"{len(window) / len(shown):.2f}",
        "dev users without a visit on the day before": f"{len(dev_users - day_before) / len(dev_users):.1%}",
        "dev users without a profile": f"{len(dev_users - shown.keys()) / len(dev_users):.1%}",
    }


def rank(impressions: list[Impression], judged: set[str]) -> dict[str, str]:
    """AUC of rankings that ignore the user, on the judged impressions; they use only earlier impressions."""
    shown: Counter[str] = Counter()
    clicks: Counter[str] = Counter()
    by_rate: list[float] = []
    by_showing: list[float] = []
    for impression in impressions:
        if impression.name in judged:
            rates = [(clicks[name] + 0.4) / (shown[name] + 10) for name in impression.news]
            by_rate.append(auc(rates, impression.clicked))
            by_showing.append(auc([shown[name] for name in impression.news], impression.clicked))
        shown.update(impression.news)
        clicks.update(n for n, c in zip(impression.news, impression.clicked, strict=True) if c)
    return {
        "AUC of the running click rate": f"{np.nanmean(by_rate):.3f}",
        "AUC of the number of showings": f"{np.nanmean(by_showing):.3f}",
    }


def rank_by_truth(path: Path) -> dict[str, str]:
    """Statistics of the truth: AUC of the oracle on the dev part, and shares of noise in the feedback."""
    truth = pq.read_table(path)
    cause = np.array(truth["cause"].cast("string").to_pylist())
    clicked, dev = truth["clicked"].to_numpy(), np.array(truth["part"].cast("string").to_pylist()) == "dev"
    appeal, opinion = truth["appeal"].to_numpy(), truth["opinion"].to_numpy()
    starts = np.flatnonzero(truth["position"].to_numpy() == 0)
    pages = [page for page in zip(starts, [*starts[1:], len(clicked)], strict=True) if dev[page[0]]]
    skipped = cause[~clicked]
    return {
        "AUC of the oracle": f"{np.nanmean([auc(appeal[a:b], clicked[a:b]) for a, b in pages]):.3f}",
        "AUC of the true opinion": f"{np.nanmean([auc(opinion[a:b], clicked[a:b]) for a, b in pages]):.3f}",
        "clicks: accident, clickbait": ", ".join(f"{np.mean(cause[clicked] == c):.1%}" for c in CLICK_NOISE),
        "skips: missed, disliked, indifferent": ", ".join(f"{np.mean(skipped == c):.1%}" for c in SKIPS),
        "skipped stories that were never seen": f"{np.mean(~truth['seen'].to_numpy()[~clicked]):.1%}",
    }


def auc(scores: list[float] | np.ndarray, clicked: list[bool] | np.ndarray) -> float:
    """Probability that a clicked story ranks above a skipped one; NaN without both."""
    score, mark = np.asarray(scores), np.asarray(clicked)
    above, below = score[mark][:, None], score[~mark][None]
    return float(((above > below) + 0.5 * (above == below)).mean()) if above.size and below.size else float("nan")


def _topic_rates(impressions: list[Impression], news: dict[str, Story]) -> list[tuple[float, float]]:
    shown: Counter[str] = Counter()
    clicks: Counter[str] = Counter()
    for impression in impressions:
        topics = [news[name].category for name in impression.news]
        shown.update(topics)
        clicks.update(topic for topic, c in zip(topics, impression.clicked, strict=True) if c)
    total = sum(shown.values())
    return [(count / total, clicks[topic] / count) for topic, count in shown.most_common()]


def _rates(impressions: list[Impression], shown: Counter[str]) -> str:
    clicks: Counter[str] = Counter()
    for impression in impressions:
        clicks.update(n for n, c in zip(impression.news, impression.clicked, strict=True) if c)
    rates = [clicks[name] / count for name, count in shown.items() if count >= 100]
    return ", ".join(f"{rate:.3f}" for rate in np.percentile(rates, [5, 25, 50, 75, 95])) if rates else "–"


def _spans(impressions: list[Impression], shown: Counter[str]) -> str:
    first: dict[str, datetime] = {}
    last: dict[str, datetime] = {}
    for impression in impressions:
        for name in impression.news:
            first.setdefault(name, impression.time)
            last[name] = impression.time
    hours = [(last[name] - first[name]).total_seconds() / 3600 for name, count in shown.items() if count >= 20]
    return ", ".join(f"{hour:.0f}" for hour in np.percentile(hours, [25, 50, 75])) if hours else "–"


def _percentiles(values: list[int]) -> str:
    return ", ".join(f"{value:.0f}" for value in np.percentile(values, SHARES))


def _simulated(folder: Path) -> dict[str, str]:
    train = read_impressions(folder / "train" / "behaviors.tsv")
    dev = read_impressions(folder / "dev" / "behaviors.tsv")
    return {
        **describe(train, read_news(folder / "train" / "news.tsv")),
        **describe_profiles(train, dev),
        **rank([*train, *dev], {impression.name for impression in dev}),
        **rank_by_truth(folder / "truth.parquet"),
    }


def _real(folder: Path) -> dict[str, str]:
    impressions = read_impressions(folder / "behaviors.tsv")
    last = impressions[-1].time.date()
    judged = {impression.name for impression in impressions if impression.time.date() == last}
    return {**describe(impressions, read_news(folder / "news.tsv")), **rank(impressions, judged)}


def _table(simulated: dict[str, str], real: dict[str, str]) -> Iterator[str]:
    yield "| | simulated | MIND-small, sample | paper, Table 1 |"
    yield "|---|---|---|---|"
    for name, value in simulated.items():
        yield f"| {name} | {value} | {real.get(name, '')} | {PAPER.get(name, '')} |"


def main() -> None:
    """Count, and replace the table in the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("simulated", type=Path, help="folder written by `drpn simulate`")
    parser.add_argument("--real", type=Path, help="folder with MIND's behaviors.tsv and news.tsv")
    parser.add_argument("--page", type=Path, default=HERE / "docs" / "simulator.md", help="page that holds the table")
    parser.add_argument("--print", action="store_true", help="print the table, do not change the page")
    options = parser.parse_args()
    lines = list(_table(_simulated(options.simulated), _real(options.real) if options.real else {}))
    settings = json.loads((options.simulated / "simulation.json").read_text(encoding="utf-8"))["settings"]
    stated = ", ".join(f"{name} {value}" for name, value in settings.items())
    note = (
        f"Written by `benchmarks/newsroom.py`; commit {commit()}; settings: {stated}. Percentiles are "
        f"{', '.join(map(str, SHARES))}. Counts are from the train part, AUC from the last day."
    )
    table = "\n".join([BEGIN, "", *lines, "", note, "", END])
    if options.print:
        print(table)
        return
    page = options.page.read_text(encoding="utf-8")
    if BEGIN not in page or END not in page:
        parser.error(f"{options.page} has no line '{BEGIN}' and '{END}'; put them where the table belongs")
    before, rest = page.split(BEGIN, 1)
    options.page.write_text(before + table + rest.split(END, 1)[1], encoding="utf-8")


if __name__ == "__main__":
    main()
