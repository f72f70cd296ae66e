"""Optional data that a model may need, besides titles, labels and profiles; listed only here."""

from typing import NamedTuple


class Requirement(NamedTuple):
    """One optional part of a dataset."""

    array: str
    """The array that holds it."""
    meaning: str
    """Its name in messages."""
    setting: str
    """The setting of the section `data` that adds it."""
    value: int
    """A good value of that setting."""
    shipped: tuple[str, ...]
    """Prefixes of arrays that a bundle carries only for models that need them."""


REQUIREMENTS = {
    "entities": Requirement("news/entities", "the entities of titles", "entities", 5, ("news/entities", "entities/")),
    "abstracts": Requirement(
        "news/abstract_words", "the words of abstracts", "abstracts", 40, ("news/abstract_words",)
    ),
    "user_neighbours": Requirement(
        "users/neighbours", "the neighbours of users", "user_neighbours", 10, ("users/neighbours",)
    ),
    "news_neighbours": Requirement("news/neighbours", "the neighbours of stories", "neighbours", 5, ()),
}
