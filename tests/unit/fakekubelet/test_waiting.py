"""What a scenario waits for."""

from types import MappingProxyType

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.fakekubelet.scenario.format import Wait

AMOUNTS = ("healthy", "unhealthy", "capacity", "allocatable")
KNOWN = MappingProxyType({**dict.fromkeys(AMOUNTS, 4), "connected": True, "registrations": 3})


@pytest.mark.parametrize(
    ("registrations", "holds"), [(0, False), (1, True), (3, True), (4, False), (None, True)]
)
def test_a_plugin_may_have_registered_more_often_than_is_waited_for(
    registrations: int | None, holds: bool
) -> None:
    assert Wait(resource="a.com/b", registrations=registrations).holds(KNOWN) is holds


def test_no_registration_is_what_0_waits_for() -> None:
    assert Wait(resource="a.com/b", registrations=0).holds({**KNOWN, "registrations": 0})


@given(st.dictionaries(st.sampled_from(AMOUNTS), st.integers(3, 5)), st.none() | st.booleans())
def test_all_else_is_exactly_as_it_is_waited_for(amounts: dict[str, int], connected: bool | None) -> None:
    action = msgspec.structs.replace(Wait(resource="a.com/b", connected=connected), **amounts)
    assert dict(action.wanted) == amounts | ({} if connected is None else {"connected": connected})
    assert action.holds(KNOWN) is (set(amounts.values()) <= {4} and connected in (None, True))
