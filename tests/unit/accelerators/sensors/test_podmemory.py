"""Memory by the dmem cgroup."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.accelerators.pci import PciAddress
from accelet.accelerators.sensors.podmemory import MOST_PODS, CardMemory, read_card_memory
from accelet.fakehost.sensors import write_dmem, write_files

UID = "0f6c1c9e-2c53-4a2a-8f9b-4f6a3e1d2c3b"
CARD = PciAddress(0, 3, 0, 0)
SIZE = {"0000:03:00.0/vram0": 12_868_124_672, "0000:03:00.0/vram1": 12_868_124_672}
SYSTEMD = UID.replace("-", "_")


@pytest.mark.parametrize(
    "path",
    [
        f"kubepods.slice/kubepods-pod{SYSTEMD}.slice",
        f"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{SYSTEMD}.slice",
        f"kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{SYSTEMD}.slice",
        f"kubepods/pod{UID}",
        f"kubepods/burstable/pod{UID}",
    ],
)
def test_the_memory_of_a_pod_by_either_driver_of_cgroups(tmp_path: Path, path: str) -> None:
    write_dmem(tmp_path, SIZE, {path: {"0000:03:00.0/vram0": 4096}})
    found = read_card_memory(tmp_path, of_pods=True)
    assert found.sizes[CARD, "vram0"] == 12_868_124_672
    assert found.used == {UID: {(CARD, "vram0"): 4096}}
    assert read_card_memory(tmp_path, of_pods=False).used == {}


def test_a_kernel_without_the_controller_tells_nothing(tmp_path: Path) -> None:
    assert read_card_memory(tmp_path, of_pods=True) == CardMemory()


def test_no_more_pods_are_read_than_a_node_can_have(tmp_path: Path) -> None:
    pods = {f"kubepods/pod{number:032x}": {"0000:03:00.0/vram0": 1} for number in range(MOST_PODS + 9)}
    write_dmem(tmp_path, SIZE, pods)
    assert len(read_card_memory(tmp_path, of_pods=True).used) == MOST_PODS


@given(st.text(alphabet=st.characters(codec="utf-8")))
def test_whatever_the_file_says(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    root = tmp_path_factory.mktemp("host")
    write_files(root / "sys/fs/cgroup", {"dmem.capacity": text})
    assert all(size >= 0 for size in read_card_memory(root, of_pods=True).sizes.values())
