"""Units that do not answer: what a scan makes of them, and that it goes on with the others."""

import threading
from collections.abc import Callable, Hashable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

import pytest

from accelet.accelerators.errors import ScanError
from accelet.accelerators.files.backend import FilesFinder, FilesSettings
from accelet.accelerators.files.groups import Group, GroupPath, UsbDevice
from accelet.accelerators.intel.gpu import IntelGpuSettings
from accelet.accelerators.intel.monitoring import MonitoringSettings
from accelet.accelerators.inventory import Inventory
from accelet.accelerators.reading.hardwarereads import HardwareReads, TimedScan, unanswered_health
from accelet.accelerators.tpu.settings import TpuSettings
from accelet.fakehost.gpus import Gpu, write_gpus
from accelet.fakehost.tpu import HOSTS
from tests.fakes.hangingfile import hanging

CARD, OTHER = Gpu(0, "0000:03:00.0"), Gpu(1, "0000:04:00.0")
K = TypeVar("K", bound=Hashable)
T = TypeVar("T")
CONFIG = "sys/bus/pci/devices/{}/config"


@pytest.fixture
def answers() -> Iterator[threading.Event]:
    """Set once those that hang are to answer; at the end of the test in any case."""
    event = threading.Event()
    yield event
    event.set()


class Unit:
    """Says how often it was asked; hangs until `answers` is set."""

    def __init__(self, answers: threading.Event | None = None) -> None:
        self.asked, self.ended, self._answers = 0, threading.Event(), answers

    def __call__(self) -> int:
        self.asked += 1
        if self._answers is not None:
            self._answers.wait()
        self.ended.set()
        return self.asked


def test_a_unit_that_hangs_is_left_out_and_the_others_answer(answers: threading.Event) -> None:
    reads = HardwareReads(answer_s=1.0)
    assert reads.ask({"a": Unit(), "b": Unit(answers), "c": Unit()}) == {"a": 1, "c": 1}


@pytest.mark.parametrize("first", [True, False])
def test_units_after_any_number_that_hang_are_asked(answers: threading.Event, *, first: bool) -> None:
    sick = {f"sick-{number}": Unit(answers) for number in range(3)}
    well = {f"well-{number}": Unit() for number in range(3)}
    asked: dict[str, Callable[[], int]] = {**sick, **well} if first else {**well, **sick}
    assert HardwareReads(answer_s=1.0).ask(asked).keys() == well.keys()


def test_a_unit_that_hangs_is_not_asked_again_until_it_answers(answers: threading.Event) -> None:
    reads, unit = HardwareReads(answer_s=1.0), Unit(answers)
    for _ in range(5):
        assert reads.ask({"unit": unit}) == {}
    assert unit.asked == 1
    assert [thread.name for thread in threading.enumerate()].count("hardware-unit") == 1
    answers.set()
    assert unit.ended.wait(60)
    until_answered(reads, unit)
    assert unit.asked == 2, "what it said so late is not believed: it is asked anew"


def until_answered(reads: HardwareReads, unit: Unit) -> None:
    """Its thread has said that it ended a moment after the unit did."""
    for _ in range(600):
        if reads.ask({"unit": unit}):
            return
        threading.Event().wait(0.1)
    pytest.fail("it is never asked again")


def test_no_more_units_than_allowed_hang_at_a_time(answers: threading.Event) -> None:
    reads = HardwareReads(answer_s=0.1, most_hanging=2)
    units = {number: Unit(answers) for number in range(5)}
    for _ in range(3):
        assert reads.ask(units) == {}
    assert sum(unit.asked for unit in units.values()) == 2


def test_an_error_of_a_read_is_raised_where_it_was_asked_for() -> None:
    def fail() -> int:
        raise ValueError("a fault of ours")

    reads: dict[str, Callable[[], int]] = {"a": Unit(), "b": fail}
    with pytest.raises(ValueError, match="a fault of ours"):
        HardwareReads().ask(reads)


def test_nothing_is_asked_where_there_is_nothing() -> None:
    assert HardwareReads().ask({}) == {}


