"""A newsroom whose scores can be computed by hand: a story gains by clicks and loses by skips in its category."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Literal

from drpn.errors import SettingsError
from drpn.service.requests import (
    ExplainedCandidate,
    ExplainedStory,
    Explanation,
    Influence,
    Moved,
    RankRequest,
    VariantRate,
)
from drpn.state.profile import Profile
from drpn.store.base import Store
from drpn.store.records import Impression, Story, shown_stories
from service.stand_in import StandIn

Side = Literal["clicked", "skipped"]
BOTH_VIEWS = ("semantic denoise", "semantic content", "collaborative denoise", "collaborative content")
HOSTILE = "<script>alert(1)</script><b onmouseover=alert(2)>bold</b> &amp; \"quoted\" 'single'"
RIGHT_TO_LEFT = "البرلمان يصوت يوم الجمعة على الميزانية الجديدة"
OVERRIDE = "Invoice \u202efdp.exe"
LONG = "Donaudampfschifffahrtsgesellschaftskapitänsmützenabzeichen" * 8
CARD = """# drpn

Ranks news stories for a user by the stories that the user clicked and skipped. Trained with drpn.

## Data

1,200 users, 300 stories, 9,000 impressions to train on, 1,000 to test on. Source files:

- impressions\\_\\<b\\>.csv, sha256 0123456789abcdef…

## Metrics

- auc: 0.6812
- ndcg@10: 0.4123

## Settings

