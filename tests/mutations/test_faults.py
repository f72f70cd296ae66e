"""The tests of each model and layer catch every planted fault."""

from pathlib import Path

import pytest

from mutations.faults import FAULTS, GROUPS, SAMPLE, Planted, written
from mutations.planting import Group, caught, plant


def every(planted: list[Planted]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("planted", planted, ids=[f"{group.name}: {fault.name}" for group, fault in planted])


every_fault = every(FAULTS)


def test_every_name_is_used_once() -> None:
    names = [(group.name, fault.name) for group, fault in FAULTS]
    assert len(set(names)) == len(names)


@every_fault
def test_the_source_still_has_the_text_of_the_fault(planted: Planted) -> None:
    compile(plant(planted.fault), planted.fault.file, "exec")


def test_the_page_lists_every_fault_and_the_test_that_caught_it() -> None:
    assert list(written()) == [(group.name, fault.name) for group, fault in FAULTS]
    assert all(test and test.startswith("test_") for test in written().values())


def check_caught(planted: Planted, folder: Path) -> None:
    first = caught(planted.fault, planted.group.tests, folder)
    assert first is not None, f"no test of {planted.group.name} notices: {planted.fault.name}"
    print(f"{planted.fault.name}: caught by {first.test}")
    # because of a wrong number, not because the fault broke the program
    assert first.message.startswith(("AssertionError", "assert ")), first.message


@every(SAMPLE)
def test_a_fault_of_the_sample_is_caught(planted: Planted, tmp_path: Path) -> None:
    check_caught(planted, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("group", GROUPS, ids=[group.name for group in GROUPS])
def test_without_a_fault_the_tests_pass(group: Group, tmp_path: Path) -> None:
    assert caught(None, group.tests, tmp_path) is None


@pytest.mark.slow
@every_fault
def test_a_fault_is_caught(planted: Planted, tmp_path: Path) -> None:
    check_caught(planted, tmp_path)
