"""MIG instances that somebody else made, as devices."""

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelet.accelerators.cdi.specs import CdiReader
from accelet.accelerators.device import DeviceId
from accelet.accelerators.inventory import Inventory
from accelet.accelerators.nvidia.naming import CDI_KIND
from accelet.accelerators.nvidia.settings import NvidiaGpuSettings
from accelet.fakehost.nvidia import (
    DGX_A100,
    HGX_H100,
    CdiNames,
    NvidiaCard,
    capability_of,
    mig_uuid_of,
    uuid_of,
    write_instance,
    write_nvidia,
)
from deviceplugin.translate import to_allocate_message
from resourcemanager.listing import Listing, next_listing

CUT, CUT_ONCE = DGX_A100[2], DGX_A100[5]
HALVES = replace(HGX_H100[0], instances=((1, 0), (2, 0)))


def read(**fields: object) -> NvidiaGpuSettings:
    return msgspec.convert({"unit": "mig", **fields}, NvidiaGpuSettings)


def look(root: Path, **fields: object) -> Inventory:
    return read(**fields).backend().scan(root)


def ids(inventory: Inventory) -> list[str]:
    return [str(device.id) for device in inventory.devices]


def skips(inventory: Inventory) -> list[tuple[str, str]]:
    return [(skip.code, skip.reason) for skip in inventory.skipped]


def named(card: NvidiaCard, *instances: int) -> list[str]:
    return [f"{card.uuid}-gi{number}-ci0" for number in instances]


def test_instances_are_devices_and_whole_gpus_are_left_to_others(tmp_path: Path) -> None:
    found = look(write_nvidia(tmp_path, DGX_A100))
    assert ids(found) == [*named(CUT, 1, 5, 13), *named(CUT_ONCE, 1)]
    device = found.devices[1]
    assert (device.pci, device.model, device.driver) == ("0000:47:00.0", "NVIDIA A100-SXM4-40GB", "nvidia")
    assert (device.memory_bytes, device.nodes, device.parent) == (None, (), CUT.uuid)
    assert {code for code, _ in skips(found)} == {"not-selected"}
    assert len(found.skipped) == 6


def test_containers_get_the_uuid_that_nvidia_ctk_gave_the_instance(tmp_path: Path) -> None:
    backend = read().backend()
    found = backend.scan(write_nvidia(tmp_path, DGX_A100))
    edits = backend.edits(found, found.devices[1:2], {}, {})
    assert edits.cdi_names == (f"nvidia.com/gpu={mig_uuid_of(CUT, 5)}",)
    assert (edits.nodes, dict(edits.environment)) == ((), {})
    assert [one.name for one in to_allocate_message(edits, {}).cdi_devices] == list(edits.cdi_names)


def test_without_uuids_in_the_specification_numbers_name_the_instance(tmp_path: Path) -> None:
    found = look(write_nvidia(tmp_path, DGX_A100, cdi=("index", "all")))
    assert [device.cdi_name for device in found.devices] == [
        f"nvidia.com/gpu={name}" for name in ("2:0", "2:1", "2:2", "5:0")
    ]


def test_strategies_of_nvidias_plugin_are_resources(tmp_path: Path) -> None:
    """mixed: whole GPUs under one name, instances under one for each profile, chosen by their numbers."""
    root = write_nvidia(tmp_path, DGX_A100)
    assert len(look(root, unit="gpu").devices) == 6
    small = look(root, match={"instance": ["gi1[0-9]-ci0"]})
    assert ids(small) == named(CUT, 13)
    assert len(look(root, match={"instance": ["gi1-*", "gi5-ci0"]}).devices) == 3
    assert ids(look(root, match={"id": CUT_ONCE.uuid})) == named(CUT_ONCE, 1)
    assert ids(look(root, shares=2, match={"id": CUT_ONCE.uuid})) == [
        f"{named(CUT_ONCE, 1)[0]}-s{share}" for share in (0, 1)
    ]


def test_gpus_that_are_cut_differently_are_warned_of_under_one_name(tmp_path: Path) -> None:
    root = write_nvidia(tmp_path, DGX_A100)
    (warning,) = look(root).warnings
    assert "0000:47:00.0 has 3, 0000:90:00.0 has 1" in warning
    assert "match.instance" in warning
    assert look(root, match={"instance": ["gi1-*"]}).warnings == ()
    assert look(write_nvidia(tmp_path, [HALVES])).warnings == ()


