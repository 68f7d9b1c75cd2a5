"""Each bad input gives one sentence a person can act on, and loses no other chip."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from accelet.accelerators.backend import EditsError
from accelet.accelerators.edits import ContainerEdits
from accelet.accelerators.tpu.backend import TpuBackend
from accelet.accelerators.tpu.settings import TpuSettings
from accelet.fakehost.tpu import HOSTS, PciFunction, TpuHost

WHOLE_HOST = TpuBackend(TpuSettings())
SUB_HOST = TpuBackend(TpuSettings(mode="sub-host"))
FIVE_OF_EIGHT = HOSTS["v5e-8"].without("0000:00:0d.0", "0000:00:0e.0", "0000:00:0f.0")


def give(backend: TpuBackend, root: Path, host: TpuHost, chips: Sequence[int]) -> ContainerEdits:
    inventory = backend.scan(host.write(root))
    return backend.edits(inventory, [inventory.devices[chip] for chip in chips], {}, {})


def refuse(backend: TpuBackend, root: Path, host: TpuHost, chips: Sequence[int]) -> str:
    with pytest.raises(EditsError) as refused:
        give(backend, root, host, chips)
    return str(refused.value)


@pytest.mark.parametrize("numa_node", [None, "-1", "", "north", "99999999999999999999"])
def test_chip_without_numa_node_is_served_without_a_hint(tmp_path: Path, numa_node: str | None) -> None:
    host = HOSTS["v5e-8"].changed("0000:80:01.0", numa_node=numa_node)

    inventory = WHOLE_HOST.scan(host.write(tmp_path))

    assert inventory.warnings == (
        (
            "the NUMA node of 0000:80:01.0 is not known (numa_node is -1, missing or no number): "
            "the kubelet gets no NUMA hint for them"
        ),
    )
    assert [device.numa_nodes for device in inventory.devices] == [(0,)] * 4 + [(1,), (), (1,), (1,)]
    assert all(device.health.is_healthy for device in inventory.devices)
    assert len(give(WHOLE_HOST, tmp_path / "again", host, range(8)).nodes) == 9


def test_five_of_eight_chips_stay_and_the_others_are_missed(tmp_path: Path) -> None:
    inventory = WHOLE_HOST.scan(FIVE_OF_EIGHT.write(tmp_path))

    assert [device.id for device in inventory.devices if device.health.is_healthy] == [
        "0000-00-0c.0",
        "0000-80-00.0",
        "0000-80-01.0",
        "0000-80-02.0",
        "0000-80-03.0",
    ]
    assert inventory.warnings == (
        (
            "5 of 8 chips were found: the others do not appear on the PCI bus. "
            "A container gets what can still be used together"
        ),
    )


def test_host_of_five_of_eight_chips_is_not_given_as_a_whole(tmp_path: Path) -> None:
    assert refuse(WHOLE_HOST, tmp_path, FIVE_OF_EIGHT, range(5)) == (
        "this node gives all its TPU chips to one container, and only 5 of its 8 are there: use another node "
        "until they are back, or set mode: sub-host to use those"
    )


def test_whole_half_of_a_host_with_chips_missing_is_still_used_as_one(tmp_path: Path) -> None:
    edits = give(SUB_HOST, tmp_path, FIVE_OF_EIGHT, [1, 2, 3, 4])
    inventory = SUB_HOST.scan(tmp_path)

    assert edits.environment["TPU_CHIPS_PER_PROCESS_BOUNDS"] == "1,4,1"
    sizes = {size: len(SUB_HOST.valid_sets(inventory, size) or ()) for size in range(1, 9)}
    assert sizes == {1: 5, 2: 2, 3: 0, 4: 1, 5: 0, 6: 0, 7: 0, 8: 0}


def test_chips_whose_place_is_not_certain_are_used_one_by_one(tmp_path: Path) -> None:
    host = HOSTS["v5e-8"].without("0000:00:0d.0", "0000:80:03.0")
    inventory = SUB_HOST.scan(host.write(tmp_path))

    assert [len(SUB_HOST.valid_sets(inventory, size) or ()) for size in (1, 2, 4, 8)] == [6, 0, 0, 0]
    assert refuse(SUB_HOST, tmp_path / "again", host, [0, 1]) == (
        "2 TPU chips of this node cannot be used together: ask for 1"
    )


def test_unhealthy_chip_keeps_its_place_and_the_groups_of_the_others(tmp_path: Path) -> None:
    host = HOSTS["v5e-8"].changed("0000:00:0d.0", config=b"\xff" * 64)

    edits = give(SUB_HOST, tmp_path, host, [2, 3])

    assert edits.environment["TPU_CHIPS_PER_PROCESS_BOUNDS"] == "1,2,1"


@pytest.mark.parametrize("asked", [3, 5, 6, 7])
def test_sizes_that_no_box_has_are_refused_with_those_that_have(tmp_path: Path, asked: int) -> None:
    assert refuse(SUB_HOST, tmp_path, HOSTS["v5e-8"], range(asked)) == (
        f"{asked} TPU chips of this node cannot be used together: ask for 1, 2, 4 or 8"
    )


def test_chips_that_are_no_neighbours_are_refused_with_the_groups_that_are(tmp_path: Path) -> None:
    assert refuse(SUB_HOST, tmp_path, HOSTS["v5e-4"], [1, 2]) == (
        "the TPU chips 0000-00-05.0, 0000-00-06.0 are not neighbours that can be used together; "
        "the groups of 2 on this node are: 0000-00-04.0, 0000-00-05.0; 0000-00-06.0, 0000-00-07.0"
    )


def test_part_of_a_whole_host_is_refused_with_what_to_ask_for(tmp_path: Path) -> None:
    assert refuse(WHOLE_HOST, tmp_path, HOSTS["v5e-8"], [0, 1, 2]) == (
        "this node gives all its 8 TPU chips to one container, and 3 were asked for: "
        "ask for 8, or set mode: sub-host to use some of them"
    )


def test_rest_of_a_whole_host_is_refused_with_the_chip_that_is_ill(tmp_path: Path) -> None:
    host = HOSTS["v5e-4"].changed("0000:00:05.0", driver=None)

    assert refuse(WHOLE_HOST, tmp_path, host, [0, 2, 3]) == (
        "this node gives all its 4 TPU chips to one container, and 3 were asked for: "
        "ask for 4 (unhealthy now: 0000-00-05.0), or set mode: sub-host to use some of them"
    )


def test_member_of_a_larger_slice_is_not_split(tmp_path: Path) -> None:
    backend = TpuBackend(TpuSettings(mode="sub-host", topology="4x8", control_service="none"))

    assert refuse(backend, tmp_path, HOSTS["v6e-4"], [0, 1]) == (
        "this node gives all its 4 TPU chips to one container because it is one host of a 4x8 slice, "
        "and 2 were asked for: ask for 4"
    )
    assert backend.scan(tmp_path).warnings == (
        "mode: sub-host has no effect: this host is a part of a 4x8 slice",
    )


def test_unknown_generation_is_given_in_any_number_without_bounds(tmp_path: Path) -> None:
    host = TpuHost(tuple(PciFunction(f"0000:00:0{slot}.0", "0x0081", group=slot) for slot in range(4, 8)))

    edits = give(SUB_HOST, tmp_path, host, [0, 1, 2])

    # Whoever knows such chips may ask the metadata server for what nobody here can tell.
    assert edits.environment == {"TPU_RUNTIME_METRICS_PORTS": "8431,8432,8433"}
    assert SUB_HOST.valid_sets(SUB_HOST.scan(tmp_path), 3) is None


def test_unlike_chips_are_given_together_without_bounds(tmp_path: Path) -> None:
    host = HOSTS["v5e-4"].changed("0000:00:05.0", device="0x006f")

    edits = give(WHOLE_HOST, tmp_path, host, range(4))

    assert WHOLE_HOST.scan(tmp_path).warnings == (
        "the chips are of more than one generation: no bounds are set",
    )
    assert "TPU_TOPOLOGY" not in edits.environment


@pytest.mark.parametrize("text", ["", "63", "0x00zz", "0x" + "0" * 80])
def test_chip_whose_device_id_is_unreadable_is_skipped_and_the_others_served(
    tmp_path: Path, text: str
) -> None:
    inventory = WHOLE_HOST.scan(HOSTS["v5e-8"].changed("0000:80:01.0", device=text).write(tmp_path))

    assert len(inventory.devices) == 7
    (skipped,) = [skip for skip in inventory.skipped if skip.code == "unreadable-device-id"]
    assert skipped.path == "/sys/bus/pci/devices/0000:80:01.0"
    assert skipped.unit == "0000-80-01.0"
    assert skipped.reason.endswith("so nobody can tell what it is")


def test_tiles_of_a_chip_are_refused(tmp_path: Path) -> None:
    inventory = WHOLE_HOST.scan(HOSTS["v5e-1"].write(tmp_path))
    (chip,) = inventory.devices

    with pytest.raises(EditsError, match="TPU chips have no tiles"):
        WHOLE_HOST.edits(inventory, [chip], {chip.unit: frozenset({0})}, {})
