import os
import random
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelet.accelerators.edits import Mount
from accelet.accelerators.intel.gpu import IntelGpuSettings
from accelet.accelerators.intel.match import CardMatch
from accelet.accelerators.inventory import Inventory, Skipped
from accelet.fakehost.amd import MI300X_CPX, write_amd
from accelet.fakehost.gpus import FALLEN_OFF, Gpu, write_gpus, write_plain_gpu
from accelet.fakehost.nodes import (
    ARC,
    FLEX,
    GIB,
    GUESTS,
    LAPTOP,
    MAX,
    MIXED,
    SICK,
    SRIOV,
    VMD,
)
from deviceplugin.translate import to_list_message
from resourcemanager.listing import Listing, next_listing


def scan(root: Path, *gpus: Gpu, **fields: object) -> Inventory:
    write_gpus(root, gpus)
    return look(root, **fields)


def look(root: Path, **fields: object) -> Inventory:
    return IntelGpuSettings(**fields).backend().scan(root)  # type: ignore[arg-type]


def ids(inventory: Inventory) -> list[str]:
    return [device.id for device in inventory.devices]


def skipped(inventory: Inventory, code: str) -> Skipped:
    (found,) = [skip for skip in inventory.skipped if skip.code == code]
    return found


def test_a_card_is_described_whole(tmp_path: Path) -> None:
    device = scan(tmp_path, *FLEX).devices[1]
    assert (str(device.id), str(device.unit)) == ("0000-9a-00.0", "0000-9a-00.0")
    assert (device.card, device.pci, device.pci_device) == ("card1", "0000:9a:00.0", "0x56c0")
    assert (device.driver, device.kind, device.numa_nodes) == ("i915", "discrete", (1,))
    assert (device.tile, device.tile_count, device.memory_bytes) == (None, 1, 16 * GIB)
    assert [node.host_path for node in device.nodes] == ["/dev/dri/card1", "/dev/dri/renderD129"]
    assert {(node.host_path == node.container_path, node.permissions) for node in device.nodes} == {
        (True, "rw")
    }


def test_order_is_by_pci_address_as_a_number(tmp_path: Path) -> None:
    assert ids(scan(tmp_path, *VMD)) == ["0000-fe-00.0", "10000-03-00.0"]


def test_connectors_and_render_nodes_are_no_candidates(tmp_path: Path) -> None:
    inventory = scan(tmp_path, *FLEX)
    assert len(inventory.devices) == 2
    assert inventory.skipped == ()


def test_partitions_of_amds_gpus_are_no_candidates_that_cannot_be_read(tmp_path: Path) -> None:
    """They are platform devices without a vendor; an unreadable vendor would keep units listed."""
    found = look(write_amd(tmp_path, MI300X_CPX))
    assert {skip.code for skip in found.skipped} == {"not-intel"}
    assert any("it is no PCI function" in skip.reason for skip in found.skipped)


def test_a_node_without_drm_has_no_cards(tmp_path: Path) -> None:
    assert look(tmp_path) == Inventory()


def test_a_drm_folder_that_cannot_be_listed_fails_the_scan_as_a_whole(tmp_path: Path) -> None:
    (tmp_path / "sys/class").mkdir(parents=True)
    (tmp_path / "sys/class/drm").touch()
    with pytest.raises(OSError, match="drm"):
        look(tmp_path)


