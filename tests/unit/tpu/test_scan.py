from pathlib import Path

import pytest

from accelet.accelerators.inventory import Inventory
from accelet.accelerators.tpu.backend import TpuBackend
from accelet.accelerators.tpu.settings import TpuSettings
from accelet.fakehost.tpu import HOSTS, PciFunction, TpuHost

FOUR = ["0000-00-04.0", "0000-00-05.0", "0000-00-06.0", "0000-00-07.0"]
EIGHT = [
    *("0000-00-0c.0", "0000-00-0d.0", "0000-00-0e.0", "0000-00-0f.0"),
    *("0000-80-00.0", "0000-80-01.0", "0000-80-02.0", "0000-80-03.0"),
]
ACCELS = [["/dev/accel0"], ["/dev/accel1"], ["/dev/accel2"], ["/dev/accel3"]]
GROUPS_OF_FOUR = [["/dev/vfio/0"], ["/dev/vfio/1"], ["/dev/vfio/2"], ["/dev/vfio/3"]]
GROUPS_OF_EIGHT = [[f"/dev/vfio/{group}"] for group in (3, 2, 4, 7, 1, 5, 6, 0)]
GIB = 1024**3


def scan(host: TpuHost, root: Path, settings: TpuSettings | None = None) -> Inventory:
    return TpuBackend(settings or TpuSettings(control_service="none")).scan(host.write(root))


@pytest.mark.parametrize(
    ("name", "model", "ids", "nodes", "numa_nodes", "memory_gib", "pci_device", "shape"),
    [
        ("v2", "v2", FOUR, ACCELS, [0, 0, 0, 0], 16, "0x0027", "2x2"),
        ("v3", "v3", FOUR, ACCELS, [0, 0, 0, 0], 32, "0x0027", "2x2"),
        ("v4", "v4", FOUR, ACCELS, [0, 0, 0, 0], 32, "0x005e", "2x2x1"),
        ("v4-lite", "v4-lite", FOUR, ACCELS, [0, 0, 0, 0], None, "0x0056", "2x2"),
        ("v5e-1", "v5e", ["0000-00-05.0"], [["/dev/vfio/0"]], [0], 16, "0x0063", "1x1"),
        ("v5e-4", "v5e", FOUR, GROUPS_OF_FOUR, [0, 0, 0, 0], 16, "0x0063", "2x2"),
        ("v5e-8", "v5e", EIGHT, GROUPS_OF_EIGHT, [0, 0, 0, 0, 1, 1, 1, 1], 16, "0x0063", "2x4"),
        ("v5p", "v5p", FOUR, GROUPS_OF_FOUR, [0, 0, 0, 0], 95, "0x0062", "2x2x1"),
        ("v6e-1", "v6e", ["0000-00-05.0"], [["/dev/vfio/0"]], [0], 32, "0x006f", "1x1"),
        ("v6e-4", "v6e", FOUR, GROUPS_OF_FOUR, [0, 0, 0, 0], 32, "0x006f", "2x2"),
        ("v6e-8", "v6e", EIGHT, GROUPS_OF_EIGHT, [0, 0, 0, 0, 1, 1, 1, 1], 32, "0x006f", "2x4"),
        ("tpu7x-1", "tpu7x", ["0000-05-00"], [["/dev/vfio/0", "/dev/vfio/1"]], [0], 192, "0x0076", "1x1x1"),
        (
            "tpu7x-4",
            "tpu7x",
            ["0000-05-00", "0000-06-00", "0000-85-00", "0000-86-00"],
            [
                ["/dev/vfio/2", "/dev/vfio/3"],
                ["/dev/vfio/0", "/dev/vfio/1"],
                ["/dev/vfio/6", "/dev/vfio/7"],
                ["/dev/vfio/4", "/dev/vfio/5"],
            ],
            [0, 0, 1, 1],
            192,
            "0x0076",
            "2x2x1",
        ),
    ],
)
def test_chips_of_every_generation_are_found_in_order(
    tmp_path: Path,
    *,
    name: str,
    model: str,
    ids: list[str],
    nodes: list[list[str]],
    numa_nodes: list[int],
    memory_gib: int | None,
    pci_device: str,
    shape: str,
) -> None:
    inventory = scan(HOSTS[name], tmp_path)

    assert [device.id for device in inventory.devices] == ids
    common = ["/dev/vfio/vfio"] if "vfio" in nodes[0][0] else []
    assert [[node.host_path for node in device.nodes] for device in inventory.devices] == [
        own + common for own in nodes
    ]
    assert [list(device.numa_nodes) for device in inventory.devices] == [[node] for node in numa_nodes]
    assert {device.model for device in inventory.devices} == {model}
    assert {device.pci_device for device in inventory.devices} == {pci_device}
    expected_memory = None if memory_gib is None else memory_gib * GIB
    assert {device.memory_bytes for device in inventory.devices} == {expected_memory}
    assert all(device.health.is_healthy for device in inventory.devices)
    assert inventory.host_shape == inventory.slice_shape == shape
    assert inventory.warnings == ()


def test_network_card_and_disk_of_google_are_skipped_with_their_reason(tmp_path: Path) -> None:
    inventory = scan(HOSTS["v5e-8"], tmp_path)

    assert [(skip.path, skip.code, skip.reason) for skip in inventory.skipped] == [
        (
            "/sys/bus/pci/devices/0000:00:02.0",
            "not-a-tpu",
            "it is an NVMe disk, by its PCI device id 0x001f",
        ),
        (
            "/sys/bus/pci/devices/0000:00:03.0",
            "not-a-tpu",
            "it is a gVNIC network card, by its PCI device id 0x0042",
        ),
    ]


