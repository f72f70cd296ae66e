"""The English words of the headlines and their parts of speech."""

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import product

DETERMINER, ADJECTIVE, NOUN, NAME, VERB, LINK = range(6)
"""Parts of speech; a link is a preposition or a conjunction."""


@dataclass(frozen=True)
class Lexicon:
    """Lists of English words, most common first; no word is in two lists."""

    general: list[str]
    bait: list[str]
    topics: list[list[str]]
    subtopics: list[list[str]]
    """Grouped by topic; the first word of each list is the name of the subtopic."""
    roles: dict[str, int]
    """Part of speech of each word; words without an entry are nouns."""
    short_names: list[str]
    """Complete names of two syllables."""
    name_starts: list[str]
    name_middles: list[str]
    name_ends: list[str]
    """Pieces of longer names."""

    def lists(self) -> list[list[str]]:
        """All lists: general words, clickbait words, the words of each topic, the words of each subtopic."""
        return [self.general, self.bait, *self.topics, *self.subtopics]


@cache
def read_lexicon() -> Lexicon:
    """The lexicon shipped with the package."""
    stored = tomllib.loads(files("drpn.logs.simulate").joinpath("lexicon.toml").read_text(encoding="utf-8"))
    roles = {"determiners": DETERMINER, "links": LINK, "verbs": VERB, "adjectives": ADJECTIVE}
    topics = stored["topics"].values()
    pieces = {name: text.split() for name, text in stored["names"].items()}
    codas = [*[""] * 5, *pieces["codas"]]  # most first syllables end in the vowel
    bait = stored["bait"].split()
    return Lexicon(
        general=stored["general"].split(),
        bait=bait,
        topics=[topic["words"].split() for topic in topics],
        subtopics=[[name, *words.split()] for topic in topics for name, words in topic["subtopics"].items()],
        roles={word: roles[name] for name, words in stored["roles"].items() for word in words.split()}
        | dict.fromkeys(bait, ADJECTIVE),
        short_names=_combinations(pieces["onsets"], pieces["short"]),
        name_starts=_combinations(pieces["onsets"], pieces["vowels"], codas),
        name_middles=_combinations(pieces["joints"], pieces["vowels"]),
        name_ends=_combinations(pieces["joints"], pieces["long"]),
    )


def _combinations(*pieces: list[str]) -> list[str]:
    return ["".join(parts) for parts in product(*pieces)]