class TestSimpleTrees:
    def test_a_card_without_links_is_named_by_its_card_and_counts_as_i915(self, tmp_path: Path) -> None:
        write_plain_gpu(tmp_path, 0, ["card0", "renderD128", "controlD64"])
        for node in ("card0", "renderD128", "controlD64"):
            (tmp_path / "dev/dri" / node).touch()
        (device,) = look(tmp_path, match=CardMatch(driver=("i915",))).devices
        assert (device.id, device.driver, device.pci) == ("card0", None, None)
        assert [node.host_path for node in device.nodes] == ["/dev/dri/card0", "/dev/dri/renderD128"]

    def test_of_two_cards_the_one_without_a_node_is_skipped(self, tmp_path: Path) -> None:
        write_plain_gpu(tmp_path, 0, ["card0"])
        write_plain_gpu(tmp_path, 1, ["card1"])
        (tmp_path / "dev/dri/card1").touch()
        inventory = look(tmp_path)
        assert ids(inventory) == ["card1"]
        assert skipped(inventory, "no-device-node") == Skipped(
            "/sys/class/drm/card0",
            "no-device-node",
            "has no device node (/dev/dri/card0)",
            "card0",  # type: ignore[arg-type]
        )

    def test_a_render_node_alone_is_enough(self, tmp_path: Path) -> None:
        write_plain_gpu(tmp_path, 0, ["card0", "renderD128"])
        (tmp_path / "dev/dri/renderD128").touch()
        (device,) = look(tmp_path).devices
        assert device.health.is_healthy

    def test_cards_of_ten_and_more_come_after_those_before(self, tmp_path: Path) -> None:
        for card in (10, 2, 0):
            write_plain_gpu(tmp_path, card, [f"card{card}"])
            (tmp_path / f"dev/dri/card{card}").touch()
        assert ids(look(tmp_path)) == ["card0", "card2", "card10"]


class TestShape:
    def test_i915_says_memory_for_one_tile(self, tmp_path: Path) -> None:
        device = scan(tmp_path, *MAX).devices[0]
        assert (device.tile_count, device.memory_bytes) == (2, 128 * GIB)

    def test_the_media_engine_of_an_integrated_gpu_is_no_tile(self, tmp_path: Path) -> None:
        (device,) = scan(tmp_path, *LAPTOP).devices
        assert (device.tile_count, device.kind, device.memory_bytes) == (1, "integrated", None)

    def test_xe_says_tiles_and_their_memory(self, tmp_path: Path) -> None:
        devices = scan(tmp_path, *MIXED).devices
        assert [(d.driver, d.kind, d.tile_count, d.memory_bytes) for d in devices] == [
            ("i915", "integrated", 1, None),
            ("i915", "discrete", 2, 128 * GIB),
            ("xe", "discrete", 2, 128 * GIB),
            ("xe", "discrete", 1, 12 * GIB),
        ]

    def test_more_tiles_than_one_digit_counts(self, tmp_path: Path) -> None:
        (device,) = scan(tmp_path, Gpu(0, "0000:03:00.0", driver="xe", tiles=12)).devices
        assert device.tile_count == 12

    def test_local_memory_makes_discrete_even_in_the_integrated_slot(self, tmp_path: Path) -> None:
        (device,) = scan(tmp_path, Gpu(0, "0000:00:02.0", lmem=GIB)).devices
        assert device.kind == "discrete"

    @pytest.mark.parametrize("numa", [-1, -2])
    def test_a_numa_node_that_is_not_known_is_left_out(self, tmp_path: Path, numa: int) -> None:
        (device,) = scan(tmp_path, Gpu(0, "0000:03:00.0", numa=numa)).devices
        assert device.numa_nodes == ()

    @pytest.mark.parametrize("text", ["twelve", "-7", "1e3", str(2**63), "9" * 4000, "\u0661"])
    @pytest.mark.parametrize(("name", "most"), [("device/numa_node", 1023), ("lmem_total_bytes", 2**60)])
    def test_a_figure_that_is_none_is_left_out_with_a_warning(
        self, tmp_path: Path, name: str, most: int, text: str
    ) -> None:
        write_gpus(tmp_path, [Gpu(0, "0000:03:00.0", lmem=GIB), Gpu(1, "0000:04:00.0", numa=1)])
        (tmp_path / "sys/class/drm/card0" / name).write_text(text)
        inventory = look(tmp_path)
        assert [device.numa_nodes for device in inventory.devices] == [(), (1,)]
        assert inventory.warnings == (
            f"/sys/class/drm/card0/{name} reads {text[:32]!r}, no number from 0 to {most}; it is left out",
        )
        listed = to_list_message(next_listing(Listing(), inventory, held=frozenset())).devices
        assert sorted(len(device.topology.nodes) for device in listed) == [0, 1]

    @pytest.mark.parametrize(("gone", "left"), [("tile1", 1), ("tile0", 2)])
    def test_a_tile_keeps_its_number_when_another_is_gone(self, tmp_path: Path, gone: str, left: int) -> None:
        """Where an earlier one is gone, how Level Zero numbers the others is not known."""
        write_gpus(tmp_path, [Gpu(0, "0000:03:00.0", driver="xe", tiles=2)])
        shutil.rmtree(tmp_path / "sys/class/drm/card0/device" / gone)
        (device,) = look(tmp_path).devices
        assert device.tile_count == left
        reason = None if left == 1 else "its tile 0 is not there, and later ones are"
        assert device.health.reason == reason

    def test_a_virtual_function_names_its_physical_one(self, tmp_path: Path) -> None:
        write_gpus(tmp_path, [Gpu(0, "0000:03:00.0", numvfs=1), Gpu(1, "0000:03:00.1")])
        (tmp_path / "sys/class/drm/card1/device/physfn").symlink_to("../0000:03:00.0")
        (device,) = look(tmp_path).devices
        assert (device.unit, device.parent) == ("0000-03-00.1", "0000-03-00.0")

    def test_no_card_has_more_tiles_than_a_card_can_have(self, tmp_path: Path) -> None:
        write_gpus(
            tmp_path, [Gpu(0, "0000:03:00.0", driver="xe", tiles=70, vram=GIB), Gpu(1, "0000:04:00.0")]
        )
        inventory = look(tmp_path, unit="tile")
        assert len(inventory.devices) == 65
        assert inventory.warnings == ("/sys/class/drm/card0/device has 70 tiles; no more than 64 count",)


