"""A trace holds the weights and scores that the model computed, for the right stories."""

import json
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest
import torch
from torch import Tensor

from drpn.batches.batch import Context, NewsRows, Profiles
from drpn.batches.tables import Tables
from drpn.dataset.folder import Dataset
from drpn.errors import ExplainError
from drpn.explanation.trace import Trace, aggregator_weights, profile_weights, trace
from drpn.explanation.views import ViewMatch, match_views
from drpn.models.base import ClickModel
from drpn.models.drpn import ABLATIONS, Drpn

Build = Callable[[str], Drpn]
every_variant = pytest.mark.parametrize("name", ["drpn", "drpn-planted", *ABLATIONS])

AGGREGATORS = {
    "drpn": {"semantic content", "semantic denoise", "collaborative content", "collaborative denoise"},
    "drpn-planted": {"semantic content", "semantic denoise", "collaborative content", "collaborative denoise"},
    "drpn-d": {"semantic content", "collaborative content"},
    "drpn-g": {"semantic content", "semantic denoise"},
    "drpn-g-ids": {"semantic content", "semantic denoise", "collaborative content", "collaborative denoise"},
    "drpn-dg": {"semantic content"},
    "drpn-n": {"semantic content", "semantic denoise", "collaborative content", "collaborative denoise"},
    "drpn-p": {"semantic content", "semantic denoise", "collaborative content", "collaborative denoise"},
}
UNREAD = {"drpn-n": "skipped", "drpn-p": "clicked"}


def lengths(dataset: Dataset) -> tuple[np.ndarray, np.ndarray]:
    return np.count_nonzero(dataset.clicked, axis=1), np.count_nonzero(dataset.skipped, axis=1)


def sample_users(dataset: Dataset) -> list[int]:
    """Return users with the most clicks, with both sides, without clicks, without skips (if any) and with nothing."""
    clicked, skipped = lengths(dataset)
    kinds = [(clicked > 2) & (skipped > 2), (clicked == 0) & (skipped > 0), (clicked > 0) & (skipped == 0)]
    examples = [int(np.flatnonzero(kind)[0]) for kind in kinds if kind.any()]
    return [int(np.argmax(clicked)), *examples, 0]


def last_impression(dataset: Dataset) -> tuple[list[int], list[bool]]:
    test = dataset.impressions("test")
    place = slice(*test.offsets[-2:].tolist())
    return test.candidates[place].tolist(), test.clicked[place].tolist()


def all_views(model: Drpn, tables: Tables, user: int, candidates: list[int]) -> tuple[dict[str, ViewMatch], Tensor]:
    """Return views and scores computed with all stories encoded, not only those that are needed."""
    with torch.no_grad():
        encoded = model.encode_news(tables.news)
        batch = tables.batch(torch.tensor([user]), torch.tensor([candidates], dtype=torch.int32))
        return match_views(model, encoded, batch.of_all_stories()), model.score(encoded, batch.of_all_stories())[0]


@every_variant
def test_weights_of_each_aggregator_sum_to_1(name: str, build: Build, tables: Tables, newsroom: Dataset) -> None:
    for user in sample_users(newsroom):
        traced = trace(build(name), tables, newsroom, user, last_impression(newsroom)[0])
        for side in ("clicked", "skipped"):
            stories = getattr(traced, side)
            expected = set() if UNREAD.get(name) == side else AGGREGATORS[name]
            assert all(set(story.weights) == expected for story in stories)
            for aggregator in expected if stories else ():
                assert sum(story.weights[aggregator] for story in stories) == pytest.approx(1)


@every_variant
def test_scores_parts_and_fusion_equal_those_of_the_model(
    name: str, build: Build, tables: Tables, newsroom: Dataset
) -> None:
    model, (candidates, clicked) = build(name), last_impression(newsroom)
    for user in sample_users(newsroom):
        traced = trace(model, tables, newsroom, user, candidates, clicked).candidates
        views, scores = all_views(model, tables, user, candidates)
        assert [candidate.score for candidate in traced] == pytest.approx(scores.tolist(), abs=1e-9)
        assert [sum(candidate.parts.values()) for candidate in traced] == pytest.approx(scores.tolist(), abs=1e-9)
        assert [candidate.clicked for candidate in traced] == clicked
        for view, viewed in views.items():
            assert [candidate.parts[view] for candidate in traced] == pytest.approx(viewed.score[0].tolist(), abs=1e-9)
            interests = model.semantic.interests
            assert all(list(candidate.fusion[view]) == interests for candidate in traced)
            for place, beta in enumerate(viewed.beta[0].tolist()):
                assert list(traced[place].fusion[view].values()) == pytest.approx(beta, abs=1e-9)
        assert all(set(candidate.parts) == set(candidate.fusion) == set(views) for candidate in traced)


def test_ranks_follow_scores_and_ties_keep_their_order(build: Build, tables: Tables, newsroom: Dataset) -> None:
    candidates = [7, 5, 9, 5, 11]  # story 5 twice: two equal scores
    traced = trace(build("drpn"), tables, newsroom, sample_users(newsroom)[0], candidates)
    assert sorted(candidate.rank for candidate in traced.candidates) == [1, 2, 3, 4, 5]
    scores = [candidate.score for candidate in traced.ranked()]
    assert scores == sorted(scores, reverse=True)
    assert traced.candidates[3].rank == traced.candidates[1].rank + 1
    assert all(candidate.clicked is None for candidate in traced.candidates)


