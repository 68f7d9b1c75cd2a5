import shutil
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.accelerators.device import UnitId
from accelet.accelerators.edits import ContainerEdits
from accelet.accelerators.errors import EditsError
from accelet.accelerators.inventory import Inventory, Skipped
from accelet.accelerators.nvidia.driverfiles import parse_information
from accelet.accelerators.nvidia.settings import NvidiaGpuSettings
from accelet.fakehost.nvidia import (
    DGX_A100,
    GB200_TRAY,
    H200_VM,
    HGX_H100,
    L40S,
    T4,
    NvidiaCard,
    uuid_of,
    write_cdi,
    write_nvidia,
)
from deviceplugin.translate import to_allocate_message

FALLEN_OFF = b"\xff" * 64


def read(**fields: object) -> NvidiaGpuSettings:
    return msgspec.convert(fields, NvidiaGpuSettings)


def look(root: Path, **fields: object) -> Inventory:
    return read(**fields).backend().scan(root)


def ids(inventory: Inventory) -> list[str]:
    return [str(device.id) for device in inventory.devices]


def only_skip(inventory: Inventory) -> Skipped:
    (found,) = inventory.skipped
    return found


def give(root: Path, count: int, **fields: object) -> ContainerEdits:
    backend = read(**fields).backend()
    inventory = backend.scan(root)
    return backend.edits(inventory, inventory.devices[:count], {}, {})


def test_a_gpu_is_described_whole(tmp_path: Path) -> None:
    (device,) = look(write_nvidia(tmp_path, H200_VM)).devices
    assert (device.id, device.unit) == (uuid_of(0), uuid_of(0))
    assert (device.pci, device.pci_device, device.model) == ("0000:00:06.0", "0x2335", "NVIDIA H200")
    assert (device.driver, device.kind, device.numa_nodes) == ("nvidia", "discrete", (0,))
    assert (device.cdi_name, device.nodes, device.memory_bytes) == (f"nvidia.com/gpu={uuid_of(0)}", (), None)
    assert device.health.is_healthy


def test_containers_get_the_names_of_a_specification(tmp_path: Path) -> None:
    edits = give(write_nvidia(tmp_path, HGX_H100), 2)
    assert edits == ContainerEdits(cdi_names=tuple(f"nvidia.com/gpu={uuid_of(n)}" for n in (0, 1)))
    message = to_allocate_message(edits, {})
    assert [device.name for device in message.cdi_devices] == list(edits.cdi_names)
    assert not message.devices


def test_containers_of_nvidias_runtime_get_nodes_and_the_variable(tmp_path: Path) -> None:
    edits = give(write_nvidia(tmp_path, HGX_H100, cdi=None), 2, inject="envvar")
    assert dict(edits.environment) == {"NVIDIA_VISIBLE_DEVICES": f"{uuid_of(0)},{uuid_of(1)}"}
    assert [node.host_path for node in edits.nodes] == [
        "/dev/nvidia-uvm",
        "/dev/nvidia-uvm-tools",
        "/dev/nvidia0",
        "/dev/nvidia1",
        "/dev/nvidiactl",
    ]
    assert edits.cdi_names == ()


def test_shares_of_one_gpu_give_it_once(tmp_path: Path) -> None:
    root = write_nvidia(tmp_path, T4)
    assert ids(look(root, shares=2))[:3] == [f"{uuid_of(0)}-s0", f"{uuid_of(0)}-s1", f"{uuid_of(1)}-s0"]
    assert give(root, 2, shares=2).cdi_names == (f"nvidia.com/gpu={uuid_of(0)}",)
    assert give(root, 2, shares=2, inject="envvar").environment["NVIDIA_VISIBLE_DEVICES"] == uuid_of(0)


