"""A running newsroom: bundles that rank, and a store that remembers.

Everything that rankings know comes from the bundles and from the log of the store, never from who handled a request:
several processes may share a store. A newsroom follows the log before each ranking.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from drpn.service.requests import (
    Answer,
    Explanation,
    Moved,
    NewsroomFigures,
    RankRequest,
    UserView,
    VariantRate,
)
from drpn.service.settings import NewsroomSettings
from drpn.store.base import Store
from drpn.store.opening import server_time
from drpn.store.records import Click, Impression, LoggedEvent, Receipt, Story


@dataclass(frozen=True)
class Variant:
    """A bundle and the share of users that it ranks for."""

    name: str
    bundle: Path
    share: float = 1.0


class Newsroom:
    """Ranks with one or two bundles, and stores feedback, which the next ranking knows.

    All methods may be called from any thread. Those that return a future do not block: `asyncio.wrap_future` awaits it.
    """

    def __init__(
        self,
        variants: Sequence[Variant],
        store: Store,
        settings: NewsroomSettings | None = None,
        *,
        key: bytes | None = None,
        clock: Callable[[], datetime] = server_time,
    ) -> None:
        """Open the bundles, seed an empty store with the profiles of the first, and follow the log to its end.

        Users are split among the variants by a hash of their id; the shares sum to 1. `key` signs impression ids; all
        processes that share a store need the same one (`signing.load_key`). Without it, ids are valid until this
        process ends. The store stays open when the newsroom is closed.
        """

    # rankings

    def rank(self, request: RankRequest) -> Answer:
        """Rank now; raises `OverloadError` if too many requests wait, and `SettingsError` if it cannot be answered."""

    def submit(self, request: RankRequest) -> Future[Answer]:
        """`rank` without waiting. The future always resolves within about `settings.seconds`, if need be with a
        fallback. Raises `OverloadError`, which carries `retry_after` in seconds, at once."""

    def explain(self, user_id: str, candidates: Sequence[str] | None = None, *, count: int = 10) -> Explanation:
        """The weights of the user's stories, and for each candidate those that move its score most.

        Without candidates, those that rank first. Nothing is stored.
        """

    def try_out(
        self,
        user_id: str,
        *,
        clicked: Sequence[str] = (),
        skipped: Sequence[str] = (),
        request: RankRequest | None = None,
    ) -> tuple[Moved, ...]:
        """The first stories of a ranking, before and after clicks and skips are added to the profile; nothing is
        stored. Stories are in their order after."""

    # changes; all are durable when the future resolves, and known to the next ranking

    def record(self, impression: Impression, *, key: str | None = None) -> Future[Receipt]:
        """Store a page view. An impression id that a ranking returned is checked (`ImpressionIdError` if it is forged,
        expired or of another user) and fills in bundle and variant; other ids are the site's own."""

    def click(self, click: Click, *, key: str | None = None) -> Future[Receipt]:
        """Store a click on an earlier impression; ids are checked as in `record`, without the expiry."""

    def put_news(self, stories: Sequence[Story], *, key: str | None = None) -> Future[Receipt]:
        """Add or replace stories; the next ranking has them."""

    def take_down(self, news_ids: Sequence[str], *, key: str | None = None) -> Future[Receipt]:
        """Take stories down; no ranking has them until they are put again."""

    def erase(self, user_id: str) -> Future[Receipt]:
        """Erase a user from the store, from memory, and from what rankings use of the bundle."""

    # questions

    def user(self, user_id: str) -> UserView:
        """Profile and clicks of a user."""

    def export_user(self, user_id: str) -> Iterator[LoggedEvent]:
        """All events of a user, to hand to the user."""

    def variant_of(self, user_id: str | None) -> str:
        """The variant that ranks for a user; the first one without a user."""

    def rates(self) -> list[VariantRate]:
        """Click rates by bundle and variant."""

    def figures(self) -> NewsroomFigures:
        """Figures for monitoring."""

    @property
    def bundles(self) -> dict[str, Path]:
        """The bundle of each variant."""

    def card(self, variant: str | None = None) -> str:
        """The model card of a variant's bundle, as Markdown; of the first variant by default."""

    # running

    def reload(self, path: Path, variant: str | None = None) -> None:
        """Replace the bundle of a variant, the first by default, without losing a request. Blocks until it serves.

        The new bundle is opened, checked and brought up to date first. If that fails (`RunError`), the old one stays.
        """

    def catch_up(self) -> int:
        """Follow the log of the store to its end; returns the number of the newest event. Rankings do this first."""

    def close_stale(self, older_than_hours: float = 1.0) -> int:
        """Close open impressions of users who did not come back; returns how many. Call it from time to time."""

    def close(self) -> None:
        """Answer what waits, then stop; the store stays open."""
