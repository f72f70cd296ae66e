"""Optional data that a model may need, besides titles, labels and profiles; listed only here."""

from typing import NamedTuple

from drpn.dataset.reader_columns import TEXTS


class Requirement(NamedTuple):
    """One optional part of a dataset."""

    array: str
    """The array that holds it."""
    meaning: str
    """Its name in messages."""
    setting: str
    """The setting of the section `data` that adds it."""
    value: int | str
    """A good value of that setting."""
    shipped: tuple[str, ...]
    """Prefixes of arrays that a bundle carries only for models that need them."""
    file: str = ""
    """The file that holds it, next to the news of the log, if the tables of the log do not."""


REQUIREMENTS = {
    "entities": Requirement(
        "news/word_entities",
        "the entities that words of titles name",
        "entities",
        5,
        ("news/word_entities", "entities/"),
    ),
    "contexts": Requirement(
        "entities/context", "context vectors of entities", "entities", 5, (), "context_embedding.vec"
    ),
    "abstracts": Requirement(
        "news/abstract_words", "the words of abstracts", "abstracts", 40, ("news/abstract_words",)
    ),
    "user_neighbours": Requirement(
        "users/neighbours", "the neighbours of users", "user_neighbours", 15, ("users/neighbours",)
    ),
    "counts": Requirement("pairs/counts", "counts as of each impression", "protocol", "live", ("counts/", *TEXTS)),
    "news_neighbours": Requirement("news/neighbours", "the neighbours of stories", "neighbours", 15, ()),
}
