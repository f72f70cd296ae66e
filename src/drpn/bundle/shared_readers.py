"""Users as a model encodes them, for several processes on a machine: what one has encoded the others need not.

A file has a place for each of some thousand users, chosen by a hash of the stories of their profile. Nothing is locked:
a checksum over key and content says whether a place holds the user that is asked for, whole.
"""

import hashlib
import os
from collections.abc import Sequence
from contextlib import suppress
from math import prod
from pathlib import Path

import torch
from torch import Tensor

from drpn.bundle.scoring import ProfileStories

_CHECK = 16


class SharedReaders:
    """Tensors of users in a file; all users have tensors of the same shapes."""

    def __init__(self, file: Path, places: int) -> None:
        self._file = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
        self._places = places
        self._shapes: list[torch.Size] | None = None
        self._bytes = 0

    def get(self, profile: ProfileStories) -> list[Tensor] | None:
        """The tensors of a user; None if no process has stored them, or this one has stored none yet."""
        if self._shapes is None:
            return None
        key = _key(profile)
        data = os.pread(self._file, _CHECK + self._bytes, self._place(key))
        if len(data) < _CHECK + self._bytes or data[:_CHECK] != _check(key, data[_CHECK:]):
            return None
        values = torch.frombuffer(bytearray(data[_CHECK:]), dtype=torch.float32)
        parts = torch.split(values, [prod(shape) for shape in self._shapes])
        return [part.view(shape) for part, shape in zip(parts, self._shapes, strict=True)]

    def put(self, profile: ProfileStories, tensors: Sequence[Tensor]) -> None:
        """Store the tensors of a user."""
        if self._shapes is None:
            self._shapes = [tensor.shape for tensor in tensors]
            self._bytes = 4 * sum(map(prod, self._shapes))
        data = torch.cat([tensor.flatten().float() for tensor in tensors]).numpy().tobytes()
        key = _key(profile)
        with suppress(OSError):  # a disk without space: each process has its own
            os.pwrite(self._file, _check(key, data) + data, self._place(key))

    def _place(self, key: bytes) -> int:
        return int.from_bytes(key[:8], "big") % self._places * (_CHECK + self._bytes)

    def __del__(self) -> None:
        os.close(self._file)


def _key(profile: ProfileStories) -> bytes:
    text = "\0".join([str(profile.row), str(len(profile.clicked)), *profile.clicked, *profile.skipped])
    return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=32).digest()


def _check(key: bytes, data: bytes) -> bytes:
    return hashlib.blake2b(data, key=key, digest_size=_CHECK).digest()
