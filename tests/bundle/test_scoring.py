"""Scores from kept profiles are those of the model, for every model."""

from pathlib import Path

import numpy as np
import pytest
import torch

from drpn.batches.batch import Context
from drpn.bundle.fast_fusion import LIMIT
from drpn.bundle.files import Bundle
from drpn.bundle.recommender import Recommender
from drpn.bundle.scoring import ProfileStories, Scorer, derived_tables
from drpn.bundle.stories import NewStory
from drpn.dataset.folder import Dataset
from live_newsroom import CPU, STORIES, VIEWS, make_bundle, make_dataset, make_model

MODELS = ("drpn", "drpn-d", "drpn-g", "drpn-n", "libfm", "deepfm", "lstur", "npa", "deers", "dfn", "naml", "nrms")
PROFILES = [
    ProfileStories(0, ("n11", "n12", "n13"), ("n20",)),
    ProfileStories(2, ("n30",), ()),
    ProfileStories(0, (), ()),
    ProfileStories(3, ("n15", "n16", "n17", "n18"), ("n21", "n22", "n23", "n24", "n25")),
]


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return make_dataset(tmp_path_factory.mktemp("scoring"), VIEWS, "paper")


def scorer_of(folder: Path, dataset: Dataset, name: str) -> tuple[Scorer, Recommender]:
    bundle = Bundle.open(make_bundle(folder / "bundle", dataset, make_model(dataset, name), name))
    recommender = Recommender(bundle, CPU, derived_tables)
    return Scorer(recommender.model, recommender.tables, recommender.stories), recommender


def one_by_one(scorer: Scorer, recommender: Recommender) -> list[np.ndarray]:
    positions = torch.tensor(recommender.stories.positions(STORIES))
    context = Context(torch.tensor([1_767_225_600]))
    return [scorer.scores(scorer.read([profile])[0], positions, context).numpy() for profile in PROFILES]


@pytest.mark.parametrize("name", MODELS)
def test_users_read_together_have_the_scores_of_users_read_alone(tmp_path: Path, dataset: Dataset, name: str) -> None:
    scorer, recommender = scorer_of(tmp_path, dataset, name)
    positions = torch.tensor(recommender.stories.positions(STORIES))
    context = Context(torch.tensor([1_767_225_600]))
    together = [scorer.scores(read, positions, context).numpy() for read in scorer.read(PROFILES)]
    for one, joint in zip(one_by_one(scorer, recommender), together, strict=True):
        np.testing.assert_allclose(joint, one, atol=1e-5)


def test_fast_scores_are_those_of_the_model(tmp_path: Path, dataset: Dataset) -> None:
    scorer, recommender = scorer_of(tmp_path, dataset, "drpn")
    fast = one_by_one(scorer, recommender)
    assert recommender.stories.derived is not None
    recommender.stories.derived = None
    for one, plain in zip(fast, one_by_one(scorer, recommender), strict=True):
        np.testing.assert_allclose(one, plain, atol=1e-5)


def test_numbers_that_are_too_large_take_the_plain_formula(tmp_path: Path, dataset: Dataset) -> None:
    model = make_model(dataset, "drpn")
    with torch.no_grad():
        model.semantic.fusion.candidate.weight.mul_(1e4)  # type: ignore[union-attr,operator]
        model.semantic.fusion.user.weight.mul_(1e4)  # type: ignore[union-attr,operator]
    bundle = Bundle.open(make_bundle(tmp_path / "bundle", dataset, model, "drpn"))
    fast, plain = Recommender(bundle, CPU, derived_tables), Recommender(bundle, CPU)
    scores = [one_by_one(Scorer(one.model, one.tables, one.stories), one) for one in (fast, plain)]
    assert fast.stories.encoded["semantic"].candidate[1:4].abs().max() > LIMIT
    for one, other in zip(*scores, strict=True):
        assert np.isfinite(one).all()
        np.testing.assert_allclose(one, other, atol=1e-4, rtol=1e-5)


def test_tables_may_grow_while_a_user_is_read(tmp_path: Path, dataset: Dataset) -> None:
    scorer, recommender = scorer_of(tmp_path, dataset, "drpn")
    recommender.add([NewStory("goal storm", news_id=f"late{number}") for number in range(50)])
    filled = len(recommender.stories.encoded["semantic"].plain)
    profile = ProfileStories(0, tuple(STORIES[:20]), ())
    read = scorer.read([profile])[0]
    assert len(recommender.stories.encoded["semantic"].plain) > filled
    recommender.add([NewStory("bank", news_id="later")])
    other, fresh = scorer_of(tmp_path / "again", dataset, "drpn")
    context = Context(torch.tensor([0]))
    scores = [
        one.scores(known, torch.tensor(room.stories.positions(STORIES[:9])), context).numpy()
        for one, known, room in ((scorer, read, recommender), (other, other.read([profile])[0], fresh))
    ]
    np.testing.assert_allclose(*scores, atol=1e-6)