class TestSkipped:
    def test_a_physical_function_with_virtual_ones_gives_way_to_them(self, tmp_path: Path) -> None:
        inventory = scan(tmp_path, *SRIOV)
        assert ids(inventory) == ["0000-03-00.1", "0000-03-00.2", "0000-04-00.0"]
        assert skipped(inventory, "pf-with-vfs").unit == "0000-03-00.0"

    @pytest.mark.parametrize("text", ["", "many", "2 4"])
    def test_an_unclear_number_of_functions_is_on_the_safe_side(self, tmp_path: Path, text: str) -> None:
        write_gpus(tmp_path, FLEX)
        (tmp_path / "sys/class/drm/card0/device/sriov_numvfs").write_text(text)
        inventory = look(tmp_path)
        assert ids(inventory) == ["0000-9a-00.0"]
        assert repr(text) in skipped(inventory, "bad-sriov").reason

    @pytest.mark.parametrize("count", [0, -1])
    def test_no_virtual_functions_is_an_ordinary_card(self, tmp_path: Path, count: int) -> None:
        assert len(scan(tmp_path, Gpu(0, "0000:03:00.0", numvfs=count)).devices) == 1

    def test_cards_of_others_are_named(self, tmp_path: Path) -> None:
        inventory = scan(tmp_path, *FLEX, Gpu(2, "0000:c0:00.0", vendor="0x1002", driver="amdgpu"))
        assert len(inventory.devices) == 2
        assert "0x1002" in skipped(inventory, "not-intel").reason

    def test_cards_given_to_guests_and_cards_without_driver_are_named(self, tmp_path: Path) -> None:
        inventory = scan(tmp_path, *GUESTS)
        assert ids(inventory) == ["0000-05-00.0"]
        guest, unbound = skipped(inventory, "driver-not-served"), skipped(inventory, "no-driver")
        assert (guest.unit, guest.path) == ("0000-03-00.0", "/sys/bus/pci/devices/0000:03:00.0")
        assert "vfio-pci" in guest.reason
        assert (unbound.unit, unbound.reason) == ("0000-04-00.0", "no driver is bound to it")

    def test_another_driver_is_served_only_by_name(self, tmp_path: Path) -> None:
        gpu = Gpu(0, "0000:03:00.0", driver="vfio-pci")
        for match in (CardMatch(), CardMatch(driver=("i915",))):
            assert "match.driver" in skipped(scan(tmp_path, gpu, match=match), "driver-not-served").reason
        named = CardMatch(driver=("vfio-pci",))
        assert ids(scan(tmp_path, gpu, match=named)) == ["0000-03-00.0"]

    def test_two_cards_of_one_address_are_one_unit(self, tmp_path: Path) -> None:
        write_gpus(tmp_path, [Gpu(0, "0000:03:00.0")])
        (tmp_path / "sys/class/drm/card7").symlink_to("card0")
        inventory = look(tmp_path)
        assert ids(inventory) == ["0000-03-00.0"]
        assert "card0" in skipped(inventory, "duplicate-unit").reason


