"""What is read of cards, on trees as each driver and kernel makes them."""

import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from watchdog.events import FileOpenedEvent, FileSystemEvent, FileSystemEventHandler
from watchdog.observers import Observer

from accelet.accelerators.sensors import sample
from accelet.accelerators.sensors.cardfiles import MOST_SOURCES
from accelet.accelerators.sensors.cardlook import CardLook, CardReader
from accelet.accelerators.sensors.sample import Metric
from accelet.accelerators.sensors.sensorfile import LONGEST_LABEL, Form, SensorFile, as_label, read_samples
from accelet.fakehost.gpus import Gpu, write_gpus
from accelet.fakehost.sensors import (
    device,
    write_asleep,
    write_files,
    write_i915,
    write_link,
    write_virtual_function,
    write_xe,
)

I915 = Gpu(3, "0000:03:00.0")
XE = Gpu(4, "0000:04:00.0", driver="xe", device="0xe20b", tiles=1)


def read(root: Path, gpu: Gpu) -> CardLook:
    return CardReader(device(root, gpu), f"card{gpu.card}").read()


def values(reading: CardLook, metric: Metric) -> dict[tuple[str, ...], float]:
    return {one.labels: round(one.value, 9) for one in reading.samples if one.metric is metric}


def test_i915(tmp_path: Path) -> None:
    write_i915(write_gpus(tmp_path, [I915]), I915)
    reading = read(tmp_path, I915)
    assert reading.is_active
    assert reading.errors == 0
    assert values(reading, sample.ENERGY) == {("card",): 5.0}
    assert values(reading, sample.TEMPERATURE) == {("pkg",): 57.0}
    assert values(reading, sample.VOLTAGE) == {("in0",): 0.78}
    assert values(reading, sample.FAN_SPEED) == {("1",): 1210.0}
    assert values(reading, sample.POWER_LIMIT) == {("card", "max"): 120.0, ("card", "rated_max"): 150.0}
    assert values(reading, sample.FREQUENCY) == {("0", "0"): 1.25e9}
    assert values(reading, sample.FREQUENCY_LIMIT) == {("0", "0", "min"): 3e8, ("0", "0", "max"): 2.05e9}
    assert values(reading, sample.IS_THROTTLED) == {("0", "0", "pl1"): 1.0, ("0", "0", "thermal"): 0.0}
    assert values(reading, sample.AWAKE) == {("0", "0"): 600.0}


def test_what_a_kernel_does_not_tell_is_not_there(tmp_path: Path) -> None:
    write_i915(write_gpus(tmp_path, [I915]), I915, has_temperature=False, has_fan=False)
    reading = read(tmp_path, I915)
    assert values(reading, sample.TEMPERATURE) == values(reading, sample.FAN_SPEED) == {}
    assert values(reading, sample.ENERGY) != {}


def test_engines_that_may_not_rest_are_not_told_to_be_awake(tmp_path: Path) -> None:
    write_i915(write_gpus(tmp_path, [I915]), I915)
    write_files(device(tmp_path, I915) / "drm/card3/gt/gt0", {"rc6_enable": 0})
    assert values(read(tmp_path, I915), sample.AWAKE) == {}


@pytest.mark.parametrize("kernel", ["6.8", "6.16", "6.19", "7.0"])
def test_xe(tmp_path: Path, kernel: str) -> None:
    write_xe(write_gpus(tmp_path, [XE]), XE, kernel=kernel)
    reading = read(tmp_path, XE)
    assert values(reading, sample.ENERGY) == {("card",): 9.0, ("pkg",): 4.5}
    assert values(reading, sample.POWER_LIMIT) == {("card", "max"): 190.0}, "a limit of 0 is none"
    assert values(reading, sample.FREQUENCY) == {("0", "0"): 2.4e9}
    assert values(reading, sample.AWAKE) == {("0", "0"): 1200.0}
    throttled = {("0", "0", "pl1"): 1.0, ("0", "0", "thermal"): 0.0}
    if kernel in ("6.19", "7.0"):
        throttled["0", "0", "psys_crit"] = 1.0
    assert values(reading, sample.IS_THROTTLED) == throttled
    hot = values(reading, sample.TEMPERATURE)
    assert (
        hot
        == {
            "6.8": {},
            "6.16": {("pkg",): 61.0, ("vram",): 70.0},
            "6.19": {("pkg",): 61.0, ("vram",): 70.0},
            "7.0": {("pkg",): 61.0, ("vram",): 70.0, ("vram_ch_0",): 72.0},
        }[kernel]
    )
    limits = values(reading, sample.TEMPERATURE_LIMIT)
    assert (limits.get(("pkg", "crit")) == 105.0) is (kernel == "7.0")
    fans = values(reading, sample.FAN_SPEED)
    assert fans == ({} if kernel == "6.8" else {("1",): 0.0, ("2",): 1800.0}), "a fan may stand still"


