"""How much memory a card has: by the kernel, else by the configuration, else not known, which is not 0."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.accelerators.device import Device
from accelet.accelerators.hostfiles import MOST_BYTES
from accelet.accelerators.intel.cardmemory import bytes_of
from accelet.accelerators.intel.gpu import IntelGpuSettings
from accelet.accelerators.pci import PciAddress
from accelet.accelerators.reading.devicememory import MOST_REGIONS, read_capacities, tiles_of
from accelet.agent.config import parse_config
from accelet.fakehost.gpus import Gpu, write_gpus
from accelet.fakehost.nodes import ARC, ARC_I915, ARC_OLD, GIB
from accelet.fakehost.sensors import write_dmem, write_files
from accelet.runtime.settings import SettingsError

MAX = Gpu(0, "0000:3a:00.0", driver="xe", device="0x0bda", tiles=2)


def scan(root: Path, *gpus: Gpu, **settings: object) -> tuple[Device, ...]:
    return look(write_gpus(root, gpus), **settings)


def look(root: Path, **settings: object) -> tuple[Device, ...]:
    return IntelGpuSettings(**settings).backend().scan(root).devices  # type: ignore[arg-type]


def memory(root: Path, **settings: object) -> int | None:
    (device,) = look(root, **settings)
    return device.memory_bytes


def mistakes(*lines: str) -> list[str]:
    text = "\n".join(
        ["version: v1", "resources:", "- name: gpu.intel.com/xe", "  backend: intel-gpu", *lines]
    )
    with pytest.raises(SettingsError) as caught:
        parse_config(text, "config.yaml")
    return [str(problem) for problem in caught.value.problems]


class TestByTheKernel:
    def test_a_card_of_xe_has_what_its_kernel_accounts_for(self, tmp_path: Path) -> None:
        integrated, discrete = scan(tmp_path, *ARC)
        assert (integrated.memory_bytes, discrete.memory_bytes) == (None, 12 * GIB)

    def test_a_card_of_two_tiles_has_the_memory_of_both(self, tmp_path: Path) -> None:
        write_gpus(tmp_path, [MAX])
        write_dmem(tmp_path, {"0000:3a:00.0/vram0": 64 * GIB, "0000:3a:00.0/vram1": 63 * GIB}, {})
        assert memory(tmp_path) == 127 * GIB

    def test_a_card_of_which_one_tile_is_not_told_has_no_known_memory(self, tmp_path: Path) -> None:
        write_gpus(tmp_path, [MAX])
        write_dmem(tmp_path, {"0000:3a:00.0/vram0": 64 * GIB}, {})
        assert memory(tmp_path) is None

    def test_other_regions_and_those_of_other_cards_are_no_memory_of_it(self, tmp_path: Path) -> None:
        write_gpus(tmp_path, [ARC_OLD[0]])
        regions = {"0000:04:00.0/mapped": GIB, "0000:04:00.0/stolen": GIB, "0000:05:00.0/vram0": GIB}
        write_dmem(tmp_path, regions, {})
        assert memory(tmp_path) is None

    @pytest.mark.parametrize("gpus", [ARC_I915, ARC_OLD])
    def test_a_card_that_tells_no_memory_is_discrete_and_its_memory_not_known(
        self, tmp_path: Path, gpus: tuple[Gpu, ...]
    ) -> None:
        (device,) = scan(tmp_path, *gpus)
        assert (device.kind, device.tile_count, device.memory_bytes) == ("discrete", 1, None)

    def test_memory_of_its_own_makes_a_card_discrete_even_in_the_integrated_slot(
        self, tmp_path: Path
    ) -> None:
        (device,) = scan(tmp_path, Gpu(0, "0000:00:02.0", driver="xe", tiles=1, vram=GIB))
        assert (device.kind, device.memory_bytes) == ("discrete", GIB)

    def test_files_of_drivers_apart_from_the_kernel_count_where_it_accounts_for_none(
        self, tmp_path: Path
    ) -> None:
        (own,) = scan(tmp_path, Gpu(0, "0000:03:00.0", gts=2, lmem=GIB))
        assert own.memory_bytes == 2 * GIB
        both = Gpu(0, "0000:03:00.0", driver="xe", tiles=2, physical_vram=2 * GIB)
        (by_file,) = scan(tmp_path, both)
        assert by_file.memory_bytes == 4 * GIB
        write_dmem(tmp_path, {"0000:03:00.0/vram0": GIB, "0000:03:00.0/vram1": GIB}, {})
        assert memory(tmp_path) == 2 * GIB, "what the kernel gives out, not what the card has"

    def test_a_domain_of_more_than_four_digits(self, tmp_path: Path) -> None:
        (device,) = scan(tmp_path, Gpu(0, "10000:03:00.0", driver="xe", tiles=1, vram=GIB))
        assert device.memory_bytes == GIB


class TestByTheConfiguration:
    def test_what_is_said_of_a_kind_of_card_counts_where_the_kernel_tells_nothing(
        self, tmp_path: Path
    ) -> None:
        write_gpus(tmp_path, ARC_I915)
        assert memory(tmp_path, memory={"0x56A5": "6Gi"}) == 6 * GIB
        assert memory(tmp_path, memory={"0x56a6": "6Gi"}) is None

    def test_what_the_kernel_tells_comes_first(self, tmp_path: Path) -> None:
        (device,) = scan(tmp_path, ARC[1], memory={"0xe20b": "99Gi"})
        assert device.memory_bytes == 12 * GIB

    def test_a_virtual_function_has_not_the_memory_of_its_physical_one(self, tmp_path: Path) -> None:
        write_gpus(tmp_path, [Gpu(0, "0000:03:00.0", numvfs=1), Gpu(1, "0000:03:00.1")])
        (tmp_path / "sys/class/drm/card1/device/physfn").symlink_to("../0000:03:00.0")
        assert memory(tmp_path, memory={"0x56c0": "16Gi"}) is None

    def test_it_is_read_as_people_write_it(self, tmp_path: Path) -> None:
        (resource,) = parse_config(
            "version: v1\nresources:\n- name: gpu.intel.com/i915\n  backend: intel-gpu\n"
            "  memory: {0x56a5: 6Gi, '0x56A6': 4294967296}\n",
            "x",
        ).resources
        write_gpus(tmp_path, (*ARC_I915, Gpu(1, "0000:0c:00.0", device="0x56a6")))
        found = resource.backend().scan(tmp_path).devices
        assert [device.memory_bytes for device in found] == [6 * GIB, 4 * GIB]

    @pytest.mark.parametrize("amount", ["0", "-1", "six", "6 Gi", "1.5Gi", "6gi", "6GB", "''", "[6Gi]"])
    def test_an_amount_that_is_none_is_a_mistake_at_its_place(self, amount: str) -> None:
        (mistake,) = mistakes(f"  memory: {{0x56a5: {amount}}}")
        assert "resources[0].memory.0x56a5: must be an amount of memory, as 6Gi" in mistake

    def test_an_id_that_is_none_is_a_mistake(self) -> None:
        (mistake,) = mistakes("  memory: {A380: 6Gi}")
        assert "must be PCI device id, as 0x56c0, not 'A380'" in mistake

    def test_more_than_any_card_has_is_a_mistake(self) -> None:
        (mistake,) = mistakes("  memory: {0x56a5: 9999999999Ti}")
        assert mistake == (
            "config.yaml:5: resources[0].memory.0x56a5: 9999999999Ti is more memory than any card has"
        )

    def test_an_id_in_two_writings_is_a_mistake(self) -> None:
        (mistake,) = mistakes("  memory: {0x56a5: 6Gi, 0x56A5: 8Gi}")
        assert "0x56a5 is given twice" in mistake


@given(st.integers(1, 10**6), st.sampled_from(["", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti"]))
def test_an_amount_is_its_number_times_its_unit(number: int, unit: str) -> None:
    power = "kMGT".find(unit[:1].replace("K", "k")) + 1 if unit else 0
    base = 1024 if unit.endswith("i") else 1000
    assert bytes_of(f"{number}{unit}") == number * base**power


_REGIONS = st.dictionaries(st.tuples(st.integers(0, 3), st.integers(0, 3)), st.integers(0, 2**62), max_size=9)


@given(_REGIONS)
def test_regions_are_read_as_the_kernel_writes_them(
    tmp_path_factory: pytest.TempPathFactory, regions: dict[tuple[int, int], int]
) -> None:
    root = tmp_path_factory.mktemp("host")
    write_dmem(root, {f"0000:0{card}:00.0/vram{tile}": size for (card, tile), size in regions.items()}, {})
    found = read_capacities(root)
    for card in range(4):
        expected = {
            tile: size for (of, tile), size in regions.items() if of == card and 0 < size <= MOST_BYTES
        }
        assert tiles_of(PciAddress(0, card, 0, 0), found) == expected


def test_a_number_that_a_long_file_cuts_short_is_not_taken_for_a_size(tmp_path: Path) -> None:
    """64 KiB are read: a line that goes on behind them would have another number."""
    line = "drm/0000:03:00.0/vram0 8514437120\n"
    for shift in range(len(line)):
        text = "x" * shift + "\n" + "\n" * (65536 - 1 - 2 * shift) + line
        write_files(tmp_path / "sys/fs/cgroup", {"dmem.capacity": text})
        assert set(read_capacities(tmp_path).values()) <= {8514437120}


def test_no_more_regions_count_than_a_host_has(tmp_path: Path) -> None:
    write_dmem(tmp_path, {f"{card:04x}:03:00.0/vram0": 1 for card in range(MOST_REGIONS + 9)}, {})
    assert len(read_capacities(tmp_path)) == MOST_REGIONS