class TestHealth:
    """Each sickness on a tree that turns the card and, once put right, turns it back."""

    @pytest.mark.parametrize(
        ("sick", "code", "reason"),
        [
            (replace(FLEX[0], driver=None, has_drm=False), "no-driver", "no driver is bound"),
            (replace(FLEX[0], driver="vfio-pci", has_drm=False), "driver-not-served", "vfio-pci"),
            (replace(FLEX[0], has_nodes=False), "no-device-node", "/dev/dri/renderD128"),
        ],
    )
    def test_a_card_that_cannot_be_given_names_its_unit_and_why(
        self, tmp_path: Path, sick: Gpu, code: str, reason: str
    ) -> None:
        well = scan(tmp_path, *FLEX)
        inventory = scan(tmp_path, sick, FLEX[1])
        assert ids(inventory) == ["0000-9a-00.0"]
        assert skipped(inventory, code).unit == "0000-03-00.0"
        assert reason in skipped(inventory, code).reason
        assert scan(tmp_path, *FLEX) == well

    @pytest.mark.parametrize(
        ("config", "reason"),
        [(FALLEN_OFF, "0xffff"), (b"", "nothing"), (bytes(64), "0x0000"), (b"\x02\x10", "0x1002")],
    )
    def test_a_card_that_no_longer_answers_is_unhealthy(
        self, tmp_path: Path, config: bytes, reason: str
    ) -> None:
        inventory = scan(tmp_path, replace(FLEX[0], config=config), FLEX[1])
        assert reason in (inventory.devices[0].health.reason or "")
        assert inventory.devices[1].health.is_healthy
        assert all(device.health.is_healthy for device in scan(tmp_path, *FLEX).devices)

    def test_a_configuration_that_fails_to_read_is_unhealthy(self, tmp_path: Path) -> None:
        write_gpus(tmp_path, FLEX)
        config = tmp_path / "sys/bus/pci/devices/0000:03:00.0/config"
        config.unlink()
        config.mkdir()
        assert "cannot be read" in (look(tmp_path).devices[0].health.reason or "")

    def test_a_tree_without_configuration_says_nothing_of_health(self, tmp_path: Path) -> None:
        write_gpus(tmp_path, FLEX)
        (tmp_path / "sys/bus/pci/devices/0000:03:00.0/config").unlink()
        assert look(tmp_path).devices[0].health.is_healthy

    def test_a_sleeping_card_is_not_woken(self, tmp_path: Path) -> None:
        inventory = scan(tmp_path, replace(SICK[0], runtime_status="suspended"))
        assert inventory.devices[0].health.is_healthy

    def test_a_card_without_its_render_node_is_unhealthy(self, tmp_path: Path) -> None:
        write_gpus(tmp_path, FLEX)
        (tmp_path / "dev/dri/renderD128").unlink()
        first, second = look(tmp_path).devices
        assert "/dev/dri/renderD128 is gone" in (first.health.reason or "")
        assert second.health.is_healthy
        (tmp_path / "dev/dri/renderD128").touch()
        assert look(tmp_path).devices[0].health.is_healthy

    def test_every_share_and_tile_of_a_sick_card_is_sick(self, tmp_path: Path) -> None:
        sick = replace(MAX[0], config=FALLEN_OFF)
        devices = scan(tmp_path, sick, unit="tile", shares=3).devices
        assert len(devices) == 6
        assert not any(device.health.is_healthy for device in devices)

    def test_a_card_whose_driver_is_just_leaving_does_not_turn_into_i915(self, tmp_path: Path) -> None:
        write_gpus(tmp_path, ARC)
        (tmp_path / "sys/bus/pci/devices/0000:04:00.0/driver").unlink()
        inventory = look(tmp_path)
        assert ids(inventory) == ["0000-00-02.0"]
        assert skipped(inventory, "no-driver").reason == "its driver xe is being unbound"