def test_tiles_of_a_gpu_are_refused(tmp_path: Path) -> None:
    backend = read().backend()
    inventory = backend.scan(write_nvidia(tmp_path, T4))
    unit = UnitId(uuid_of(0))
    with pytest.raises(EditsError, match="has no tiles"):
        backend.edits(inventory, inventory.devices[:1], {unit: frozenset((1,))}, {})
    only_one = backend.edits(inventory, inventory.devices[:1], {unit: frozenset((0,))}, {})
    assert only_one == backend.edits(inventory, inventory.devices[:1], {}, {}), "tile 0 is all there is"


def test_a_gpu_is_known_by_its_node_and_not_by_its_place(tmp_path: Path) -> None:
    """The first L40S by address is /dev/nvidia1; an index would name the other one."""
    first, second = look(write_nvidia(tmp_path, L40S, cdi=("index",)), shares=1).devices
    assert (first.pci, first.cdi_name) == ("0000:2a:00.0", "nvidia.com/gpu=0")
    assert (second.pci, second.cdi_name) == ("0000:ab:00.0", "nvidia.com/gpu=1")
    write_cdi(tmp_path, list(reversed(L40S[:2])), ("index",))
    first, second = look(tmp_path).devices
    assert (first.cdi_name, second.cdi_name) == ("nvidia.com/gpu=1", "nvidia.com/gpu=0")


def test_a_specification_from_before_a_renumbering_gives_nobody_another_gpu(tmp_path: Path) -> None:
    one, other = T4[:2]
    write_nvidia(tmp_path, T4[:2], cdi=("uuid",))
    old = (tmp_path / "var/run/cdi/nvidia.yaml").read_text()
    write_nvidia(tmp_path, [replace(one, minor=5), replace(other, minor=0)], cdi=None)
    (tmp_path / "var/run/cdi/nvidia.yaml").write_text(old)
    found = look(tmp_path)
    assert [skip.code for skip in found.skipped] == ["stale-cdi"]
    assert "/var/run/cdi/nvidia.yaml gives /dev/nvidia0 for it, and it is /dev/nvidia5 now" in (
        found.skipped[0].reason
    )
    (left,) = found.devices
    assert (left.unit, left.cdi_name) == (other.uuid, f"nvidia.com/gpu={one.uuid}")


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (
            None,
            "/etc/cdi and /var/run/cdi have no specification of nvidia.com/gpu: run nvidia-ctk cdi generate",
        ),
        (("all",), "no CDI device consists of /dev/nvidia0 alone: run nvidia-ctk cdi generate"),
    ],
)
def test_a_gpu_that_no_specification_names_is_not_offered(
    tmp_path: Path, names: tuple[str, ...] | None, reason: str
) -> None:
    root = write_nvidia(tmp_path, HGX_H100, cdi=names)  # type: ignore[arg-type]
    found = look(root)
    assert found.devices == ()
    assert [skip.code for skip in found.skipped] == ["no-cdi-name"] * 8
    assert found.skipped[0].reason.startswith(reason)
    assert len(look(root, inject="envvar").devices) == 8


def test_a_damaged_specification_is_a_warning(tmp_path: Path) -> None:
    root = write_nvidia(tmp_path, H200_VM)
    (root / "etc/cdi/broken.yaml").write_text("kind: [")
    found = look(root)
    assert len(found.devices) == 1
    assert found.warnings[0].startswith("/etc/cdi/broken.yaml is no CDI specification")
    assert look(root, inject="envvar").warnings == ()


