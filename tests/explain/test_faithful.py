"""Leaving out what is trusted: held to loops, and to a model in which one news decides everything."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from drpn.batches.tables import Tables
from drpn.dataset.folder import Dataset
from drpn.explain.faithful import faithfulness
from drpn.explain.trace import trace
from drpn.models.base import Encoded
from drpn.models.drpn import Drpn

Build = Callable[[str], Drpn]


def scores(model: Drpn, encoded: Encoded, tables: Tables, user: int, shown: list[int]) -> list[float]:
    batch = tables.batch(torch.tensor([user]), torch.tensor([shown], dtype=torch.int32))
    return model.score(encoded, batch)[0].tolist()


@torch.no_grad()
def moves_by_loops(model: Drpn, tables: Tables, dataset: Dataset, side: str, which: int) -> list[float]:
    """For each user the mean move without the news at a place of those ranked by trust."""
    test, found, encoded = dataset.impressions("test"), {}, model.encode_news(tables.news)
    for place, user in enumerate(test.users.tolist()):
        shown = test.candidates[test.offsets[place] : test.offsets[place + 1]].tolist()
        traced = trace(model, tables, dataset, user, shown)
        if len(getattr(traced, side)) < 2 or len(shown) < 2:
            continue
        slot = getattr(traced, side).index(traced.by_trust(side)[which])
        sequences = getattr(tables, side).clone()
        # without a news the rest moves up, so that padding stays at the end
        sequences[user] = torch.tensor([row for at, row in enumerate(sequences[user].tolist()) if at != slot] + [0])
        before = scores(model, encoded, tables, user, shown)
        after = scores(model, encoded, replace(tables, **{side: sequences}), user, shown)
        changes = [new - old for new, old in zip(after, before, strict=True)]
        shared = sum(changes) / len(changes)
        found.setdefault(user, []).append(sum(abs(change - shared) for change in changes) / len(changes))
    return [sum(moves) / len(moves) for moves in found.values()]


@pytest.mark.parametrize(("name", "side"), [("drpn", "clicked"), ("drpn-d", "clicked"), ("drpn-p", "skipped")])
def test_the_measure_is_that_of_the_loops(
    name: str, side: str, build: Build, tables: Tables, newsroom: Dataset
) -> None:
    model = build(name)
    found = faithfulness(model, tables, newsroom.impressions("test"), np.random.default_rng(0))
    assert found.side == side
    for which, mean in ((0, found.most), (-1, found.least)):
        moves = moves_by_loops(model, tables, newsroom, side, which)
        assert found.users == len(moves) > 5
        assert mean == pytest.approx(np.mean(moves), rel=1e-6)


def decided_by_one(model: Drpn) -> Drpn:
    """Scores come from the clicked denoising aggregator alone, and there nearly all weight is on one news.

    Trust depends on the news itself (what it reads of the sequences counts nothing) and is so steep that the largest
    takes all.
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


def test_where_one_news_decides_leaving_it_out_moves_scores_and_leaving_another_out_does_not(
    build: Build, tables: Tables, newsroom: Dataset
) -> None:
    model = decided_by_one(build("drpn-g"))
    found = faithfulness(model, tables, newsroom.impressions("test"), np.random.default_rng(0))
    assert found.most > found.random > found.least
    assert found.least < 1e-3 * found.most
    assert found.most > 0.05 * found.spread
    # a random news is the decisive one at times, and then both move alike; else only the decisive one moves anything
    assert found.most_less_random.shape == (found.users,)
    assert found.most_less_random.mean() == pytest.approx(found.most - found.random)
    assert found.most_less_random.min() > -1e-3 * found.most


def test_a_drawn_sample_depends_on_the_generator_alone(build: Build, tables: Tables, newsroom: Dataset) -> None:
    test = newsroom.impressions("test")
    first, again, other = (
        faithfulness(build("drpn"), tables, test, np.random.default_rng(seed), users=3) for seed in (1, 1, 2)
    )
    assert first.users == 3
    assert first.most_less_random.tolist() == again.most_less_random.tolist()
    assert first.most != other.most


def test_nobody_to_measure_on_gives_nan(build: Build, tables: Tables, newsroom: Dataset) -> None:
    test = newsroom.impressions("test")
    unknown = replace(test, users=np.zeros_like(test.users))
    found = faithfulness(build("drpn"), tables, unknown, np.random.default_rng(0))
    assert found.users == len(found.most_less_random) == 0
    assert math.isnan(found.most)
    assert math.isnan(found.spread)
