"""`python -m tests.recorded` on small archives, some of hosts that accelet writes itself."""

import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from accelet.accelerators.device import Device, DeviceId, UnitId
from accelet.accelerators.inventory import Inventory
from accelet.fakehost.amd import MI210, write_amd
from accelet.fakehost.gpus import write_gpus
from accelet.fakehost.nodes import ALL_NODES
from accelet.fakehost.nvidia import DGX_A100, T4, uuid_of, write_nvidia
from tests.recorded.__main__ import main
from tests.recorded.replay import judge

Output = pytest.CaptureFixture[str]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "archives").mkdir()
    return tmp_path / "archives"


def pack(folder: Path, name: str, machine: Path) -> Path:
    """An archive in which the files of `machine` are those of a machine of the same name."""
    with tarfile.open(folder / name, "w:gz") as archive:
        archive.add(machine, machine.name)
    return folder / name


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda root: write_gpus(root, ALL_NODES["flex"]), "served   0000-"),
        (lambda root: write_amd(root, MI210), "amdgpu, discrete), 65536 MiB, NUMA node 0: /dev/kfd"),
        (lambda root: write_nvidia(root, T4), f"nvidia.com/gpu={uuid_of(3)}"),
        (lambda root: write_nvidia(root, T4, cdi=None), "and 3 others, no-cdi-name: /etc/cdi"),
        (lambda root: write_nvidia(root, DGX_A100), "skipped  /sys/bus/pci/devices/0000:47:00.0"),
    ],
)
def test_whole_hosts_are_served_and_skipped_with_reasons(
    folder: Path, tmp_path: Path, make: Callable[[Path], object], said: str, capsys: Output
) -> None:
    root = tmp_path / "machine"
    root.mkdir()
    make(root)
    pack(folder, "one.tgz", root)
    assert main([str(folder)]) == 0
    printed = capsys.readouterr().out
    assert "machine (whole host)" in printed
    assert said in printed


def test_cards_are_put_together_from_their_uevent(folder: Path, tmp_path: Path, capsys: Output) -> None:
    uevent = "DRIVER=amdgpu\nPCI_CLASS=30000\nPCI_ID=1002:744C\nPCI_SLOT_NAME=0000:03:00.0\n"
    files = {"card0/device/uevent": uevent, "card0/device/mem_info_vram_total": "25753026560\n"}
    pack(folder, "one.tgz", write(tmp_path / "desktop", files))
    assert main([str(folder)]) == 0
    printed = capsys.readouterr().out
    assert "made up: KFD's node of card0" in printed
    assert "served   0000-03-00.0 (0x744c, amdgpu, discrete), 24560 MiB: /dev/kfd /dev/dri/card0" in printed


def test_a_topology_gets_functions_and_nodes(folder: Path, tmp_path: Path, capsys: Output) -> None:
    said = "simd_count 152\nvendor_id 4098\ndevice_id 29857\ndomain 0\nhive_id 7\n"
    files = {
        "topology/nodes/0/properties": "cpu_cores_count 8\nsimd_count 0\ndrm_render_minor 0\n",
        **{
            f"topology/nodes/{1 + part}/properties": said
            + f"location_id {1280 + part}\ndrm_render_minor {128 + part}\n"
            for part in range(2)
        },
    }
    pack(folder, "one.tgz", write(tmp_path / "cut", files))
    assert main([str(folder)]) == 0
    printed = capsys.readouterr().out
    assert "served   0000-05-00.0-p1 (0x74a1, amdgpu, discrete), memory not known: " in printed
    assert "/dev/dri/card1 /dev/dri/renderD129" in printed


