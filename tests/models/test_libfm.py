"""LibFM against the double sum over pairs of features, without terms that are equal for all candidates."""

from dataclasses import replace

import pytest
import torch

from baseline_cases import check_order_of_clicks_does_not_matter
from batch_cases import with_parts
from drpn.models.baselines.libfm import LibFm, LibFmSettings
from reference import fm_loops as loops
from reference.drpn_loops import Weights
from reference.fm_newsroom import (
    CANDIDATES,
    CLICKED,
    NEWS,
    POSITION,
    READERS,
    SHAPE,
    batch_of_all,
    close,
    news_rows,
    scores,
    with_random_weights,
)

SIZE = 3


def case(seed: int = 1) -> tuple[LibFm, Weights]:
    model = LibFm(LibFmSettings(size=SIZE), SHAPE)
    return model, with_random_weights(model, model.features, seed).weights


@pytest.mark.parametrize("seed", [2, 3])
def test_scores(seed: int) -> None:
    model, weights = case(seed)
    expected = [[loops.libfm(weights, user, NEWS[name]) for name in CANDIDATES] for user in READERS]
    close(scores(model), expected)


def test_the_own_score_of_a_story_is_a_sum_over_pairs_of_its_features() -> None:
    model, weights = case()
    expected = [loops.own_part(weights, story) for story in NEWS.values()]
    close(model.encode_news(news_rows()).factors.own_score[1:], expected)


def test_terms_left_out_change_neither_differences_nor_the_loss() -> None:
    model, weights = case()
    whole = torch.tensor(
        [[loops.whole_machine(weights, user, NEWS[name]) for name in CANDIDATES] for user in READERS],
        dtype=torch.float64,
    )
    actual = scores(model)
    assert (actual - whole).abs().min() > 1e-3
    close(actual - actual[:, :1], whole - whole[:, :1])
    close(actual.log_softmax(1), whole.log_softmax(1))


def test_a_repeated_word_is_one_feature() -> None:
    """Repeating the whole title leaves the share of each word, and the score, unchanged."""
    model, _ = case()
    news = news_rows()
    twice = replace(news, words=news.words.repeat(1, 2))
    close(model.encode_news(twice).factors.own_score, model.encode_news(news).factors.own_score)


def test_a_word_of_the_candidate_and_of_a_clicked_story_are_two_features() -> None:
    """Only 'bonds' has its word; user 'unknown' clicked it, the first user did not."""
    model, _ = case()
    before = scores(model)
    (word,) = NEWS["bonds"].words
    with torch.no_grad():
        model.features.words.weight[word, 1 + SIZE :] += 1
    moved = (scores(model) - before).abs() > 1e-6
    readers = torch.tensor(["bonds" in names for _, names in CLICKED.values()])
    assert moved[readers].all()
    assert not moved[~readers].any()
    with torch.no_grad():
        model.features.words.weight[word, 1 + SIZE :] -= 1
        model.features.words.weight[word, : 1 + SIZE] += 1
    moved = (scores(model) - before).abs() > 1e-6
    candidates = torch.tensor([name == "bonds" for name in CANDIDATES])
    assert moved[:, candidates].all()
    assert not moved[:, ~candidates].any()


def test_skipped_stories_are_not_read() -> None:
    model, _ = case()
    close(scores(model, batch_of_all(["bonds", "vote", "derby"])), scores(model))


def test_clicks_matter_but_not_their_order() -> None:
    model, _ = case()
    check_order_of_clicks_does_not_matter(lambda batch: scores(model, batch), batch_of_all())


def test_unseen_stories_share_a_vector() -> None:
    model, _ = case()
    news, batch = news_rows(), batch_of_all()
    places = torch.tensor([POSITION["vote"], POSITION["bare"]])
    renamed = replace(news, rows=news.rows.index_fill(0, places, 0))
    close(model.score(model.encode_news(renamed), batch), scores(model))
    model.encode_news(news).factors.vector.sum().backward()
    assert model.features.ids.unknown.grad is not None
    assert model.features.ids.unknown.grad[1:].abs().min() > 0
    assert not model.features.ids.table.weight.grad[places].any()


def test_users_who_clicked_nothing_have_learned_features() -> None:
    model, _ = case()
    batch = with_parts(batch_of_all(), clicked=torch.zeros(len(CLICKED), 2, dtype=torch.long))
    scores(model, batch).sum().backward()
    assert model.features.nothing.grad is not None
    assert model.features.nothing.grad.abs().min() > 0
    assert not model.features.words.weight.grad[:, 1 + SIZE :].any()


def test_weights_start_at_zero_and_vectors_do_not() -> None:
    torch.manual_seed(1)
    features = LibFm(LibFmSettings(), SHAPE).features
    for table in (features.ids.table, features.category, features.subcategory, features.words):
        assert not table.weight[:, 0].any()
        assert not table.weight[0].any()
        assert table.weight[1:, 1:].abs().min() > 0


def test_the_defaults_are_those_of_libfm() -> None:
    model = LibFm(LibFmSettings(), SHAPE)
    shapes = {name.removeprefix("features."): tuple(parameter.shape) for name, parameter in model.named_parameters()}
    assert shapes == {
        "nothing": (24,),
        "users.ids.table.weight": (4, 8),
        "users.ids.unknown": (8,),
        "ids.table.weight": (8, 9),
        "ids.unknown": (9,),
        "category.weight": (4, 17),
        "subcategory.weight": (5, 17),
        "words.weight": (12, 17),
    }


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"size": 0}, "^size is 0; it takes 1 or more$"),
        ({"id_dropout": 1.0}, "^id_dropout is 1.0; it takes a share from 0 to below 1$"),
        ({"id_dropout": -0.1}, "^id_dropout is -0.1; it takes a share from 0 to below 1$"),
    ],
)
def test_invalid_settings_are_refused(setting: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LibFmSettings(**setting)
