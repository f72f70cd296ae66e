"""Models learn, training stops when it should, and the same seed gives the same weights."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from drpn.batches.tables import Tables
from drpn.dataset.folder import Dataset
from drpn.layers.news import IdVectors
from drpn.models.catalogue import CATALOGUE
from drpn.progress import Silent
from drpn.training.loop import CHECKPOINT
from small_training import CPU, toy, train_small, weights


def test_weights_depend_on_the_seed_alone(data: Path, tmp_path: Path) -> None:
    first = train_small(data, tmp_path / "first", seed=3, epochs=1)
    torch.rand(7)  # earlier random draws in the process do not matter
    again = train_small(data, tmp_path / "again", seed=3, epochs=1)
    other = train_small(data, tmp_path / "other", seed=4, epochs=1)
    assert weights(first) == weights(again)
    assert weights(first) != weights(other)


def test_training_stops_when_patience_is_used_up(tmp_path: Path) -> None:
    """The second AUC of 0.5 0.7 0.6 0.7 is the best; the next two are not better, and the patience is two."""
    loop = toy(epochs=10, patience=2)(tmp_path)
    aucs = iter([0.5, 0.7, 0.6, 0.7, 0.9])
    states: list[dict[str, Tensor]] = []

    def validate(model: torch.nn.Module) -> float:
        states.append({name: value.clone() for name, value in model.state_dict().items()})
        return next(aucs)

    trained = loop.run(validate, resume=False)
    assert (len(states), trained.best_epoch, trained.best_auc) == (4, 1, 0.7)
    assert [point["validation_auc"] for point in trained.curve] == [0.5, 0.7, 0.6, 0.7]
    weights_after = loop.model.state_dict()
    assert all(torch.equal(weights_after[name], value) for name, value in states[1].items())
    assert any(not torch.equal(weights_after[name], value) for name, value in states[3].items())


def test_training_stops_after_the_last_epoch(tmp_path: Path) -> None:
    aucs = iter([0.5, 0.6, 0.7])
    trained = toy(epochs=3, patience=1)(tmp_path).run(lambda _: next(aucs), resume=False)
    assert trained.best_epoch == 2
    assert len(trained.curve) == 3


@pytest.mark.parametrize("name", CATALOGUE)
def test_the_loss_falls(name: str, tmp_path: Path) -> None:
    """64 clicks can be memorised; random scores would have a loss of log 4 = 1.39, without a planted loss."""
    # NAML starts slowly, while its views are still alike; the word vectors of drpn-live-no-counts stay fixed
    epochs = {"naml": 30, "naml-tce": 30, "drpn-live-no-counts": 60}.get(name, 18)
    chosen = {"epochs": epochs, "patience": epochs, "rate": 5e-3, "planted": 0.0}  # the click loss alone
    trained = toy(name, **chosen)(tmp_path).run(lambda _: 0.5, resume=False)
    losses = [point["loss"] for point in trained.curve]
    assert losses[0] < 1.6
    assert losses[-1] < 0.7 * losses[0], losses


@pytest.mark.parametrize("name", ["drpn", "drpn-n", "libfm"])
def test_only_stories_of_training_batches_keep_their_id_vectors(name: str, tmp_path: Path) -> None:
    """Candidates of the samples, profiles of their users as far as they are read, and DRPN's graph neighbours."""
    loop = toy(name, epochs=1)(tmp_path)
    few = replace(loop.sampler.clicks, **{part: getattr(loop.sampler.clicks, part)[:1] for part in ("readers", "news")})
    unread = {} if "skipped" in loop.model.reads else {"skipped": torch.zeros_like(loop.tables.skipped)}
    loop.tables = replace(loop.tables, **unread)  # as a dataset gives them
    loop.sampler = replace(loop.sampler, clicks=few, tables=loop.tables)
    loop.run(lambda _: 0.5, resume=False)
    plan, tables = loop.sampler.plan(0), loop.tables
    read = [plan.candidates, *(getattr(tables, side)[plan.readers] for side in loop.model.reads)]
    met = set(torch.cat([rows.flatten() for rows in read]).tolist())
    if name.startswith("drpn"):
        met |= {row for story in met for row in tables.news.neighbours[story].tolist()}
    (ids,) = (module for module in loop.model.modules() if isinstance(module, IdVectors) and len(module.met) == 60)
    assert 0 < len(met) < 59
    assert set(ids.met.nonzero().flatten().tolist()) - {0} == met - {0}


def share_ranked_right(data: Path, run: Path) -> float:
    """Return the share of the last day's pages, all with new stories, that score the wanted topic higher."""
    from drpn.evaluation.scoring import score_impressions
    from drpn.recipes.runs import Run

    dataset = Dataset.open(data)
    impressions = dataset.impressions("test")
    model = Run.open(run).bundle().model
    unwanted, wanted = (
        score_impressions(model, Tables.from_dataset(dataset, CPU), impressions, Silent()).reshape(-1, 2).T
    )
    assert impressions.clicked.reshape(-1, 2).tolist() == [[False, True]] * len(impressions)
    assert not dataset.arrays.array("news/times_shown")[impressions.candidates].any()
    return float((wanted > unwanted).mean())


def test_a_model_that_reads_skips_ranks_the_skipped_topic_last(data: Path, tmp_path: Path) -> None:
    """Clicks carry no information in this newsroom, so the model must use the skips."""
    run = train_small(data, tmp_path / "drpn", "drpn", epochs=8, patience=8, rate=5e-3)
    assert share_ranked_right(data, run) > 0.9


def test_a_model_that_reads_only_clicks_ranks_no_better_than_chance(data: Path, tmp_path: Path) -> None:
    run = train_small(data, tmp_path / "drpn-n", "drpn-n", epochs=8, patience=8, rate=5e-3)
    assert 0.25 < share_ranked_right(data, run) < 0.75


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")  # from the compiler
def test_bf16_on_a_gpu_trains_like_fp32(tmp_path: Path) -> None:
    losses = {}
    for precision in ("fp32", "bf16"):
        (tmp_path / precision).mkdir()
        loop = toy(device=torch.device("cuda"), precision=precision)(tmp_path / precision)
        losses[precision] = loop.run(lambda _: 0.5, resume=False).curve[0]["loss"]
        saved = load_file(tmp_path / precision / CHECKPOINT)
        assert all(value.isfinite().all() for name, value in saved.items() if name.startswith("model/"))
        floats = [value for name, value in saved.items() if name.startswith("model/") and value.is_floating_point()]
        assert all(value.dtype == torch.float32 for value in floats)
    assert math.isfinite(losses["bf16"])
    assert losses["bf16"] == pytest.approx(losses["fp32"], abs=0.05)
    assert losses["bf16"] != losses["fp32"]
