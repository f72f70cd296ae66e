"""Faithfulness compared with loops, and in a model in which one story decides every score."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from drpn.batches.tables import Tables
from drpn.dataset.folder import Dataset
from drpn.explanation.faithful import faithfulness
from drpn.explanation.trace import trace
from drpn.models.base import Encoded
from drpn.models.drpn import Drpn

Build = Callable[[str], Drpn]


def scores(model: Drpn, encoded: Encoded, tables: Tables, user: int, shown: list[int]) -> list[float]:
    batch = tables.batch(torch.tensor([user]), torch.tensor([shown], dtype=torch.int32))
    return model.score(encoded, batch)[0].tolist()


@torch.no_grad()
def moves_by_loops(model: Drpn, tables: Tables, dataset: Dataset, side: str, which: int) -> list[float]:
    """Return the mean score change of each user without the story at place `which` in the order of trust."""
    test, by_user, encoded = dataset.impressions("test"), {}, model.encode_news(tables.news)
    for place, user in enumerate(test.users.tolist()):
        shown = test.candidates[test.offsets[place] : test.offsets[place + 1]].tolist()
        traced = trace(model, tables, dataset, user, shown)
        if len(getattr(traced, side)) < 2 or len(shown) < 2:
            continue
        slot = getattr(traced, side).index(traced.by_trust(side)[which])
        sequences = getattr(tables, side).clone()
        # later stories move up, so that padding stays at the end
        sequences[user] = torch.tensor([row for at, row in enumerate(sequences[user].tolist()) if at != slot] + [0])
        before = scores(model, encoded, tables, user, shown)
        after = scores(model, encoded, replace(tables, **{side: sequences}), user, shown)
        changes = [new - old for new, old in zip(after, before, strict=True)]
        shared = sum(changes) / len(changes)
        by_user.setdefault(user, []).append(sum(abs(change - shared) for change in changes) / len(changes))
    return [sum(moves) / len(moves) for moves in by_user.values()]


@pytest.mark.parametrize(("name", "side"), [("drpn", "clicked"), ("drpn-d", "clicked"), ("drpn-p", "skipped")])
def test_faithfulness_equals_that_of_the_loops(
    name: str, side: str, build: Build, tables: Tables, newsroom: Dataset
) -> None:
    model = build(name)
    result = faithfulness(model, tables, newsroom.impressions("test"), np.random.default_rng(0))
    assert result.side == side
    for which, mean in ((0, result.most), (-1, result.least)):
        moves = moves_by_loops(model, tables, newsroom, side, which)
        assert result.users == len(moves) > 5
        assert mean == pytest.approx(np.mean(moves), rel=1e-6)


def decided_by_one(model: Drpn) -> Drpn:
    """Change the model so that scores come only from the clicked denoising aggregator, with its weight on one story.

    Trust depends only on the story itself, not on the sequences, and differs so much that the largest takes all weight.
    """
    with torch.no_grad():
        denoise = model.semantic.sides["clicked"].denoise
        denoise.similar.read.weight.zero_()
        denoise.gamma.zero_()
        denoise.similar.out.weight.mul_(1e4)
        model.semantic.fusion.out.zero_()
        chosen = model.semantic.interests.index("clicked denoise")
        model.semantic.fusion.bias.copy_(torch.eye(len(model.semantic.interests))[chosen])
    return model


def test_only_leaving_out_the_decisive_story_changes_scores(build: Build, tables: Tables, newsroom: Dataset) -> None:
    model = decided_by_one(build("drpn-g"))
    result = faithfulness(model, tables, newsroom.impressions("test"), np.random.default_rng(0))
    assert result.most > result.random > result.least
    assert result.least < 1e-3 * result.most
    assert result.most > 0.05 * result.spread
    # a random story is sometimes the decisive one, with the same change; otherwise it changes almost nothing
    assert result.most_less_random.shape == (result.users,)
    assert result.most_less_random.mean() == pytest.approx(result.most - result.random)
    assert result.most_less_random.min() > -1e-3 * result.most


def test_the_sample_of_users_depends_on_the_generator_only(build: Build, tables: Tables, newsroom: Dataset) -> None:
    test = newsroom.impressions("test")
    first, again, other = (
        faithfulness(build("drpn"), tables, test, np.random.default_rng(seed), users=3) for seed in (1, 1, 2)
    )
    assert first.users == 3
    assert first.most_less_random.tolist() == again.most_less_random.tolist()
    assert first.most != other.most


def test_without_eligible_users_the_result_is_nan(build: Build, tables: Tables, newsroom: Dataset) -> None:
    test = newsroom.impressions("test")
    unknown = replace(test, users=np.zeros_like(test.users))
    result = faithfulness(build("drpn"), tables, unknown, np.random.default_rng(0))
    assert result.users == len(result.most_less_random) == 0
    assert math.isnan(result.most)
    assert math.isnan(result.spread)
