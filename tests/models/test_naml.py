"""NAML against loops over its paper's equations; every view of a story has a weight."""

from functools import partial

import numpy as np
import pytest
import torch
from torch import Tensor

import baseline_cases
from baseline_cases import (
    CLICKED,
    WORDS,
    Case,
    case_of,
    check_every_weight_learns,
    check_only_nothing_learns,
    close,
    padded,
    randomised,
    rows_of,
)
from drpn.batches.batch import Batch, NewsRows
from drpn.models.base import DataShape
from drpn.models.baselines.naml import Naml, NamlSettings
from reference import naml_loops as loops
from reference.naml_loops import Story

SIZE, FILTERS, CATEGORY, HIDDEN, WINDOW = 5, 6, 3, 4, 3
VIEWS = ["title", "category", "subcategory", "abstract"]

NEWS = {
    "derby": Story([3, 5, 7, 4], 1, 2, [5, 5, 6]),
    "cup": Story([3, 8, 6], 1, 3, [2]),
    "storm": Story([9, 2, 10, 2], 2, 1, [8, 1, 3, 9, 4, 2]),
    "bonds": Story([11], 3, 4, []),
    "vote": Story([4, 6, 1, 5, 3], 2, 0, [11, 7]),
    "untitled": Story([], 3, 2, [4, 3, 2]),
    "bare": Story([], 0, 0, []),
}
"""In the order of `baseline_cases.POSITION`."""
CANDIDATES = [*baseline_cases.CANDIDATES, "bare"]
batch_of = partial(baseline_cases.batch_of, candidates=CANDIDATES)

with_and_without_abstracts = pytest.mark.parametrize("abstract", [False, True], ids=["three views", "with abstracts"])


def case(seed: int = 1, *, abstract: bool = False, window: int = WINDOW, word_size: int = SIZE) -> Case[Naml]:
    """All weights are random, including those that start at zero; the vector of category 0 stays zero."""
    settings = NamlSettings(
        size=SIZE, filters=FILTERS, window=window, category_size=CATEGORY, hidden=HIDDEN, abstract=abstract
    )
    vectors = np.ones((WORDS, word_size), dtype=np.float32)
    shape = DataShape(len(NEWS) + 1, WORDS, 3, 4, 5, vectors)
    model = randomised(Naml(settings, shape), torch.Generator().manual_seed(seed))
    with torch.no_grad():
        for labels in (model.category, model.subcategory):
            labels.table.weight[0] = 0
    return case_of(model)


def news_rows(*, more: int = 1) -> NewsRows:
    """The padding row, with features that must not be read, and all stories; `more` columns are padding."""
    news = [Story([1, 2], 1, 1, [1]), *NEWS.values()]
    return rows_of(
        [story.words for story in news],
        more=more,
        category=torch.tensor([story.category for story in news]),
        subcategory=torch.tensor([story.subcategory for story in news]),
        abstract=padded([story.abstract or [] for story in news], more=more),
    )


def as_read(name: str, *, abstract: bool) -> Story:
    return NEWS[name] if abstract else NEWS[name]._replace(abstract=None)


def scores(model: Naml, batch: Batch, news: NewsRows | None = None) -> Tensor:
    return model.score(model.encode_news(news or news_rows()), batch)


@with_and_without_abstracts
@pytest.mark.parametrize("word_size", [SIZE, 3], ids=["words of the model's size", "words of another size"])
@pytest.mark.parametrize("window", [1, 2, 3, 5])
def test_story_vectors(window: int, word_size: int, abstract: bool) -> None:
    model, weights = case(abstract=abstract, window=window, word_size=word_size)
    expected = [loops.encode_story(weights, as_read(name, abstract=abstract), window).vector for name in NEWS]
    close(model.encode_news(news_rows()).vector[1:], expected)


@with_and_without_abstracts
@pytest.mark.parametrize("seed", [2, 3])
def test_scores(seed: int, abstract: bool) -> None:
    model, weights = case(seed, abstract=abstract)
    expected = [
        [
            loops.score(
                weights,
                [as_read(name, abstract=abstract) for name in names],
                as_read(candidate, abstract=abstract),
                WINDOW,
            )
            for candidate in CANDIDATES
        ]
        for names in CLICKED.values()
    ]
    close(scores(model, batch_of(list(CLICKED.values()))), expected)


