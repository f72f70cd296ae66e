"""Models that read counts train on a folder of the live protocol, and on no other."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import live_site
from drpn.batches.samples import Clicks
from drpn.batches.tables import Tables
from drpn.bundle.files import data_shape
from drpn.dataset.folder import Dataset
from drpn.errors import FolderError
from drpn.evaluation.scoring import score_impressions
from drpn.models.catalogue import CATALOGUE
from drpn.preparation.settings import DataSettings
from drpn.progress import Silent
from drpn.recipes.train import train
from drpn.training.loop import Loop
from drpn.training.quantiles import fit_counts
from drpn.training.settings import TrainingSettings
from small_training import CPU, small

TRAINING = TrainingSettings(epochs=1, batch=8, device="cpu", threads=1, negatives=3)
DATA = replace(live_site.LIVE, user_neighbours=3)
BASELINES = [name for name, entry in CATALOGUE.items() if not name.startswith("drpn") and not name.endswith("-tce")]
MODELS = ["drpn", *(name for name in CATALOGUE if name.startswith("drpn-live")), *BASELINES]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return live_site.prepared(tmp_path_factory.mktemp("live"), live_site.impressions(), DATA).path


@pytest.mark.parametrize("name", MODELS)
def test_every_model_can_read_counts(name: str, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One epoch on a live folder; the context view learns, and its quantiles are those of training."""
    loops: list[Loop] = []
    run = Loop.run

    def noting(self: Loop, *arguments: object, **options: object) -> object:
        loops.append(self)
        return run(self, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Loop, "run", noting)
    settings = small(name, context=name != "drpn-live-no-counts", context_size=16)
    if name == "dkn":
        settings = replace(settings, channels="words")
    dataset = Dataset.open(data)
    torch.manual_seed(TRAINING.seed)
    fresh = CATALOGUE[name].model(settings, data_shape(dataset))
    train(data, tmp_path / "run", model=name, settings=settings, training=TRAINING, picture=False)
    view = loops[0].model.context
    if name == "drpn-live-no-counts":
        assert view is None
        return
    assert view is not None
    assert fresh.context is not None
    assert view.quantiles.spread.max() > 1
    before = dict(fresh.context.named_parameters())
    assert all(not torch.equal(value, before[key]) for key, value in view.named_parameters())


@pytest.mark.parametrize("name", ["drpn-live", "nrms"])
def test_a_folder_without_counts_is_refused(name: str, tmp_path: Path) -> None:
    settings = DataSettings(vector_size=0, validation=0.3)
    folder = live_site.prepared(tmp_path, live_site.impressions(), settings).path
    with pytest.raises(FolderError) as refusal:
        train(folder, tmp_path / "run", model=name, settings=small(name, context=True), training=TRAINING)
    assert str(refusal.value) == (
        f"{name} needs counts as of each impression, which {folder} lacks; prepare it again with data.protocol=live"
    )
    assert "--set data.protocol=live" in (refusal.value.hint or "")


def test_scores_of_drpn_live_depend_on_the_counts_of_the_impression(data: Path) -> None:
    """Other counts for the candidates of one impression change its scores and no others."""
    dataset = Dataset.open(data)
    settings = small("drpn-live", context_size=16)
    torch.manual_seed(1)
    model = CATALOGUE["drpn-live"].model(settings, data_shape(dataset))
    tables = Tables.from_dataset(model.limit(dataset), CPU, reads=model.reads, needs=model.requirements)
    split = dataset.impressions("test")
    fit_counts(model, tables, Clicks.from_impressions(dataset.impressions("train"), CPU), seed=0)
    before = score_impressions(model, tables, split, Silent())
    assert tables.counts is not None
    first, stop = (split.first_pair + split.offsets[place] for place in (2, 3))
    tables.counts.pairs[first:stop] += 1
    after = score_impressions(model, tables, split, Silent())
    changed = np.flatnonzero(before != after)
    assert changed.tolist() == list(range(split.offsets[2], split.offsets[3]))


def test_quantiles_come_from_clicks_and_skips_of_training_alone(data: Path) -> None:
    dataset = Dataset.open(data)
    model = CATALOGUE["drpn-live"].model(small("drpn-live"), data_shape(dataset))
    tables = Tables.from_dataset(dataset, CPU, needs=model.requirements)
    clicks = Clicks.from_impressions(dataset.impressions("train"), CPU)
    fit_counts(model, tables, clicks, seed=0)
    assert model.context is not None
    edges = model.context.quantiles.edges.clone()
    assert tables.counts is not None
    tables.counts.pairs[len(dataset.impressions("train").candidates) :] = 99
    fit_counts(model, tables, clicks, seed=0)
    assert torch.equal(model.context.quantiles.edges, edges)
