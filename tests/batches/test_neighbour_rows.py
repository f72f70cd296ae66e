"""What comes along with a batch: users whom training knows, their neighbours, and the neighbours of candidates."""

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
from drpn.prepare.settings import DataSettings
from drpn.recipes.prepare import prepare
from reads_everything import Everything, stirred

CPU = torch.device("cpu")
NEWS, USERS = 30, 12


def drawn(high: int, *shape: int, seed: int = 0, zeros: float = 0.3) -> Tensor:
    random = np.random.default_rng(seed)
    values = random.integers(1, high, shape) * (random.random(shape) >= zeros)
    return torch.from_numpy(values.astype(np.int32))


@pytest.fixture
def news() -> NewsRows:
    """Every news of a dataset; neighbours are rows, and rows are positions."""
    rows = torch.arange(NEWS, dtype=torch.int32)
    neighbours, entities, abstract = (drawn(NEWS, NEWS, 3, seed=seed) for seed in (1, 2, 3))
    neighbours[0] = 0
    nothing = torch.zeros_like(rows)
    return NewsRows(rows, drawn(9, NEWS, 4), neighbours, nothing, nothing, rows > 3, entities, abstract, neighbours)


@pytest.fixture
def batch() -> RowBatch:
    clicked, skipped = drawn(NEWS, 4, 3, seed=4), drawn(NEWS, 4, 2, seed=5)
    return make_row_batch(torch.arange(1, 5), clicked, skipped, drawn(NEWS, 4, 2, seed=6), drawn(USERS, 4, 2, seed=7))


def test_what_is_not_given_has_no_column() -> None:
    nothing = torch.zeros(3, dtype=torch.int32)
    news = NewsRows(nothing, nothing[:, None], nothing[:, None], nothing, nothing, nothing.bool())
    assert news.entities.shape == news.abstract.shape == news.neighbour_positions.shape == (3, 0)
    assert (
        news.part(slice(1, None)).neighbour_positions.shape
        == news.select(torch.tensor([2, 0])).neighbour_positions.shape
        == (2, 0)
    )
    assert make_row_batch(nothing, *[nothing[:, None]] * 3).profiles.neighbours.shape == (3, 0)


def test_news_picked_by_rows_have_places_among_themselves(news: NewsRows) -> None:
    rows = torch.tensor([0, 7, 3, 19, 4, 0, 0])  # padding may stand behind, too
    some = news.select(rows)
    assert torch.equal(some.neighbours, news.neighbours[rows])
    where = {int(row): place for place, row in enumerate(rows) if row}
    expected = [[where.get(row, 0) for row in neighbours] for neighbours in some.neighbours.tolist()]
    assert some.neighbour_positions.tolist() == expected
    again = some.select(torch.tensor([0, 2, 1]))  # and so have those picked from these
    swapped = {0: 0, 2: 1, 1: 2}
    assert again.neighbour_positions.tolist() == [
        [swapped.get(place, 0) for place in expected[row]] for row in (0, 2, 1)
    ]


def test_a_stretch_of_news_keeps_its_places_among_all(news: NewsRows) -> None:
    assert torch.equal(news.part(slice(4, 9)).neighbour_positions, news.neighbour_positions[4:9])


@pytest.mark.parametrize("spare", [None, 0, 5])
def test_neighbours_of_candidates_come_along(news: NewsRows, batch: RowBatch, spare: int | None) -> None:
    needed = int(count_distinct_stories(batch, news=NEWS, reach=news.neighbour_positions))
    capacity = None if spare is None else needed + spare
    rows, local = distinct_stories(batch, news=NEWS, capacity=capacity, reach=news.neighbour_positions)
    candidates = set(batch.candidates.flatten().tolist())
    near = {other for row in candidates for other in news.neighbours[row].tolist()}
    held = {int(row) for part in (batch.profiles.clicked, batch.profiles.skipped) for row in part.flatten()}
    assert rows[:needed].tolist() == sorted({0} | candidates | near | held)
    assert not rows[needed:].any()
    assert near - candidates - held  # something would have been missing
    assert int(count_distinct_stories(batch, news=NEWS)) < needed
    some = news.select(rows)
    # where a candidate's neighbours stand, there they are
    places = some.neighbour_positions[local.candidates]
    assert torch.equal(some.rows[places], news.neighbours[batch.candidates])
    assert torch.equal(local.profiles.neighbours, batch.profiles.neighbours)