@with_and_without_abstracts
def test_weights_of_views(abstract: bool) -> None:
    model, weights = case(abstract=abstract)
    actual = model.combine_views(model.encode_views(news_rows())).weight[1:]
    close(actual, [loops.encode_story(weights, as_read(name, abstract=abstract), WINDOW).weights for name in NEWS])
    close(actual.sum(1), torch.ones(len(NEWS)))
    assert actual.min() > 0.01
    assert (actual[:3].max(1).values - actual[:3].min(1).values).min() > 0.01  # the weights differ


@pytest.mark.parametrize("view", VIEWS)
def test_dropping_a_view_changes_the_scores(view: str) -> None:
    model, _ = case(abstract=True)
    batch, views = batch_of(list(CLICKED.values())), model.encode_views(news_rows())
    left = [place for place, name in enumerate(VIEWS) if name != view]
    vector = model.combine_views(views[:, left]).vector
    without = model.score(type(model.encode_news(news_rows()))(vector, model.user.logits(vector)), batch)
    assert (without - scores(model, batch)).abs().min() > 1e-4


@pytest.mark.parametrize(("view", "field"), [("title", "words"), *((name, name) for name in VIEWS[1:])])
def test_each_view_reads_only_its_own_feature(view: str, field: str) -> None:
    model, _ = case(abstract=True)
    news = news_rows()
    before = model.encode_views(news)[1]
    getattr(news, field)[1] = 3  # a word or label that the first story does not have there
    changed = (model.encode_views(news)[1] - before).abs().max(-1).values > 1e-6
    assert [name for name, other in zip(VIEWS, changed, strict=True) if other] == [view]


def test_abstracts_are_optional() -> None:
    without, with_it = case().model, case(abstract=True).model
    assert without.abstract is None
    assert without.needs == ()
    assert with_it.needs == ("abstracts",)
    assert with_it.encode_views(news_rows()).shape[1] - without.encode_views(news_rows()).shape[1] == 1


def test_padding_of_texts_does_not_change_scores() -> None:
    model, _ = case(abstract=True)
    batch = batch_of(list(CLICKED.values()))
    close(scores(model, batch, news_rows(more=5)), scores(model, batch, news_rows(more=0)))


def test_skipped_stories_are_not_read() -> None:
    model, _ = case()
    users = list(CLICKED.values())
    assert model.reads == ("clicked",)
    close(scores(model, batch_of(users, skipped=["bonds", "vote", "derby"])), scores(model, batch_of(users)))


def test_users_who_clicked_nothing_share_a_learned_vector() -> None:
    model, _ = case()
    actual = scores(model, batch_of([[], []], skipped=["storm"]))
    check_only_nothing_learns(actual, model.nothing, model.user.gate.weight)


def test_every_weight_of_abstracts_gets_a_gradient() -> None:
    model, _ = case(abstract=True)
    check_every_weight_learns(scores(model, batch_of(list(CLICKED.values()))), model.abstract)


def test_the_defaults_are_those_of_the_paper() -> None:
    model = Naml(NamlSettings(), DataShape(news=3, words=9, users=3, categories=4, subcategories=5))
    shapes = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
    assert shapes == {
        "words.table.weight": (9, 300),
        "title.convolution.filters.weight": (400, 3 * 300),
        "title.convolution.filters.bias": (400,),
        "title.nothing": (400,),
        "category.table.weight": (4, 100),
        "subcategory.table.weight": (5, 100),
        **{f"{name}.dense.weight": (400, 100) for name in ("category", "subcategory")},
        **{f"{name}.dense.bias": (400,) for name in ("category", "subcategory")},
        **{f"{name}.hidden.weight": (200, 400) for name in ("title.aggregate", "views", "user")},
        **{f"{name}.hidden.bias": (200,) for name in ("title.aggregate", "views", "user")},
        **{f"{name}.gate.weight": (1, 200) for name in ("title.aggregate", "views", "user")},
        "nothing": (400,),
    }
    assert model.title.dropout.p == 0.2


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        *(({name: 0}, f"^{name} is 0; it takes 1 or more$") for name in ("size", "filters", "window", "hidden")),
        ({"category_size": -1}, "^category_size is -1; it takes 1 or more$"),
        ({"dropout": 1.0}, "^dropout is 1.0; it takes a share from 0 to below 1$"),
    ],
)
def test_invalid_settings_are_refused(setting: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        NamlSettings(**setting)
