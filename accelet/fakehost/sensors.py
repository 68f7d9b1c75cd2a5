"""What the drivers of Intel's cards tell of them, in trees that `write_gpus` made: by driver and kernel.

After Documentation/ABI/testing/sysfs-driver-intel-{i915,xe}-hwmon and the drivers' sources; sources.py has
the kernel of each file. None of it was seen on a machine with such a card.
"""

from collections.abc import Mapping
from pathlib import Path

from accelet.fakehost.gpus import Gpu

AER = "RxErr 0\nBadTLP {0}\nUndefined Error {0}\nTOTAL_ERR_COR {0}\n"


def device(root: Path, gpu: Gpu) -> Path:
    return root / "sys/bus/pci/devices" / gpu.pci


def write_files(folder: Path, files: Mapping[str, object]) -> None:
    for name, value in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{value}\n")


def write_i915(root: Path, gpu: Gpu, *, has_temperature: bool = True, has_fan: bool = True) -> None:
    """A discrete card of i915: energy since 6.2, a fan since 6.12, a temperature since 6.13 or so."""
    files: dict[str, object] = {
        "name": "i915",
        "in0_input": 780,
        "power1_max": 120_000_000,
        "power1_rated_max": 150_000_000,
        "power1_max_interval": 28_000,
        "energy1_input": 5_000_000,
    }
    if has_temperature:
        files["temp1_input"] = 57_000
    if has_fan:
        files["fan1_input"] = 1210
    write_files(device(root, gpu) / "hwmon/hwmon3", files)
    gt: dict[str, object] = {
        "rps_act_freq_mhz": 1250,
        "rps_min_freq_mhz": 300,
        "rps_max_freq_mhz": 2050,
        "rc6_enable": 1,
        "rc6_residency_ms": 600_000,
        "throttle_reason_status": 1,
        "throttle_reason_pl1": 1,
        "throttle_reason_thermal": 0,
    }
    for number in range(gpu.gts):
        write_files(device(root, gpu) / f"drm/card{gpu.card}/gt/gt{number}", gt)


def write_xe(root: Path, gpu: Gpu, *, kernel: str = "7.0", energy: int = 9_000_000) -> None:
    """A Battlemage of xe, Linux 6.8; 6.16 has heat and fans, 6.19 one file of reasons, 7.0 limits of heat."""
    step = ("6.8", "6.16", "6.19", "7.0").index(kernel)
    files: dict[str, object] = {
        "name": "xe",
        "power1_max": 190_000_000,
        "power1_label": "card",
        "energy1_input": energy,
        "energy1_label": "card",
        "power2_max": 0,
        "power2_label": "pkg",
        "energy2_input": energy // 2,
        "energy2_label": "pkg",
        "in1_input": 910,
        "in1_label": "pkg",
    }
    if step >= 1:
        files |= {"temp2_input": 61_000, "temp2_label": "pkg", "temp3_input": 70_000, "temp3_label": "vram"}
        files |= {"fan1_input": 0, "fan2_input": 1800}
    if step >= 3:
        files |= {"temp2_crit": 105_000, "temp2_emergency": 110_000, "temp3_crit": 100_000}
        files |= {"temp6_input": 72_000, "temp6_label": "vram_ch_0"}
    write_files(device(root, gpu) / "hwmon/hwmon5", files)
    for tile in range(max(1, gpu.tiles)):
        _write_xe_gt(device(root, gpu) / f"tile{tile}/gt0", has_reasons=step >= 2)


def _write_xe_gt(folder: Path, *, has_reasons: bool) -> None:
    files: dict[str, object] = {
        "freq0/act_freq": 2400,
        "freq0/cur_freq": 2450,
        "freq0/min_freq": 400,
        "freq0/max_freq": 2850,
        "freq0/throttle/status": 1,
        "freq0/throttle/reason_pl1": 1,
        "freq0/throttle/reason_thermal": 0,
        "gtidle/name": "gt0-rc",
        "gtidle/idle_status": "gt-c6",
        "gtidle/idle_residency_ms": 1_200_000,
    }
    if has_reasons:
        files["freq0/throttle/reasons"] = "pl1 psys_crit"
    write_files(folder, files)


def write_virtual_function(root: Path, gpu: Gpu) -> None:
    """A virtual function of a card of xe: no hwmon, no frequencies, no idle time, no link of its own.

    Registers of a link that read as 0 the kernel shows as no lanes, of unknown speed.
    """
    write_link(device(root, gpu), width=0, most=0, speed="Unknown", most_speed="Unknown")
    write_files(device(root, gpu), {"tile0/gt0/engines/ccs/name": "ccs"})


def write_link(
    folder: Path,
    *,
    width: int = 16,
    most: int = 16,
    speed: str = "16.0 GT/s PCIe",
    most_speed: str = "16.0 GT/s PCIe",
    errors: int = 0,
) -> None:
    files = {
        "current_link_width": width,
        "max_link_width": most,
        "current_link_speed": speed,
        "max_link_speed": most_speed,
        "aer_dev_correctable": AER.format(errors).strip(),
        "aer_dev_fatal": "DLP 0\nTOTAL_ERR_FATAL 0",
    }
    write_files(folder, files)


def write_asleep(root: Path, gpu: Gpu, *, suspended_ms: int = 0, status: str = "suspended") -> None:
    files = {"runtime_status": status, "runtime_suspended_time": suspended_ms}
    write_files(device(root, gpu) / "power", files)


def write_dmem(root: Path, capacity: Mapping[str, int], pods: Mapping[str, Mapping[str, int]]) -> None:
    """`capacity` by `PCI/REGION`; `pods` likewise, by the path of a pod's cgroup below /sys/fs/cgroup."""
    cgroups = root / "sys/fs/cgroup"
    write_files(cgroups, {"dmem.capacity": _regions(capacity)})
    for path, regions in pods.items():
        write_files(cgroups / path, {"dmem.current": _regions(regions)})


def _regions(regions: Mapping[str, int]) -> str:
    return "\n".join(f"drm/{name} {size}" for name, size in regions.items())
