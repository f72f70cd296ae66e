"""The catalogue encodes each story once; scores do not depend on the order in which stories arrive."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from batch_cases import make_batch
from contract_cases import SHAPE, every_model, impressions, newsroom, same, scores, trained
from drpn.batches.batch import Batch, NewsRows
from drpn.bundle.catalogue import StoryCatalogue
from drpn.errors import SettingsError
from drpn.layers.tables import map_tables
from drpn.models.base import ClickModel
from drpn.models.catalogue import CATALOGUE

IDS = ["", *(f"N{row}" for row in range(1, SHAPE.news))]
IN_GRAPH = "gerl"
"""The model that reads graph neighbours of candidates."""


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class Calls:
    """Counts the stories that a model encodes."""

    def __init__(self, model: ClickModel, monkeypatch: pytest.MonkeyPatch) -> None:
        self.stories = 0
        encode_news = model.encode_news

        def count(news: NewsRows) -> Any:
            self.stories += len(news)
            return encode_news(news)

        monkeypatch.setattr(model, "encode_news", count)


def catalogue(name: str = "drpn") -> StoryCatalogue:
    return StoryCatalogue(trained(name), newsroom(), IDS)


def vectors(stories: StoryCatalogue, *news_ids: str) -> list[Tensor]:
    """The rows of some stories in all tables."""
    return rows_at(stories, stories.positions(news_ids))


def rows_at(stories: StoryCatalogue, positions: list[int]) -> list[Tensor]:
    rows: list[Tensor] = []
    map_tables(lambda table: rows.append(table[positions]), stories.encoded)
    return rows


def equal(first: list[Tensor], second: list[Tensor]) -> bool:
    return all(torch.allclose(*pair, rtol=0, atol=1e-10) for pair in zip(first, second, strict=True))


def story(row: int, **features: Any) -> NewsRows:
    """The features of one story of the newsroom, some of them changed."""
    return replace(newsroom().part(torch.tensor([row])), **features)


def through(stories: StoryCatalogue, batch: Batch) -> Batch:
    """The batch with positions in the catalogue; the last story of the batch arrives first."""

    def positions(rows: Tensor) -> Tensor:
        places = stories.positions([IDS[row] for row in rows.flatten().tolist() if row])
        moved = torch.zeros_like(rows)
        moved[rows != 0] = torch.tensor(places)
        return moved

    profiles = batch.profiles
    candidates, skipped, clicked = (
        positions(rows.flip(0)).flip(0) for rows in (batch.candidates, profiles.skipped, profiles.clicked)
    )
    moved = make_batch(profiles.users, clicked, skipped, candidates, profiles.neighbours)
    return replace(moved, context=batch.context)


without_counts = pytest.mark.parametrize("name", [name for name in CATALOGUE if not CATALOGUE[name].settings.context])


@without_counts
def test_scores_equal_those_of_all_stories_encoded_at_once(name: str) -> None:
    batch, stories = impressions(), catalogue(name)
    moved = through(stories, batch)
    if name != IN_GRAPH:
        assert not torch.equal(moved.candidates, batch.candidates)
    actual = trained(name).score(stories.encoded, moved)
    same(actual[batch.candidate_mask], scores(trained(name), batch)[batch.candidate_mask])


@without_counts
def test_scores_stay_the_same_while_stories_come_and_go(name: str) -> None:
    """New stories, more than the tables hold at first, and removed ones change no score of the others."""
    batch, stories = impressions(), catalogue(name)
    through(stories, batch)
    temporary = [f"T{number}" for number in range(100)]
    stories.add(temporary, newsroom().part(torch.arange(100) % (SHAPE.news - 1) + 1))
    stories.remove(temporary[::2])
    stories.add(["late"], story(5))
    actual = trained(name).score(stories.encoded, through(stories, batch))
    same(actual[batch.candidate_mask], scores(trained(name), batch)[batch.candidate_mask])


@pytest.mark.parametrize("name", ["drpn", "nrms"])
def test_each_story_is_encoded_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = trained(name)
    calls = Calls(model, monkeypatch)
    stories = StoryCatalogue(model, newsroom(), IDS)
    assert (stories.encodings, calls.stories) == (0, 1)  # padding is not a story
    first = stories.positions(["N3", "N1", "N3"])
    assert first[0] == first[2] != first[1]
    assert (stories.encodings, calls.stories) == (2, 3)
    assert stories.positions(["N1", "N3"]) == [first[1], first[0]]
    assert stories.encodings == 2
    stories.positions(["N1", "N7"])
    stories.positions(IDS[1:])
    stories.positions(IDS[1:])
    assert (stories.encodings, calls.stories) == (SHAPE.news - 1, SHAPE.news)


def test_a_model_that_reads_neighbours_encodes_all_stories_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model = trained(IN_GRAPH)
    calls = Calls(model, monkeypatch)
    stories = StoryCatalogue(model, newsroom(), IDS)
    assert stories.positions(IDS[1:]) == list(range(1, SHAPE.news))
    assert (stories.encodings, calls.stories) == (SHAPE.news - 1, SHAPE.news)
    tensors: list[Tensor] = []
    map_tables(tensors.append, stories.encoded)
    assert not any(table.requires_grad for table in tensors)


def test_removed_neighbours_are_still_read() -> None:
    """The row of a removed story is not given to a new one: other stories have it as a neighbour."""
    batch, stories = impressions(), catalogue(IN_GRAPH)
    used = {int(row) for rows in (batch.candidates, batch.profiles.clicked) for row in rows.flatten()}
    neighbours = newsroom().neighbour_positions[batch.candidates].flatten().unique().tolist()
    gone = [IDS[row] for row in neighbours if row and row not in used]
    assert gone
    stories.remove(gone)
    stories.add([f"T{news_id}" for news_id in gone], newsroom().part(torch.ones(len(gone), dtype=torch.int64)))
    mask = batch.candidate_mask
    same(trained(IN_GRAPH).score(stories.encoded, batch)[mask], scores(trained(IN_GRAPH), batch)[mask])


@every_model
def test_new_stories_can_be_ranked_at_once(name: str) -> None:
    """A story added under another id has the vectors of the same story of the newsroom."""
    stories = catalogue(name)
    assert "late" not in stories
    stories.add(["late", "later"], newsroom().part(torch.tensor([5, 6])))
    assert "late" in stories
    assert (stories.row("late"), stories.row("N5")) == (0, 5)
    assert len(stories) == SHAPE.news + 1
    encodings = stories.encodings
    assert equal(vectors(stories, "late", "later"), vectors(stories, "N5", "N6"))
    assert stories.encodings == encodings + (0 if name == IN_GRAPH else 2)


@pytest.mark.parametrize("name", ["drpn", "nrms", IN_GRAPH])
def test_a_replaced_story_gets_the_vector_of_the_new_title(name: str) -> None:
    stories = catalogue(name)
    old = vectors(stories, "N1")
    stories.add(["N1"], story(1, words=newsroom().words[6:7]))
    assert len(stories) == SHAPE.news - 1
    assert stories.row("N1") == 0
    new = vectors(stories, "N1")
    assert not equal(new, old)
    stories.add(["other"], story(1, words=newsroom().words[6:7]))
    assert equal(new, vectors(stories, "other"))


def test_of_an_id_given_twice_the_last_story_counts() -> None:
    stories = catalogue()
    stories.add(["N1", "late", "N1"], newsroom().part(torch.tensor([4, 5, 6])))
    assert equal(vectors(stories, "N1", "late"), vectors(stories, "N6", "N5"))
    assert len(stories) == SHAPE.news


def test_adding_nothing_changes_nothing() -> None:
    stories = catalogue()
    stories.add([], newsroom().part(slice(0, 0)))
    assert (len(stories), stories.encodings) == (SHAPE.news - 1, 0)


def test_removed_stories_are_refused() -> None:
    stories = catalogue()
    stories.positions(["N1", "N2"])
    stories.remove(["N1", "N9", "N1"])
    assert "N1" not in stories
    assert len(stories) == SHAPE.news - 3
    for news_id in ("N1", "N9", "xyzzy"):
        with pytest.raises(SettingsError) as raised:
            stories.positions(["N2", news_id])
        assert str(raised.value) == f"story '{news_id}' is not in the catalogue; add it first, or leave it out"
    assert stories.encodings == 2


def test_stories_are_removed_all_or_none() -> None:
    stories = catalogue()
    with pytest.raises(SettingsError, match=r"^story 'xyzzy' is not in the catalogue; it cannot be removed$"):
        stories.remove(["N1", "xyzzy"])
    assert "N1" in stories


def test_rows_of_removed_stories_are_used_again() -> None:
    stories = catalogue()
    first, second, third = stories.positions(["N1", "N2", "N3"])
    kept = vectors(stories, "N2")
    stories.remove(["N3", "N1"])
    stories.add(["late", "later"], newsroom().part(torch.tensor([5, 6])))
    assert set(stories.positions(["late", "later"])) == {first, third}
    assert stories.positions(["N2"]) == [second]
    assert equal(vectors(stories, "N2"), kept)
    assert equal(vectors(stories, "late", "later"), vectors(stories, "N5", "N6"))


def test_tables_do_not_grow_if_as_many_stories_go_as_come() -> None:
    stories = catalogue()
    rows = []
    for number in range(200):
        stories.add([f"T{number}"], story(1 + number % 20))
        stories.remove([f"T{number}"])
        map_tables(lambda table: rows.append(len(table)), stories.encoded)
    assert len(set(rows)) == 1


@pytest.mark.parametrize("name", ["drpn", "npa", "libfm", IN_GRAPH])
def test_tables_grow_without_changing_earlier_rows(name: str) -> None:
    stories = catalogue(name)
    places, before = stories.positions(IDS[1:]), vectors(stories, *IDS[1:])
    sizes: list[int] = []
    map_tables(lambda table: sizes.append(len(table)), stories.encoded)
    for start in range(0, 150, 10):
        ids = [f"T{number}" for number in range(start, start + 10)]
        stories.add(ids, newsroom().part(torch.arange(start, start + 10) % (SHAPE.news - 1) + 1))
    grown: list[int] = []
    map_tables(lambda table: grown.append(len(table)), stories.encoded)
    assert min(grown) > max(sizes)
    assert stories.positions(IDS[1:]) == places
    assert equal(vectors(stories, *IDS[1:]), before)
    assert equal(vectors(stories, "T0", "T149"), vectors(stories, "N1", IDS[149 % (SHAPE.news - 1) + 1]))


def test_temporary_stories_leave_their_rows() -> None:
    stories = catalogue()
    with stories.temporary(newsroom().part(torch.tensor([5, 6]))) as places:
        assert len(places) == 2
        assert not {*places} & {0, *stories.positions(["N5", "N6"])}
        assert equal(rows_at(stories, places), vectors(stories, "N5", "N6"))
    assert len(stories) == SHAPE.news - 1
    assert set(stories.positions(["N7", "N8"])) == {*places}
    with stories.temporary(newsroom().part(slice(0, 0))) as places:
        assert places == []
