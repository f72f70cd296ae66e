"""A trace is what the model computed, at the right news."""

import json
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from drpn.batches.batch import Context, NewsRows, Profiles
from drpn.batches.tables import Tables
from drpn.dataset.folder import Dataset
from drpn.errors import ExplainError
from drpn.explain.trace import Trace, profile_weights, trace
from drpn.models.base import ClickModel
from drpn.models.drpn import ABLATIONS, Drpn, ViewMatch

Build = Callable[[str], Drpn]
every_variant = pytest.mark.parametrize("name", ["drpn", *ABLATIONS])

AGGREGATORS = {
    "drpn": {"semantic content", "semantic denoise", "collaborative content", "collaborative denoise"},
    "drpn-d": {"semantic content", "collaborative content"},
    "drpn-g": {"semantic content", "semantic denoise"},
    "drpn-dg": {"semantic content"},
    "drpn-n": {"semantic content", "semantic denoise", "collaborative content", "collaborative denoise"},
    "drpn-p": {"semantic content", "semantic denoise", "collaborative content", "collaborative denoise"},
}
UNREAD = {"drpn-n": "skipped", "drpn-p": "clicked"}


def lengths(dataset: Dataset) -> tuple[np.ndarray, np.ndarray]:
    return np.count_nonzero(dataset.clicked, axis=1), np.count_nonzero(dataset.skipped, axis=1)


def some_users(dataset: Dataset) -> list[int]:
    """The longest profile, one without a click, one without a skip where there is one, and one without anything."""
    clicked, skipped = lengths(dataset)
    kinds = [(clicked > 2) & (skipped > 2), (clicked == 0) & (skipped > 0), (clicked > 0) & (skipped == 0)]
    found = [int(np.flatnonzero(kind)[0]) for kind in kinds if kind.any()]
    return [int(np.argmax(clicked)), *found, 0]


def last_impression(dataset: Dataset) -> tuple[list[int], list[bool]]:
    test = dataset.impressions("test")
    place = slice(*test.offsets[-2:].tolist())
    return test.candidates[place].tolist(), test.clicked[place].tolist()


def all_views(model: Drpn, tables: Tables, user: int, candidates: list[int]) -> tuple[dict[str, ViewMatch], Tensor]:
    """Views and scores from the whole newsroom, not only from the news that are needed."""
    with torch.no_grad():
        encoded = model.encode_news(tables.news)
        batch = tables.batch(torch.tensor([user]), torch.tensor([candidates], dtype=torch.int32))
        return model.views(encoded, batch.of_all_stories()), model.score(encoded, batch.of_all_stories())[0]


@every_variant
def test_weights_of_every_aggregator_sum_to_1_over_a_sequence(
    name: str, build: Build, tables: Tables, newsroom: Dataset
) -> None:
    for user in some_users(newsroom):
        found = trace(build(name), tables, newsroom, user, last_impression(newsroom)[0])
        for side in ("clicked", "skipped"):
            news = getattr(found, side)
            expected = set() if UNREAD.get(name) == side else AGGREGATORS[name]
            assert all(set(one.weights) == expected for one in news)
            for aggregator in expected if news else ():
                assert sum(one.weights[aggregator] for one in news) == pytest.approx(1)


@every_variant
def test_scores_parts_and_fusion_are_those_of_the_model(
    name: str, build: Build, tables: Tables, newsroom: Dataset
) -> None:
    model, (candidates, clicked) = build(name), last_impression(newsroom)
    for user in some_users(newsroom):
        found = trace(model, tables, newsroom, user, candidates, clicked).candidates
        views, scores = all_views(model, tables, user, candidates)
        assert [one.score for one in found] == pytest.approx(scores.tolist(), abs=1e-9)
        assert [sum(one.parts.values()) for one in found] == pytest.approx(scores.tolist(), abs=1e-9)
        assert [one.clicked for one in found] == clicked
        for view, viewed in views.items():
            assert [one.parts[view] for one in found] == pytest.approx(viewed.score[0].tolist(), abs=1e-9)
            interests = model.semantic.interests
            assert all(list(one.fusion[view]) == interests for one in found)
            for place, beta in enumerate(viewed.beta[0].tolist()):
                assert list(found[place].fusion[view].values()) == pytest.approx(beta, abs=1e-9)
        assert all(set(one.parts) == set(one.fusion) == set(views) for one in found)


def test_ranks_fall_with_the_score_and_ties_keep_the_order_given(
    build: Build, tables: Tables, newsroom: Dataset
) -> None:
    candidates = [7, 5, 9, 5, 11]  # news 5 twice: two equal scores
    found = trace(build("drpn"), tables, newsroom, some_users(newsroom)[0], candidates)
    assert sorted(one.rank for one in found.candidates) == [1, 2, 3, 4, 5]
    scores = [one.score for one in found.ranked()]
    assert scores == sorted(scores, reverse=True)
    assert found.candidates[3].rank == found.candidates[1].rank + 1
    assert all(one.clicked is None for one in found.candidates)


