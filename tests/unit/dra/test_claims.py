"""Prepare on files in a folder: what is granted, and what stands in its way."""

import asyncio
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import pytest

from accelet.accelerators.device import UnitId
from accelet.accelerators.tpu.settings import TpuSettings
from accelet.dra.errors import ClaimError, NotYetError, StateError
from accelet.dra.publishing.served import ServedResource
from accelet.dra.running.changes import Grant
from accelet.dra.running.claimreader import ClaimRef
from accelet.fakehost.tpu import HOSTS
from tests.unit.dra.nodes import Node
from tests.unit.dra.strategies import gpu, gpus

CARDS = gpus(gpu(3), gpu(4))
CARD_3, CARD_4 = "gpu-0000-03-00-0", "gpu-0000-04-00-0"
UNIT_3 = UnitId("0000-03-00.0")


async def test_what_a_container_holds_at_the_grant_is_not_granted(tmp_path: Path) -> None:
    """A pod may have come by it since anybody looked last."""
    held: set[UnitId] = set()

    async def read(units: Collection[UnitId]) -> frozenset[UnitId]:
        return frozenset(held & set(units))

    node = Node(tmp_path, CARDS, held_units=read)
    held.add(UNIT_3)
    outcomes = await node.prepare(CARD_3, CARD_4)
    sentence = f"{UNIT_3} is still held by a pod that came by it as an extended resource of this node"
    assert str(outcomes[CARD_3]) == sentence
    assert isinstance(outcomes[CARD_4], tuple)
    held.clear()
    assert isinstance((await node.prepare(CARD_3))[CARD_3], tuple)


async def test_nothing_is_granted_while_holders_cannot_be_told(tmp_path: Path) -> None:
    async def fail(_units: Collection[UnitId]) -> frozenset[UnitId]:
        raise NotYetError("the record cannot be read")

    node = Node(tmp_path, CARDS, held_units=fail)
    outcome = (await node.prepare(CARD_3))[CARD_3]
    assert isinstance(outcome, NotYetError)
    assert node.files() == []


async def test_a_claim_that_was_made_anew_by_its_name_is_another(tmp_path: Path) -> None:
    node = Node(tmp_path, CARDS)
    (outcome,) = (await node.claims.prepare([ClaimRef("ml", CARD_3, "uid-before")])).values()
    assert isinstance(outcome, ClaimError)
    assert str(outcome) == "another claim has the name by now"
    assert node.files() == []


async def test_a_card_that_goes_after_its_claim_was_read_is_not_granted(tmp_path: Path) -> None:
    uid = f"uid-{CARD_3}"
    read = await Node(tmp_path, CARDS).reader.read(ClaimRef("ml", CARD_3, uid), 0)
    later = Node(tmp_path, gpus(gpu(4)))
    outcome = (await later.changes.make(Grant({uid: read}, ())))[uid]
    assert isinstance(outcome, ClaimError)
    assert str(outcome) == f"the device {CARD_3} of pool node-1 is not on this node"
    assert later.files() == []


async def test_a_device_file_that_is_not_there_is_waited_for(tmp_path: Path) -> None:
    node = Node(tmp_path, CARDS)
    (tmp_path / "dev/dri/card3").unlink()
    outcome = (await node.prepare(CARD_3))[CARD_3]
    assert isinstance(outcome, NotYetError)
    assert str(outcome) == "the device node /dev/dri/card3 is not there"
    (tmp_path / "dev/dri/card3").touch()
    assert isinstance((await node.prepare(CARD_3))[CARD_3], tuple)


async def test_two_agents_at_once_give_nothing_twice_and_undo_what_the_other_prepared(tmp_path: Path) -> None:
    tiles = gpus(gpu(3, tiles=2))
    agents = [Node(tmp_path, tiles), Node(tmp_path, tiles)]
    tile = f"{CARD_3}-tile-0"
    for _ in range(5):
        agents.reverse()
        one, other = await asyncio.gather(agents[0].prepare(CARD_3), agents[1].prepare(tile))
        prepared = {name for name, outcome in {**one, **other}.items() if isinstance(outcome, tuple)}
        assert len(prepared) == 1
        assert len(agents[0].files()) == 1
        await agents[tile in prepared].unprepare(*prepared)
        assert agents[0].files() == []


async def test_a_cdi_folder_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "cdi").symlink_to(tmp_path / "real")
    node = Node(tmp_path, CARDS)
    assert isinstance((await node.prepare(CARD_3))[CARD_3], tuple)
    assert len(list((tmp_path / "real").glob("*.json"))) == 1
    await node.unprepare(CARD_3)
    assert list((tmp_path / "real").iterdir()) == []


@pytest.mark.parametrize(
    "spoil",
    [
        lambda cdi: cdi.symlink_to("nowhere"),
        lambda cdi: cdi.symlink_to("/sys/kernel"),  # where nobody may make a file
        lambda cdi: cdi.write_text("no folder"),
    ],
)
async def test_a_cdi_folder_that_takes_no_file_is_said_and_harms_nothing(
    tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    node = Node(tmp_path, CARDS)
    spoil(node.cdi)
    outcome = (await node.prepare(CARD_3))[CARD_3]
    assert isinstance(outcome, StateError)
    assert str(outcome).startswith(f"the CDI file {node.cdi}/k8s.gpu.accelet.dev-claim_")
    assert "cannot be written: " in str(outcome)
    node.cdi.unlink()
    assert isinstance((await node.prepare(CARD_3))[CARD_3], tuple)
    assert len(node.files()) == 1


LOGS = "/tmp/tpu_logs"
BOXES = ("chips-2-0000-00-0c-0-0000-00-0d-0", "chips-2-0000-00-0e-0-0000-00-0f-0")


def a_tpu_node(root: Path, host: str = "v5e-8", **settings: Any) -> Node:
    backend = TpuSettings(mode="sub-host", **settings).backend()
    scanned = backend.scan(HOSTS[host].write(root))
    return Node(root, ServedResource("google.com/tpu", backend, scanned), "tpu.accelet.dev")


async def test_a_tpu_claim_has_a_folder_for_its_logs(tmp_path: Path) -> None:
    node = a_tpu_node(tmp_path)
    (tmp_path / "tmp").mkdir()
    outcomes = await node.prepare(*BOXES)
    assert [type(one) for one in outcomes.values()] == [tuple, tuple]
    mounted = {inside for _, inside in node.mounts()}
    assert mounted == {LOGS}
    assert all((tmp_path / host.lstrip("/")).is_dir() for host, _ in node.mounts())
    assert len(node.mounts()) == 2


async def test_a_folder_that_cannot_be_made_costs_its_mount_and_nothing_else(tmp_path: Path) -> None:
    """As on a root that is read-only: the containers start without the folder."""
    node = a_tpu_node(tmp_path)
    (tmp_path / "tmp").write_text("no folder")
    outcomes = await node.prepare(*BOXES)
    assert [type(one) for one in outcomes.values()] == [tuple, tuple]
    assert len(node.files()) == 2
    assert node.mounts() == set()


async def test_the_control_services_socket_is_mounted(tmp_path: Path) -> None:
    """The environment of the container names it."""
    node = a_tpu_node(tmp_path, "v6e-8", control_service="unix")
    await node.prepare(BOXES[0])
    assert ("/var/run/tpu-plugin", "/var/run/tpu-plugin") in node.mounts()
    assert "VBAR_CONTROL_SERVICE_URL=unix:///var/run/tpu-plugin/vbar.sock" in node.files()[0].read_text()
