"""A claim that is prepared already is given again what is in the record, whatever there is by now."""

import asyncio
import json
import tempfile
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelet.accelerators.device import Device, UnitId
from accelet.accelerators.edits import DeviceNode
from accelet.accelerators.files.backend import FilesSettings
from accelet.accelerators.files.groups import Group, GroupPath
from accelet.accelerators.inventory import Inventory
from accelet.accelerators.tpu.settings import TpuSettings
from accelet.dra.errors import ClaimError, DraError, NotYetError
from accelet.dra.names import FILES_DRIVER
from accelet.dra.preparing.cdi import nodes_in
from accelet.dra.preparing.claim import parse_claim
from accelet.dra.preparing.claimtable import ClaimTable
from accelet.dra.preparing.entry import Entry
from accelet.dra.publishing.served import ServedResource
from accelet.dra.running.records import ClaimRecords
from accelet.fakehost.tpu import HOSTS, TpuHost
from accelet.kube.apiresources import ApiResource
from tests.unit.dra.nodes import Node, an_offer, touch_nodes
from tests.unit.dra.strategies import gpu, gpus

TPU = "tpu.accelet.dev"
CLAIMS = ApiResource("ResourceClaim", "resourceclaims", "resource.k8s.io", "v1")
HOST = HOSTS["v5e-8"]
FIRST, THIRD, FOURTH = "0000:00:0c.0", "0000:00:0e.0", "0000:00:0f.0"
CHIP_3, CHIP_4 = "chips-1-0000-00-0e-0", "chips-1-0000-00-0f-0"
CARD = "gpu-0000-03-00-0"


def chips(root: Path, host: TpuHost = HOST, **said: Any) -> ServedResource:
    """What a scan of the host finds, with its files below `root`."""
    backend = TpuSettings(mode="sub-host", **said).backend()
    return ServedResource("google.com/tpu", backend, backend.scan(host.write(root)))


def a_tpu_node(root: Path, **others: Any) -> Node:
    return Node(root, chips(root), TPU, **others)


def look_again(node: Node, root: Path, host: TpuHost = HOST, **said: Any) -> None:
    """What the driver has after a scan of another state of the host."""
    with tempfile.TemporaryDirectory() as seen:
        now = chips(Path(seen), host, **said)
    touch_nodes(root, now)
    node.offer = an_offer(now, driver=TPU)


def record(node: Node) -> dict[str, Entry]:
    """What is prepared, by the claims' names."""
    return {entry.name: entry for entry in ClaimRecords(node.places).read().values()}


def groups(node: Node, claim: str) -> set[str]:
    """The device files a claim's containers get."""
    return {host for host, _ in nodes_in(record(node)[claim].cdi)} - {"/dev/vfio/vfio"}


async def test_a_chip_that_leaves_gives_no_claim_another_chip(tmp_path: Path) -> None:
    node = a_tpu_node(tmp_path)
    first = await node.prepare(CHIP_3)
    held = groups(node, CHIP_3)
    look_again(node, tmp_path, HOST.without(FIRST))
    assert await node.prepare(CHIP_3) == first
    assert groups(node, CHIP_3) == held == {"/dev/vfio/4"}
    assert isinstance((await node.prepare(CHIP_4))[CHIP_4], tuple)
    assert groups(node, CHIP_4) == {"/dev/vfio/7"}


async def _as_earlier_versions_wrote(node: Node, claim: str, name: str) -> None:
    """The record of a claim as versions that named chips by their position had it: `chips-2`."""
    node.objects.devices[name] = name
    await node.prepare(claim)
    (entry,) = record(node).values()
    raw = await node.objects.get(CLAIMS, "ml", name)
    digest = parse_claim(raw, TPU).digest
    text = entry.cdi.replace(f"{entry.uid}-{entry.digest}-{claim}", f"uid-{name}-{digest}-{name}")
    kind = "k8s.tpu.accelet.dev/claim"
    earlier = replace(
        entry,
        uid=f"uid-{name}",
        digest=digest,
        name=name,
        holds=(replace(entry.holds[0], device=name),),
        answers=(replace(entry.answers[0], device=name, cdi_ids=(f"{kind}=uid-{name}-{digest}-{name}",)),),
        cdi=text,
    )
    records = ClaimRecords(node.places)
    records.remove_cdi([entry])
    records.write(ClaimTable([earlier]))


async def test_a_claim_prepared_under_a_name_of_an_earlier_version_is_given_again_and_back(
    tmp_path: Path,
) -> None:
    node = a_tpu_node(tmp_path)
    await _as_earlier_versions_wrote(node, CHIP_3, "chips-2")
    before = record(node)["chips-2"]
    assert (await node.prepare("chips-2"))["chips-2"] == before.answers
    assert record(node)["chips-2"] == before
    assert [path.read_text() for path in node.files()] == [before.cdi]
    refused = (await node.prepare(CHIP_3))[CHIP_3]
    assert str(refused) == f"{CHIP_3} is still held by the claim ml/chips-2"
    assert await node.unprepare("chips-2") == {"chips-2": None}
    assert (record(node), node.files()) == ({}, [])
    assert isinstance((await node.prepare(CHIP_3))[CHIP_3], tuple)


