"""Assignments against hardware: what is steered to, what is given, what is refused."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.accelerators.device import DeviceId, UnitId
from accelet.accelerators.intel.edits import read_tiles
from accelet.accelerators.simulated import SimulatedSettings
from accelet.assignments.assignment import Assignment, AssignmentError, Naming, Pieces, card, device, unit
from accelet.assignments.ownform import ASSIGNMENT_ANNOTATION, render_own
from accelet.kube.pods import Container, Pod
from accelet.kube.poduid import PodUid, kubelet_uid
from resourcemanager.allocation import Allocation, Refusal
from resourcemanager.giving.policies import Policies
from resourcemanager.giving.preference import prefer
from resourcemanager.giving.steering import Steering
from resourcemanager.holdings.evidence import ContainerKey
from resourcemanager.holdings.ledger import PROOF_ANNOTATION
from resourcemanager.manager import ResourceManager, ResourceRules
from resourcemanager.matching.inquiry import Doubt, Match, NoProof, Proof
from resourcemanager.target import choose, explain_misfit, find_target
from tests.fakes import pods as fakes

R = "gpu.intel.com/i915"
SHARES = 3
TILE_COUNTS = (2, 1, 4, 2)
"""Cards of unlike tile counts."""


def make_manager(policies: Policies | None = None, *, unit_kind: str = "card") -> ResourceManager:
    cards = [
        {
            "pci": f"0000:{index + 3:02x}:00.0",
            "card": f"card{index}",
            "tiles": tiles,
            "nodes": [{"path": "/dev/null", "mount_path": f"/dev/dri/card{index}"}],
        }
        for index, tiles in enumerate(TILE_COUNTS)
    ]
    settings = msgspec.convert({"cards": cards, "shares": SHARES, "unit": unit_kind}, SimulatedSettings)
    manager = ResourceManager(ResourceRules(R, following=policies or Policies()), settings.backend())
    manager.update(manager.backend.scan(Path("/")))
    return manager


MANAGER = make_manager()
INVENTORY = MANAGER.inventory
IDS = tuple(INVENTORY.by_id)
UNITS = tuple(INVENTORY.by_unit)


def some_tiles(index: int) -> st.SearchStrategy[frozenset[int]]:
    return st.frozensets(st.integers(0, TILE_COUNTS[index] - 1))


@st.composite
def pieces(draw: st.DrawFn) -> Pieces:
    """Units, some of them with tiles or several shares, and devices by name."""
    found = []
    for index in draw(st.lists(st.integers(0, len(UNITS) - 1), min_size=1, max_size=3, unique=True)):
        count = draw(st.integers(1, SHARES - 1))
        found.append(unit(UNITS[index], *draw(some_tiles(index)), count=count))
        if draw(st.booleans()):
            found.append(device(DeviceId(f"{UNITS[index]}-s{draw(st.integers(0, SHARES - 1))}")))
    return tuple(found)


def pod_of(written: Pieces, name: str = "pod", environment: Mapping[str, str] | None = None) -> Pod:
    text = render_own(Assignment({"main": {R: written}}))
    container = Container("main", limits={R: 1}, environment=environment or {})
    return fakes.pod(name, container, annotations={ASSIGNMENT_ANNOTATION: text})


def match(pod: Pod) -> Match:
    return Match(ContainerKey(kubelet_uid(pod), "main"), pod, Proof.VISIBLE)


def allocate(
    manager: ResourceManager, ids: tuple[DeviceId, ...], pod: Pod, *others: Pod
) -> Allocation | Refusal:
    pods = {kubelet_uid(one): one for one in (pod, *others)}
    return manager.allocate_for(ids, match(pod), pods, "token")


def test_tiles_that_are_devices_come_from_what_is_assigned_alone() -> None:
    inventory, name = make_manager(unit_kind="tile").inventory, UNITS[0]
    of_tile = {device.id for device in inventory.by_unit[name] if device.tile == 1}
    assert find_target((unit(name, 1),), inventory, 2, R).devices == of_tile
    whole = find_target((unit(name),), inventory, 2, R)
    assert [want.count for want in whole.wants] == [1] * inventory.by_unit[name][0].tile_count
    with pytest.raises(AssignmentError):
        find_target((unit(name),), inventory, 1, R)


def test_tiles_that_are_assigned_are_given_before_second_shares_of_one() -> None:
    manager, name = make_manager(unit_kind="tile"), UNITS[0]
    for written, size, tiles in (((unit(name, 0, 1),), 2, {0, 1}), ((unit(name),), 3, {0, 1})):
        target = find_target(written, manager.inventory, size, R)
        chosen = manager.prefer(tuple(manager.inventory.by_id), (), size, Steering(target))
        assert explain_misfit(target, chosen) is None
        assert {manager.inventory.by_id[one].tile for one in chosen} == tiles


def test_more_than_the_assigned_device_comes_from_its_tile() -> None:
    inventory, name = make_manager(unit_kind="tile").inventory, UNITS[0]
    target = find_target((device(DeviceId(f"{name}-t1-s0")),), inventory, 2, R)
    chosen = choose(target, tuple(inventory.by_id), (), 2)
    assert {inventory.by_id[one].tile for one in chosen} == {1}
    assert explain_misfit(target, [DeviceId(f"{name}-t1-s0"), DeviceId(f"{name}-t0-s0")]) is not None


def test_mask_is_not_given_where_its_meaning_cannot_be_read() -> None:
    name = UNITS[0]
    asked = pod_of((unit(name, 0),))
    (container,) = asked.containers
    referring = replace(container, referred_environment=frozenset({"ZE_FLAT_DEVICE_HIERARCHY"}))
    ids = (INVENTORY.by_unit[name][0].id,)
    refused = allocate(make_manager(), ids, replace(asked, containers=(referring,)))
    assert isinstance(refused, Refusal)
    assert refused.code == "unread-environment"
    assert isinstance(allocate(make_manager(), ids, asked), Allocation)


@given(pieces(), st.integers(0, 3), st.data())
def test_what_is_steered_to_is_what_is_assigned(written: Pieces, more: int, data: st.DataObject) -> None:
    size = sum(piece.count for piece in written) + more
    target = find_target(written, INVENTORY, size, R)
    if size > len(target.devices):
        return
    must = data.draw(st.lists(st.sampled_from(sorted(target.wants[-1].devices)), max_size=1))
    chosen = choose(target, IDS, must, size)
    assert len(set(chosen)) == len(chosen) == size
    assert set(must) <= set(chosen)
    assert explain_misfit(target, chosen) is None


@given(pieces(), st.lists(st.sampled_from(IDS), min_size=1, max_size=8, unique=True))
def test_container_sees_exactly_its_tiles_or_is_refused(written: Pieces, ids: list[DeviceId]) -> None:
    manager = make_manager()
    answer = allocate(manager, tuple(ids), pod_of(written))
    if isinstance(answer, Refusal):
        assert answer.code in ("mismatch", "bad-assignment")
        assert manager.ledger.in_flight == ()
        return
    devices = [INVENTORY.by_id[one] for one in answer.devices]
    assert explain_misfit(find_target(written, INVENTORY, len(ids), R), ids) is None
    seen = read_tiles(devices, answer.edits.environment)
    for name, tiles in seen.items():
        own = [piece for piece in written if str(piece.name).startswith(name)]
        is_whole = any(not piece.tiles for piece in own)
        assigned = frozenset[int]().union(*(piece.tiles for piece in own))
        every = frozenset(range(INVENTORY.by_unit[name][0].tile_count))
        assert tiles == (every if is_whole else assigned)
    assert set(ids) == manager.ledger.in_flight[0].device_ids
    assert answer.annotations[PROOF_ANNOTATION] == "visible"


@given(
    st.sets(st.sampled_from(IDS), min_size=1),
    st.data(),
    st.frozensets(st.sampled_from(UNITS)),
    st.sampled_from(["none", "balanced", "packed"]),
)
def test_units_to_avoid_are_taken_last(
    available: set[DeviceId], data: st.DataObject, avoid: frozenset[UnitId], policy: str
) -> None:
    size = data.draw(st.integers(1, len(available)))
    must = data.draw(st.sets(st.sampled_from(sorted(available)), max_size=size))
    chosen = prefer(INVENTORY.devices, available, must, size, policy=policy, avoid=avoid)  # type: ignore[arg-type]
    assert len(set(chosen)) == size
    assert must <= set(chosen) <= available
    others = {one for one in available if INVENTORY.by_id[one].unit not in avoid}
    avoided = set(chosen) - must - others
    assert not avoided or others <= set(chosen)


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        ((card("card7"),), "It is assigned card7, which gpu.intel.com/i915 does not have on this node."),
        ((card("card1", 1),), "It is assigned tile 1 of card1, which has one tile, counted from 0."),
        ((unit(UNITS[0], 1, count=2), card("card3")), "It is assigned 3 devices"),
        ((device(DeviceId("nothing")),), "It is assigned nothing, which"),
    ],
)
def test_assignment_that_the_node_cannot_follow_is_refused(written: Pieces, sentence: str) -> None:
    with pytest.raises(AssignmentError) as caught:
        find_target(written, INVENTORY, 2, R)
    assert str(caught.value).startswith(sentence)


@given(pieces(), st.integers(0, 9))
def test_a_container_that_requests_tiles_is_assigned_as_many(written: Pieces, requested: int) -> None:
    pod = pod_of(written)
    (main,) = pod.containers
    asking = replace(main, requests={R: 1, "gpu.intel.com/tiles": requested})
    given_tiles = sum(
        len(piece.tiles) or INVENTORY.by_unit[INVENTORY.by_id[DeviceId(piece.name)].unit][0].tile_count
        if piece.naming is Naming.DEVICE
        else len(piece.tiles) or INVENTORY.by_unit[UnitId(piece.name)][0].tile_count
        for piece in written
    )
    answer = allocate(MANAGER, IDS, replace(pod, containers=(asking,)))
    is_refused = (
        isinstance(answer, Refusal) and "has to be assigned as many as it requests" in answer.sentence
    )
    assert is_refused is (requested not in (0, given_tiles))


def test_tiles_that_are_devices_are_taken_one_each() -> None:
    inventory = make_manager(unit_kind="tile").inventory
    target = find_target((unit(UNITS[0], 0, 1),), inventory, 2, R)
    chosen = choose(target, tuple(inventory.by_id), (), 2)
    assert [inventory.by_id[one].tile for one in chosen] == [0, 1]


def test_own_hierarchy_of_the_container_decides_the_masks_form() -> None:
    pod = pod_of((unit(UNITS[2], 3),), environment={"ZE_FLAT_DEVICE_HIERARCHY": "COMPOSITE"})
    answer = allocate(make_manager(), (DeviceId(f"{UNITS[2]}-s0"),), pod)
    assert isinstance(answer, Allocation)
    assert answer.edits.environment["ZE_AFFINITY_MASK"] == "0.3"


def test_hierarchy_that_no_mask_can_be_written_in_is_refused() -> None:
    pod = pod_of((unit(UNITS[2], 3),), environment={"ZE_FLAT_DEVICE_HIERARCHY": "ROUND"})
    answer = allocate(make_manager(), (DeviceId(f"{UNITS[2]}-s0"),), pod)
    assert isinstance(answer, Refusal)
    assert "which is none of FLAT, COMBINED, COMPOSITE" in answer.sentence


@pytest.mark.parametrize("policy", ["report", "refuse"])
def test_conflict_is_with_pods_that_live_and_have_their_devices(policy: str) -> None:
    first, second = (
        pod_of((unit(UNITS[2], *tiles),), name) for name, tiles in (("a", (0, 1)), ("b", (1, 2)))
    )
    manager = make_manager(Policies(on_conflict=policy))  # type: ignore[arg-type]
    before = allocate(manager, (DeviceId(f"{UNITS[2]}-s0"),), first, second)
    assert isinstance(before, Allocation)
    assert before.notices == ()
    after = allocate(manager, (DeviceId(f"{UNITS[2]}-s1"),), second, first)
    said = after.sentence if isinstance(after, Refusal) else after.notices[0].sentence
    assert isinstance(after, Refusal) is (policy == "refuse")
    assert "tile 1 of 0000-05-00.0 is assigned to it and held by pod ml/a (container main)" in said


@pytest.mark.parametrize("policy", ["refuse", "default"])
@pytest.mark.parametrize("is_inexact", [False, True])
def test_what_is_not_proven_follows_its_policy(policy: str, is_inexact: bool) -> None:
    pod = pod_of((unit(UNITS[2], 3),))
    found: Match | NoProof = NoProof(Doubt.SEVERAL, "Two pods wait.")
    if is_inexact:
        found = Match(ContainerKey(PodUid("uid-pod"), "main"), pod, Proof.EXCLUSION)
    manager = make_manager(Policies(on_unproven=policy))  # type: ignore[arg-type]
    answer = manager.allocate_for((DeviceId(f"{UNITS[2]}-s0"),), found, {}, "token")
    if policy == "refuse":
        assert isinstance(answer, Refusal)
        return
    assert isinstance(answer, Allocation)
    assert "ZE_AFFINITY_MASK" not in answer.edits.environment
    assert (answer.notices[0].kind, manager.ledger.in_flight[0].owner) == ("unproven", None)
