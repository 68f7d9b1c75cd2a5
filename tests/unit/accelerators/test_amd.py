import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.accelerators.amd.scan import sort_nodes
from accelet.accelerators.amd.settings import AmdGpuSettings
from accelet.accelerators.amd.topology import KfdNode, Topology
from accelet.accelerators.device import DeviceId, UnitId
from accelet.accelerators.errors import EditsError
from accelet.accelerators.inventory import Inventory, Skipped
from accelet.accelerators.pci import PciAddress
from accelet.fakehost.amd import GIB, MI210, MI300X_CPX, MI300X_SPX, PHOENIX, RADEON, AmdCard, write_amd
from resourcemanager.listing import Listing, next_listing

NOBODY = 65534


def read(**fields: object) -> AmdGpuSettings:
    return msgspec.convert(fields, AmdGpuSettings)


def look(root: Path, **fields: object) -> Inventory:
    return read(**fields).backend().scan(root)


def ids(inventory: Inventory) -> list[str]:
    return [str(device.id) for device in inventory.devices]


def only_skip(inventory: Inventory) -> Skipped:
    (found,) = inventory.skipped
    return found


def test_a_whole_gpu_is_described(tmp_path: Path) -> None:
    device = look(write_amd(tmp_path, MI300X_SPX)).devices[5]
    assert (device.id, device.unit, device.pci) == ("0000-a6-00.0", "0000-a6-00.0", "0000:a6:00.0")
    assert (device.model, device.pci_device, device.driver) == (
        "AMD Instinct MI300X OAM",
        "0x74a1",
        "amdgpu",
    )
    assert (device.memory_bytes, device.numa_nodes, device.card) == (192 * GIB, (1,), "card5")
    assert [node.host_path for node in device.nodes] == ["/dev/kfd", "/dev/dri/card5", "/dev/dri/renderD133"]


def test_the_gpu_of_a_processor_is_integrated(tmp_path: Path) -> None:
    assert [device.kind for device in look(write_amd(tmp_path, PHOENIX)).devices] == ["integrated"]
    assert [device.kind for device in look(write_amd(tmp_path, RADEON)).devices] == ["discrete"]


def test_partitions_are_devices_with_nodes_and_memory_of_their_own(tmp_path: Path) -> None:
    found = look(write_amd(tmp_path, MI300X_CPX))
    assert len(found.devices) == 63, "the DRM devices ran out, and that is normal"
    assert ids(found)[:9] == [*(f"0000-05-00.0-p{part}" for part in range(8)), "0000-26-00.0-p0"]
    device = found.by_id[DeviceId("0000-26-00.0-p3")]
    assert str(device.unit) == "0000-26-00.0-p3"
    assert device.memory_bytes == 24 * GIB
    assert [node.host_path for node in device.nodes] == ["/dev/kfd", "/dev/dri/card11", "/dev/dri/renderD139"]
    assert found.warnings == (
        "0000:e5:00.0 has 7 partitions, others of its kind 8: the kernel may have run out of DRM devices",
    )
    assert len({device.nodes for device in found.devices}) == 63


@pytest.mark.parametrize("xcp", ["amdgpu_xcp_", "amdgpu_xcp."])
def test_both_spellings_of_partitions_are_read(tmp_path: Path, xcp: str) -> None:
    cards = [replace(card, xcp=xcp) for card in MI300X_CPX]  # type: ignore[arg-type]
    found = look(write_amd(tmp_path, cards))
    assert len(found.devices) == 63
    assert all(len(device.nodes) == 3 for device in found.devices)


def test_cards_of_two_hives_and_of_desktops_are_whole(tmp_path: Path) -> None:
    assert len(look(write_amd(tmp_path, MI210)).devices) == 8
    found = look(write_amd(tmp_path, RADEON))
    assert ids(found) == ["0000-03-00.0"]
    assert found.devices[0].memory_bytes == 24 * GIB
    assert only_skip(found).reason == "it is bound to radeon, not to amdgpu"