def test_a_scan_that_hangs_fails_and_is_not_begun_twice(answers: threading.Event) -> None:
    unit = Unit(answers)
    scan = TimedScan(unit, most_s=0.2)
    for _ in range(3):
        with pytest.raises(ScanError, match=r"did not end within 0\.2 s: see the kernel log"):
            scan()
    assert unit.asked == 1


def reasons(inventory: Inventory) -> dict[str | None, str | None]:
    return {device.pci or device.unit: device.health.reason for device in inventory.devices}


def test_a_card_that_hangs_is_unhealthy_and_the_loss_of_another_is_seen(tmp_path: Path) -> None:
    write_gpus(tmp_path, [CARD, OTHER])
    backend = IntelGpuSettings().backend()
    before = backend.scan(tmp_path)
    with hanging(tmp_path / CONFIG.format(CARD.pci)):
        expected = {CARD.pci: unanswered_health("card").reason, OTHER.pci: None}
        found = backend.scan(tmp_path)
        assert reasons(found) == expected
        assert found.unanswered == ("/sys/class/drm/card0",)
        assert found.devices[1] == before.devices[1]
        (tmp_path / "sys/class/drm/card1").unlink()
        assert reasons(backend.scan(tmp_path)) == {CARD.pci: unanswered_health("card").reason}
    assert CARD.pci in reasons(backend.scan(tmp_path))


def test_a_card_that_never_answered_is_skipped_with_its_unit_and_shown_to_monitors_no_more(
    tmp_path: Path,
) -> None:
    write_gpus(tmp_path, [CARD, OTHER])
    with hanging(tmp_path / CONFIG.format(CARD.pci)):
        found = IntelGpuSettings().backend().scan(tmp_path)
        assert reasons(found) == {OTHER.pci: None}
        assert [(one.path, one.code, one.unit) for one in found.skipped] == [
            ("/sys/class/drm/card0", "no-answer", "0000-03-00.0")
        ]
        shown = MonitoringSettings().backend().scan(tmp_path)
        assert [node.host_path for node in shown.devices[0].nodes] == list(OTHER.nodes)
        assert shown.unanswered == ("/sys/class/drm/card0",)


def test_another_card_in_the_place_of_one_that_hangs_is_served(tmp_path: Path) -> None:
    write_gpus(tmp_path, [CARD, OTHER])
    backend = IntelGpuSettings().backend()
    with hanging(tmp_path / CONFIG.format(CARD.pci)):
        backend.scan(tmp_path)
        link, fresh = tmp_path / "sys/class/drm/card0", tmp_path / "sys/class/drm/fresh"
        fresh.symlink_to((tmp_path / "sys/class/drm/card1").readlink())
        fresh.rename(link)
        assert backend.scan(tmp_path).unanswered == ()


def test_a_chip_that_hangs_is_unhealthy_and_the_others_are_not(tmp_path: Path) -> None:
    HOSTS["v5e-8"].write(tmp_path)
    backend, chip = TpuSettings(control_service="none").backend(), "0000:80:01.0"
    assert set(reasons(backend.scan(tmp_path)).values()) == {None}
    with hanging(tmp_path / CONFIG.format(chip)):
        found = backend.scan(tmp_path)
        sick = {pci: reason for pci, reason in reasons(found).items() if reason is not None}
        assert sick == {chip: unanswered_health("chip").reason}
        assert len(found.devices) == 8
        assert found.unanswered == (f"/sys/bus/pci/devices/{chip}",)


def test_a_chip_that_never_answered_is_skipped_with_its_unit(tmp_path: Path) -> None:
    HOSTS["v5e-4"].write(tmp_path)
    chip = "0000:00:05.0"
    with hanging(tmp_path / CONFIG.format(chip)):
        found = TpuSettings(control_service="none").backend().scan(tmp_path)
        assert len(found.devices) == 3
        assert ("no-answer", "0000-00-05.0") in [(one.code, one.unit) for one in found.skipped]