def test_profile_stories_keep_the_order_of_the_dataset_and_have_opinions(
    build: Build, tables: Tables, newsroom: Dataset
) -> None:
    user = sample_users(newsroom)[0]
    traced = trace(build("drpn"), tables, newsroom, user, [1])
    views, _ = all_views(build("drpn"), tables, user, [1])
    for side in ("clicked", "skipped"):
        rows = [row for row in getattr(newsroom, side)[user].tolist() if row]
        stories = getattr(traced, side)
        assert [story.news_id for story in stories] == [newsroom.news_ids[row] for row in rows]
        assert [story.title for story in stories] == [newsroom.titles[row] for row in rows]
        assert [story.topic for story in stories] == [newsroom.subcategory(row) for row in rows]
        opinions = newsroom.arrays.array(f"users/{side}_opinion")[user, : len(rows)].tolist()
        assert [story.opinion for story in stories] == opinions
        assert {story.cause for story in stories if story.opinion == 1} <= {
            {"clicked": "interest", "skipped": "missed"}[side]
        }
        weights = views["collaborative"].weights[f"{side} denoise"][0, : len(rows)].tolist()
        assert [story.weights["collaborative denoise"] for story in stories] == pytest.approx(weights)
        trusted = [traced.trust(story) for story in traced.by_trust(side)]
        assert trusted == sorted((story.weights["semantic denoise"] for story in stories), reverse=True)


def test_opinions_are_unknown_in_a_real_log(build: Build, tables: Tables, newsroom: Dataset) -> None:
    known = {name: checksum for name, checksum in newsroom.arrays.checksums.items() if "opinion" not in name}
    real = replace(newsroom, arrays=replace(newsroom.arrays, checksums=known))
    traced = trace(build("drpn"), tables, real, sample_users(newsroom)[0], [1])
    assert traced.clicked
    assert {(story.opinion, story.cause) for story in traced.clicked + traced.skipped} == {(None, "")}


@every_variant
def test_the_padding_user_without_candidates_has_an_empty_trace(
    name: str, build: Build, tables: Tables, newsroom: Dataset
) -> None:
    traced = trace(build(name), tables, newsroom, 0, [])
    assert (traced.user_id, traced.clicked, traced.skipped, traced.candidates) == ("", (), (), ())
    assert traced.aggregator == ("semantic denoise" if build(name).settings.denoise else "semantic content")


def test_a_trace_can_be_written_as_json(build: Build, tables: Tables, newsroom: Dataset) -> None:
    traced: Trace = trace(build("drpn"), tables, newsroom, sample_users(newsroom)[0], *last_impression(newsroom))
    document = json.loads(json.dumps(traced.as_dict()))
    assert document["clicked"][0]["weights"] == traced.clicked[0].weights
    assert document["candidates"][0]["fusion"] == traced.candidates[0].fusion


@every_variant
@pytest.mark.parametrize("kind", ["denoise", "content"])
def test_profile_weights_equal_those_of_the_traces(
    name: str, kind: str, build: Build, tables: Tables, newsroom: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        import_module("drpn.explanation.trace"), "USERS_AT_ONCE", 3
    )  # so that there are several batches
    model, users = build(name), [*sample_users(newsroom), 5, 6, 7]
    by_side = profile_weights(model, tables, users, kind)
    read = [side for side in ("clicked", "skipped") if UNREAD.get(name) != side]
    assert list(by_side) == (read if kind == "content" or model.settings.denoise else [])
    for side, weights in by_side.items():
        assert weights.shape == (len(users), getattr(newsroom, side).shape[1])
        for row, user in enumerate(users):
            stories = getattr(trace(model, tables, newsroom, user, []), side)
            expected = np.zeros(weights.shape[1])
            expected[: len(stories)] = [story.weights[f"semantic {kind}"] for story in stories]
            np.testing.assert_allclose(weights[row], expected, atol=1e-6)


@every_variant
def test_weights_of_every_aggregator_equal_those_of_the_traces(
    name: str, build: Build, tables: Tables, newsroom: Dataset
) -> None:
    model, users = build(name), [*sample_users(newsroom)[:2], 5]
    by_aggregator = aggregator_weights(model, tables, users)
    traces = [trace(model, tables, newsroom, user, []) for user in users]
    measured = {(aggregator, side) for aggregator, by_side in by_aggregator.items() for side in by_side}
    for aggregator, side in measured:
        for row, traced in enumerate(traces):
            weights = [story.weights[aggregator] for story in getattr(traced, side)]
            np.testing.assert_allclose(by_aggregator[aggregator][side][row][: len(weights)], weights, atol=1e-6)
    views = {"semantic", "collaborative"} if model.settings.graph else {"semantic"}
    assert {(*aggregator.split(" "), side) for aggregator, side in measured} == {
        (view, kind, side)
        for view in views
        for kind in (("content", "denoise") if model.settings.denoise else ("content",))
        for side in model.reads
    }


class Constant(ClickModel):
    """A model without aggregator weights."""

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
