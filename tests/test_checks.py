"""Checks of parameters name the parameter and its value; booleans are no numbers."""

import math
from fractions import Fraction

import numpy as np
import pytest

from corrtensor._base.checks import (
    is_number,
    is_share,
    is_whole,
    require_count,
    require_not_negative,
    require_positive,
)

NO_NUMBERS = [True, np.True_, None, "2", 2j, [2], np.array(2), np.array([2])]
no_numbers = pytest.mark.parametrize("value", NO_NUMBERS, ids=repr)


@no_numbers
@pytest.mark.parametrize("require", [require_positive, require_not_negative, require_count])
def test_what_is_no_number_is_a_type_error(require, value):
    with pytest.raises(TypeError) as error:
        require(size=value)
    assert str(error.value).startswith(f"size={value!r} must be a")


@no_numbers
def test_what_is_no_number_is_nothing_else_either(value):
    assert not is_number(value)
    assert not is_whole(value)
    assert not is_share(value)


@pytest.mark.parametrize(
    ("require", "good", "bad"),
    [
        (require_positive, [1, 0.5, 5e-324, np.float32(2), Fraction(1, 3)], [0, -1.0]),
        (require_not_negative, [0, 0.0, 1, np.int8(3)], [-1, -1e-300]),
        (require_count, [1, np.uint8(7), 10**30], [0, -1, 2.0, 2.5, np.float64(3)]),
    ],
)
def test_what_is_out_of_range_is_a_value_error(require, good, bad):
    require(**{f"n{i}": value for i, value in enumerate(good)})
    for value in (*bad, math.nan, math.inf, -math.inf):
        with pytest.raises(ValueError) as error:
            require(fine=good[0], size=value)
        assert str(error.value).startswith(f"size={value!r} must be ")


def test_a_count_may_begin_elsewhere():
    require_count(0, n_init=0)
    with pytest.raises(ValueError, match="n_init=2 must be a whole number of at least 3"):
        require_count(3, n_init=2)


def test_shares():
    assert [is_share(v) for v in (0, 0.1, 1, 1.1, math.nan, math.inf)] == [0, 1, 1, 0, 0, 0]
    assert [is_share(v, 0.5) for v in (0.0, 0.5, 0.6)] == [False, True, False]
