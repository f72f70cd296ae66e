"""The English words of the headlines, and what part each plays in a sentence."""

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import product

DETERMINER, ADJECTIVE, NOUN, NAME, VERB, LINK = range(6)
"""Parts a word can play; a link is a preposition or a conjunction."""


@dataclass(frozen=True)
class Lexicon:
    """Lists of English words, commonest first; no word is in two lists."""

    general: list[str]
    bait: list[str]
    topics: list[list[str]]
    subtopics: list[list[str]]
    """Topic after topic; the first word of each list names the subtopic."""
    roles: dict[str, int]
    """What part a word plays; a word that is not here is a noun."""
    short_names: list[str]
    """Whole names of two syllables."""
    name_starts: list[str]
    name_middles: list[str]
    name_ends: list[str]
    """Pieces of longer names."""

    def lists(self) -> list[list[str]]:
        """Every list: the general words, the enticing ones, those of each topic and of each subtopic."""
        return [self.general, self.bait, *self.topics, *self.subtopics]


@cache
def read_lexicon() -> Lexicon:
    """The lexicon that comes with the package."""
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
        short_names=_joined(pieces["onsets"], pieces["short"]),
        name_starts=_joined(pieces["onsets"], pieces["vowels"], codas),
        name_middles=_joined(pieces["joints"], pieces["vowels"]),
        name_ends=_joined(pieces["joints"], pieces["long"]),
    )


def _joined(*pieces: list[str]) -> list[str]:
    return ["".join(parts) for parts in product(*pieces)]