class DeafReads(HardwareReads):
    """Those whose keys contain one of `deaf` do not answer: what a file of sysfs does cannot be had here."""

    deaf: tuple[str, ...] = ()

    def ask(self, reads: Mapping[K, Callable[[], T]]) -> dict[K, T]:
        return {key: read() for key, read in reads.items() if not any(name in str(key) for name in self.deaf)}


@pytest.fixture
def deaf_reads() -> type[DeafReads]:
    class OwnReads(DeafReads):
        pass

    return OwnReads


def write_usb(root: Path, place: str, vendor: str, device: int) -> None:
    folder = root / "sys/bus/usb/devices" / place
    folder.mkdir(parents=True)
    for name, text in {"idVendor": vendor, "idProduct": "0407", "busnum": "1", "devnum": str(device)}.items():
        (folder / name).write_text(f"{text}\n")
    (root / "dev/bus/usb/001").mkdir(parents=True, exist_ok=True)
    (root / f"dev/bus/usb/001/{device:03d}").touch()


def test_a_usb_device_that_no_longer_answers_is_unhealthy_and_others_are_not(
    tmp_path: Path, deaf_reads: type[DeafReads]
) -> None:
    write_usb(tmp_path, "1-1", "1050", 4)
    write_usb(tmp_path, "1-2", "1051", 5)
    groups = [Group(usb=(UsbDevice(vendor=vendor, product="0407"),)) for vendor in ("1050", "1051")]
    find = FilesFinder(groups, deaf_reads)
    assert set(reasons(find(tmp_path)).values()) == {None}
    deaf_reads.deaf = ("1-1",)
    found = find(tmp_path)
    assert reasons(found) == {"usb-1050-0407": unanswered_health("USB device").reason, "usb-1051-0407": None}
    assert found.unanswered == ("/sys/bus/usb/devices/1-1",)


@pytest.mark.parametrize(
    ("deaf", "sick"),
    [
        ("/dev/video1", {"dev-video1"}),
        ("/dev/video*", {"dev-video0", "dev-video1"}),
        ("/mnt/data", {"mnt-data"}),
    ],
)
def test_a_path_or_folder_that_hangs_makes_only_what_it_belongs_to_unhealthy(
    tmp_path: Path, deaf_reads: type[DeafReads], deaf: str, sick: set[str]
) -> None:
    for folder in ("dev", "mnt/data"):
        (tmp_path / folder).mkdir(parents=True)
    for name in ("video0", "video1"):
        (tmp_path / "dev" / name).touch()
    groups = FilesSettings(
        paths=("/dev/video*",), groups=(Group(paths=(GroupPath(path="/mnt/data", type="Mount"),)),)
    ).all_groups()
    find = FilesFinder(groups, deaf_reads)
    assert set(reasons(find(tmp_path)).values()) == {None}
    deaf_reads.deaf = (deaf,)
    found = find(tmp_path)
    assert {
        unit for unit, reason in reasons(found).items() if reason == unanswered_health("path").reason
    } == sick
    assert reasons(found).keys() == {"dev-video0", "dev-video1", "mnt-data"}
    assert found.unanswered == (deaf,)


def test_a_path_that_never_answered_is_skipped_with_that_reason(
    tmp_path: Path, deaf_reads: type[DeafReads]
) -> None:
    deaf_reads.deaf = ("/mnt",)
    (skip,) = FilesFinder(FilesSettings(paths=("/mnt/data",)).all_groups(), deaf_reads)(tmp_path).skipped
    assert (skip.code, skip.reason) == ("no-answer", unanswered_health("path").reason)


def test_groups_of_files_are_found_as_before_by_a_scan_with_limits(tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    for name in ("video0", "video1"):
        (tmp_path / "dev" / name).touch()
    (tmp_path / "dev/video2").symlink_to("nowhere")
    found = FilesSettings(paths=("/dev/video*",)).backend().scan(tmp_path)
    assert [device.unit for device in found.devices] == ["dev-video0", "dev-video1"]
    assert [one.code for one in found.skipped] == ["dangling-link"]
    assert found.unanswered == ()
