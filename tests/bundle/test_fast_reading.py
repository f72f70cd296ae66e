"""Users that are read one at a time, without padding, are those that the model reads."""

from pathlib import Path

import numpy as np
import pytest
import torch

from contract_cases import PLANTED_PARTS, draw_calibrations
from drpn.batches.batch import Context, Profiles
from drpn.bundle.context import Asked
from drpn.bundle.fast_reading import FastReader
from drpn.bundle.files import Bundle
from drpn.bundle.recommender import Recommender
from drpn.bundle.scoring import ProfileStories, Scorer, derived_tables
from drpn.dataset.folder import Dataset
from drpn.layers.labels import trust_labels_alone
from drpn.models.drpn import Drpn
from live_newsroom import CPU, END, STORIES, VIEWS, make_bundle, make_dataset, make_model

LABELS_ALONE = "drpn-planted, labels alone"
MODELS = (
    "drpn",
    "drpn-d",
    "drpn-g",
    "drpn-g-ids",
    "drpn-dg",
    "drpn-n",
    "drpn-p",
    "drpn-planted",
    LABELS_ALONE,
    *PLANTED_PARTS,
)
LENGTHS = ((3, 5), (1, 1), (1, 0), (0, 4), (2, 0), (0, 0), (12, 20))


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return make_dataset(tmp_path_factory.mktemp("reading"), VIEWS, "paper")


def recommender_of(folder: Path, dataset: Dataset, name: str) -> Recommender:
    """A model with random weights throughout, so that no part of it is zero."""
    settings, alone, name = PLANTED_PARTS.get(name, {}), name == LABELS_ALONE, name.partition(",")[0]
    model = make_model(dataset, name, **settings)
    chance = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for weights in model.parameters():
            weights += 0.3 * torch.randn(weights.shape, generator=chance)
        draw_calibrations(model)
        if alone:
            trust_labels_alone(model, True)
    bundle = Bundle.open(make_bundle(folder / "bundle", dataset, model, name))
    return Recommender(bundle, CPU, derived_tables)


@pytest.mark.parametrize("name", MODELS)
def test_interests_are_those_of_the_model(tmp_path: Path, dataset: Dataset, name: str) -> None:
    recommender = recommender_of(tmp_path, dataset, name)
    model = recommender.model
    assert isinstance(model, Drpn)
    places = recommender.stories.positions(STORIES)
    with torch.no_grad():
        reader = FastReader(model)
        for clicks, skips in LENGTHS:
            clicked, skipped = torch.tensor(places[:clicks]), torch.tensor(places[-skips:] if skips else [])
            # the model pads; positions 0 are padding
            padded = (torch.cat([side.long(), torch.zeros(3).long()])[None] for side in (clicked, skipped))
            expected = model.read(recommender.stories.encoded, Profiles(torch.zeros(1).long(), *padded))
            sides = {"clicked": clicked.long(), "skipped": skipped.long()}
            read = reader.read(recommender.stories.encoded, {side: sides[side] for side in model.reads})
            assert list(read) == list(expected)
            for view in expected:
                torch.testing.assert_close(read[view].interests, expected[view].interests, atol=2e-6, rtol=1e-5)
                torch.testing.assert_close(read[view].user, expected[view].user, atol=2e-6, rtol=1e-5)


def test_a_kept_user_is_read_again_when_the_fast_tables_are_gone(tmp_path: Path, dataset: Dataset) -> None:
    recommender = recommender_of(tmp_path, dataset, "drpn")
    scorer = Scorer(recommender.model, recommender.tables, recommender.stories)
    read = scorer.read([ProfileStories(0, ("n11", "n12"), ("n20", "n21"))])[0]
    assert read.fast is not None
    positions, context = torch.tensor(recommender.stories.positions(STORIES)), Context(torch.tensor([0]))
    before = scorer.scores(read, positions, context).numpy()
    recommender.stories.derived = None  # as after a story whose numbers are too large
    np.testing.assert_allclose(scorer.scores(read, positions, context).numpy(), before, atol=1e-4, rtol=1e-5)


@pytest.mark.parametrize("name", ["drpn-live", "drpn-live-ids", "drpn-live-no-text", "drpn-live-no-user"])
def test_scores_with_counts_are_those_of_the_model(tmp_path: Path, name: str) -> None:
    recommender = recommender_of(tmp_path, make_dataset(tmp_path / "live", VIEWS, "live"), name)
    scorer, counts, stories = (
        Scorer(recommender.model, recommender.tables, recommender.stories),
        recommender.counts,
        recommender.stories,
    )
    assert counts is not None
    asked = Asked("u1", counts.rows(STORIES), int(END.timestamp()), None, {})
    context, places = counts.at_each([asked])[0], stories.positions(STORIES)
    clicked, skipped = ("n11", "n12"), ("n20", "n21", "n22")
    scores = scorer.scores(scorer.read([ProfileStories(0, clicked, skipped)])[0], torch.tensor(places), context)
    with torch.no_grad():
        sides = (torch.tensor([stories.positions(side)]) for side in (clicked, skipped))
        readers = recommender.model.read(stories.encoded, Profiles(torch.zeros(1).long(), *sides))
        expected = recommender.model.rank(stories.encoded, readers, torch.tensor([places]), context)[0]
    np.testing.assert_allclose(scores.numpy(), expected.numpy(), atol=1e-5, rtol=1e-5)
