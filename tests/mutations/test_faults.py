"""The tests against loops catch every planted fault."""

from pathlib import Path

import pytest

from mutations.faults import FAULTS, PAGE, Fault, caught, plant

every_fault = pytest.mark.parametrize("fault", FAULTS, ids=[fault.name for fault in FAULTS])


@every_fault
def test_the_source_still_has_the_text_of_the_fault(fault: Fault) -> None:
    compile(plant(fault), fault.file, "exec")


def test_the_page_lists_every_fault_and_the_test_that_caught_it() -> None:
    rows = [line.split(" | ") for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    assert [name.removeprefix("| ") for name, _, _ in rows[1:]] == [fault.name for fault in FAULTS]
    assert all(test.startswith("`test_") for _, _, test in rows[1:])


@pytest.mark.slow
def test_without_a_fault_the_tests_pass(tmp_path: Path) -> None:
    assert caught(None, tmp_path) is None


@pytest.mark.slow
@every_fault
def test_a_fault_is_caught(fault: Fault, tmp_path: Path) -> None:
    first = caught(fault, tmp_path)
    assert first is not None, f"no test of the network notices: {fault.name}"
    print(f"{fault.name}: caught by {first.test}")
    # because of a wrong number, not because the fault broke the program
    assert first.message.startswith("AssertionError: Tensor-likes are not close"), first.message
