"""Batches include the neighbours of candidates and users; users without a training sample are row 0."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from batch_cases import make_row_batch
from drpn.batches.batch import NewsRows, RowBatch, count_distinct_stories, distinct_stories
from drpn.batches.ranking import ranking_batches
from drpn.batches.samples import Clicks
from drpn.batches.tables import Tables
from drpn.dataset.folder import Dataset
from drpn.dataset.requirements import REQUIREMENTS
from drpn.logs.simulate import SimulationSettings, simulate
from drpn.models.base import DataShape
from drpn.models.encode import encode_all
from drpn.preparation.settings import DataSettings
from drpn.recipes.prepare import prepare
from reads_everything import Everything, stirred

CPU = torch.device("cpu")
NEWS, USERS = 30, 12


def random_rows(high: int, *shape: int, seed: int = 0, zeros: float = 0.3) -> Tensor:
    random = np.random.default_rng(seed)
    values = random.integers(1, high, shape) * (random.random(shape) >= zeros)
    return torch.from_numpy(values.astype(np.int32))


@pytest.fixture
def news() -> NewsRows:
    """All stories of a dataset, so that rows and positions are the same."""
    rows = torch.arange(NEWS, dtype=torch.int32)
    neighbours, entities, abstract = (random_rows(NEWS, NEWS, 3, seed=seed) for seed in (1, 2, 3))
    neighbours[0] = 0
    zeros = torch.zeros_like(rows)
    words = random_rows(9, NEWS, 4)
    return NewsRows(rows, words, neighbours, zeros, zeros, entities, abstract, neighbours)


@pytest.fixture
def batch() -> RowBatch:
    clicked, skipped = random_rows(NEWS, 4, 3, seed=4), random_rows(NEWS, 4, 2, seed=5)
    return make_row_batch(
        torch.arange(1, 5), clicked, skipped, random_rows(NEWS, 4, 2, seed=6), random_rows(USERS, 4, 2, seed=7)
    )


def test_optional_fields_have_no_columns_by_default() -> None:
    zeros = torch.zeros(3, dtype=torch.int32)
    news = NewsRows(zeros, zeros[:, None], zeros[:, None], zeros, zeros)
    assert news.entities.shape == news.abstract.shape == news.neighbour_positions.shape == (3, 0)
    assert (
        news.part(slice(1, None)).neighbour_positions.shape
        == news.select(torch.tensor([2, 0])).neighbour_positions.shape
        == (2, 0)
    )
    assert make_row_batch(zeros, *[zeros[:, None]] * 3).profiles.neighbours.shape == (3, 0)


def test_select_renumbers_neighbour_positions(news: NewsRows) -> None:
    rows = torch.tensor([0, 7, 3, 19, 4, 0, 0])  # padding may also be at the end
    selected = news.select(rows)
    assert torch.equal(selected.neighbours, news.neighbours[rows])
    position = {int(row): number for number, row in enumerate(rows) if row}
    expected = [[position.get(row, 0) for row in neighbours] for neighbours in selected.neighbours.tolist()]
    assert selected.neighbour_positions.tolist() == expected
    again = selected.select(torch.tensor([0, 2, 1]))  # a selection of a selection
    swapped = {0: 0, 2: 1, 1: 2}
    assert again.neighbour_positions.tolist() == [
        [swapped.get(number, 0) for number in expected[row]] for row in (0, 2, 1)
    ]


def test_part_keeps_neighbour_positions(news: NewsRows) -> None:
    assert torch.equal(news.part(slice(4, 9)).neighbour_positions, news.neighbour_positions[4:9])


@pytest.mark.parametrize("spare", [None, 0, 5])
def test_distinct_stories_include_the_neighbours_of_candidates(
    news: NewsRows, batch: RowBatch, spare: int | None
) -> None:
    needed = int(count_distinct_stories(batch, news=NEWS, reach=news.neighbour_positions))
    capacity = None if spare is None else needed + spare
    rows, local = distinct_stories(batch, news=NEWS, capacity=capacity, reach=news.neighbour_positions)
    candidates = set(batch.candidates.flatten().tolist())
    neighbours = {other for row in candidates for other in news.neighbours[row].tolist()}
    held = {int(row) for part in (batch.profiles.clicked, batch.profiles.skipped) for row in part.flatten()}
    assert rows[:needed].tolist() == sorted({0} | candidates | neighbours | held)
    assert not rows[needed:].any()
    assert neighbours - candidates - held  # some stories are included only as neighbours
    assert int(count_distinct_stories(batch, news=NEWS)) < needed
    selected = news.select(rows)
    positions = selected.neighbour_positions[local.candidates]
    assert torch.equal(selected.rows[positions], news.neighbours[batch.candidates])
    assert torch.equal(local.profiles.neighbours, batch.profiles.neighbours)


@pytest.mark.parametrize("spare", [None, 7])
def test_encoding_all_stories_or_only_the_distinct_ones_gives_the_same_scores(
    news: NewsRows, batch: RowBatch, spare: int | None
) -> None:
    model = everything()
    expected = model.score(model.encode_news(news), batch.of_all_stories())
    capacity = (
        None if spare is None else int(count_distinct_stories(batch, news=NEWS, reach=news.neighbour_positions)) + spare
    )
    rows, local = distinct_stories(batch, news=NEWS, capacity=capacity, reach=news.neighbour_positions)
    torch.testing.assert_close(model.score(model.encode_news(news.select(rows)), local), expected)
    torch.testing.assert_close(model.score(encode_all(model, news, step=7), batch.of_all_stories()), expected)
    without_neighbours, local = distinct_stories(batch, news=NEWS)
    assert (model.score(model.encode_news(news.select(without_neighbours)), local) - expected).abs().max() > 0.1


def everything() -> Everything:
    shape = DataShape(news=NEWS, words=NEWS, users=USERS, categories=2, subcategories=2, entities=NEWS)
    return stirred(shape)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    folder = tmp_path_factory.mktemp("newsroom")
    simulate(folder / "logs", SimulationSettings(users=80, news=1_500, seed=4))
    return prepare(folder / "logs", folder / "data", DataSettings(user_neighbours=4, abstracts=7))


def test_users_without_a_training_sample_are_row_0(dataset: Dataset) -> None:
    known = set(Clicks.from_impressions(dataset.impressions("train"), CPU).readers.tolist())
    tables, all_users = Tables.from_dataset(dataset, CPU), torch.arange(len(dataset.user_ids))
    batch = tables.batch(all_users, torch.ones(len(all_users), 1, dtype=torch.int32))
    assert batch.profiles.users.tolist() == [row if row in known else 0 for row in range(len(all_users))]
    assert batch.profiles.users.dtype == all_users.dtype
    assert 0 < len(known) < len(all_users) - 1
    # their profiles are still read
    width = batch.profiles.clicked.shape[1]
    assert torch.equal(batch.profiles.clicked, torch.from_numpy(np.array(dataset.clicked[:, :width])))
    assert (batch.profiles.clicked_mask.any(1) & (batch.profiles.users == 0)).any()


def test_ranking_batches_hold_the_user_of_each_impression(dataset: Dataset) -> None:
    test, unknown = dataset.impressions("test"), 0
    for batch, positions, users in ranking_batches(test, Tables.from_dataset(dataset, CPU), candidates=500):
        impression = np.searchsorted(test.offsets, positions[:, 0].numpy(), side="right") - 1
        assert users.tolist() == np.asarray(test.users)[impression].tolist()
        unknown += int((batch.profiles.users != users).sum())
    assert unknown


def test_untrained_neighbour_users_are_left_out(dataset: Dataset) -> None:
    neighbours, trained = np.asarray(dataset.arrays.array("users/neighbours")), dataset.trained_users
    in_training = {user for user in range(len(trained)) if trained[user]}
    in_training |= {int(other) for user in in_training for other in neighbours[user]}
    tables, all_users = Tables.from_dataset(dataset, CPU), torch.arange(len(trained))
    in_batch = tables.batch(all_users, torch.ones(len(trained), 1, dtype=torch.int32)).profiles.neighbours
    assert in_batch.tolist() == [[other if other in in_training else 0 for other in row] for row in neighbours.tolist()]
    assert torch.equal(in_batch[trained], torch.from_numpy(neighbours[trained]))
    assert (in_batch.numpy() != neighbours).any()


def test_tables_hold_only_the_needed_features(dataset: Dataset) -> None:
    full, plain = Tables.from_dataset(dataset, CPU), Tables.from_dataset(dataset, CPU, needs=())
    assert full.news.abstract.tolist() == np.asarray(dataset.arrays.array("news/abstract_words")).tolist()
    assert torch.equal(full.news.neighbour_positions, full.news.neighbours)
    assert full.news.entities.shape[1] == 0  # the folder has none
    assert plain.news.abstract.shape[1] == plain.news.neighbour_positions.shape[1] == 0
    assert plain.neighbours is None
    assert torch.equal(plain.news.neighbours, full.news.neighbours)
    assert set(REQUIREMENTS) == {"entities", "contexts", "abstracts", "user_neighbours", "news_neighbours", "counts"}


def test_clicks_of_impressions_without_a_skip_are_not_samples(dataset: Dataset) -> None:
    train = dataset.impressions("train")
    seen = np.zeros(len(train.candidates), dtype=np.int8)  # without seen stories nothing was skipped
    unseen = replace(train, extras={**train.extras, "seen": seen})
    assert train.samples.any()
    assert not unseen.samples.any()
