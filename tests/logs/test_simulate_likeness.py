"""The simulated newsroom has the statistics of MIND.

Numbers in comments are those of MIND-small's sample, or of the paper where marked.
"""

from collections import defaultdict
from datetime import datetime

import numpy as np

from newsroom_files import Newsroom


def test_page_lengths_and_clicks_match_mind(newsroom: Newsroom) -> None:
    train = [impression for impression in newsroom.impressions if impression.part == "train"]
    lengths = np.array([len(impression.news) for impression in train])
    clicks = np.array([sum(impression.clicked) for impression in train])
    assert 36 < lengths.mean() < 39.5  # 37.86
    assert np.abs(np.percentile(lengths, [5, 25, 50, 75, 95]) - [2, 10, 24, 51, 121]).max() <= 6
    assert clicks.min() == 1
    assert 1.42 < clicks.mean() < 1.60  # 1.500
    assert 0.69 < np.mean(clicks == 1) < 0.78  # 0.727
    assert 0.036 < clicks.sum() / lengths.sum() < 0.044  # 0.0396


def test_histories_match_mind(newsroom: Newsroom) -> None:
    lengths = np.array([len(impression.history) for impression in newsroom.impressions])
    assert 26 < lengths.mean() < 40  # 32.4
    assert 14 <= np.median(lengths) <= 23  # 18
    assert 0.005 < np.mean(lengths == 0) < 0.04  # 0.0196
    by_user = {impression.user: impression.history for impression in newsroom.impressions}
    assert all(impression.history == by_user[impression.user] for impression in newsroom.impressions)
    assert all(len(set(history)) == len(history) for history in by_user.values())


def test_titles_and_categories_match_mind(newsroom: Newsroom) -> None:
    words = np.array([len(row[3].split()) for row in newsroom.news.values()])
    assert 10.3 < words.mean() < 11.3  # 10.75
    assert np.abs(np.percentile(words, [5, 25, 50, 75, 95]) - [6, 9, 10, 13, 16]).max() <= 1
    categories = [newsroom.news[name][1] for impression in newsroom.impressions for name in impression.news]
    shares = {name: categories.count(name) / len(categories) for name in set(categories)}
    assert 0.23 < shares["news"] < 0.32  # 0.27
    assert 0.07 < shares["sports"] < 0.13  # 0.10
    assert len({row[1] for row in newsroom.news.values()}) == 18
    assert 160 <= len({row[2] for row in newsroom.news.values()}) <= 285


def test_few_stories_get_most_of_the_exposure(newsroom: Newsroom) -> None:
    shown: dict[str, int] = defaultdict(int)
    for impression in newsroom.impressions:
        if impression.part == "train":
            for name in impression.news:
                shown[name] += 1
    counts = np.array(sorted(shown.values(), reverse=True))
    assert 5_500 < len(counts) < 9_500  # 8,379
    assert 0.15 < counts[:100].sum() / counts.sum() < 0.25  # 0.199
    assert 0.63 < counts[:1000].sum() / counts.sum() < 0.80  # 0.740


def test_profiles_match_the_paper(newsroom: Newsroom) -> None:
    clicked: dict[str, set[str]] = defaultdict(set)
    shown: dict[str, set[str]] = defaultdict(set)
    for impression in newsroom.impressions:
        if impression.time < datetime(2019, 11, 14):
            shown[impression.user].update(impression.news)
            clicked[impression.user].update(np.array(impression.news)[impression.clicked])
    clicked_counts = np.array([len(clicked[user]) for user in shown])
    skipped_counts = np.array([len(shown[user] - clicked[user]) for user in shown])
    assert 3.6 < clicked_counts.mean() < 4.9  # the paper: 4.14
    assert 84 < skipped_counts.mean() < 110  # the paper: 96.80
    assert np.mean(clicked_counts == 1) > 0.45


def test_visits_peak_by_day_and_on_working_days(newsroom: Newsroom) -> None:
    hours = np.bincount([impression.time.hour for impression in newsroom.impressions], minlength=24)
    assert hours[8:12].mean() > 5 * hours[[22, 23, 0, 1]].mean()  # 528 and 61
    days = np.bincount([impression.time.weekday() for impression in newsroom.impressions], minlength=7)
    assert 0.33 < days[5:].mean() / days[:5].mean() < 0.55  # 0.44
