"""The newsrooms that the simulator knows by name."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Tastes:
    """What users like and how strongly; the defaults are those of the newsroom that resembles MIND."""

    favourites: tuple[int, int] | None = None
    """Fewest and most favourite topics of a user, all numbers equally likely; None: 1 + Poisson(1) for narrow users
    and 1 + Poisson(4) for broad ones."""
    like_in_favourite: float = 0.40
    """Share of liked subtopics within a favourite topic."""
    dislike_in_favourite: float = 0.35
    """Share of disliked subtopics within a favourite topic."""
    like_elsewhere: float = 0.03
    """Share of liked subtopics within the other topics."""
    dislike_elsewhere: float = 0.20
    """Share of disliked subtopics within the other topics."""
    interest: float = -3.2
    """Feeling towards a story before taste, quality and mood."""
    like: float = 3.0
    """Added to the feeling if the subtopic is liked."""
    dislike: float = -2.5
    """Added to the feeling if the subtopic is disliked."""
    disliked_below: float = -4.0
    """A user is interested if the feeling is above 0, dislikes the story below this, and is indifferent between."""


@dataclass(frozen=True, kw_only=True)
class Habits:
    """How often users come and how much they see and click; the defaults resemble MIND."""

    fewest_visits: int = 1
    """Visits per week: P(n) is proportional to n^-1.87, from this number up."""
    page: float = 1.0
    """Length of a page relative to MIND's."""
    read_on: float = 66.0
    """After a click on a page of n stories a user looks for another with probability n / (n + read_on / eagerness)."""


@dataclass(frozen=True, kw_only=True)
class Live:
    """A site whose stories age and whose users tire of what they were shown."""

    half_life: float = 4.0
    """Hours in which the chance of a click on a story halves: median over stories."""
    half_life_spread: float = 0.9
    """Standard deviation of the logarithm of the half-life."""
    fresh: float = 0.7
    """Chance that a user clicks an interesting story that is new."""
    weariness: float = 0.5
    """Each time the story was shown to the user without a click multiplies the chance by this."""
    related: float = 3.0
    """Factor of the chance if the page is that of a story of the same topic; the chance is at most 1."""
    another: float = 0.7
    """Probability that a session has another page view."""
    view_minutes: float = 3.0
    """Mean time from one page view to the next."""
    article: float = 0.8
    """Probability that the page view after a click is the page of the clicked story; otherwise the front page."""
    shortest: int = 6
    longest: int = 20
    """Stories of a list, all numbers equally likely."""


@dataclass(frozen=True, kw_only=True)
class Preset:
    """The properties in which the newsrooms differ; the defaults are those of the newsroom that resembles MIND."""

    noise: float | None = None
    """Default of the setting `noise`."""
    even_topics: bool = False
    """Give every topic the same number of stories; otherwise topics are as unequal as MIND's."""
    clickbait: float = 0.04
    """Share of stories whose title promises more than the story delivers."""
    stories: float = 1.0
    """Number of stories relative to that of MIND."""
    tastes: Tastes = Tastes()
    habits: Habits = Habits()
    live: Live | None = None
    """Ageing stories, tired users and sessions; None: none of these."""


CERTAIN = 20.0
"""A feeling that neither the quality of a story nor the mood changes."""

PRESETS = {
    # resembles MIND; noise depends more on the story than on the reader
    "newsroom": Preset(),
    # readers with two to four topics; noise is feedback that does not fit the reader
    "personal": Preset(
        noise=0.3,
        even_topics=True,
        clickbait=0.0,
        tastes=Tastes(
            favourites=(2, 4),
            like_in_favourite=1.0,
            dislike_in_favourite=0.0,
            like_elsewhere=0.0,
            dislike_elsewhere=1.0,
            interest=0.0,
            like=CERTAIN,
            dislike=-CERTAIN,
            disliked_below=0.0,
        ),
        habits=Habits(fewest_visits=5, page=0.4, read_on=20.0),
    ),
    # counts of the last hours say more than tastes: stories age, users tire of stories, page views form sessions
    "live": Preset(
        clickbait=0.0,
        stories=0.1,
        tastes=Tastes(interest=-1.5),
        habits=Habits(fewest_visits=2),
        live=Live(),
    ),
}
