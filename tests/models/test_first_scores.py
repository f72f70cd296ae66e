"""Scores that start small."""

import math
from pathlib import Path

import pytest
import torch

import live_site
from drpn.training.batch_loss import BatchLoss, Samples
from small_training import curve, toy, train_small


@pytest.mark.parametrize("name", ["drpn", "drpn-d", "drpn-g", "drpn-p"])
def test_scores_are_multiplied(name: str, tmp_path: Path) -> None:
    """Those of all views, for every candidate."""
    loop = toy(name)(tmp_path)
    model = loop.model.eval()
    samples = Samples(*next(loop.sampler.plan(0).batches(16)))
    news, batch = BatchLoss(model, loop.tables, loop.settings).look_up(samples)
    with torch.no_grad():
        before = model.score(model.encode_news(news), batch)
        model.scale_scores(0.1)
        after = model.score(model.encode_news(news), batch)
    assert before.abs().max() > 0.1
    torch.testing.assert_close(after, 0.1 * before, rtol=1e-4, atol=1e-6)


def test_a_training_starts_with_the_scores_of_its_settings(tmp_path: Path) -> None:
    """Without a step that matters: small scores have the loss of a blind guess among a click and its negatives."""
    data = live_site.prepared(tmp_path / "data", live_site.impressions(), live_site.LIVE).path
    chosen = {"epochs": 1, "rate": 1e-12, "negatives": 1}
    plain = curve(train_small(data, tmp_path / "plain", **chosen))[0]["loss"]
    small = curve(train_small(data, tmp_path / "small", **chosen, first_scores=1e-4))[0]["loss"]
    assert small == pytest.approx(math.log(2), abs=1e-3)
    assert plain != pytest.approx(math.log(2), abs=1e-2)
