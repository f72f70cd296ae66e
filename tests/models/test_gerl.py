"""GERL against loops over its paper's equations; it reads both hops and nothing else."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from torch import Tensor

import baseline_cases
from baseline_cases import WORDS, Case, padded, random_case, rows_of
from batch_cases import as_rows, make_batch, with_parts
from batch_cases import rows_of as impressions_of
from drpn.batches.batch import Batch, NewsRows, distinct_stories
from drpn.models.base import DataShape
from drpn.models.baselines.gerl import Gerl, GerlSettings
from drpn.models.encode import encode_all
from reference import gerl_loops as loops
from reference.gerl_loops import Reader, Story

SETTINGS = GerlSettings(size=5, heads=3, head_size=2, topic_size=3, hidden=4)
USERS, TOPICS, ROWS = 7, 4, 20

STORIES = {
    "derby": Story([3, 5, 7, 4], 1, [18, 17, 16]),
    "cup": Story([3, 8, 6], 1, [19]),
    "storm": Story([9, 2, 10, 2], 2, [19, 15]),
    "bonds": Story([11], 3, []),
    "vote": Story([4, 6, 1, 5, 3], 2, [14, 9]),
    "untitled": Story([], 0, [19, 18]),
    "bare": Story([], 3, [17]),
}
POSITION = {name: position for position, name in enumerate(STORIES, start=1)}
ROW = {name: ROWS - position for name, position in POSITION.items()}
"""Rows of the dataset differ from positions; row 9 is a story that is not encoded."""
AT_ROW = {row: name for name, row in ROW.items()}
CANDIDATES = list(STORIES)

READERS = {
    "ordinary": Reader(1, [STORIES[name] for name in ("derby", "cup", "storm", "vote")], [2, 5, 6]),
    "one click, one neighbour": Reader(2, [STORIES["cup"]], [4]),
    "no clicks": Reader(3, [], [1, 2]),
    "no neighbours": Reader(4, [STORIES["untitled"], STORIES["bonds"]], []),
    "nothing at all": Reader(5, [], []),
    "not known": Reader(0, [STORIES["storm"], STORIES["bare"], STORIES["storm"]], [3, 1]),
}

close = partial(baseline_cases.close, atol=1e-9)


def case(seed: int = 1, *, word_size: int = SETTINGS.size) -> Case[Gerl]:
    """All weights are random, including those of padding and those that start at zero."""
    vectors = np.ones((WORDS, word_size), dtype=np.float32)
    return random_case(Gerl(SETTINGS, DataShape(ROWS, WORDS, USERS, TOPICS, 2, vectors)), seed)


def news_rows() -> NewsRows:
    """The padding row, with features that must not be read, and all stories."""
    stories = [Story([1, 2], 1, [18]), *STORIES.values()]
    places = [[POSITION[AT_ROW[row]] if row in AT_ROW else 0 for row in story.neighbours] for story in stories]
    return rows_of(
        [story.words for story in stories],
        rows=torch.tensor([0, *ROW.values()]),
        neighbours=padded([story.neighbours for story in stories]),
        category=torch.tensor([story.topic for story in stories]),
        neighbour_positions=padded(places),
    )


def batch_of(readers: list[Reader], skipped: list[str] | None = None) -> Batch:
    """The users, each with all candidates."""
    stories = [None, *STORIES.values()]
    return make_batch(
        users=torch.tensor([reader.row for reader in readers]),
        clicked=padded([[stories.index(story) for story in reader.clicked] for reader in readers], at_the_end=False),
        skipped=padded([[POSITION[name] for name in skipped or []]] * len(readers)),
        candidates=torch.tensor([[POSITION[name] for name in CANDIDATES]] * len(readers)),
        neighbours=padded([reader.neighbours for reader in readers]),
    )


def everybody() -> Batch:
    return batch_of(list(READERS.values()))


def scores(model: Gerl, batch: Batch, news: NewsRows | None = None) -> Tensor:
    return model.score(model.encode_news(news or news_rows()), batch)


def changed(actual: Tensor, expected: Tensor) -> list[list[bool]]:
    return ((actual - expected).abs() > 1e-6).tolist()


@pytest.mark.parametrize(
    "word_size", [SETTINGS.size, 3], ids=["word vectors of the model's size", "word vectors of another size"]
)
def test_story_vectors(word_size: int) -> None:
    model, weights = case(word_size=word_size)
    expected = [loops.encode_story(weights, story, SETTINGS.heads) for story in STORIES.values()]
    close(model.encode_news(news_rows()).vector[1:], expected)


@pytest.mark.parametrize("seed", [2, 3])
def test_scores(seed: int) -> None:
    model, weights = case(seed)
    neighbours = {
        name: [STORIES[AT_ROW[row]] for row in story.neighbours if row in AT_ROW] for name, story in STORIES.items()
    }
    batch, expected = everybody(), []
    for user, reader in enumerate(READERS.values()):
        batch.candidates[user] = batch.candidates[user].roll(user)  # another order for each user
        names = [CANDIDATES[position - 1] for position in batch.candidates[user].tolist()]
        expected.append(
            [loops.score(weights, reader, STORIES[name], neighbours[name], SETTINGS.heads) for name in names]
        )
    close(scores(model, batch), expected)


def test_the_vector_of_a_user_changes_the_scores_of_their_neighbours() -> None:
    """User 2 is the second user, and a neighbour of the first and the third."""
    model, _ = case()
    before = scores(model, everybody())
    with torch.no_grad():
        model.users.ids.table.weight[2] += 1
    actual = changed(scores(model, everybody()), before)
    assert actual == [[2 in (reader.row, *reader.neighbours)] * len(CANDIDATES) for reader in READERS.values()]


def test_the_id_of_a_story_changes_the_scores_of_its_neighbours() -> None:
    model, _ = case()
    before = scores(model, everybody())
    with torch.no_grad():
        model.news_ids.weight[ROW["derby"]] += 1
    actual = changed(scores(model, everybody()), before)
    assert actual == [[ROW["derby"] in STORIES[name].neighbours for name in CANDIDATES]] * len(READERS)
    assert actual[0] == [False, True, True, False, False, True, False]


def test_the_title_of_a_story_changes_the_scores_of_its_neighbours() -> None:
    """All scores change for users who clicked the story; for others those of the story and its neighbours."""
    model, _ = case()
    news = news_rows()
    words = news.words.clone()
    words[POSITION["derby"], 0] = 8
    actual = changed(scores(model, everybody(), replace(news, words=words)), scores(model, everybody()))
    near = [name == "derby" or ROW["derby"] in STORIES[name].neighbours for name in CANDIDATES]
    assert actual == [
        [True] * len(CANDIDATES) if STORIES["derby"] in reader.clicked else near for reader in READERS.values()
    ]


def test_without_neighbours_learned_vectors_are_used() -> None:
    model, _ = case()
    names = list(READERS)
    scores(model, everybody())[names.index("nothing at all"), CANDIDATES.index("bonds")].backward()
    for hop in (model.clicked, model.neighbour_users, model.neighbour_ids, model.neighbour_news):
        assert hop.nothing.grad is not None
        assert hop.nothing.grad.abs().min() > 0
        gradient = hop.gate.hidden.weight.grad
        assert gradient is None or not gradient.any()


def test_missing_neighbour_columns_are_like_no_neighbours() -> None:
    model, _ = case()
    news, batch = news_rows(), everybody()
    none = replace(news, neighbour_positions=news.neighbour_positions * 0, neighbours=news.neighbours * 0)
    without = replace(news, neighbour_positions=news.neighbour_positions[:, :0], neighbours=news.neighbours[:, :0])
    actual = scores(model, with_parts(batch, neighbours=batch.profiles.neighbours[:, :0]), without)
    close(actual, scores(model, with_parts(batch, neighbours=batch.profiles.neighbours * 0), none))


def test_unknown_users_share_a_learned_vector() -> None:
    model, _ = case()
    known = READERS["ordinary"]
    actual = scores(model, batch_of([known._replace(row=0), known._replace(row=0), known]))
    assert torch.equal(actual[0], actual[1])
    assert (actual[0] - actual[2]).abs().min() > 1e-6


def test_in_training_a_share_of_users_gets_the_unknown_vector() -> None:
    model, _ = case()
    model.train()
    model.users.ids.dropped = 0.5
    drawn = model.users(torch.ones(400, dtype=torch.long))
    unknown = (drawn == model.users.ids.unknown).all(1)
    assert 120 < int(unknown.sum()) < 280
    assert torch.equal(drawn[~unknown], model.users.ids.table.weight[[1] * int((~unknown).sum())])


def test_neither_skips_nor_the_order_of_clicks_and_neighbours_are_read() -> None:
    model, _ = case()
    batch, news = everybody(), news_rows()
    close(scores(model, batch_of(list(READERS.values()), ["bonds", "vote"])), scores(model, batch))
    turned = with_parts(batch, clicked=batch.profiles.clicked.flip(1), neighbours=batch.profiles.neighbours.flip(1))
    other = replace(news, neighbours=news.neighbours.flip(1), neighbour_positions=news.neighbour_positions.flip(1))
    close(scores(model, turned, other), scores(model, batch, news))


def test_a_batch_includes_the_neighbours_of_its_candidates() -> None:
    """Encoding the stories of the batch, or all stories in steps, gives the same scores."""
    model, _ = case()
    batch, news = everybody(), news_rows()
    few = impressions_of(batch, slice(3, 5))
    few = with_parts(few, candidates=few.candidates[:, 1:2])
    expected = scores(model, few)
    rows, local = distinct_stories(as_rows(few), news=len(news), reach=news.neighbour_positions)
    assert len(rows) == 5  # padding, the two clicked, the cup and the derby
    close(scores(model, local, news.select(rows)), expected)
    close(model.score(encode_all(model, news, step=3), few), expected)


def test_the_defaults_are_those_of_the_paper() -> None:
    settings = GerlSettings()
    model = Gerl(settings, DataShape(news=3, words=9, users=4, categories=2, subcategories=2))
    shapes = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
    hops = ("clicked", "neighbour_users", "neighbour_ids", "neighbour_news")
    assert shapes == {
        "news.untitled": (128,),
        "news.words.table.weight": (9, 300),
        **{f"news.attention.{name}.weight": (128, 300) for name in ("query", "key", "value")},
        "news.aggregate.hidden.weight": (128, 128),
        "news.aggregate.hidden.bias": (128,),
        "news.aggregate.gate.weight": (1, 128),
        "news.topics.weight": (2, 128),
        "users.ids.unknown": (256,),
        "users.ids.table.weight": (4, 256),
        "news_ids.weight": (3, 256),
        **{f"{hop}.nothing": (256,) for hop in hops},
        **{f"{hop}.gate.hidden.weight": (128, 256) for hop in hops},
        **{f"{hop}.gate.hidden.bias": (128,) for hop in hops},
        **{f"{hop}.gate.gate.weight": (1, 128) for hop in hops},
    }
    assert model.news.dropout.p == 0.2
    assert settings.max_neighbours == 15
    assert model.reads == ("clicked",)
    assert model.needs == ("user_neighbours", "news_neighbours")


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"size": 0}, "^size is 0; it takes 1 or more$"),
        ({"heads": 0}, "^heads is 0; it takes 1 or more$"),
        ({"head_size": -1}, "^head_size is -1; it takes 1 or more$"),
        ({"topic_size": 0}, "^topic_size is 0; it takes 1 or more$"),
        ({"hidden": 0}, "^hidden is 0; it takes 1 or more$"),
        ({"dropout": 1.0}, r"^dropout is 1\.0; it takes a share from 0 to below 1$"),
        ({"id_dropout": -0.1}, r"^id_dropout is -0\.1; it takes a share from 0 to below 1$"),
    ],
)
def test_invalid_settings_are_refused(setting: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        GerlSettings(**setting)