@pytest.mark.parametrize(
    ("change", "code", "says"),
    [
        ({"driver": "vfio-pci"}, "driver-not-served", "bound to vfio-pci"),
        ({"driver": "nouveau"}, "driver-not-served", "bound to nouveau"),
        ({"driver": None}, "no-driver", "no driver"),
        ({"uuid": None}, "no-uuid", "run nvidia-smi once"),
        ({"uuid": "GPU-????????-????"}, "no-uuid", "run nvidia-smi once"),
        ({"minor": None}, "no-minor", "Device Minor"),
        ({"minor": 248}, "no-minor", "Device Minor"),
        ({"is_excluded": True}, "excluded", "GPU Excluded: Yes"),
        ({"has_node": False}, "no-device-node", "/dev/nvidia0 is not there: nvidia-modprobe -c 0 -u"),
        ({"numvfs": 4}, "pf-with-vfs", "vGPU"),
        ({"instances": ((1, 0),)}, "partitioned", "a resource with unit: mig serves these"),
    ],
)
def test_a_gpu_that_cannot_be_served_says_why(
    tmp_path: Path, change: dict[str, object], code: str, says: str
) -> None:
    card = replace(H200_VM[0], **change)  # type: ignore[arg-type]
    found = look(write_nvidia(tmp_path, [card], cdi=None), inject="envvar")
    skip = only_skip(found)
    assert found.devices == ()
    assert (skip.code, skip.path) == (code, "/sys/bus/pci/devices/0000:00:06.0")
    assert says in skip.reason


def test_device_nodes_that_all_gpus_need_are_named_where_they_lack(tmp_path: Path) -> None:
    root = write_nvidia(tmp_path, H200_VM)
    (root / "dev/nvidia-uvm").unlink()
    (root / "dev/nvidiactl").unlink()
    assert only_skip(look(root)).reason == (
        "/dev/nvidiactl and /dev/nvidia-uvm are not there: nvidia-modprobe -c 0 -u makes the device nodes"
    )


def test_a_gpu_that_the_driver_gave_up_is_no_more_listed(tmp_path: Path) -> None:
    root = write_nvidia(tmp_path, H200_VM)
    backend = read().backend()
    assert len(backend.scan(root).devices) == 1
    shutil.rmtree(root / "proc/driver/nvidia/gpus/0000:00:06.0")
    skip = only_skip(backend.scan(root))
    assert (skip.code, skip.unit) == ("no-information", uuid_of(0))


def test_a_gpu_off_the_bus_is_unhealthy_and_recovers(tmp_path: Path) -> None:
    backend = read().backend()
    write_nvidia(tmp_path, [replace(H200_VM[0], config=FALLEN_OFF)])
    (device,) = backend.scan(tmp_path).devices
    assert device.health.reason == "its PCI configuration reads 0xffff: the GPU no longer answers on the bus"
    write_nvidia(tmp_path, H200_VM)
    assert backend.scan(tmp_path).devices[0].health.is_healthy


def test_switches_and_sound_are_no_gpus(tmp_path: Path) -> None:
    found = look(write_nvidia(tmp_path, DGX_A100))
    assert ids(found) == [uuid_of(number) for number in (0, 1, 3, 4, 6, 7)]
    assert [skip.code for skip in found.skipped] == ["partitioned"] * 2
    assert len(look(write_nvidia(tmp_path, L40S)).devices) == 2
    assert look(tmp_path).skipped == ()


def test_gpus_in_pci_domains_of_their_own_are_told_apart(tmp_path: Path) -> None:
    found = look(write_nvidia(tmp_path, GB200_TRAY))
    assert [device.pci for device in found.devices] == [
        f"{domain}:01:00.0" for domain in ("0008", "0009", "0018", "0019")
    ]
    assert [device.numa_nodes for device in found.devices] == [(0,), (0,), (1,), (1,)]
    assert len(look(tmp_path, match={"id": "0018:01:00.0"}).devices) == 1


def test_of_gpus_that_say_the_same_of_themselves_none_is_served(tmp_path: Path) -> None:
    twins = [T4[0], replace(T4[1], uuid=T4[0].uuid), replace(T4[2], minor=3), T4[3]]
    found = look(write_nvidia(tmp_path, twins), inject="envvar")
    assert found.devices == ()
    assert [skip.code for skip in found.skipped] == ["duplicate-unit"] * 4


