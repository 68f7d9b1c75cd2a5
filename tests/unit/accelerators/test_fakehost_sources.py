"""Every file of a fake host is one that some kernel has: no back-end is tested on what it made up itself."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from accelet.fakehost.amd import ALL_AMD, write_amd
from accelet.fakehost.gpus import Gpu, write_gpus
from accelet.fakehost.nodes import ALL_NODES, ARC, ARC_I915, ARC_OLD, GIB, LAPTOP
from accelet.fakehost.nvidia import ALL_NVIDIA, write_nvidia
from accelet.fakehost.sensors import (
    write_asleep,
    write_dmem,
    write_i915,
    write_link,
    write_virtual_function,
    write_xe,
)
from accelet.fakehost.sources import SOURCES, find_source
from accelet.fakehost.tpu import HOSTS

I915 = Gpu(0, "0000:03:00.0", mei="mei0", numvfs=0)
XE = Gpu(1, "0000:04:00.0", driver="xe", device="0xe20b", tiles=2, vram=12 * GIB, mei="mei1")
POD = "kubepods/pod0f6c1c9e-2c53-4a2a-8f9b-4f6a3e1d2c3b"


def files(root: Path) -> Iterator[str]:
    """Files, links, and folders in which there is nothing."""
    for path in root.rglob("*"):
        if not path.is_dir() or path.is_symlink() or not any(path.iterdir()):
            yield str(path.relative_to(root))


def unknown(root: Path) -> list[str]:
    drivers = "sys/bus/pci/drivers/"  # folders that links lead to
    return [file for file in files(root) if find_source(file) is None and not file.startswith(drivers)]


def beside_mainline(root: Path) -> set[str]:
    sources = (find_source(file) for file in files(root))
    return {source.pattern for source in sources if source is not None and not source.is_mainline}


@pytest.mark.parametrize("name", ALL_NODES)
def test_every_file_of_a_node_with_gpus_has_a_source(tmp_path: Path, name: str) -> None:
    assert unknown(write_gpus(tmp_path, ALL_NODES[name])) == []


@pytest.mark.parametrize("name", ALL_AMD)
def test_every_file_of_a_node_with_amds_gpus_is_of_mainline_kernels(tmp_path: Path, name: str) -> None:
    write_amd(tmp_path, ALL_AMD[name])
    assert unknown(tmp_path) == []
    assert beside_mainline(tmp_path) == set()


@pytest.mark.parametrize("name", ALL_NVIDIA)
def test_every_file_of_a_node_with_nvidias_gpus_has_a_source(tmp_path: Path, name: str) -> None:
    assert unknown(write_nvidia(tmp_path, ALL_NVIDIA[name])) == []


@pytest.mark.parametrize("name", HOSTS)
def test_every_file_of_a_node_with_tpus_has_a_source(tmp_path: Path, name: str) -> None:
    assert unknown(HOSTS[name].write(tmp_path)) == []


def test_every_file_of_sensors_has_a_source_and_is_of_mainline_kernels(tmp_path: Path) -> None:
    write_gpus(tmp_path, [I915, XE])
    write_i915(tmp_path, I915)
    write_xe(tmp_path, XE)
    write_virtual_function(tmp_path, XE)
    write_link(tmp_path / "sys/bus/pci/devices/0000:03:00.0")
    write_asleep(tmp_path, I915)
    write_dmem(tmp_path, {"0000:04:00.0/vram0": GIB}, {POD: {"0000:04:00.0/vram0": 1}})
    assert unknown(tmp_path) == []
    assert beside_mainline(tmp_path) == set()


@pytest.mark.parametrize("gpus", [(Gpu(0, "0000:03:00.0"),), LAPTOP, ARC, ARC_OLD, ARC_I915])
def test_a_card_shows_what_mainline_kernels_show_unless_its_driver_is_another(
    tmp_path: Path, gpus: tuple[Gpu, ...]
) -> None:
    assert beside_mainline(write_gpus(tmp_path, gpus)) == set()


def test_files_of_drivers_apart_from_the_kernel_are_marked(tmp_path: Path) -> None:
    write_gpus(
        tmp_path,
        [Gpu(0, "0000:03:00.0", lmem=GIB), Gpu(1, "0000:04:00.0", driver="xe", tiles=1, physical_vram=GIB)],
    )
    assert beside_mainline(tmp_path) == {
        "{f}/drm/card*/lmem_total_bytes",
        "{f}/tile*/physical_vram_size_bytes",
    }


def test_no_file_is_in_the_table_twice() -> None:
    patterns = [source.pattern for source in SOURCES]
    assert len(set(patterns)) == len(patterns)
    assert find_source("sys/devices/pci0000:00/0000:03:00.0/made_up") is None
