"""From the answers of a newsroom to the rows that the templates show. No HTML here, and nothing is stored."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from drpn.escape import terminal
from drpn.service.newsroom import Newsroom
from drpn.service.page.trial import Kind, Trial
from drpn.service.requests import ExplainedStory, Explanation, Moved

PLACES = 10
"""Stories of the front page."""
_LOOK = 500
"""Places in which a story that moved is looked for."""
SHADES = 10
"""Steps of the shade, from 0."""
_NEWEST = 6
"""Stories of a side that are shown at once; the others fold out."""
_REASONS = 3
_LONGEST = 160
"""Letters of a title."""
_KINDS = {"denoise": "Denoising", "content": "Content-based"}


@dataclass(frozen=True)
class Cell:
    """The weight of one story by one aggregator."""

    percent: str
    shade: int


@dataclass(frozen=True)
class Row:
    """One story of a profile."""

    news_id: str
    title: str
    category: str
    moment: datetime | None
    cells: list[Cell]
    shade: int
    """By the weight that counts as trust."""


@dataclass(frozen=True)
class Column:
    """One side of a profile."""

    side: str
    names: list[tuple[str, str]]
    """Of the weights: view and aggregator, such as "Semantic" and "Denoising"."""
    newest: list[Row]
    older: list[Row]

    @property
    def size(self) -> int:
        """How many stories the side has."""
        return len(self.newest) + len(self.older)


@dataclass(frozen=True)
class Reason:
    """A story of the profile that moves a candidate."""

    side: str
    title: str
    raises: bool
    change: str


@dataclass(frozen=True)
class Place:
    """One story of the front page."""

    place: int
    news_id: str
    title: str
    category: str
    score: str
    score_before: str | None
    """The score without the clicks and skips that are tried; None if none are."""
    before: int | None
    """The place without the trial; None if it is not among the first."""
    rules: list[str]
    reasons: list[Reason]

    @property
    def up(self) -> int:
        """Places gained by the trial; negative for places lost."""
        return 0 if self.before is None else self.before - self.place


@dataclass(frozen=True)
class Change:
    """One change of a trial."""

    kind: Kind
    news_id: str
    title: str
    repeated: bool
    """Whether the profile has it already, so that the story becomes the newest and is counted once more."""


@dataclass(frozen=True)
class Gone:
    """A story that the trial moved off the front page."""

    title: str
    before: int
    now: str


@dataclass(frozen=True)
class ReaderView:
    """Everything that the page shows of one reader."""

    user_id: str
    variant: str
    bundle: str
    known: bool
    erased: bool
    trust: str | None
    """The name of the weight that counts as trust; None if the model has no weights."""
    denoises: bool
    columns: list[Column]
    places: list[Place]
    trial: Trial
    changes: list[Change]
    gone: list[Gone]


def read_view(newsroom: Newsroom, user_id: str, trial: Trial) -> ReaderView:
    """Ask the newsroom about a reader; blocks while it ranks and explains.

    The list comes from `try_out`, which stores nothing; `rank` would count as a page view of the reader.
    """
    user = newsroom.user(user_id)
    plain = newsroom.try_out(user_id, request=Trial().request(user_id, _LOOK))
    tried = plain
    if not trial.empty:
        tried = newsroom.try_out(
            user_id, clicked=trial.click, skipped=trial.skip, request=trial.request(user_id, _LOOK)
        )
    first = tried[:PLACES]
    explanation = newsroom.explain(user_id, [story.news_id for story in first])
    titles = {story.news_id: story.title for story in plain} | _titles(explanation)
    stored: set[tuple[Kind, str]] = {("click", story.news_id) for story in explanation.clicked}
    stored |= {("skip", story.news_id) for story in explanation.skipped}
    return ReaderView(
        user_id=user_id,
        variant=explanation.variant,
        bundle=explanation.bundle,
        known=bool(explanation.clicked or explanation.skipped),
        erased=user.erased,
        trust=None if explanation.aggregator is None else " · ".join(weight_name(explanation.aggregator)),
        denoises=(explanation.aggregator or "").endswith("denoise"),
        columns=[
            _column(side, stories, explanation.aggregator)
            for side, stories in (("clicked", explanation.clicked), ("skipped", explanation.skipped))
        ],
        places=_places(first, plain, explanation, trial),
        trial=trial,
        changes=[
            Change(kind, news_id, shown(titles.get(news_id) or news_id), (kind, news_id) in stored)
            for kind, news_id in trial.changes
        ],
        gone=_gone(plain, tried, trial),
    )


def weight_name(aggregator: str) -> tuple[str, str]:
    """The view and aggregator of a weight as the page names them: "semantic denoise" is "Semantic", "Denoising"."""
    view, _, kind = aggregator.partition(" ")
    return view.capitalize(), _KINDS.get(kind, kind)


def shown(text: str, longest: int = _LONGEST) -> str:
    """A title or id on one line, without invisible characters, and not too long."""
    visible = terminal(text)
    return visible if len(visible) <= longest else visible[: longest - 1] + "…"


def shade(weight: float, count: int) -> int:
    """The step of a weight's shade, as in `drawing.case`: 0 at half of an equal share of `count` stories, the last at
    twice."""
    # depth = 1/2 + log2(weight count) / 2, between 0 and 1
    depth = min(max(0.5 + math.log2(max(weight * count, 1e-9)) / 2, 0.0), 1.0)
    return int(depth * (SHADES - 1) + 0.5)


def _column(side: str, stories: tuple[ExplainedStory, ...], trust: str | None) -> Column:
    view = (trust or "").partition(" ")[0]
    # denoising before content-based, and the view of the weight that counts as trust before the other
    names = sorted(
        stories[0].weights if stories else (), key=lambda name: (not name.startswith(view), "denoise" not in name)
    )
    rows = [
        Row(
            shown(story.news_id),
            shown(story.title or story.news_id),
            shown(story.category),
            story.moment,
            [Cell(f"{100 * story.weights[name]:.1f}", shade(story.weights[name], len(stories))) for name in names],
            shade(story.weights[names[0]], len(stories)) if names else 0,
        )
        for story in stories
    ]
    return Column(side, [weight_name(name) for name in names], rows[:_NEWEST], rows[_NEWEST:])


def _titles(explanation: Explanation) -> dict[str, str]:
    return {story.news_id: story.title for story in (*explanation.clicked, *explanation.skipped)}


def _places(first: Iterable[Moved], plain: tuple[Moved, ...], explanation: Explanation, trial: Trial) -> list[Place]:
    before = {story.news_id: story.rank_after for story in plain}
    explained = {candidate.news_id: candidate for candidate in explanation.candidates}
    titles = _titles(explanation)
    places = []
    for story in first:
        candidate = explained.get(story.news_id)
        reasons = [
            Reason(
                influence.side,
                shown(titles.get(influence.news_id) or influence.news_id),
                influence.change > 0,
                f"{influence.change:+.3f}".replace("-", "−"),
            )
            for influence in (candidate.influences if candidate else ())[:_REASONS]
        ]
        places.append(
            Place(
                story.rank_after,
                story.news_id,
                shown(story.title or story.news_id),
                shown(candidate.category if candidate else ""),
                f"{story.score_after:.3f}".replace("-", "−"),
                f"{story.score_before:.3f}".replace("-", "−") if trial.click or trial.skip else None,
                before.get(story.news_id),
                [*_rule_lines(story, before.get(story.news_id), trial), *story.lowered],
                reasons,
            )
        )
    return places


def _rule_lines(story: Moved, before: int | None, trial: Trial) -> list[str]:
    """How the rules moved a story: `rank_before` is its place under the rules, before clicks and skips."""
    without = "not listed" if before is None else f"place {before}"
    if story.news_id in trial.pin:
        return [f"pinned; {without} without the rules"]
    if story.news_id in trial.bury:
        return [f"buried; {without} without the rules"]
    if before != story.rank_before:
        return [f"moved to place {story.rank_before} by the rules; {without} without them"]
    return []


def _gone(plain: tuple[Moved, ...], tried: tuple[Moved, ...], trial: Trial) -> list[Gone]:
    now = {story.news_id: story for story in tried}
    gone = []
    for story in plain[:PLACES]:
        moved = now.get(story.news_id)
        if moved is not None and moved.rank_after <= PLACES:
            continue
        if story.news_id in trial.click:
            text = "clicked: readers do not get a story again"
        elif moved is None:
            text = "left out"
        else:
            text = ", ".join([f"now place {moved.rank_after}", *(f"rule: {rule}" for rule in moved.lowered)])
        gone.append(Gone(shown(story.title or story.news_id), story.rank_after, text))
    return gone
