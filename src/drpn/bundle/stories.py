"""Stories that training never saw, as a model reads them."""

import difflib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from drpn.batches.batch import NewsRows
from drpn.dataset.folder import Dataset
from drpn.dataset.mentions import Mention, mentioned_words, word_entities
from drpn.dataset.vocabulary import title_words, tokens
from drpn.errors import SettingsError


@dataclass(frozen=True, init=False)
class NewStory:
    """A story that is not in the bundle; an integer as `news_id` becomes a string."""

    title: str
    category: str = ""
    subcategory: str = ""
    news_id: str = "new"
    published: datetime | None = None
    """UTC if it has no time zone."""
    entities: tuple[Mention, ...] = ()
    """The entities that the title names, for models that read them."""
    abstract: str = ""
    """For models that read abstracts, and for the counts of datasets that have them."""
    vector: tuple[float, ...] | None = None
    """The text as a vector, for the counts of logs with such vectors."""

    def __init__(
        self,
        title: str,
        category: str = "",
        subcategory: str = "",
        news_id: str | int = "new",
        published: datetime | None = None,
        entities: Iterable[Mention] = (),
        abstract: str = "",
        vector: Iterable[float] | None = None,
    ) -> None:
        values = {"title": title, "category": category, "subcategory": subcategory, "news_id": str(news_id)}
        mentions = tuple(Mention(*mention) for mention in entities)
        numbers = None if vector is None else tuple(vector)
        more = {"published": published, "entities": mentions, "abstract": abstract, "vector": numbers}
        for name, value in {**values, **more}.items():
            object.__setattr__(self, name, value)


def as_utc(moment: datetime) -> datetime:
    """The moment with its time zone, UTC if it has none."""
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment


def new_stories(
    titles: Sequence[str], categories: Sequence[str] = (), subcategories: Sequence[str] = ()
) -> list[NewStory]:
    """Stories from titles and labels: one label for each title, in their order, or none at all."""
    for name, labels in (("category", categories), ("subcategory", subcategories)):
        if labels and len(labels) != len(titles):
            raise SettingsError(
                f"the number of {name} labels is {len(labels)}, of titles {len(titles)}; give one label for each "
                "title, in the same order ('' for none), or none at all",
                hint=f"repeat --{name} once for each --title",
            )
    none = [""] * len(titles)
    return [NewStory(*story) for story in zip(titles, categories or none, subcategories or none, strict=True)]


@dataclass(frozen=True)
class StoryReader:
    """Turns titles and labels into the rows that a model encodes, as the dataset was prepared."""

    data: Dataset
    like: NewsRows
    category_words: bool
    """Whether category and subcategory are the first two words of a title."""
    entities: int = 0
    """Entities kept per title."""

    def rows(self, stories: Sequence[NewStory]) -> NewsRows:
        """The features of new stories: the words, and the rows of labels that the log has."""
        words, abstracts, entities, categories, subcategories = [], [], [], [], []
        for story in stories:
            labels = [name if name in rows else "" for _, name, rows in self._labels(story)]
            text = title_words(story.title, labels if self.category_words else ())
            words.append(self.data.vocabulary.encode(text, self.like.words.shape[1]))
            abstracts.append(self.data.vocabulary.encode(tokens(story.abstract), self.like.abstract.shape[1]))
            matched = mentioned_words(story.title, story.entities, before=len(text) - len(tokens(story.title)))
            length = self.like.entities.shape[1]
            entities.append(word_entities(matched, self._entity_rows, keep=self.entities, length=length))
            categories.append(self._category_rows.get(labels[0], 0))
            subcategories.append(self._subcategory_rows.get(labels[1], 0))
        empty = self.like.map_tensors(lambda table: table.new_zeros(len(stories), *table.shape[1:]))
        return replace(
            empty,
            words=torch.from_numpy(np.stack(words)).to(self.like.words.device) if words else empty.words,
            abstract=torch.from_numpy(np.stack(abstracts)).to(self.like.abstract) if abstracts else empty.abstract,
            entities=self.like.entities.new_tensor(entities) if entities else empty.entities,
            category=self.like.category.new_tensor(categories),
            subcategory=self.like.subcategory.new_tensor(subcategories),
        )

    def vectors(self, stories: Sequence[NewStory]) -> NDArray[np.float32]:
        """(stories, size): their vectors, as a log has them; zeros for a story without one, or of another size."""
        vectors = np.zeros((len(stories), self._vector_size), np.float32)
        with np.errstate(over="ignore"):
            for place, story in enumerate(stories):
                if story.vector is not None and len(story.vector) == self._vector_size:
                    vectors[place] = story.vector
        return vectors

    def has_content(self, row: int, abstract: str | None, vector: Sequence[float] | None) -> bool:
        """Whether a story of the dataset has this abstract and vector, as far as the dataset has any."""
        arrays = self.data.arrays
        if abstract is not None and "news/abstract_words" in arrays:
            words = arrays.array("news/abstract_words")[row]
            if (self.data.vocabulary.encode(tokens(abstract), len(words)) != words).any():
                return False
        if vector is None or "news/vector" not in arrays:
            return True
        with np.errstate(over="ignore"):
            return np.array_equal(np.asarray(vector, np.float32), arrays.array("news/vector")[row])

    @cached_property
    def _vector_size(self) -> int:
        arrays = self.data.arrays
        return int(arrays.array("news/vector").shape[1]) if "news/vector" in arrays else 0

    def notes(self, stories: Sequence[NewStory]) -> Iterator[str]:
        """A line for each label that no story of the log has, and for what else of a story cannot be used."""
        for kind, label, known in (part for story in stories for part in self._labels(story)):
            if label and label not in known:
                near = difflib.get_close_matches(label, known, n=1)
                hint = f"; did you mean '{near[0]}'?" if near else ""
                yield f"no story of the log has the {kind} '{label}'; the title is ranked without it{hint}"

        for story in stories:
            if story.vector is not None and self._vector_size not in (0, len(story.vector)):
                yield (
                    f"the vector of '{story.title}' has {len(story.vector)} numbers, those of the log have "
                    f"{self._vector_size}; the title is ranked without it"
                )

        for story in stories if self._entity_rows else ():
            in_title = {mention for mention, _ in mentioned_words(story.title, story.entities)}
            for mention in story.entities:
                if mention.entity not in self._entity_rows:
                    yield f"no story of the log names the entity '{mention.entity}'; the title is ranked without it"
                elif mention not in in_title:
                    yield (
                        f"the title '{story.title}' does not have the name '{mention.text}' of the entity "
                        f"'{mention.entity}'; the title is ranked without it"
                    )

    def _labels(self, story: NewStory) -> tuple[tuple[str, str, dict[str, int]], ...]:
        return (
            ("category", story.category.strip(), self._category_rows),
            ("subcategory", story.subcategory.strip(), self._subcategory_rows),
        )

    @cached_property
    def _category_rows(self) -> dict[str, int]:
        return {name: row for row, name in enumerate(self.data.arrays.strings("categories/name")) if row}

    @cached_property
    def _subcategory_rows(self) -> dict[str, int]:
        return {name: row for row, name in enumerate(self.data.arrays.strings("subcategories/name")) if row}

    @cached_property
    def _entity_rows(self) -> dict[str, int]:
        """The rows of the entities; none if the model reads no entities."""
        if not self.like.entities.shape[1]:
            return {}
        return {name: row for row, name in enumerate(self.data.arrays.strings("entities/id")) if row}
