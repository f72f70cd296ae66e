"""Encoded users that several processes share."""

from pathlib import Path

import pytest
import torch

from drpn.bundle.scoring import ProfileStories
from drpn.bundle.shared_readers import SharedReaders

ANNA, BEN = ProfileStories(1, ("a", "b"), ("c",)), ProfileStories(2, ("a",), ())


def tensors(seed: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(12, generator=generator), torch.randn(2, 3, 4, generator=generator)]


@pytest.fixture
def processes(tmp_path: Path) -> list[SharedReaders]:
    """Two processes; each has stored a user and so knows the shapes."""
    both = [SharedReaders(tmp_path / "readers", 1000) for _ in range(2)]
    for number, one in enumerate(both):
        one.put(ProfileStories(100 + number, (), ()), tensors(number))
    return both


def test_one_process_finds_what_another_stored(processes: list[SharedReaders]) -> None:
    first, second = processes
    assert second.get(ANNA) is None
    first.put(ANNA, tensors(7))
    stored = second.get(ANNA)
    assert stored is not None
    assert all(torch.equal(one, other) for one, other in zip(stored, tensors(7), strict=True))


@pytest.mark.parametrize(
    "other",
    [
        ANNA._replace(row=3),
        ANNA._replace(clicked=("b", "a")),
        ANNA._replace(clicked=("a",), skipped=("b", "c")),
        ANNA._replace(skipped=()),
    ],
)
def test_another_profile_is_another_user(processes: list[SharedReaders], other: ProfileStories) -> None:
    first, second = processes
    first.put(ANNA, tensors(7))
    assert second.get(other) is None


def test_users_at_the_same_place_replace_each_other(tmp_path: Path) -> None:
    one = SharedReaders(tmp_path / "readers", 1)
    one.put(ANNA, tensors(1))
    one.put(BEN, tensors(2))
    assert one.get(ANNA) is None
    assert one.get(BEN) is not None


def test_a_place_that_is_half_written_is_not_used(processes: list[SharedReaders], tmp_path: Path) -> None:
    first, second = processes
    first.put(ANNA, tensors(7))
    data = bytearray((tmp_path / "readers").read_bytes())
    place = data.index(tensors(7)[0].numpy().tobytes())
    data[place + 40] ^= 1
    (tmp_path / "readers").write_bytes(data)
    assert second.get(ANNA) is None


def test_nothing_is_found_before_the_shapes_are_known(tmp_path: Path) -> None:
    SharedReaders(tmp_path / "readers", 10).put(ANNA, tensors(1))
    assert SharedReaders(tmp_path / "readers", 10).get(ANNA) is None