def test_vfio_device_of_another_vendor_is_no_tpu(tmp_path: Path) -> None:
    card = PciFunction("0000:00:09.0", "0xa2d6", vendor="0x15b3", group=9)

    inventory = scan(HOSTS["v5e-4"].with_functions(card), tmp_path)

    assert [device.id for device in inventory.devices] == FOUR


def test_network_card_of_google_bound_to_vfio_is_no_tpu(tmp_path: Path) -> None:
    card = PciFunction("0000:00:09.0", "0x0099", pci_class="0x020000", group=9)

    inventory = scan(HOSTS["v5e-4"].with_functions(card), tmp_path)

    assert [device.id for device in inventory.devices] == FOUR
    assert "it is a network card, by its PCI class 0x020000" in [skip.reason for skip in inventory.skipped]


def test_unbound_unknown_function_of_google_is_skipped(tmp_path: Path) -> None:
    unknown = PciFunction("0000:00:09.0", "0x0099", driver=None)

    inventory = scan(TpuHost((unknown,)), tmp_path)

    assert inventory.devices == ()
    assert [skip.reason for skip in inventory.skipped] == [
        "its PCI device id 0x0099 is not known, and neither a TPU driver nor vfio-pci is bound"
    ]


def test_unknown_generation_is_served_and_said_so(tmp_path: Path) -> None:
    chips = [PciFunction(f"0000:00:0{slot}.0", "0x0081", group=slot) for slot in range(4, 8)]

    inventory = scan(TpuHost(tuple(chips)), tmp_path)

    assert [device.id for device in inventory.devices] == FOUR
    assert all(device.health.is_healthy for device in inventory.devices)
    assert inventory.warnings == (
        (
            "4 TPU chips of a generation that is not known (0x1ae0:0x0081): they are served, "
            "no bounds are set for them"
        ),
    )


def test_older_v5e_image_with_accel_files_is_served_by_them(tmp_path: Path) -> None:
    chips = (
        PciFunction(f"0000:00:0{slot}.0", "0x0063", driver="accel", accel=slot - 4) for slot in range(4, 8)
    )

    inventory = scan(TpuHost(tuple(chips)), tmp_path)

    assert [[node.host_path for node in device.nodes] for device in inventory.devices] == ACCELS
    assert all(device.health.is_healthy for device in inventory.devices)


def test_accel_files_that_sysfs_does_not_name_are_taken_in_order(tmp_path: Path) -> None:
    chips = (PciFunction(f"0000:00:0{slot}.0", "0x005e", driver="accel") for slot in range(4, 8))
    files = {f"dev/accel{number}": "" for number in range(4)}

    inventory = scan(TpuHost(tuple(chips), files), tmp_path)

    assert [[node.host_path for node in device.nodes] for device in inventory.devices] == ACCELS


def test_accel_numbers_that_do_not_follow_the_bus_are_read_from_sysfs(tmp_path: Path) -> None:
    host = HOSTS["v4"].changed("0000:00:04.0", accel=3).changed("0000:00:07.0", accel=0)

    inventory = scan(host, tmp_path)

    assert [device.nodes[0].host_path for device in inventory.devices] == [
        "/dev/accel3",
        "/dev/accel1",
        "/dev/accel2",
        "/dev/accel0",
    ]


def test_host_without_pci_bus_has_no_chips(tmp_path: Path) -> None:
    assert TpuBackend(TpuSettings()).scan(tmp_path) == Inventory()


def test_bus_that_cannot_be_listed_fails_the_scan(tmp_path: Path) -> None:
    (tmp_path / "sys/bus/pci").mkdir(parents=True)
    (tmp_path / "sys/bus/pci/devices").write_text("")

    with pytest.raises(OSError, match="Not a directory"):
        TpuBackend(TpuSettings()).scan(tmp_path)


@pytest.mark.parametrize("device", ["0x007c", "0x0083"])
def test_tpus_of_which_only_the_id_is_public_are_chips_whatever_is_bound_to_them(
    tmp_path: Path, device: str
) -> None:
    chips = [PciFunction(f"0000:00:0{slot}.0", device, driver=None, group=slot) for slot in (4, 5)]

    inventory = scan(TpuHost(tuple(chips)), tmp_path)

    assert [one.health.reason for one in inventory.devices] == [
        f"no driver is bound to 0000:00:0{slot}.0: bind vfio-pci" for slot in (4, 5)
    ]
    assert inventory.skipped == ()


def test_chip_whose_vendor_cannot_be_read_is_said(tmp_path: Path) -> None:
    host = HOSTS["v5e-4"].changed("0000:00:05.0", vendor=None)

    inventory = scan(host, tmp_path)

    assert len(inventory.devices) == 3
    assert [(skip.unit, skip.code, skip.reason) for skip in inventory.skipped[2:]] == [
        (
            "0000-00-05.0",
            "unreadable-vendor",
            "its PCI vendor cannot be read, so nobody can tell whether it is a TPU",
        )
    ]


def test_function_of_another_kind_whose_vendor_cannot_be_read_is_nobodys(tmp_path: Path) -> None:
    card = PciFunction("0000:00:09.0", "0xa2d6", vendor=None, group=9)

    assert len(scan(HOSTS["v5e-4"].with_functions(card), tmp_path).skipped) == 2