def test_a_profile_of_nvml_becomes_a_host(folder: Path, tmp_path: Path, capsys: Output) -> None:
    profile = """
    device_defaults: {name: NVIDIA L40S, pci: {device_id: 0x26B910DE}}
    devices:
    - {uuid: GPU-00000001-0000-0000-0000-000000000000, minor_number: 1, pci: {bus_id: "0000:2A:00.0"}}
    """
    pack(folder, "one.tgz", write(tmp_path / "profiles", {"l40s.yaml": profile, "values.yaml": "a: [b]\n"}))
    assert main([str(folder)]) == 0
    printed = capsys.readouterr().out
    assert "profiles/l40s.yaml (profile of NVML)" in printed
    assert "(NVIDIA L40S, 0x26b9, nvidia, discrete), memory not known: /dev/nvidia1 " in printed


def test_what_a_script_took_becomes_a_host(folder: Path, tmp_path: Path, capsys: Output) -> None:
    host = write_nvidia(tmp_path / "host", T4[:1])
    taken = tmp_path / "taken"
    function = "sys/bus/pci/devices/0000:00:1b.0"
    write(
        taken,
        {
            f"{function}/vendor": "0x10de\n",
            f"{function}/class": "0x030200\n",
            f"{function}/device": "0x1eb8\n",
            f"{function}/driver.link": "../../../bus/pci/drivers/nvidia\n",
            f"{function}/realpath": "/sys/devices/pci0000:00/0000:00:1b.0\n",
            "dev.ls": "".join(
                f"crw-rw-rw- 1 root root 195,   0 Nov 27 21:00 {name}\n"
                for name in ("/dev/nvidia0", "/dev/nvidiactl", "nvidia-uvm")
            ),
        },
    )
    (host / "proc").rename(taken / "proc")
    (host / "var/run/cdi/nvidia.yaml").rename(taken / "nvidia.yaml")
    pack(folder, "one.tgz", taken)
    assert main([str(folder)]) == 0
    printed = capsys.readouterr().out
    assert "(taken by a script)" in printed
    assert f"nvidia.com/gpu={uuid_of(0)}" in printed


def test_an_expectation_that_differs_is_shown_and_fails(folder: Path, tmp_path: Path, capsys: Output) -> None:
    pack(folder, "t4.tgz", write_nvidia(tmp_path / "t4", T4))
    assert main([str(folder), "--write"]) == 0
    assert main([str(folder)]) == 0
    expected = folder / "t4.expected"
    assert uuid_of(2) in expected.read_text()
    expected.write_text(expected.read_text().replace("Tesla T4", "Tesla P4"))
    capsys.readouterr()
    assert main([str(folder)]) == 1
    printed = capsys.readouterr().out
    assert "-    served" in printed
    assert printed.endswith("1 archives, 1 with a fault\n")


def test_an_archive_that_cannot_be_read_fails(folder: Path, capsys: Output) -> None:
    (folder / "cut.tgz").write_bytes(b"\x1f\x8b\x08")
    assert main([str(folder)]) == 1
    assert "FAILED: cut.tgz cannot be unpacked" in capsys.readouterr().out


def test_links_out_of_an_archive_are_left_out(folder: Path, tmp_path: Path, capsys: Output) -> None:
    root = write_nvidia(tmp_path / "t4", T4)
    (root / "sys/away").symlink_to("/etc")
    pack(folder, "t4.tgz", root)
    assert main([str(folder)]) == 0
    assert "1 entries were left out: they lead out of the archive" in capsys.readouterr().out


def test_a_folder_without_archives_is_told(folder: Path, capsys: Output) -> None:
    assert main([str(folder)]) == 1
    assert "has no archive (.tgz, .tar.gz, .tar)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("names", "said"), [(("a", "a"), "two devices have one id"), (("a/b",), "is no id"), (("a",), None)]
)
def test_what_no_scanner_may_find_is_a_failure(names: tuple[str, ...], said: str | None) -> None:
    found = Inventory(tuple(Device(DeviceId(name), UnitId(name)) for name in names))
    if said is None:
        judge(found, found)
        with pytest.raises(ValueError, match="a second scan"):
            judge(found, Inventory())
    else:
        with pytest.raises(ValueError, match=said):
            judge(found, found)
