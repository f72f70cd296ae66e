"""NAML computes what loops over its paper's equations compute, and weighs every view of a news."""

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
    close,
    every_weight_learns,
    only_nothing_learns,
    padded,
    randomised,
    rows_of,
)
from drpn.batches.batch import Batch, NewsRows
from drpn.models.base import DataShape
from drpn.models.baselines.naml import Naml, NamlSettings
from reference import naml_loops as loops
from reference.naml_loops import News

SIZE, FILTERS, CATEGORY, HIDDEN, WINDOW = 5, 6, 3, 4, 3
VIEWS = ["title", "category", "subcategory", "abstract"]

NEWS = {
    "derby": News([3, 5, 7, 4], 1, 2, [5, 5, 6]),
    "cup": News([3, 8, 6], 1, 3, [2]),
    "storm": News([9, 2, 10, 2], 2, 1, [8, 1, 3, 9, 4, 2]),
    "bonds": News([11], 3, 4, []),
    "vote": News([4, 6, 1, 5, 3], 2, 0, [11, 7]),
    "untitled": News([], 3, 2, [4, 3, 2]),
    "bare": News([], 0, 0, []),
}
"""In the order of `baseline_cases.POSITION`."""
CANDIDATES = [*baseline_cases.CANDIDATES, "bare"]
batch_of = partial(baseline_cases.batch_of, candidates=CANDIDATES)

with_and_without_abstracts = pytest.mark.parametrize("abstract", [False, True], ids=["three views", "with abstracts"])


def case(seed: int = 1, *, abstract: bool = False, window: int = WINDOW, word_size: int = SIZE) -> Case[Naml]:
    """All weights are random, also those that start at zero; but the vector of no category stays zero."""
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
    """All news after the padding, which is given what nobody may read; so many words more are padding."""
    news = [News([1, 2], 1, 1, [1]), *NEWS.values()]
    return rows_of(
        [one.words for one in news],
        more=more,
        category=torch.tensor([one.category for one in news]),
        subcategory=torch.tensor([one.subcategory for one in news]),
        abstract=padded([one.abstract or [] for one in news], more=more),
    )


def as_read(name: str, *, abstract: bool) -> News:
    return NEWS[name] if abstract else NEWS[name]._replace(abstract=None)


def scores(model: Naml, batch: Batch, news: NewsRows | None = None) -> Tensor:
    return model.score(model.encode_news(news or news_rows()), batch)


@with_and_without_abstracts
@pytest.mark.parametrize("word_size", [SIZE, 3], ids=["words of the model's size", "words of another size"])
@pytest.mark.parametrize("window", [1, 2, 3, 5])
def test_news(window: int, word_size: int, abstract: bool) -> None:
    model, weights = case(abstract=abstract, window=window, word_size=word_size)
    expected = [loops.news(weights, as_read(name, abstract=abstract), window).vector for name in NEWS]
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
def test_how_much_each_view_counts(abstract: bool) -> None:
    model, weights = case(abstract=abstract)
    found = model.combine_views(model.encode_views(news_rows())).weight[1:]
    close(found, [loops.news(weights, as_read(name, abstract=abstract), WINDOW).weights for name in NEWS])
    close(found.sum(1), torch.ones(len(NEWS)))
    assert found.min() > 0.01
    assert (found[:3].max(1).values - found[:3].min(1).values).min() > 0.01  # they are not all alike


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_that_is_dropped_changes_the_scores(view: str) -> None:
    model, _ = case(abstract=True)
    batch, views = batch_of(list(CLICKED.values())), model.encode_views(news_rows())
    left = [place for place, name in enumerate(VIEWS) if name != view]
    vector = model.combine_views(views[:, left]).vector
    without = model.score(type(model.encode_news(news_rows()))(vector, model.user.logits(vector)), batch)
    assert (without - scores(model, batch)).abs().min() > 1e-4


@pytest.mark.parametrize(("view", "field"), [("title", "words"), *((name, name) for name in VIEWS[1:])])
def test_each_view_reads_what_it_is_named_after(view: str, field: str) -> None:
    model, _ = case(abstract=True)
    news = news_rows()
    before = model.encode_views(news)[1]
    getattr(news, field)[1] = 3  # a word, or a label, that the first news does not have there
    changed = (model.encode_views(news)[1] - before).abs().max(-1).values > 1e-6
    assert [name for name, other in zip(VIEWS, changed, strict=True) if other] == [view]


def test_without_its_setting_the_abstract_is_not_read_and_not_needed() -> None:
    without, with_it = case().model, case(abstract=True).model
    assert without.abstract is None
    assert without.needs == ()
    assert with_it.needs == ("abstracts",)
    assert with_it.encode_views(news_rows()).shape[1] - without.encode_views(news_rows()).shape[1] == 1


def test_padding_of_texts_changes_no_score() -> None:
    model, _ = case(abstract=True)
    batch = batch_of(list(CLICKED.values()))
    close(scores(model, batch, news_rows(more=5)), scores(model, batch, news_rows(more=0)))


def test_what_was_skipped_is_not_read() -> None:
    model, _ = case()
    users = list(CLICKED.values())
    assert model.reads == ("clicked",)
    close(scores(model, batch_of(users, skipped=["bonds", "vote", "derby"])), scores(model, batch_of(users)))


def test_a_user_who_clicked_nothing_learns_one_vector_with_all_others_who_did_not() -> None:
    model, _ = case()
    found = scores(model, batch_of([[], []], skipped=["storm"]))
    only_nothing_learns(found, model.nothing, model.user.gate.weight)


def test_every_weight_of_abstracts_learns() -> None:
    model, _ = case(abstract=True)
    every_weight_learns(scores(model, batch_of(list(CLICKED.values()))), model.abstract)


def test_the_defaults_are_the_paper_s() -> None:
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
def test_settings_that_make_no_network(setting: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        NamlSettings(**setting)