async def test_such_a_claim_keeps_its_chip_over_a_reboot_that_numbers_the_files_anew(tmp_path: Path) -> None:
    await _as_earlier_versions_wrote(a_tpu_node(tmp_path), CHIP_3, "chips-2")
    node = a_tpu_node(tmp_path / "again", boot="the next")
    node.places.folder.parent.mkdir(parents=True)
    (tmp_path / "kubelet/plugins/tpu.accelet.dev").rename(node.places.folder)
    node.objects.devices["chips-2"] = "chips-2"
    look_again(node, tmp_path / "again", HOST.without(FIRST).changed(THIRD, group=77))
    answers = record(node)["chips-2"].answers
    assert (await node.prepare("chips-2"))["chips-2"] == answers
    assert groups(node, "chips-2") == {"/dev/vfio/77"}


@pytest.mark.parametrize("boot", ["b", "the next"])
async def test_a_claim_whose_chip_is_gone_is_refused(tmp_path: Path, boot: str) -> None:
    """Its file is there, and may be another chip's."""
    await a_tpu_node(tmp_path).prepare(CHIP_3)
    node = Node(
        tmp_path, ServedResource("google.com/tpu", TpuSettings().backend(), Inventory()), TPU, boot=boot
    )
    node.objects.devices[CHIP_3] = CHIP_3
    look_again(node, tmp_path, HOST.without(THIRD))
    refused = (await node.prepare(CHIP_3))[CHIP_3]
    assert isinstance(refused, DraError)
    assert str(refused) == "0000-00-0e.0 is not there any more"


async def test_a_name_of_an_earlier_version_that_was_never_prepared_says_what_to_do(tmp_path: Path) -> None:
    node = a_tpu_node(tmp_path)
    node.objects.devices["chips-2"] = "chips-2"
    refused = (await node.prepare("chips-2"))["chips-2"]
    assert isinstance(refused, ClaimError)
    assert str(refused) == (
        "the device chips-2 of pool node-1 is not on this node: "
        "its name is that of an earlier version; create the pod again"
    )


async def test_settings_that_changed_change_nothing_of_what_is_prepared(tmp_path: Path) -> None:
    node = a_tpu_node(tmp_path)
    box = "chips-4-0000-00-0c-0-0000-00-0f-0"
    await node.prepare(box)
    before = record(node)[box]
    look_again(node, tmp_path, processes="per-chip", visible_chips="container")
    assert (await node.prepare(box))[box] == before.answers
    assert record(node)[box] == before


