"""Open a store by its URL."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import unquote

from drpn.errors import SettingsError
from drpn.store.base import Store
from drpn.store.settings import StoreSettings


def server_time() -> datetime:
    """The time of this machine."""
    return datetime.now(UTC)


def open_store(
    url: str, settings: StoreSettings | None = None, *, clock: Callable[[], datetime] = server_time
) -> Store:
    """Open the store at a URL such as `sqlite:///store.db` (relative) or `sqlite:////var/lib/drpn/store.db`.

    A file that does not exist is created.
    """
    scheme, separator, rest = url.partition("://")
    if not separator or scheme != "sqlite":
        raise SettingsError(f"the store '{url}' is not supported; write sqlite:///PATH, such as sqlite:///store.db")
    path = unquote(rest.removeprefix("/"))
    if not rest.startswith("/") or not path or path.endswith("/"):
        raise SettingsError(f"the store '{url}' names no file; write sqlite:///PATH, such as sqlite:///store.db")
    from drpn.store.sqlite.store import SqliteStore  # only the chosen store is loaded

    return SqliteStore(Path(path), settings or StoreSettings(), clock)