def test_an_instance_without_compute_instance_says_what_makes_one(tmp_path: Path) -> None:
    root = write_nvidia(tmp_path, [HALVES])
    write_instance(root, 0, 9, None)
    found = look(root)
    assert len(found.devices) == 2
    assert skips(found) == [
        ("no-compute-instance", "gi9: it has no compute instance: nvidia-smi mig -cci makes one")
    ]


def test_compute_instances_that_share_their_memory_are_refused(tmp_path: Path) -> None:
    root = write_nvidia(tmp_path, [HALVES])
    write_instance(root, 0, 2, 1)
    found = look(root)
    assert ids(found) == named(HALVES, 1)
    (skip,) = found.skipped
    assert (skip.code, skip.unit) == ("shared-instance", f"{HALVES.uuid}-gi2")
    assert "2 compute instances, which share its memory" in skip.reason


def test_a_missing_device_node_of_an_instance_is_named(tmp_path: Path) -> None:
    root = write_nvidia(tmp_path, [HALVES])
    node = f"dev/nvidia-caps/nvidia-cap{capability_of(0, 2, 0)}"
    (root / node).unlink()
    found = look(root)
    assert ids(found) == named(HALVES, 1)
    assert skips(found) == [
        (
            "no-device-node",
            (
                f"gi2: /{node} is not there: nvidia-modprobe -f "
                "/proc/driver/nvidia/capabilities/gpu0/mig/gi2/ci0/access makes it"
            ),
        )
    ]


@pytest.mark.parametrize("text", ["", "DeviceFileMinor: -1\n", "DeviceFileMinor: 99999999999\n", "\0" * 900])
def test_an_instance_that_does_not_say_its_device_node_is_skipped(tmp_path: Path, text: str) -> None:
    root = write_nvidia(tmp_path, [HALVES])
    (root / "proc/driver/nvidia/capabilities/gpu0/mig/gi1/access").write_text(text)
    found = look(root)
    assert ids(found) == named(HALVES, 2)
    assert [code for code, _ in skips(found)] == ["no-minor"]


def test_folders_that_are_no_instances_count_for_nothing(tmp_path: Path) -> None:
    root = write_nvidia(tmp_path, [HALVES])
    for name in ("gi", "gi007", "gi-1", "gi1x", "gi123", "config"):
        (root / "proc/driver/nvidia/capabilities/gpu0/mig" / name).mkdir()
    assert ids(look(root)) == named(HALVES, 1, 2)


def test_a_specification_from_before_the_gpu_was_cut_is_stale(tmp_path: Path) -> None:
    root = write_nvidia(tmp_path, [replace(HALVES, instances=())], cdi=("uuid",))
    old = (root / "var/run/cdi/nvidia.yaml").read_text()
    write_nvidia(root, [HALVES], cdi=None)
    assert [code for code, _ in skips(look(root))] == ["no-cdi-name"] * 2
    (root / "var/run/cdi/nvidia.yaml").write_text(old)
    found = look(root)
    assert found.devices == ()
    assert skips(found)[0] == (
        "stale-cdi",
        (
            "gi1-ci0: /var/run/cdi/nvidia.yaml has /dev/nvidia0 whole or cut otherwise, without gi1-ci0: "
            "run nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"
        ),
    )


def test_a_specification_from_while_the_gpu_was_cut_is_stale_for_the_whole(tmp_path: Path) -> None:
    root = write_nvidia(tmp_path, [HALVES], cdi=("index",))
    specification = root / "var/run/cdi/nvidia.yaml"
    parts_only = specification.read_text().replace(
        '- name: "0"\n  containerEdits:\n    deviceNodes:\n    - path: /dev/nvidia0\n', ""
    )
    write_nvidia(root, [replace(HALVES, instances=())], cdi=None)
    specification.write_text(parts_only)
    (skip,) = look(root, unit="gpu").skipped
    assert skip.code == "stale-cdi"
    assert "has /dev/nvidia0 cut into MIG instances only, and it is whole now" in skip.reason


