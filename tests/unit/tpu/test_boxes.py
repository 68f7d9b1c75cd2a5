from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.accelerators.backend import EditsError
from accelet.accelerators.device import DeviceId
from accelet.accelerators.inventory import Inventory
from accelet.accelerators.tpu.backend import TpuBackend
from accelet.accelerators.tpu.settings import TpuSettings
from accelet.fakehost.tpu import HOSTS
from resourcemanager.giving.preference import prefer

SUB_HOST = TpuBackend(TpuSettings(mode="sub-host"))
VALID = {
    1: [{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}],
    2: [{0, 1}, {2, 3}, {4, 5}, {6, 7}],
    4: [{0, 1, 2, 3}, {4, 5, 6, 7}],
    8: [{0, 1, 2, 3, 4, 5, 6, 7}],
}
"""The groups of an 8-chip host that libtpu is known to start on."""


@cache
def scanned(name: str) -> Inventory:
    with TemporaryDirectory() as folder:
        return SUB_HOST.scan(HOSTS[name].write(Path(folder)))


@dataclass
class Node:
    """A host whose chips are named by position, allocated as a kubelet that honours preferences does."""

    inventory: Inventory = field(default_factory=lambda: scanned("v5e-8"))
    free: set[int] = field(default_factory=lambda: set(range(8)))

    def ids(self, places: Iterable[int]) -> list[DeviceId]:
        return [self.inventory.devices[place].id for place in places]

    def prefer(self, size: int, must_include: Iterable[int] = ()) -> set[int] | None:
        available = self.ids(self.free)
        chosen = prefer(
            self.inventory.devices,
            available,
            self.ids(must_include),
            size,
            policy="none",
            valid_sets=SUB_HOST.valid_sets(self.inventory, size, available),
        )
        if not chosen:
            return None
        place = {device.id: index for index, device in enumerate(self.inventory.devices)}
        return {place[chip] for chip in chosen}

    def is_accepted(self, places: Iterable[int]) -> bool:
        devices = [self.inventory.devices[place] for place in places]
        try:
            SUB_HOST.edits(self.inventory, devices, {}, {})
        except EditsError:
            return False
        return True


operations = st.lists(
    st.tuples(st.sampled_from(["take", "give back"]), st.integers(1, 8), st.integers(0, 7)), max_size=40
)


@given(operations, st.sets(st.integers(0, 7), max_size=3))
def test_honoured_preference_gives_valid_boxes_and_refuses_none_that_exists(
    steps: list[tuple[str, int, int]], ill: set[int]
) -> None:
    node = Node(free=set(range(8)) - ill)
    held: list[set[int]] = []
    for what, size, which in steps:
        if what == "give back" and held:
            node.free |= held.pop(which % len(held))
        elif what == "take":
            chosen = node.prefer(size)
            possible = [box for box in VALID.get(size, []) if box <= node.free]
            assert (chosen in possible) if possible else (chosen is None)
            if chosen is not None:
                assert node.is_accepted(chosen)
                held.append(chosen)
                node.free -= chosen
        assert sum(map(len, held)) + len(node.free) == 8 - len(ill)


@given(st.sets(st.integers(0, 7), min_size=1))
def test_only_the_known_groups_of_an_eight_chip_host_are_accepted(places: set[int]) -> None:
    assert Node().is_accepted(places) == (places in VALID.get(len(places), []))


@given(st.sets(st.integers(0, 7)), st.sampled_from([1, 2, 4, 8]))
def test_choice_leaves_the_largest_boxes_free(free: set[int], size: int) -> None:
    node = Node(free=free)
    chosen = node.prefer(size)
    possible = [box for box in VALID[size] if box <= free]

    def left(taken: set[int]) -> list[int]:
        return [sum(box <= free - taken for box in VALID[larger]) for larger in (8, 4, 2)]

    assert chosen is None if not possible else left(chosen or set()) == max(left(box) for box in possible)


@given(st.sets(st.integers(0, 7), min_size=1), st.data())
def test_choice_is_made_around_what_must_be_in_it(free: set[int], data: st.DataObject) -> None:
    must = data.draw(st.sets(st.sampled_from(sorted(free)), max_size=4))
    size = data.draw(st.sampled_from([1, 2, 4, 8]))
    possible = [box for box in VALID[size] if must <= box <= free]

    chosen = Node(free=free).prefer(size, must)

    assert (chosen in possible) if possible else (chosen is None)


@pytest.mark.parametrize(
    ("free", "size", "expected"),
    [
        ({0, 1, 2, 3, 4, 5, 6, 7}, 1, {0}),
        ({1, 2, 3, 4, 5, 6, 7}, 1, {1}),
        ({1, 2, 3, 4, 5, 6, 7}, 2, {2, 3}),
        ({0, 1, 2, 3, 6, 7}, 2, {6, 7}),
        ({0, 1, 4, 5, 6, 7}, 1, {0}),
        ({0, 1, 2, 4, 5, 6, 7}, 1, {2}),
        ({1, 2, 5, 6}, 2, None),
        ({0, 1, 4, 5}, 4, None),
    ],
)
def test_small_boxes_come_from_what_is_broken_already(
    free: set[int], size: int, expected: set[int] | None
) -> None:
    assert Node(free=free).prefer(size) == expected


@pytest.mark.parametrize(
    ("name", "size", "expected"),
    [
        ("v5e-8", 1, [{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}]),
        ("v5e-8", 2, [{0, 1}, {2, 3}, {4, 5}, {6, 7}]),
        ("v5e-8", 3, []),
        ("v5e-8", 4, [{0, 1, 2, 3}, {4, 5, 6, 7}]),
        ("v5e-8", 8, [{0, 1, 2, 3, 4, 5, 6, 7}]),
        ("v5p", 1, [{0}, {1}, {2}, {3}]),
        ("v5p", 2, [{0, 1}, {2, 3}]),
        ("v5p", 4, [{0, 1, 2, 3}]),
        ("v5p", 8, []),
        ("v5e-1", 1, [{0}]),
        ("v5e-1", 2, []),
    ],
)
def test_valid_sets_of_a_host(name: str, size: int, expected: list[set[int]]) -> None:
    inventory = scanned(name)
    sets = SUB_HOST.valid_sets(inventory, size)
    place = {device.id: index for index, device in enumerate(inventory.devices)}

    assert sets is not None
    assert [{place[chip] for chip in group} for group in sets] == expected


def test_whole_host_is_the_only_set_of_whole_host_mode() -> None:
    backend, inventory = TpuBackend(TpuSettings()), scanned("v5e-8")

    assert backend.valid_sets(inventory, 8) == [frozenset(device.id for device in inventory.devices)]
    assert [backend.valid_sets(inventory, size) for size in range(1, 8)] == [[]] * 7