async def test_logs_of_a_pod_that_runs_are_not_set_aside(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    node = a_tpu_node(tmp_path)
    await node.prepare(CHIP_3)
    ((folder, _),) = node.mounts()
    log = tmp_path / folder.lstrip("/") / "tpu_driver.INFO"
    log.write_text("it runs")
    await node.prepare(CHIP_3)
    assert log.read_text() == "it runs"
    log.unlink()
    log.parent.rmdir()  # as what cleans /tmp does
    await node.prepare(CHIP_3)
    assert log.parent.is_dir()


async def test_hardware_that_is_served_in_another_way_by_now_is_given_again_at_once(tmp_path: Path) -> None:
    node = Node(tmp_path, gpus(gpu(3)))
    first = await node.prepare(CARD)
    node.offer = an_offer()
    assert await node.prepare(CARD) == first


async def test_a_pod_that_must_not_use_it_is_refused_though_the_claim_is_prepared(tmp_path: Path) -> None:
    node = Node(tmp_path, gpus(gpu(3)))
    await node.prepare(CARD)
    pod = node.objects.pods[CARD] = json.loads(
        await node.objects.get(ApiResource("Pod", "pods", "", "v1"), "ml", f"pod-{CARD}")
    )
    pod["spec"]["containers"][0]["resources"]["limits"] = {"gpu.intel.com/i915": "1"}
    refused = (await node.prepare(CARD))[CARD]
    assert isinstance(refused, ClaimError)
    assert "gpu.intel.com/i915 by the device plugin beside the claim" in str(refused)


def _function_of(unit: UnitId, bus: int) -> tuple[Device, ...]:
    return tuple(replace(one, parent=unit) for one in gpu(bus))


async def test_a_virtual_function_is_given_to_nobody_while_a_claim_holds_its_card(tmp_path: Path) -> None:
    node = Node(tmp_path, gpus(gpu(3)))
    first = await node.prepare(CARD)
    unit = gpu(3)[0].unit
    divided = gpus(_function_of(unit, 4), _function_of(unit, 5))
    touch_nodes(tmp_path, divided)
    node.offer = replace(an_offer(divided), elsewhere=frozenset({unit}))
    functions = ["gpu-0000-04-00-0", "gpu-0000-05-00-0"]
    node.objects.devices |= {name: name for name in functions}
    refused = (await node.prepare(functions[0]))[functions[0]]
    assert isinstance(refused, NotYetError)
    assert str(refused) == f"{unit}, whose virtual function it is, is still held by the claim ml/{CARD}"
    assert await node.prepare(CARD) == first
    await node.unprepare(CARD)
    assert all(isinstance(one, tuple) for one in (await node.prepare(*functions)).values())


async def test_a_virtual_function_is_given_to_no_claim_while_a_pod_has_its_card(tmp_path: Path) -> None:
    unit = gpu(3)[0].unit

    async def held(units: Collection[UnitId]) -> frozenset[UnitId]:
        assert unit in units
        return frozenset({unit})

    node = Node(tmp_path, gpus(_function_of(unit, 4)), held_units=held)
    refused = (await node.prepare("gpu-0000-04-00-0"))["gpu-0000-04-00-0"]
    assert str(refused).startswith(f"{unit} is still held by a pod")


def pairs(root: Path, *files: str) -> ServedResource:
    """Cameras and their lights, put together in order, and a control file that all of them share."""
    for file in (*files, "control"):
        (root / "dev").mkdir(exist_ok=True)
        (root / "dev" / file).touch()
    paths = (
        GroupPath(path="/dev/camera*"),
        GroupPath(path="/dev/light*"),
        GroupPath(path="/dev/control", limit=10),
    )
    backend = FilesSettings(groups=(Group(paths=paths),)).backend()
    return ServedResource("example.com/pair", backend, backend.scan(root))


async def test_a_file_of_a_group_is_not_given_twice_when_the_others_move_up(tmp_path: Path) -> None:
    every = [f"{kind}{number}" for kind in ("camera", "light") for number in range(3)]
    before = pairs(tmp_path, *every)
    node = Node(tmp_path, before, FILES_DRIVER)
    first, second, third = (device.name for device in node.offer.pool.devices)
    assert isinstance((await node.prepare(second))[second], tuple)
    (tmp_path / "dev/camera0").unlink()
    missing = frozenset({before.inventory.devices[1].unit})
    node.offer = replace(an_offer(pairs(tmp_path), driver=FILES_DRIVER), missing=missing)
    moved, other = (device.name for device in node.offer.pool.devices)
    assert {moved, other}.isdisjoint({first, second, third})
    node.objects.devices |= {moved: moved, other: other}
    outcomes = await node.prepare(moved, other)
    assert str(outcomes[moved]) == f"/dev/camera1 is still held by the claim ml/{second}"
    assert str(outcomes[other]) == f"/dev/light1 is still held by the claim ml/{second}"
    await node.unprepare(second)
    assert all(isinstance(one, tuple) for one in (await node.prepare(moved, other)).values())


async def test_a_tile_that_is_gone_is_given_again_to_nobody(tmp_path: Path) -> None:
    """The mask would show another tile, or all."""
    node = Node(tmp_path, gpus(gpu(3, tiles=2)))
    await node.prepare(f"{CARD}-tile-1")
    node.offer = an_offer(gpus(gpu(3, tiles=1)))
    refused = (await node.prepare(f"{CARD}-tile-1"))[f"{CARD}-tile-1"]
    assert isinstance(refused, ClaimError)
    assert str(refused) == "0000-03-00.0 has no tile 1 any more"


_looks = st.lists(
    st.permutations(range(4)).flatmap(
        lambda order: st.sets(st.integers(3, 6)).map(lambda gone: (order, gone))
    ),
    min_size=1,
    max_size=4,
)
"""For each look which number each card's file has, and which cards are gone."""


@settings(max_examples=30, deadline=None)
@given(_looks, st.sampled_from(["b", "another"]))
def test_whatever_comes_and_goes_each_claim_has_the_cards_it_was_given(
    looks: Sequence[tuple[Sequence[int], set[int]]], boot: str
) -> None:
    """Cards that come back under other numbers are followed."""
    with tempfile.TemporaryDirectory(prefix="again-") as folder:
        asyncio.run(_assert_kept(Path(folder), looks, boot))


def _numbered(order: Sequence[int], gone: set[int]) -> ServedResource:
    cards = [
        tuple(
            replace(device, nodes=(DeviceNode(f"/dev/dri/card{number}", f"/dev/dri/card{number}"),))
            for device in gpu(bus)
        )
        for bus, number in zip(range(3, 7), order, strict=True)
    ]
    left = [card for card in cards if int(card[0].unit[5:7], 16) not in gone]
    return gpus(*left)


async def _assert_kept(root: Path, looks: Sequence[tuple[Sequence[int], set[int]]], boot: str) -> None:
    node = Node(root, _numbered(range(4), set()))
    claims = [f"gpu-0000-0{bus}-00-0" for bus in range(3, 7)]
    first = await node.prepare(*claims)
    node = Node(root, _numbered(range(4), set()), boot=boot)
    for order, gone in looks:
        resource = _numbered(order, gone)
        node.offer = an_offer(resource)
        again = await node.prepare(*claims)
        for bus, claim in zip(range(3, 7), claims, strict=True):
            assert isinstance(again[claim], ClaimError) == (bus in gone)
            if bus not in gone:
                assert again[claim] == first[claim]
                assert groups(node, claim) == {f"/dev/dri/card{order[bus - 3]}"}
        assert len(record(node)) == len(claims)