def test_what_is_still_held_in_its_former_form_keeps_the_gpu_from_others(tmp_path: Path) -> None:
    whole, parts = read(unit="gpu").backend(), read().backend()
    root = write_nvidia(tmp_path, [HALVES])
    held = frozenset({DeviceId(named(HALVES, 2)[0])})
    listing = next_listing(Listing(), parts.scan(root), held)
    assert all(entry.health.is_healthy for entry in listing.entries.values())
    write_nvidia(tmp_path, [replace(HALVES, instances=())])
    again = next_listing(Listing(), whole.scan(tmp_path), held)
    assert again.entries[DeviceId(uuid_of(0))].health.reason == (
        f"{uuid_of(0)} is still held by a container, whole or cut otherwise"
    )


def test_fewer_shares_do_not_take_the_others_from_their_holders(tmp_path: Path) -> None:
    root = write_nvidia(tmp_path, HGX_H100[:1])
    held = frozenset({DeviceId(f"{uuid_of(0)}-s3")})
    listing = next_listing(Listing(), look(root, unit="gpu", shares=2), held)
    assert listing.entries[DeviceId(f"{uuid_of(0)}-s0")].health.is_healthy


def test_instances_that_are_destroyed_are_gone_with_the_reason(tmp_path: Path) -> None:
    backend = read().backend()
    root = write_nvidia(tmp_path, [HALVES])
    listing = next_listing(Listing(), backend.scan(root), frozenset())
    shutil.rmtree(root / "proc/driver/nvidia/capabilities/gpu0/mig/gi2")
    found = backend.scan(root)
    gone = next_listing(listing, found, frozenset({DeviceId(named(HALVES, 2)[0])}))
    assert gone.entries[DeviceId(named(HALVES, 2)[0])].health.reason == "the device is gone from the node"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"unit": "gpu", "match": {"instance": ["gi1-*"]}}, "means nothing without unit: mig"),
        ({"inject": "envvar"}, "unit: mig needs inject: cdi; what NVIDIA's runtime calls a MIG instance"),
    ],
)
def test_settings_that_no_file_can_fulfil_are_refused(fields: dict[str, object], said: str) -> None:
    (problem,) = read(**fields).problems()
    assert problem.sentence.startswith(said)


cuts = st.lists(
    st.lists(st.integers(0, 14), unique=True, max_size=7).map(lambda some: tuple((one, 0) for one in some)),
    min_size=1,
    max_size=3,
)
kinds = st.lists(st.sampled_from(["index", "uuid", "all"]), unique=True)


@given(now=cuts, before=cuts, names=kinds)
@settings(max_examples=settings().max_examples // 4)
def test_a_name_gives_just_what_the_device_is_whatever_was_cut_before(
    now: list[tuple[tuple[int, int], ...]], before: list[tuple[tuple[int, int], ...]], names: list[CdiNames]
) -> None:
    """The specification may be from before the last cut. Nobody gets a part that is not theirs."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        write_nvidia(root, [replace(HGX_H100[at], instances=cut) for at, cut in enumerate(before)], names)
        text = (root / "var/run/cdi/nvidia.yaml").read_text()
        cards = [replace(HGX_H100[at], instances=cut) for at, cut in enumerate(now)]
        write_nvidia(root, cards, cdi=None)
        (root / "var/run/cdi/nvidia.yaml").write_text(text)
        specified = CdiReader(CDI_KIND).find(root).by_name
        whole, parts = look(root, unit="gpu"), look(root)
    nodes_of = {f"{card.uuid}": {card.node} for card in cards if not card.instances} | {
        f"{card.uuid}-gi{number}-ci0": {
            card.node,
            *(
                f"/dev/nvidia-caps/nvidia-cap{capability_of(card.minor or 0, number, part)}"
                for part in (None, 0)
            ),
        }
        for card in cards
        for number, _ in card.instances
    }
    served = {device.unit: device.cdi_name for device in (*whole.devices, *parts.devices)}
    for unit, name in served.items():
        assert name is not None
        assert set(specified[name.partition("=")[2]].nodes) == nodes_of[unit]
    reported = {skip.unit for skip in (*whole.skipped, *parts.skipped) if not skip.is_left_to_others}
    assert nodes_of.keys() <= served.keys() | reported


def test_resources_of_gpus_and_of_instances_do_not_meet() -> None:
    assert not read(unit="gpu").overlaps(read())
    assert read().overlaps(read(match={"instance": ["gi1-*"]}))
    small, large = read(match={"instance": ["gi7-ci0", "gi8-ci0"]}), read(match={"instance": ["gi1-ci0"]})
    assert not small.overlaps(large)
    assert small.overlaps(read(match={"instance": ["gi[78]-*"]}))
