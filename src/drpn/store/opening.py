"""Open a store by its URL."""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import unquote

from drpn.errors import SettingsError, StoreError
from drpn.store.base import Store
from drpn.store.settings import StoreSettings

_EXAMPLES = "write sqlite:///PATH, such as sqlite:///store.db, or postgresql://USER:PASSWORD@HOST/DATABASE"


def server_time() -> datetime:
    """The time of this machine."""
    return datetime.now(UTC)


def open_store(
    url: str, settings: StoreSettings | None = None, *, clock: Callable[[], datetime] = server_time
) -> Store:
    """Open the store at a URL such as `sqlite:///store.db` (relative) or `sqlite:////var/lib/drpn/store.db`.

    A file that does not exist is created. `postgresql://USER:PASSWORD@HOST:PORT/DATABASE` is a store in a database of a
    PostgreSQL server, with the parameters that its library takes; the database must exist.
    """
    scheme, separator, rest = url.partition("://")
    settings = settings or StoreSettings()
    if separator and scheme == "sqlite":
        path = unquote(rest.removeprefix("/"))
        if not rest.startswith("/") or not path or path.endswith("/"):
            raise SettingsError(f"the store '{url}' names no file; {_EXAMPLES}")
        from drpn.store.sqlite.store import SqliteStore  # only the chosen store is loaded

        return SqliteStore(Path(path), settings, clock)
    if separator and scheme in ("postgresql", "postgres"):
        try:
            from drpn.store.postgres.store import PostgresStore
        except ImportError as error:
            raise StoreError(
                'a store in PostgreSQL needs psycopg; install it with: pip install "drpn[postgres]"'
            ) from error
        return PostgresStore(url, without_password(url), settings, clock)
    raise SettingsError(f"the store '{without_password(url)}' is not supported; {_EXAMPLES}")


def without_password(url: str) -> str:
    """A URL that may be shown."""
    url = re.sub(r"(://[^/?#:@]*):.*@", r"\1:***@", url)
    return re.sub(r"([?&](?:password|sslpassword)=)[^&]*", r"\1***", url)
