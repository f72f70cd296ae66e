"""Which bundle ranks for which users."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from drpn.errors import SettingsError


@dataclass(frozen=True)
class Variant:
    """A bundle and the share of users that it ranks for."""

    name: str
    bundle: Path
    share: float = 1.0


class Shares:
    """Splits users among variants by a hash of their id."""

    def __init__(self, variants: Sequence[Variant]) -> None:
        """The names differ and the shares sum to 1, or a `SettingsError` says so."""
        names = [variant.name for variant in variants]
        if not variants or len(set(names)) < len(names):
            raise SettingsError("a newsroom needs one or more variants with different names")
        if any(variant.share < 0 for variant in variants) or abs(sum(one.share for one in variants) - 1) > 1e-6:
            raise SettingsError("the shares of the variants must be 0 or more and sum to 1")
        self._shares = [(variant.name, variant.share) for variant in variants]

    @property
    def first(self) -> str:
        """The name of the first variant."""
        return self._shares[0][0]

    def variant_of(self, user_id: str | None) -> str:
        """The variant that ranks for a user; the first one without a user."""
        if user_id is None or len(self._shares) == 1:
            return self.first
        digest = hashlib.sha256(b"variant\0" + user_id.encode(errors="surrogatepass")).digest()
        place = int.from_bytes(digest[:8], "big") / 2**64
        for name, share in self._shares:
            place -= share
            if place < 0:
                return name
        return self._shares[-1][0]
