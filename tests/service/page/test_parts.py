"""Quantiles, shades and cards, without a service."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drpn.bundle.card import card
from drpn.drawing import case
from drpn.service.page.card import sections_of
from drpn.service.page.figures import quantile
from drpn.service.page.view import shade


def test_quantile_is_linear_within_a_bucket() -> None:
    buckets = {0.001: 0.0, 0.005: 10.0, 0.01: 20.0, math.inf: 20.0}
    assert quantile(buckets, 0.25) == pytest.approx(0.003)
    assert quantile(buckets, 0.5) == pytest.approx(0.005)
    assert quantile(buckets, 0.75) == pytest.approx(0.0075)


def test_quantile_without_requests_and_beyond_the_last_bound() -> None:
    assert quantile({}, 0.5) is None
    assert quantile({1.0: 0.0, math.inf: 0.0}, 0.5) is None
    assert quantile({1.0: 1.0, math.inf: 100.0}, 0.5) == math.inf


@given(st.lists(st.floats(0, 9.9), min_size=1), st.floats(0.01, 1))
def test_quantile_lies_in_the_bucket_of_the_exact_one(times: list[float], share: float) -> None:
    bounds = [0.5, 1.0, 2.5, 5.0, 10.0, math.inf]
    buckets = {bound: float(sum(time <= bound for time in times)) for bound in bounds}
    estimate = quantile(buckets, share)
    exact = sorted(times)[math.ceil(share * len(times) - 1e-9) - 1]
    upper = next(bound for bound in bounds if exact <= bound)
    lower = max((bound for bound in bounds if bound < upper), default=0.0)
    assert estimate is not None
    assert lower - 1e-9 <= estimate <= upper + 1e-9


def test_shades_are_those_of_the_drawing() -> None:
    steps = [shade(weight / 100, 10) for weight in range(1, 31)]
    assert steps == sorted(steps)
    assert (shade(0.05, 10), shade(0.1, 10), shade(0.2, 10)) == (0, 5, 9)
    assert (shade(0.0, 10), shade(1.0, 1), shade(1.0, 10)) == (0, 5, 9)
    for weight in (0.03, 0.07, 0.12, 0.18, 0.4):
        pale, deep, colour = (np.array(case.shade(one, 10)) for one in (0.05, 0.2, weight))
        depth = np.abs(colour - pale).sum() / np.abs(deep - pale).sum()
        assert shade(weight, 10) == int(9 * depth + 0.5)


def test_card_of_a_bundle_is_read_in_its_order() -> None:
    manifest = {
        "model": "drpn",
        "data": {
            "statistics": {"users": 12, "news": 34, "impressions": {"train": 5, "test": 6}},
            "sources": [{"name": "<b>_news*.csv", "sha256": "0" * 64}],
            "profiles_as_of": "2026-01-01 00:00:00",
        },
        "metrics": {"auc": 0.61},
        "settings": {"heads": 4},
        "drpn": "0.1.0",
    }
    title, data, metrics, settings = sections_of(card(manifest))
    assert title.heading == "drpn"
    assert data.heading == "Data"
    assert isinstance(data.blocks[0], str)
    assert data.blocks[1] == ["<b>_news*.csv, sha256 0000000000000000…"]
    assert "2026-01-01" in str(data.blocks[2])
    assert metrics.blocks == [["auc: 0.61"]]
    assert settings.blocks[0] == ["heads = 4"]