def test_profile_news_stand_in_the_order_of_the_dataset_with_what_was_thought_of_them(
    build: Build, tables: Tables, newsroom: Dataset
) -> None:
    user = some_users(newsroom)[0]
    found = trace(build("drpn"), tables, newsroom, user, [1])
    views, _ = all_views(build("drpn"), tables, user, [1])
    for side in ("clicked", "skipped"):
        rows = [row for row in getattr(newsroom, side)[user].tolist() if row]
        news = getattr(found, side)
        assert [one.news_id for one in news] == [newsroom.news_ids[row] for row in rows]
        assert [one.title for one in news] == [newsroom.titles[row] for row in rows]
        assert [one.topic for one in news] == [newsroom.subcategory(row) for row in rows]
        opinions = newsroom.arrays.array(f"users/{side}_opinion")[user, : len(rows)].tolist()
        assert [one.opinion for one in news] == opinions
        assert {one.cause for one in news if one.opinion == 1} <= {{"clicked": "interest", "skipped": "missed"}[side]}
        weights = views["collaborative"].weights[f"{side} denoise"][0, : len(rows)].tolist()
        assert [one.weights["collaborative denoise"] for one in news] == pytest.approx(weights)
        trusted = [found.trust(one) for one in found.by_trust(side)]
        assert trusted == sorted((one.weights["semantic denoise"] for one in news), reverse=True)


def test_what_was_thought_is_not_known_of_a_real_log(build: Build, tables: Tables, newsroom: Dataset) -> None:
    known = {name: checksum for name, checksum in newsroom.arrays.checksums.items() if "opinion" not in name}
    real = replace(newsroom, arrays=replace(newsroom.arrays, checksums=known))
    found = trace(build("drpn"), tables, real, some_users(newsroom)[0], [1])
    assert found.clicked
    assert {(one.opinion, one.cause) for one in found.clicked + found.skipped} == {(None, "")}


@every_variant
def test_nobody_with_nothing_to_choose_from_has_an_empty_trace(
    name: str, build: Build, tables: Tables, newsroom: Dataset
) -> None:
    found = trace(build(name), tables, newsroom, 0, [])
    assert (found.user_id, found.clicked, found.skipped, found.candidates) == ("", (), (), ())
    assert found.aggregator == ("semantic denoise" if build(name).settings.denoise else "semantic content")


def test_a_trace_survives_json(build: Build, tables: Tables, newsroom: Dataset) -> None:
    found: Trace = trace(build("drpn"), tables, newsroom, some_users(newsroom)[0], *last_impression(newsroom))
    document = json.loads(json.dumps(found.as_dict()))
    assert document["clicked"][0]["weights"] == found.clicked[0].weights
    assert document["candidates"][0]["fusion"] == found.candidates[0].fusion


@every_variant
@pytest.mark.parametrize("kind", ["denoise", "content"])
def test_weights_of_many_users_are_those_of_their_traces(
    name: str, kind: str, build: Build, tables: Tables, newsroom: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("drpn.explain.trace.USERS_AT_ONCE", 3)  # so that a batch ends within
    model, users = build(name), [*some_users(newsroom), 5, 6, 7]
    found = profile_weights(model, tables, users, kind)
    read = [side for side in ("clicked", "skipped") if UNREAD.get(name) != side]
    assert list(found) == (read if kind == "content" or model.settings.denoise else [])
    for side, weights in found.items():
        assert weights.shape == (len(users), getattr(newsroom, side).shape[1])
        for row, user in enumerate(users):
            news = getattr(trace(model, tables, newsroom, user, []), side)
            expected = np.zeros(weights.shape[1])
            expected[: len(news)] = [one.weights[f"semantic {kind}"] for one in news]
            np.testing.assert_allclose(weights[row], expected, atol=1e-6)


class Constant(ClickModel):
    """Has no weights."""

    def encode_news(self, news: NewsRows) -> Tensor:
        return news.rows.double()

    def read(self, encoded: Tensor, profiles: Profiles) -> Tensor:  # noqa: ARG002
        return profiles.users

    def match(self, encoded: Tensor, readers: Tensor, candidates: Tensor, context: Context) -> Tensor:  # noqa: ARG002
        return torch.zeros(candidates.shape)


def test_a_model_without_aggregators_is_refused(tables: Tables, newsroom: Dataset) -> None:
    with pytest.raises(ExplainError, match=r"^Constant has no weights to show; choose a run of drpn or of one of its"):
        trace(Constant(), tables, newsroom, 1, [1])
    with pytest.raises(ExplainError, match=r"^Constant has no weights"):
        profile_weights(Constant(), tables, [1])
