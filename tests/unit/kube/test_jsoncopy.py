"""The fake API server hands out copies of its objects."""

import copy
from collections.abc import Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from accelet.fakeapi.jsoncopy import copy_json

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)


def containers(value: Any) -> Iterator[int]:
    """The identities of each dict and list in a value."""
    if isinstance(value, (dict, list)):
        yield id(value)
        for inner in value.values() if isinstance(value, dict) else value:
            yield from containers(inner)


@given(JSON)
def test_a_copy_has_the_same_content_and_shares_nothing_that_can_change(value: Any) -> None:
    found = copy_json(value)
    assert (found, repr(found)) == (value, repr(copy.deepcopy(value)))
    assert not {*containers(found)} & {*containers(value)}


def test_what_a_value_has_twice_its_copy_has_as_two() -> None:
    twice: list[int] = []
    found = copy_json({"a": twice, "b": twice})
    found["a"].append(1)
    assert (found["b"], twice) == ([], [])
