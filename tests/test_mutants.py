"""The list of faults follows the code; putting them in is for ``make mutants``."""

from tests.mutants import FAULTS, check_list


def test_every_fault_can_be_put_in():
    check_list(FAULTS)
    assert len({fault.name for fault in FAULTS}) == len(FAULTS) >= 60
