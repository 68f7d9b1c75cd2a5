"""Which free devices are closest to each other, against trying all choices."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.accelerators import BACKENDS
from accelet.accelerators.device import Device, DeviceId, NearGroup, UnitId
from accelet.accelerators.inventory import Inventory
from accelet.fakehost.amd import MI210, MI300X_CPX, write_amd
from accelet.fakehost.nvidia import DGX_A100, HGX_H100, L40S, NvidiaCard, write_nvidia
from resourcemanager.giving.closeness import choose_close, groups_of
from resourcemanager.giving.preference import prefer

_PATHS = [
    tuple(
        NearGroup("/".join(path[: end + 1]), worth)
        for end, worth in zip(range(len(path)), worths, strict=False)
    )
    for worths in ((10, 30, 10),)
    for path in (
        *((numa, hive, gpu) for numa in "01" for hive in "ab" for gpu in "xyz"),
        ("0",),
        ("1", "a"),
        (),
    )
]


def worth(devices: Iterable[DeviceId], groups: dict[DeviceId, tuple[NearGroup, ...]]) -> int:
    """What each two are worth to each other: the groups that both begin with."""
    total = 0
    for one, other in combinations(devices, 2):
        for mine, theirs in zip(groups[one], groups[other], strict=False):
            if mine != theirs:
                break
            total += mine.worth
    return total


@given(data=st.data(), paths=st.lists(st.sampled_from(_PATHS), min_size=1, max_size=9))
def test_no_other_choice_is_closer_nor_leaves_closer_devices(
    data: st.DataObject, paths: list[tuple[NearGroup, ...]]
) -> None:
    groups = {DeviceId(f"d{number}"): path for number, path in enumerate(paths)}
    every = list(groups)
    picked = data.draw(st.lists(st.sampled_from(every), unique=True, max_size=3))
    free = [device for device in every if device not in picked]
    need = data.draw(st.integers(0, len(free)))
    chosen = choose_close(free, picked, groups, need)
    assert len(set(chosen)) == len(chosen) == need
    assert set(chosen) <= set(free)

    def judge(choice: Collection[DeviceId]) -> tuple[int, int]:
        return worth({*choice, *picked}, groups), worth(set(free) - set(choice), groups)

    assert judge(chosen) == max(judge(choice) for choice in combinations(free, need))
    assert choose_close(free, picked, groups, need) == chosen


@given(data=st.data(), shares=st.integers(1, 3), units=st.integers(1, 6))
def test_shares_come_from_different_units_and_those_are_the_closest(
    data: st.DataObject, shares: int, units: int
) -> None:
    paths = {f"u{unit}": data.draw(st.sampled_from(_PATHS)) for unit in range(units)}
    devices = [
        Device(DeviceId(f"{unit}-s{share}"), UnitId(unit), share=share, groups=path)
        for unit, path in paths.items()
        for share in range(shares)
    ]
    free = data.draw(st.lists(st.sampled_from(devices), min_size=1, unique=True))
    size = data.draw(st.integers(1, len(free)))
    chosen = prefer(devices, [device.id for device in free], (), size, policy="none")
    units_of = {device.id: device.unit for device in devices}
    there = {device.unit for device in free}
    assert len({units_of[device] for device in chosen}) == min(size, len(there))
    if size < len(there):
        groups = {DeviceId(unit): path for unit, path in paths.items()}
        best = max(worth(map(DeviceId, choice), groups) for choice in combinations(there, size))
        assert worth((DeviceId(units_of[device]) for device in chosen), groups) == best


def look(backend: str, root: Path) -> Inventory:
    return msgspec.convert({}, BACKENDS[backend]).backend().scan(root)


def ask(found: Inventory, size: int, *, taken: Sequence[str] = (), must: Sequence[str] = ()) -> set[str]:
    free = [device.id for device in reversed(found.devices) if device.id not in taken]
    return set(map(str, prefer(found.devices, free, list(map(DeviceId, must)), size, policy="none")))


def test_partitions_of_one_gpu_then_of_one_numa_node(tmp_path: Path) -> None:
    found = look("amd-gpu", write_amd(tmp_path, MI300X_CPX))
    whole = {f"0000-26-00.0-p{part}" for part in range(8)}
    assert ask(found, 7) == {f"0000-e5-00.0-p{part}" for part in range(7)}, "no whole GPU is broken"
    begun = [f"0000-05-00.0-p{part}" for part in range(7)]
    assert ask(found, 1, taken=begun) == {"0000-05-00.0-p7"}, "the rest of a GPU before a whole one"
    assert ask(found, 8, taken=begun[:1]) == whole
    assert ask(found, 2, must=["0000-a6-00.0-p2"]) == {"0000-a6-00.0-p2", "0000-a6-00.0-p0"}
    nodes = {device.id: device.numa_nodes for device in found.devices}
    assert {nodes[DeviceId(device)] for device in ask(found, 32)} == {(0,)}


def test_gpus_of_one_hive(tmp_path: Path) -> None:
    found = look("amd-gpu", write_amd(tmp_path, MI210))
    first, second = found.devices[:4], found.devices[4:]
    assert ask(found, 4, taken=[first[0].id]) == {device.id for device in second}
    assert ask(found, 3, taken=[first[0].id]) == {device.id for device in first[1:]}, "whole hives stay"
    assert ask(found, 2, must=[second[3].id]) <= {device.id for device in second}


@pytest.mark.parametrize(("cards", "together"), [(HGX_H100, (4, 5, 6, 7)), (L40S, (0,))])
def test_gpus_of_one_numa_node(
    tmp_path: Path, cards: tuple[NvidiaCard, ...], together: tuple[int, ...]
) -> None:
    found = look("nvidia-gpu", write_nvidia(tmp_path, cards))
    last = len([card for card in cards if card.minor is not None]) - 1
    asked = ask(found, len(together), must=[found.devices[last].id] if len(together) > 1 else ())
    assert asked == {found.devices[place].id for place in together}


def test_gpus_of_one_switch(tmp_path: Path) -> None:
    """On a DGX A100 each two GPUs are behind one PCIe switch."""
    cards = [replace(card, instances=()) for card in DGX_A100 if card.minor is not None]
    found = look("nvidia-gpu", write_nvidia(tmp_path, cards))
    pairs = [set(map(str, ids)) for ids in _pairs([device.id for device in found.devices])]
    assert len(pairs) == 4
    assert ask(found, 2) in pairs
    assert ask(found, 1, taken=[min(pairs[0])]) == {max(pairs[0])}, "whole pairs stay"
    assert ask(found, 2, taken=[min(pairs[0])]) in pairs[1:]
    for pair in pairs:
        assert ask(found, 2, must=[min(pair)]) == pair


def _pairs(ids: Sequence[DeviceId]) -> list[Sequence[DeviceId]]:
    return [ids[place : place + 2] for place in range(0, len(ids), 2)]


def test_devices_that_have_nothing_in_common_are_taken_in_order() -> None:
    devices = [Device(DeviceId(f"d{number}"), UnitId(f"d{number}")) for number in range(3)]
    assert groups_of(devices) == {}
    assert choose_close([device.id for device in devices], (), {}, 2) == ["d0", "d1"]