def test_a_virtual_function_tells_nothing_of_the_card_and_that_is_no_error(tmp_path: Path) -> None:
    write_virtual_function(write_gpus(tmp_path, [XE]), XE)
    reading = read(tmp_path, XE)
    assert reading.is_active
    assert reading.errors == 0
    assert {one.metric for one in reading.samples} <= {sample.PCIE_ERRORS}


def test_two_sensors_of_one_label_are_two(tmp_path: Path) -> None:
    write_xe(write_gpus(tmp_path, [XE]), XE)
    write_files(device(tmp_path, XE) / "hwmon/hwmon5", {"temp3_label": "pkg"})
    assert {labels[0] for labels in values(read(tmp_path, XE), sample.TEMPERATURE)} >= {"pkg", "pkg-3"}


def test_a_card_without_a_switch_has_its_own_link(tmp_path: Path) -> None:
    write_link(device(write_gpus(tmp_path, [I915]), I915), width=8, errors=2)
    reading = read(tmp_path, I915)
    assert values(reading, sample.LINK_WIDTH) == {(): 8.0}
    assert values(reading, sample.LINK_WIDTH_LIMIT) == {(): 16.0}
    assert values(reading, sample.LINK_SPEED) == {(): 16e9}
    assert values(reading, sample.PCIE_ERRORS) == {("correctable",): 2.0, ("fatal",): 0.0}


def test_a_card_behind_its_own_switch_has_the_link_of_that_and_the_errors_of_all(tmp_path: Path) -> None:
    root = write_gpus(tmp_path, [I915])
    card = device(root, I915).resolve()
    switch = card.parent / "0000:01:00.0/0000:02:01.0"
    switch.mkdir(parents=True)
    card.rename(switch / I915.pci)
    (root / "sys/bus/pci/devices" / I915.pci).unlink()
    (root / "sys/bus/pci/devices" / I915.pci).symlink_to(switch / I915.pci)
    for port in (switch, switch.parent):
        write_files(port, {"class": "0x060400", "vendor": "0x8086"})
    write_link(switch.parent, width=16, errors=3)
    write_link(switch, width=1, speed="2.5 GT/s PCIe", errors=5)
    write_link(switch / I915.pci, width=1, speed="2.5 GT/s PCIe", errors=7)
    reading = read(root, I915)
    assert values(reading, sample.LINK_WIDTH) == {(): 16.0}
    errors = [one.value for one in reading.samples if one.labels == ("correctable",)]
    assert sorted(errors) == [3.0, 5.0, 7.0]


class Opened(FileSystemEventHandler):
    """Which files below a folder are opened, until one of a name is."""

    def __init__(self, last: Path) -> None:
        self.paths: set[str] = set()
        self.is_over = threading.Event()
        self._last = str(last)

    def on_opened(self, event: FileSystemEvent) -> None:
        if not event.is_directory:
            self.paths.add(str(event.src_path))
        if event.src_path == self._last:
            self.is_over.set()


@pytest.mark.parametrize("status", ["suspended", "suspending", "resuming", "error"])
def test_nothing_is_read_of_a_card_that_sleeps(tmp_path: Path, status: str) -> None:
    root = write_gpus(tmp_path, [XE])
    write_xe(root, XE)
    write_link(device(root, XE))
    write_asleep(root, XE, suspended_ms=90_000, status=status)
    place = device(root, XE).resolve()
    last = place / "last"
    last.touch()
    opened, observer = Opened(last), Observer()
    observer.schedule(opened, str(place), recursive=True, event_filter=[FileOpenedEvent])
    observer.start()
    try:
        reading = read(root, XE)
        last.read_text()
        assert opened.is_over.wait(10)
    finally:
        observer.stop()
        observer.join(10)
    assert not reading.is_active
    assert reading.suspended_s == 90.0
    assert reading.samples == ()
    names = {Path(path).relative_to(place).as_posix() for path in opened.paths} - {"last"}
    assert names == {"power/runtime_status", "power/runtime_suspended_time"}


