"""A service does not stop to look through all objects."""

import gc

from drpn.service.garbage import few_full_collections


def full_collections() -> int:
    """How many there are while long-lived objects are made."""
    before = gc.get_stats()[2]["collections"]
    kept = [[number] for number in range(400_000)]
    assert len(kept) == 400_000
    return gc.get_stats()[2]["collections"] - before


def test_full_collections_are_left_out() -> None:
    with few_full_collections():
        assert full_collections() == 0
    assert gc.get_freeze_count() == 0


def test_garbage_among_new_objects_is_found() -> None:
    with few_full_collections():
        before = gc.get_stats()[0]["collected"]
        for _ in range(10_000):
            circle: list[object] = []
            circle.append(circle)
        assert gc.get_stats()[0]["collected"] > before