class TestOffers:
    def test_shares_have_a_suffix_only_where_there_are_several(self, tmp_path: Path) -> None:
        assert ids(scan(tmp_path, FLEX[0], shares=1)) == ["0000-03-00.0"]
        assert ids(scan(tmp_path, FLEX[0], shares=2)) == ["0000-03-00.0-s0", "0000-03-00.0-s1"]

    def test_tiles_come_before_shares_in_the_id(self, tmp_path: Path) -> None:
        inventory = scan(tmp_path, MAX[0], unit="tile", shares=2)
        assert ids(inventory) == [f"0000-29-00.0-t{tile}-s{share}" for tile in (0, 1) for share in (0, 1)]
        assert [(d.tile, d.share) for d in inventory.devices] == [(0, 0), (0, 1), (1, 0), (1, 1)]

    def test_a_single_tile_is_a_tile_too(self, tmp_path: Path) -> None:
        assert ids(scan(tmp_path, FLEX[0], unit="tile")) == ["0000-03-00.0-t0"]

    def test_by_path_single_gives_the_cards_own_links(self, tmp_path: Path) -> None:
        link = "/dev/dri/by-path/pci-0000:03:00.0"
        (device,) = scan(tmp_path, FLEX[0], by_path="single").devices
        assert device.mounts == (
            Mount(f"{link}-card", f"{link}-card"),
            Mount(f"{link}-render", f"{link}-render"),
        )
        assert all(mount.read_only for mount in device.mounts)

    def test_a_link_by_path_whose_name_is_no_text_is_left_out(self, tmp_path: Path) -> None:
        scan(tmp_path, FLEX[0], by_path="single")
        (tmp_path / "dev/dri/by-path" / os.fsdecode(b"pci-0000:03:00.0-\xff")).symlink_to("../card0")
        (device,) = scan(tmp_path, FLEX[0], by_path="single").devices
        assert [mount.host_path.rpartition("-")[2] for mount in device.mounts] == ["card", "render"]

    def test_by_path_knows_long_domains(self, tmp_path: Path) -> None:
        (device,) = scan(tmp_path, VMD[0]).devices
        assert device.mounts[0].host_path == "/dev/dri/by-path/pci-10000:03:00.0-card"

    def test_by_path_all_gives_the_folder(self, tmp_path: Path) -> None:
        (device,) = scan(tmp_path, FLEX[0], by_path="all").devices
        assert device.mounts == (Mount("/dev/dri/by-path", "/dev/dri/by-path"),)

    def test_by_path_none_gives_nothing(self, tmp_path: Path) -> None:
        assert scan(tmp_path, FLEX[0], by_path="none").devices[0].mounts == ()

    @pytest.mark.parametrize("by_path", ["single", "all"])
    def test_by_path_of_a_host_without_that_folder_is_nothing_and_comes_when_it_does(
        self, tmp_path: Path, by_path: str
    ) -> None:
        write_gpus(tmp_path, [FLEX[0]], by_path=False)
        assert look(tmp_path, by_path=by_path).devices[0].mounts == ()
        write_gpus(tmp_path, [FLEX[0]])
        assert look(tmp_path, by_path=by_path).devices[0].mounts != ()


@settings(max_examples=settings().max_examples // 2)
@given(seed=st.integers(0, 2**32), victim=st.sampled_from(MIXED))
def test_damage_to_one_card_loses_no_other(
    tmp_path_factory: pytest.TempPathFactory, seed: int, victim: Gpu
) -> None:
    root = tmp_path_factory.mktemp("node")
    before = {d.unit: d for d in scan(root, *MIXED).devices}
    dice = random.Random(seed)
    folder = root / f"sys/devices/pci0000:00/{victim.pci}"
    target = dice.choice(sorted(folder.rglob("*")))
    if target.is_dir() and not target.is_symlink():
        shutil.rmtree(target)
    else:
        target.unlink()
    if dice.random() < 0.5:
        target.write_bytes(dice.randbytes(dice.choice((0, 3, 5000))))
    inventory = look(root)
    after = {d.unit: d for d in inventory.devices}
    unit = victim.pci.replace(":", "-")
    assert {u: d for u, d in after.items() if u != unit} == {u: d for u, d in before.items() if u != unit}
    assert unit in after or unit in {skip.unit for skip in inventory.skipped}
    shutil.rmtree(root)