""" + "\n".join(f"- setting {number} = {number}" for number in range(12))
TITLES = [
    ("cup", "sports", "Underdogs reach the cup final after a late goal"),
    ("coach", "sports", "Coach resigns three days before the derby"),
    ("chess", "sports", "Chess champion loses to a sixteen-year-old newcomer"),
    ("budget", "politics", "Parliament votes on the budget on Friday"),
    ("mayor", "politics", "Mayor wants fewer cars in the old town"),
    ("treaty", "politics", "Neighbours sign a treaty on river water"),
    ("storm", "weather", "Storm closes the harbours along the coast"),
    ("snow", "weather", "First snow is expected in the mountains"),
    ("bank", "business", "Central bank leaves interest rates unchanged"),
    ("trains", "business", "Railway orders forty night trains"),
    ("museum", "culture", "Museum returns paintings to their owners"),
    ("film", "culture", "A quiet film wins the festival"),
    ("opera", "culture", "Opera house opens its doors after ten years"),
    ("vaccine", "science", "One vaccine against many flu strains passes its first test"),
    ("comet", "science", "Comet will be visible to the naked eye next week"),
]


class PageNewsroom(StandIn):
    """Answers like a `Newsroom`."""

    def __init__(self, store: Store, weights: Sequence[str] = BOTH_VIEWS, aggregator: str | None = BOTH_VIEWS[0]):
        super().__init__(store)
        self.weights, self.aggregator = weights, aggregator
        self.calls: list[str] = []

    def rank(self, _request: RankRequest) -> None:
        raise AssertionError("a ranking counts as a page view of the reader")

    def card(self, _variant: str | None = None) -> str:
        return CARD

    def trained(self, _variant: str) -> datetime:
        return datetime(2026, 3, 1, 8, 30, tzinfo=UTC)

    def rates(self) -> list[VariantRate]:
        return [VariantRate("first", "A", 310, 3_100, 372, 0.12, 0.109, 0.132)]

    def try_out(
        self,
        user_id: str,
        *,
        clicked: Sequence[str] = (),
        skipped: Sequence[str] = (),
        request: RankRequest | None = None,
    ) -> tuple[Moved, ...]:
        if self.fails is not None:
            raise self.fails
        self.calls.append("try_out")
        request = request or RankRequest()
        stories = self._live()
        for news_id in (*clicked, *skipped):
            if news_id not in stories:
                raise SettingsError(f"story '{news_id}' is not in the catalogue; put it first")
        state = self._store.user(user_id)
        before = self._order(state.profile, request, state.clicked)
        profile = Profile(
            [*(entry.news_id for entry in state.profile.clicked), *clicked],
            [*(entry.news_id for entry in state.profile.skipped), *skipped],
        )
        after = self._order(profile, request, {*state.clicked, *clicked})
        return tuple(
            Moved(
                news_id,
                stories[news_id].title,
                self._score(news_id, state.profile),
                self._score(news_id, profile),
                before.index(news_id) + 1,
                place,
            )
            for place, news_id in enumerate(after, 1)
        )[: request.count]

    def explain(self, user_id: str, candidates: Sequence[str] | None = None, *, count: int = 10) -> Explanation:
        profile, stories = self._store.user(user_id).profile, self._live()
        sides: dict[Side, list[str]] = {
            "clicked": [entry.news_id for entry in profile.clicked],
            "skipped": [entry.news_id for entry in profile.skipped],
        }
        chosen = list(candidates or self._order(profile, RankRequest(), set()))[:count]
        explained = []
        for news_id in chosen:
            influences = tuple(
                Influence(one, side, (1 if side == "clicked" else -1) * 0.1)
                for side, ids in sides.items()
                for one in ids
                if stories[one].category == stories[news_id].category
            )
            story = stories[news_id]
            explained.append(
                ExplainedCandidate(
                    news_id, story.title, story.category or "", self._score(news_id, profile), influences
                )
            )
        columns = [self._explained(ids, stories) for ids in sides.values()]
        return Explanation(user_id, "first", "A", columns[0], columns[1], self.aggregator, tuple(explained))

    def _explained(self, ids: list[str], stories: dict[str, Story]) -> tuple[ExplainedStory, ...]:
        total = sum(range(1, len(ids) + 1))
        rows = []
        for place, news_id in enumerate(reversed(ids)):
            weights = {}
            for number, name in reversed(list(enumerate(self.weights))):  # models list them in any order
                turn = (place + number) % len(ids) + 1
                weights[name] = turn / total
            moment = datetime(2026, 3, 1, 12, tzinfo=UTC) - timedelta(hours=place)
            story = stories[news_id]
            rows.append(ExplainedStory(news_id, story.title, story.category or "", moment, weights))
        return tuple(rows)

    def _live(self) -> dict[str, Story]:
        return {stored.story.news_id: stored.story for stored in self._store.stories()}

    def _score(self, news_id: str, profile: Profile) -> float:
        stories = self._live()
        category = stories[news_id].category

        def same(side: Side) -> int:
            return sum(stories[entry.news_id].category == category for entry in getattr(profile, side))

        return 0.5 - 0.01 * list(stories).index(news_id) + 0.1 * (same("clicked") - same("skipped"))

    def _order(self, profile: Profile, request: RankRequest, hidden: set[str] | frozenset[str]) -> list[str]:
        rules, stories = request.rules, self._live()
        listed = [
            news_id
            for news_id in stories
            if news_id not in hidden and stories[news_id].category not in rules.without_categories
        ]
        listed.sort(key=lambda news_id: -self._score(news_id, profile))
        pinned = [news_id for news_id in rules.pin if news_id in listed]
        middle = [news_id for news_id in listed if news_id not in (*rules.pin, *rules.bury)]
        return [*pinned, *middle, *(news_id for news_id in listed if news_id in rules.bury)]


def fill(store: Store, titles: dict[str, str] | None = None) -> None:
    """Put stories, and let the reader "anna" see two pages; `titles` replace those of some stories."""
    stories = [Story(news_id, title, category) for news_id, category, title in TITLES]
    store.put_news([replace(story, title=(titles or {}).get(story.news_id, story.title)) for story in stories]).result()
    pages = [(("cup", "budget", "storm"), ("cup",)), (("bank", "museum", "coach", "snow"), ("bank", "museum"))]
    for number, (page, clicked) in enumerate(pages):
        store.add_impression(Impression(f"i{number}", "anna", shown_stories(page, clicked), complete=True)).result()
