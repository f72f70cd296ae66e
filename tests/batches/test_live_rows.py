"""Every candidate meets the counts, the profile and the page of its own impression."""

import numpy as np
import pytest
import torch

import live_site
from drpn.batches.ranking import ranking_batches, user_pages
from drpn.batches.samples import Clicks, Sampler
from drpn.batches.tables import Tables
from drpn.dataset.folder import SPLITS, Dataset, SplitName

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return live_site.prepared(tmp_path_factory.mktemp("live"), live_site.impressions())


@pytest.fixture(scope="module")
def tables(dataset: Dataset) -> Tables:
    return Tables.from_dataset(dataset, CPU)


def everything(dataset: Dataset) -> tuple[list[int], list[int], list[int]]:
    """The story and the reader of each pair of all splits, and the user of each reader, after that of padding."""
    stories, readers, users = list[int](), list[int](), [0]
    for name in SPLITS:
        split = dataset.impressions(name)
        for number, user in enumerate(split.users.tolist()):
            shown = split.candidates[split.offsets[number] : split.offsets[number + 1]].tolist()
            stories += shown
            readers += [len(users)] * len(shown)
            users.append(user)
    return stories, readers, users


@pytest.mark.parametrize("name", SPLITS)
def test_samples_point_to_their_own_impression(name: SplitName, dataset: Dataset, tables: Tables) -> None:
    stories, readers, _ = everything(dataset)
    split = dataset.impressions(name)
    plan = Sampler(Clicks.from_impressions(split, CPU), tables, 4, 3, 0).plan(0)
    times = np.concatenate([dataset.impressions(part).times for part in SPLITS]).astype("datetime64[s]").astype(int)
    assert len(plan.readers)
    for reader, candidates, moment, pairs in zip(*(column.tolist() for column in plan), strict=True):
        assert moment == times[reader - 1]
        for place, (story, pair) in enumerate(zip(candidates, pairs, strict=True)):
            assert story in (stories[pair], 0)
            assert story == 0 or readers[pair] == reader
            assert place or story


def test_joined_samples_point_to_both_splits(dataset: Dataset, tables: Tables) -> None:
    stories, readers, _ = everything(dataset)
    clicks = Clicks.join([Clicks.from_impressions(dataset.impressions(name), CPU) for name in ("train", "validation")])
    plan = Sampler(clicks, tables, 4, 3, 0).plan(0)
    for reader, candidates, _, pairs in zip(*(column.tolist() for column in plan), strict=True):
        assert all(readers[pair] == reader for pair, story in zip(pairs, candidates, strict=True) if story)
        assert all(stories[pair] == story for pair, story in zip(pairs, candidates, strict=True) if story)
    assert [readers[pair] for pair in clicks.skipped_pairs.tolist()] == clicks.skip_readers.tolist()


def test_a_batch_has_the_counts_of_its_pairs(dataset: Dataset, tables: Tables) -> None:
    arrays, users = dataset.arrays, everything(dataset)[2]
    readers, pairs = torch.tensor([3, 1]), torch.tensor([[5, 2], [0, 1]])
    batch = tables.batch(readers, torch.ones_like(pairs), torch.tensor([7, 8]), pairs)
    assert batch.context.story.tolist() == arrays.array("pairs/counts")[pairs.numpy()].tolist()
    assert batch.context.page.tolist() == arrays.array("readers/page")[[3, 1]].tolist()
    assert batch.context.user.tolist() == arrays.array("readers/columns")[[3, 1]].tolist()
    trained = dataset.trained_users
    assert batch.profiles.users.tolist() == [users[row] if trained[users[row]] else 0 for row in (3, 1)]
    for side in ("clicked", "skipped"):
        rows = arrays.array(f"readers/{side}")[[3, 1]]
        assert getattr(batch.profiles, side).tolist() == rows[:, : max((rows != 0).sum(1).max(), 1)].tolist()


@pytest.mark.parametrize("name", SPLITS)
def test_rankings_point_to_their_own_impression(name: SplitName, dataset: Dataset, tables: Tables) -> None:
    split = dataset.impressions(name)
    seen = 0
    for batch, index, _ in ranking_batches(split, tables, candidates=40):
        real = batch.candidates != 0
        pairs = split.first_pair + index[real]
        expected = dataset.arrays.array("pairs/counts")[pairs.numpy()]
        assert batch.context.story[real].tolist() == expected.tolist()
        seen += int(real.sum())
    assert seen == len(split.candidates)


@pytest.mark.parametrize("name", SPLITS)
def test_pages_are_read_by_their_own_reader(name: SplitName, dataset: Dataset) -> None:
    stories, readers, _ = everything(dataset)
    split = dataset.impressions(name)
    seen = 0
    for everyone, pages in user_pages(split, CPU, users=4, candidates=40):
        for page in pages:
            real = page.candidates != 0
            which = everyone[page.readers].unsqueeze(1).expand_as(real)[real].tolist()
            pairs = (split.first_pair + page.flat_index[real]).tolist()
            assert [readers[pair] for pair in pairs] == which
            assert [stories[pair] for pair in pairs] == page.candidates[real].tolist()
            seen += len(pairs)
    assert seen == len(split.candidates)


def test_the_first_profiles_are_those_of_training(dataset: Dataset, tables: Tables) -> None:
    assert tables.before_validation == dataset.impressions("validation").readers.min()


def test_tables_of_users_do_not_move(dataset: Dataset) -> None:
    still = Tables.from_dataset(dataset, CPU, moving=False)
    assert still.counts is still.users is None
    assert still.before_validation is None
    assert still.clicked.tolist() == dataset.clicked.tolist()
    assert Tables.from_dataset(dataset, CPU, needs=()).counts is None
