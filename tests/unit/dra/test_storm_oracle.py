"""The judge of storms on real clusters finds what is wrong."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.e2e.dra.oracle import Held, Part, find_doubles, parts_of, seen_in

START = datetime(2026, 1, 1, tzinfo=UTC)
TILE: Part = ("card", 0, 1)


def held(
    pod: str,
    began: int,
    ended: int,
    millicores: int | None = None,
    parts: frozenset[Part] = frozenset({TILE}),
) -> Held:
    at = (START + timedelta(seconds=began), START + timedelta(seconds=ended))
    return Held(pod, parts, *at, millicores)


@pytest.mark.parametrize(
    ("device", "parts"),
    [
        ("gpu-0000-41-00-0-tile-1", {("card", 1, 1)}),
        ("gpu-0000-40-00-0", {("card", 0, 0), ("card", 0, 1)}),
        ("gpu-0000-40-00-0-monitor", {("card", 0, 0), ("card", 0, 1)}),
        ("chips-2-0000-00-0e-0-0000-00-0f-0", {("chip", 2, 0), ("chip", 3, 0)}),
        ("chips-1-0000-80-01-0", {("chip", 5, 0)}),
    ],
)
def test_devices_are_read_as_their_parts(device: str, parts: set[Part]) -> None:
    assert parts_of([{"device": device}]) == parts


def test_a_mask_counts_tiles_over_the_cards_that_are_there() -> None:
    log = "view cards=card0,card3,renderD128, groups= mask=1,2 hierarchy=FLAT\n"
    assert seen_in(log) == frozenset({("card", 0, 1), ("card", 3, 0)})


def test_cards_without_a_mask_are_whole_and_groups_are_chips() -> None:
    log = "view cards=card2, groups=5,7,vfio, mask= hierarchy=\n"
    assert seen_in(log, ["4", "5", "6", "7"]) == frozenset(
        {("card", 2, 0), ("card", 2, 1), ("chip", 1, 0), ("chip", 3, 0)}
    )


def test_a_container_that_printed_nothing_saw_nothing() -> None:
    assert seen_in("sh: not found\n") is None


def test_one_part_for_two_at_a_time_is_told() -> None:
    assert find_doubles([held("a", 0, 5), held("b", 4, 9)]) == [f"a and b both had {[TILE]}"]
    assert find_doubles([held("a", 0, 5), held("b", 5, 9)]) == []
    assert find_doubles([held("a", 0, 5, millicores=500), held("b", 4, 9)]) != []


def test_shares_may_be_beside_one_another_up_to_the_whole() -> None:
    shares = [held("a", 0, 5, 500), held("b", 1, 5, 250), held("c", 2, 5, 250)]
    assert find_doubles(shares) == []
    assert find_doubles([*shares, held("d", 3, 4, 100)]) == [
        "more than 1000 millicores when d began: ['a', 'b', 'c', 'd']"
    ]
