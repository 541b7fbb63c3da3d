"""The errors and exit statuses of the suite: the source of an error determines the exit status."""

import pytest

from conformance.codec import UnknownType
from conformance.errors import CannotStart, ConformanceError, ExitStatus, FileError, SuiteBug, UsageError, overall
from conformance.targets.resolve import UnknownTarget

OK, FAILED, WRONG_INPUT, NOT_JUDGED, DEFECT, INTERRUPTED = ExitStatus


@pytest.mark.parametrize(
    ("reasons", "status"),
    [
        ([], OK),
        ([FAILED], FAILED),
        ([FAILED, NOT_JUDGED], NOT_JUDGED),
        ([NOT_JUDGED, WRONG_INPUT, FAILED], WRONG_INPUT),
        ([WRONG_INPUT, DEFECT], DEFECT),
        ([WRONG_INPUT, DEFECT, INTERRUPTED], INTERRUPTED),
    ],
)
def test_the_exit_status_follows_the_order_interrupt_70_2_3_1(reasons, status):
    assert overall(reasons) is status


def test_exit_statuses_equal_the_contract():
    assert [int(status) for status in ExitStatus] == [0, 1, 2, 3, 70, 130]


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (FileError("f.yaml", "wrong", 3), WRONG_INPUT),
        (UsageError("--seed", "wrong"), WRONG_INPUT),
        (UnknownTarget("wrong"), WRONG_INPUT),
        (UnknownType("wrong"), WRONG_INPUT),
        (CannotStart("wrong"), NOT_JUDGED),
        (SuiteBug("wrong"), DEFECT),
    ],
)
def test_every_error_has_the_common_base_class_and_an_exit_status(error, status):
    assert isinstance(error, ConformanceError)
    assert error.exit_status is status


def test_a_wrong_option_is_named_as_an_option_and_a_wrong_line_as_a_place_in_a_file():
    assert str(UsageError("--seed", "expected a number or random")) == "--seed: expected a number or random"
    assert not isinstance(UsageError("--seed", "wrong"), FileError)
    assert str(FileError("f.yaml", "a list is expected", 3)) == "f.yaml:3: a list is expected"