@pytest.mark.parametrize(
    ("match", "served"),
    [
        ({"product": ["*H100*"]}, 8),
        ({"product": ["*A100*", "*H100*"]}, 8),
        ({"product": ["*A100*"]}, 0),
        ({"device_id": ["0x2330"]}, 8),
        ({"device_id": ["0x20b0"]}, 0),
        ({"id": "0000:1b:00.0"}, 1),
        ({"id": "0000-[14]*"}, 2),
        ({"id": f"{uuid_of(3)}"}, 1),
        ({"id": "GPU-*", "product": ["*H100*"]}, 8),
    ],
)
def test_criteria_choose_gpus(tmp_path: Path, match: dict[str, object], served: int) -> None:
    found = look(write_nvidia(tmp_path, HGX_H100), match=match)
    assert len(found.devices) == served
    assert [skip.code for skip in found.skipped] == ["not-selected"] * (8 - served)


@pytest.mark.parametrize(
    ("one", "other", "meet"),
    [
        ({}, {"product": ["*H100*"]}, True),
        ({"product": ["*H100*"]}, {"product": ["*A100*"]}, False),
        ({"product": ["*H100*"]}, {"product": ["NVIDIA H100 80GB HBM3"]}, True),
        ({"device_id": ["0x2330"]}, {"device_id": ["0x20b0", "0x2330"]}, True),
        ({"device_id": ["0x2330"]}, {"device_id": ["0x20B0"]}, False),
        ({"id": "0000:1b:00.0"}, {"id": "0000-1b-00.0"}, True),
        ({"id": "0000:1b:00.0"}, {"id": "0000-1c-00.0"}, False),
    ],
)
def test_resources_that_may_claim_one_gpu_overlap(
    one: dict[str, object], other: dict[str, object], meet: bool
) -> None:
    assert read(match=one).overlaps(read(match=other)) == meet
    assert read(match=other).overlaps(read(match=one)) == meet


@given(text=st.text(max_size=300))
def test_any_information_is_read_without_a_failure(text: str) -> None:
    said = parse_information(text)
    assert said.minor is None or 0 <= said.minor <= 247


_LINES = st.sampled_from(
    (
        "GPU UUID: \t GPU-f11edccd-4a81-6034-0b36-b285502faee3",
        "GPU UUID: GPU-1",
        "Device Minor: \t 0",
        "Device Minor: 0x1",
        "Model: \t\t NVIDIA H200",
        "Model: \x1b[31m",
        "GPU Excluded:\t No",
        "nonsense",
        ":",
    )
)


@given(lines=st.lists(_LINES, max_size=8))
def test_what_is_not_in_the_drivers_form_is_not_said(lines: list[str]) -> None:
    said = parse_information("\n".join(lines))
    assert said.uuid in (None, "GPU-f11edccd-4a81-6034-0b36-b285502faee3")
    assert said.minor in (None, 0)
    assert said.model in (None, "NVIDIA H200")
    assert not said.is_excluded


@given(
    minors=st.permutations(range(4)),
    named=st.sets(st.sampled_from(("uuid", "index")), min_size=1),
    order=st.permutations(range(4)),
)
def test_whatever_the_numbers_a_name_gives_the_gpu_it_stands_for(
    tmp_path_factory: pytest.TempPathFactory, minors: list[int], named: set[str], order: list[int]
) -> None:
    root = tmp_path_factory.mktemp("host")
    cards: list[NvidiaCard] = [replace(card, minor=minor) for card, minor in zip(T4, minors, strict=True)]
    write_nvidia(root, cards, cdi=None)
    write_cdi(root, [cards[place] for place in order], sorted(named))  # type: ignore[arg-type]
    for device, card in zip(look(root).devices, cards, strict=True):
        name = (device.cdi_name or "").partition("=")[2]
        index = order.index(cards.index(card))
        assert name == (card.uuid if "uuid" in named else str(index))
