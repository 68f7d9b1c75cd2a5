import os
import stat
import threading
from pathlib import Path

import pytest
from watchdog.events import FileOpenedEvent, FileSystemEvent, FileSystemEventHandler
from watchdog.observers import Observer

from accelet.accelerators.device import Device
from accelet.accelerators.inventory import Inventory
from accelet.accelerators.tpu.backend import TpuBackend
from accelet.accelerators.tpu.settings import TpuSettings
from accelet.fakehost.tpu import GVNIC, HOSTS, PciFunction, TpuHost

CHIP = "0000:80:01.0"
"""One of the chips of v5e-8: IOMMU group 5."""


def scan(root: Path) -> Inventory:
    return TpuBackend(TpuSettings()).scan(root)


def ill(inventory: Inventory) -> dict[str, str | None]:
    return {device.id: device.health.reason for device in inventory.devices if not device.health.is_healthy}


@pytest.mark.parametrize(
    ("host", "chip", "reason"),
    [
        (
            HOSTS["v5e-8"].changed(CHIP, driver=None),
            CHIP,
            "no driver is bound to 0000:80:01.0: bind vfio-pci",
        ),
        (
            HOSTS["v5e-8"].changed(CHIP, driver="uio_pci_generic"),
            CHIP,
            "the driver uio_pci_generic is bound to 0000:80:01.0: bind vfio-pci",
        ),
        (
            HOSTS["v5e-8"].changed(CHIP, config=b"\xff" * 64),
            CHIP,
            "its PCI configuration reads 0xffff: the chip no longer answers on the bus",
        ),
        (
            HOSTS["v5e-8"].changed(CHIP, config=b""),
            CHIP,
            "its PCI configuration reads vendor 0x(nothing), not 0x1ae0",
        ),
        (
            HOSTS["v5e-8"].changed(CHIP, group=None),
            CHIP,
            ("0000:80:01.0 has no IOMMU group: switch the IOMMU on"),
        ),
        (
            HOSTS["v5e-8"].with_functions(PciFunction("0000:80:09.0", "0x1234", vendor="0x8086", group=5)),
            CHIP,
            (
                "its IOMMU group 5 also holds 0000:80:09.0, which a container would get with it: "
                "put them into groups of their own (ACS)"
            ),
        ),
        (
            HOSTS["v4"].changed("0000:00:06.0", driver=None),
            "0000:00:06.0",
            "no driver is bound to 0000:00:06.0: bind the TPU driver",
        ),
        (
            HOSTS["v4"].changed("0000:00:06.0", accel=None, group=2),
            "0000:00:06.0",
            "0000:00:06.0 has no accel device: load the TPU driver",
        ),
    ],
)
def test_chip_that_cannot_be_used_is_unhealthy_and_the_others_are_not(
    tmp_path: Path, host: TpuHost, chip: str, reason: str
) -> None:
    inventory = scan(host.write(tmp_path))

    assert ill(inventory) == {chip.replace(":", "-"): reason}


def test_chip_recovers_when_its_driver_is_bound_again(tmp_path: Path) -> None:
    HOSTS["v5e-8"].write(tmp_path)
    driver = tmp_path / f"sys/bus/pci/devices/{CHIP}/driver"
    target = driver.readlink()

    driver.unlink()
    assert list(ill(scan(tmp_path))) == ["0000-80-01.0"]
    driver.symlink_to(target)
    assert ill(scan(tmp_path)) == {}


def test_chip_whose_file_is_gone_is_unhealthy(tmp_path: Path) -> None:
    HOSTS["v5e-8"].write(tmp_path)
    (tmp_path / "dev/vfio/5").unlink()

    assert ill(scan(tmp_path)) == {
        "0000-80-01.0": "/dev/vfio/5 cannot be used (No such file or directory)",
    }


def test_all_chips_are_unhealthy_without_the_vfio_module(tmp_path: Path) -> None:
    HOSTS["v5e-4"].write(tmp_path)
    (tmp_path / "dev/vfio/vfio").unlink()

    assert set(ill(scan(tmp_path)).values()) == {"/dev/vfio/vfio is missing: load the kernel module vfio"}