@pytest.mark.parametrize(
    ("change", "code", "says"),
    [
        ({"driver": None}, "no-driver", "no driver"),
        ({"driver": "vfio-pci"}, "driver-not-served", "vfio-pci"),
        ({"numvfs": 2}, "pf-with-vfs", "virtual functions"),
        ({"in_kfd": False}, "no-kfd-node", "KFD does not offer it"),
        ({"has_nodes": False}, "no-device-node", "no render node in /dev/dri (/dev/dri/card0, "),
        (
            {"minors": (0, 1)},
            "mode-unclear",
            "KFD has 2 partitions of it, and current_compute_partition says",
        ),
    ],
)
def test_a_gpu_that_cannot_be_served_says_why(
    tmp_path: Path, change: dict[str, object], code: str, says: str
) -> None:
    card: AmdCard = replace(MI300X_SPX[0], **change)  # type: ignore[arg-type]
    found = look(write_amd(tmp_path, [card]))
    skip = only_skip(found)
    assert found.devices == ()
    assert (skip.code, skip.path, skip.unit) == (code, "/sys/bus/pci/devices/0000:05:00.0", "0000-05-00.0")
    assert says in skip.reason


def test_without_kfd_nothing_is_served(tmp_path: Path) -> None:
    found = look(write_amd(tmp_path, MI210, has_kfd=False))
    assert found.devices == ()
    assert {skip.code for skip in found.skipped} == {"no-kfd"}


def test_partitions_without_a_render_node_are_left_out_and_told(tmp_path: Path) -> None:
    root = write_amd(tmp_path, MI300X_CPX[:1])
    (root / "dev/dri/renderD130").unlink()
    found = look(root)
    assert ids(found) == [f"0000-05-00.0-p{part}" for part in (0, 1, 3, 4, 5, 6, 7)]
    assert "0000:05:00.0: 1 partitions have no render node in /dev/dri (p2): left out" in found.warnings


def test_a_gpu_off_the_bus_is_unhealthy_with_its_partitions(tmp_path: Path) -> None:
    fallen = replace(MI300X_CPX[0], config=b"\xff" * 64)
    found = look(write_amd(tmp_path, [fallen]))
    assert {device.health.reason for device in found.devices} == {
        "its PCI configuration reads 0xffff: the GPU no longer answers on the bus"
    }


@contextmanager
def _as_nobody() -> Iterator[None]:
    """As a reader whom the kernel may refuse: root may read everything."""
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everybody may read, which pytest's own are not."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.parametrize(
    ("cards", "served", "code"), [(MI300X_SPX, 8, None), (MI210, 8, None), (MI300X_CPX, 0, "hidden-by-kfd")]
)
def test_a_reader_that_kfd_hides_nodes_from_sees_whole_gpus(
    open_folder: Path, cards: tuple[AmdCard, ...], served: int, code: str | None
) -> None:
    write_amd(open_folder, cards)
    for node in (open_folder / "sys/class/kfd/kfd/topology/nodes").iterdir():
        if node.name != "0":
            (node / "properties").chmod(0)
    with _as_nobody():
        found = look(open_folder)
    assert len(found.devices) == served
    assert {skip.code for skip in found.skipped} == ({code} if code else set())
    assert all("run the agent privileged" in skip.reason for skip in found.skipped)


def test_a_gpu_that_is_cut_anew_is_not_given_while_its_former_form_is_held(tmp_path: Path) -> None:
    backend = read().backend()
    whole = backend.scan(write_amd(tmp_path, MI300X_SPX[:1]))
    listing = next_listing(Listing(), whole, held=frozenset())
    parts = backend.scan(write_amd(tmp_path, MI300X_CPX[:1]))
    held = frozenset((whole.devices[0].id,))
    then = next_listing(listing, parts, held=held)
    assert {then.entries[device.id].health.reason for device in parts.devices} == {
        "0000-05-00.0 is still held by a container, whole or cut otherwise"
    }
    free = next_listing(then, parts, held=frozenset())
    assert all(free.entries[device.id].health.is_healthy for device in parts.devices) is False, "not at once"
    for _ in range(5):
        free = next_listing(free, parts, held=frozenset())
    assert all(free.entries[device.id].health.is_healthy for device in parts.devices)
    held = frozenset((parts.devices[3].id,))
    back = next_listing(free, whole, held=held)
    assert not back.entries[whole.devices[0].id].health.is_healthy


