"""Addresses of stores."""

import sys

import pytest

from drpn.errors import SettingsError, StoreError
from drpn.store.opening import open_store, without_password


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://anna:secret@host:5432/db", "postgresql://anna:***@host:5432/db"),
        ("postgresql://anna:se@cr/et@host/db", "postgresql://anna:***@host/db"),
        ("postgresql://:secret@host/db", "postgresql://:***@host/db"),
        ("postgresql://host:5432/db", "postgresql://host:5432/db"),
        ("postgresql:///db?user=anna&password=secret&port=1", "postgresql:///db?user=anna&password=***&port=1"),
        ("sqlite:///store.db", "sqlite:///store.db"),
    ],
)  # fmt: skip
def test_passwords_are_not_shown(url: str, shown: str) -> None:
    assert without_password(url) == shown


def test_an_unknown_kind_of_store_does_not_show_a_password() -> None:
    with pytest.raises(SettingsError) as raised:
        open_store("postgressql://anna:secret@host/db")
    assert "secret" not in str(raised.value)


def test_psycopg_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("drpn.store.postgres")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(StoreError, match=r"pip install \"drpn\[postgres\]\""):
        open_store("postgresql://host/db")
