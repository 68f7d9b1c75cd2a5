"""Numbers in order are the same as those sorted anew."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.provisioner.deciding.ranked import Ranked

_NUMBERS = st.sampled_from((0, 1, 2, 3, 5, 8))


@given(st.lists(st.tuples(st.booleans(), _NUMBERS), max_size=20), _NUMBERS, _NUMBERS, st.integers(0, 6))
def test_the_largest_by_rank_are_those_of_a_sorted_list(
    changes: list[tuple[bool, int]], at_most: int, without: int, most: int
) -> None:
    ranked, known = Ranked(), list[int]()
    for is_new, number in changes:
        if is_new:
            ranked.add(number)
            known.append(number)
        elif number in known:
            ranked.remove(number)
            known.remove(number)
    assert ranked.smallest() == min(known, default=None)
    assert ranked.largest() == max(known, default=None)
    assert ranked.largest(at_most=at_most) == max((one for one in known if one <= at_most), default=None)
    assert (without in ranked) == (without in known)
    if without in known:
        rest = sorted(known)
        rest.remove(without)
        assert ranked.largest(without=without) == max(rest, default=None)
        largest = rest[::-1][:most]
        assert ranked.sum_of_largest(most, without=without) == (len(largest), sum(largest))


def test_a_number_that_is_not_there_cannot_be_taken_out() -> None:
    ranked = Ranked()
    ranked.add(1)
    with pytest.raises(KeyError):
        ranked.remove(2)
    assert ranked.largest() == 1