@pytest.mark.parametrize("spare", [None, 7])
def test_a_batch_scores_as_with_all_news(news: NewsRows, batch: RowBatch, spare: int | None) -> None:
    model = everything()
    expected = model.score(model.encode_news(news), batch.of_all_stories())
    capacity = (
        None if spare is None else int(count_distinct_stories(batch, news=NEWS, reach=news.neighbour_positions)) + spare
    )
    rows, local = distinct_stories(batch, news=NEWS, capacity=capacity, reach=news.neighbour_positions)
    torch.testing.assert_close(model.score(model.encode_news(news.select(rows)), local), expected)
    torch.testing.assert_close(model.score(encode_all(model, news, step=7), batch.of_all_stories()), expected)
    without, pointing = distinct_stories(batch, news=NEWS)
    assert (model.score(model.encode_news(news.select(without)), pointing) - expected).abs().max() > 0.1


def everything() -> Everything:
    shape = DataShape(news=NEWS, words=NEWS, users=USERS, categories=2, subcategories=2, entities=NEWS)
    return stirred(shape)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    folder = tmp_path_factory.mktemp("newsroom")
    simulate(folder / "logs", SimulationSettings(users=120, news=500, seed=4))
    return prepare(folder / "logs", folder / "data", DataSettings(user_neighbours=4, abstracts=7))


def test_users_whom_no_sample_has_are_0(dataset: Dataset) -> None:
    known = set(Clicks.from_impressions(dataset.impressions("train"), CPU).users.tolist())
    tables, everybody = Tables.from_dataset(dataset, CPU), torch.arange(len(dataset.user_ids))
    batch = tables.batch(everybody, torch.ones(len(everybody), 1, dtype=torch.int32))
    assert batch.profiles.users.tolist() == [row if row in known else 0 for row in range(len(everybody))]
    assert batch.profiles.users.dtype == everybody.dtype
    assert 0 < len(known) < len(everybody) - 1
    # what they clicked is still theirs
    width = batch.profiles.clicked.shape[1]
    assert torch.equal(batch.profiles.clicked, torch.from_numpy(np.array(dataset.clicked[:, :width])))
    assert (batch.profiles.clicked_mask.any(1) & (batch.profiles.users == 0)).any()


def test_ranking_tells_whose_impressions_they_are(dataset: Dataset) -> None:
    test, unknown = dataset.impressions("test"), 0
    for batch, places, users in ranking_batches(test, Tables.from_dataset(dataset, CPU), candidates=500):
        impression = np.searchsorted(test.offsets, places[:, 0].numpy(), side="right") - 1
        assert users.tolist() == np.asarray(test.users)[impression].tolist()
        unknown += int((batch.profiles.users != users).sum())
    assert unknown


def test_neighbours_of_whom_training_knows_nothing_are_left_out(dataset: Dataset) -> None:
    neighbours, trained = np.asarray(dataset.arrays.array("users/neighbours")), dataset.trained_users
    met = {user for user in range(len(trained)) if trained[user]}
    met |= {int(other) for user in met for other in neighbours[user]}
    tables, everybody = Tables.from_dataset(dataset, CPU), torch.arange(len(trained))
    found = tables.batch(everybody, torch.ones(len(trained), 1, dtype=torch.int32)).profiles.neighbours
    assert found.tolist() == [[other if other in met else 0 for other in row] for row in neighbours.tolist()]
    assert torch.equal(found[trained], torch.from_numpy(neighbours[trained]))
    assert (found.numpy() != neighbours).any()


def test_tables_hold_what_is_needed_and_no_more(dataset: Dataset) -> None:
    whole, plain = Tables.from_dataset(dataset, CPU), Tables.from_dataset(dataset, CPU, needs=())
    assert whole.news.abstract.tolist() == np.asarray(dataset.arrays.array("news/abstract_words")).tolist()
    assert torch.equal(whole.news.neighbour_positions, whole.news.neighbours)
    assert whole.news.entities.shape[1] == 0  # the folder has none
    assert plain.news.abstract.shape[1] == plain.news.neighbour_positions.shape[1] == 0
    assert plain.neighbours is None
    assert torch.equal(plain.news.neighbours, whole.news.neighbours)
    assert set(REQUIREMENTS) == {"entities", "abstracts", "user_neighbours", "news_neighbours"}


def test_a_click_on_a_page_without_a_skip_trains_nobody(dataset: Dataset) -> None:
    train = dataset.impressions("train")
    seen = np.zeros(len(train.candidates), dtype=np.int8)  # nothing came into view: nothing was skipped
    blind = replace(train, extras={**train.extras, "seen": seen})
    assert train.samples.any()
    assert not blind.samples.any()