def test_bridge_in_a_group_does_no_harm(tmp_path: Path) -> None:
    bridge = PciFunction("0000:80:09.0", "0x1234", vendor="0x8086", pci_class="0x060400", group=5)

    assert ill(scan(HOSTS["v5e-8"].with_functions(bridge).write(tmp_path))) == {}


def test_two_chips_of_one_group_are_both_unhealthy(tmp_path: Path) -> None:
    inventory = scan(HOSTS["v5e-8"].changed(CHIP, group=1).write(tmp_path))

    assert list(ill(inventory)) == ["0000-80-00.0", "0000-80-01.0"]


def test_tpu7x_chip_with_one_function_is_unhealthy(tmp_path: Path) -> None:
    inventory = scan(HOSTS["tpu7x-4"].without("0000:06:00.1").write(tmp_path))

    assert ill(inventory) == {"0000-06-00": "1 of its 2 PCI functions appear on the bus"}


def test_chip_that_sleeps_through_a_missing_config_file_is_healthy(tmp_path: Path) -> None:
    assert ill(scan(HOSTS["v5e-8"].changed(CHIP, config=None).write(tmp_path))) == {}


def point_at_null(root: Path, numbers: str) -> None:
    """Makes group 5's file a real character device, without rights to make one, and sysfs say its numbers."""
    (root / "dev/vfio/5").unlink()
    (root / "dev/vfio/5").symlink_to(os.devnull)
    (root / "sys/class/vfio/5/dev").write_text(f"{numbers}\n")


def test_character_device_with_the_kernels_numbers_is_healthy(tmp_path: Path) -> None:
    point_at_null(HOSTS["v5e-8"].write(tmp_path), "1:3")

    assert ill(scan(tmp_path)) == {}


def test_character_device_with_other_numbers_is_another_devices(tmp_path: Path) -> None:
    point_at_null(HOSTS["v5e-8"].write(tmp_path), "239:5")

    assert ill(scan(tmp_path)) == {
        "0000-80-01.0": (
            "/dev/vfio/5 has the device numbers 1:3, the kernel says 239:5: the file is another device's"
        )
    }


def test_fifo_is_no_device_file_and_is_not_waited_for(tmp_path: Path) -> None:
    HOSTS["v5e-8"].write(tmp_path)
    (tmp_path / "dev/vfio/5").unlink()
    os.mkfifo(tmp_path / "dev/vfio/5")
    assert stat.S_ISFIFO((tmp_path / "dev/vfio/5").stat().st_mode)

    # Opening it would wait for a writer for ever.
    assert ill(scan(tmp_path)) == {"0000-80-01.0": "/dev/vfio/5 is not a character device"}


class OpenedFiles(FileSystemEventHandler):
    def __init__(self, last: str) -> None:
        self.paths: list[str] = []
        self.is_done = threading.Event()
        self._last = last

    def on_any_event(self, event: FileSystemEvent) -> None:
        if isinstance(event, FileOpenedEvent) and isinstance(event.src_path, str):
            self.paths.append(event.src_path)
            if event.src_path == self._last:
                self.is_done.set()


@pytest.mark.parametrize("name", ["v4", "v5e-8", "tpu7x-4"])
def test_scan_and_edits_open_no_device_file(tmp_path: Path, name: str) -> None:
    HOSTS[name].write(tmp_path)
    last = tmp_path / "dev/last"
    last.touch()
    opened = OpenedFiles(str(last))
    observer = Observer()
    observer.schedule(opened, str(tmp_path / "dev"), recursive=True)
    observer.start()
    try:
        backend = TpuBackend(TpuSettings())
        inventory = backend.scan(tmp_path)
        backend.edits(inventory, inventory.devices, {}, {})
        last.read_bytes()
        assert opened.is_done.wait(10)
    finally:
        observer.stop()
        observer.join()

    assert opened.paths == [str(last)]


def device(inventory: Inventory, device_id: str) -> Device:
    return next(device for device in inventory.devices if device.id == device_id)


def test_foreign_device_of_a_group_is_named_even_when_it_is_googles_own(tmp_path: Path) -> None:
    host = HOSTS["v5e-8"].changed(GVNIC.address, group=5)

    reason = device(scan(host.write(tmp_path)), "0000-80-01.0").health.reason

    assert reason is not None
    assert "also holds 0000:00:03.0" in reason