def test_tiles_of_a_gpu_are_refused(tmp_path: Path) -> None:
    backend = read().backend()
    inventory = backend.scan(write_amd(tmp_path, MI210))
    with pytest.raises(EditsError, match="has no tiles"):
        backend.edits(inventory, inventory.devices[:1], {UnitId("0000-05-00.0"): frozenset((1,))}, {})


@pytest.mark.parametrize(
    ("cards", "match", "served"),
    [
        (MI300X_CPX, {"mode": ["cpx_*"]}, 63),
        (MI300X_CPX, {"mode": ["spx_*", "whole"]}, 0),
        (MI300X_SPX, {"mode": ["spx_nps1"]}, 8),
        (MI210, {"mode": ["whole"]}, 8),
        (MI210, {"product": ["*MI210"]}, 8),
        (MI210, {"device_id": ["0x74a1"]}, 0),
        (MI300X_CPX, {"id": "0000:05:*"}, 8),
    ],
)
def test_criteria_choose_gpus_and_partitions(
    tmp_path: Path, cards: tuple[AmdCard, ...], match: dict[str, object], served: int
) -> None:
    assert len(look(write_amd(tmp_path, cards), match=match).devices) == served


@pytest.mark.parametrize(
    ("one", "other", "meet"),
    [
        ({}, {"mode": ["cpx_*"]}, True),
        ({"mode": ["cpx_*"]}, {"mode": ["spx_*"]}, False),
        ({"mode": ["cpx_*"]}, {"mode": ["cpx_nps4"]}, True),
        ({"product": ["a"], "mode": ["x"]}, {"product": ["b"], "mode": ["x"]}, False),
    ],
)
def test_resources_that_may_claim_one_gpu_overlap(
    one: dict[str, object], other: dict[str, object], meet: bool
) -> None:
    assert read(match=one).overlaps(read(match=other)) == meet


_BUS = st.integers(0, 3)


@given(
    buses=st.lists(_BUS, unique=True, min_size=1, max_size=4),
    functions=st.sets(st.integers(1, 7), max_size=2),
    parts=st.integers(1, 8),
    newer=st.booleans(),
)
def test_every_partition_is_found_at_its_gpu_once(
    buses: list[int], functions: set[int], parts: int, newer: bool
) -> None:
    """Also beside virtual functions, which have functions of their own on the bus."""
    first = [PciAddress(0, bus, 0, 0) for bus in buses]
    virtual = [PciAddress(0, 9, 0, function) for function in functions]
    nodes = [
        KfdNode(replace(pci, function=0 if newer else part), part if newer else 0, 128 + number * 8 + part)
        for number, pci in enumerate(first)
        for part in range(parts)
    ]
    nodes += [KfdNode(pci, 0, 300 + pci.function) for pci in virtual]
    found = sort_nodes(Topology(tuple(nodes)), [*first, *virtual])
    assert all([number for number, _ in found[pci]] == list(range(parts)) for pci in first)
    assert all([number for number, _ in found[pci]] == [0] for pci in virtual)
    assert sorted(node.render_minor for each in found.values() for _, node in each) == sorted(
        node.render_minor for node in nodes
    )


@given(
    places=st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 7), st.integers(0, 15), st.integers(128, 200)),
        max_size=12,
    )
)
def test_whatever_kfd_says_no_two_partitions_have_one_number(places: list[tuple[int, int, int, int]]) -> None:
    nodes = tuple(KfdNode(PciAddress(0, bus, 0, fn), part, minor) for bus, fn, part, minor in places)
    found = sort_nodes(Topology(nodes), [PciAddress(0, bus, 0, 0) for bus in range(2)])
    for each in found.values():
        numbers = [number for number, _ in each]
        assert len(set(numbers)) == len(numbers)