def test_a_driver_that_is_bound_anew_is_found_again(tmp_path: Path) -> None:
    root = write_gpus(tmp_path, [I915])
    write_i915(root, I915)
    reader = CardReader(device(root, I915), "card3")
    assert values(reader.read(), sample.ENERGY) == {("card",): 5.0}
    (device(root, I915) / "hwmon/hwmon3").rename(device(root, I915) / "hwmon/hwmon9")
    assert values(reader.read(), sample.ENERGY) == {}
    assert values(reader.read(), sample.ENERGY) == {("card",): 5.0}


def test_sensors_that_come_after_the_card_are_found_at_the_next_look(tmp_path: Path) -> None:
    root = write_gpus(tmp_path, [I915])
    write_link(device(root, I915))
    reader = CardReader(device(root, I915), "card3")
    assert values(reader.read(), sample.LINK_WIDTH) == {(): 16.0}
    write_i915(root, I915)
    assert values(reader.read(), sample.TEMPERATURE) == {("pkg",): 57.0}


def test_a_sum_of_errors_of_which_one_is_not_told_is_no_sample(tmp_path: Path) -> None:
    root = write_gpus(tmp_path, [I915])
    card = device(root, I915).resolve()
    for port in (card.parent, card.parent.parent):
        write_files(port, {"class": "0x060400", "vendor": "0x8086"})
        write_link(port, errors=4)
    write_link(card, errors=4)
    reader = CardReader(device(root, I915), "card3")
    assert len([one for one in reader.read().samples if one.labels == ("correctable",)]) == 3
    (card / "aer_dev_correctable").write_text("nonsense\n")
    told = {one.labels for one in reader.read().samples if one.metric is sample.PCIE_ERRORS}
    assert told == {("fatal",)}


def test_what_cannot_be_read_is_counted(tmp_path: Path) -> None:
    root = write_gpus(tmp_path, [I915])
    write_i915(root, I915)
    energy = device(root, I915) / "hwmon/hwmon3/energy1_input"
    energy.unlink()
    energy.mkdir()
    reading = read(root, I915)
    assert reading.errors == 1
    assert values(reading, sample.TEMPERATURE) == {("pkg",): 57.0}


def test_a_tree_of_nonsense_has_bounds(tmp_path: Path) -> None:
    root = write_gpus(tmp_path, [XE])
    folder = device(root, XE) / "hwmon/hwmon5"
    write_files(folder, {"name": "xe"} | {f"temp{number}_input": 50_000 for number in range(100)})
    for tile in range(30):
        write_files(device(root, XE) / f"tile{tile}/gt0/freq0", {"act_freq": 100, "throttle/reason_x": 1})
        for gt in range(1, 10):
            write_files(device(root, XE) / f"tile{tile}/gt{gt}/freq0", {"act_freq": 100})
    assert len(read(root, XE).samples) == MOST_SOURCES


@given(
    st.sampled_from(["number", "flag", "speed", "reasons", "errors"]),
    st.one_of(
        st.text(),
        st.integers().map(str),
        st.text().map("TOTAL_ERR_COR {}".format),
        st.integers().map("x 1\nTOTAL_ERR_COR {}".format),
    ),
)
def test_no_text_of_a_kernel_is_more_than_it_may_be(form: Form, text: str) -> None:
    source = SensorFile("path", sample.IS_THROTTLED, ("0", "0"), 1e-3, 1.0, 150.0, form, ("pl1",))
    found = list(read_samples(source, text))
    assert len(found) <= 17
    for one in found:
        assert all(0 < len(label) <= LONGEST_LABEL and label.isascii() for label in one.labels)
        assert form == "reasons" or 1.0 <= one.value <= 150.0


@given(st.text())
def test_a_label_is_short_and_plain(text: str) -> None:
    label = as_label(text, "other")
    assert not label.endswith("-")
    assert 0 < len(label) <= LONGEST_LABEL
    assert as_label(label, "other") in (label, "other")
    assert set(label) <= set("abcdefghijklmnopqrstuvwxyz0123456789_.-")
