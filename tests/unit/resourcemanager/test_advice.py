"""What a refusal advises helps: each in its situation, and `create the pod again` only where that can."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.accelerators.device import DeviceId, Health, UnitId
from accelet.accelerators.edits import ContainerEdits
from accelet.accelerators.inventory import Inventory
from accelet.accelerators.simulated import SimulatedSettings
from accelet.assignments.assignment import Assignment, Piece, Pieces, device, unit
from accelet.assignments.ownform import ASSIGNMENT_ANNOTATION, render_own
from accelet.kube.pods import Container, Pod
from accelet.kube.poduid import PodUid, kubelet_uid
from resourcemanager.allocation import Allocation, Refusal
from resourcemanager.giving.following import Request, follow
from resourcemanager.giving.policies import Policies
from resourcemanager.holdings.assigned import Assignments
from resourcemanager.holdings.evidence import ContainerKey
from resourcemanager.holdings.ledger import InFlight, Ledger
from resourcemanager.manager import ResourceManager, ResourceRules
from resourcemanager.matching.inquiry import Match, Proof
from resourcemanager.surroundings import Surroundings
from resourcemanager.target import choose, explain_misfit, find_target
from tests.fakes import pods as fakes

R = "gpu.intel.com/i915"
TILES = tuple(DeviceId(f"0000-0{card}-00.0-t{tile}") for card in (3, 4) for tile in (0, 1))
A0, A1, B0, B1 = TILES
UNIT = UnitId("0000-03-00.0")
COUNTS = (
    f"it requests 2 {R}, and what it is assigned has 1: request as many as are assigned, or have as many"
    " assigned as it requests"
)
HANDED_ON = (
    "the kubelet hands on what init container init had: have that one request no more than the containers"
    " after it, or assign it the same devices"
)
AGAIN = "what it is assigned is free, so create the pod again"


@dataclass(frozen=True)
class Situation:
    """Two cards of two tiles, each tile a device. `init` is what the pod's init container has."""

    assigned: Pieces
    chosen: Sequence[DeviceId]
    held: Sequence[DeviceId] = ()
    unhealthy: Sequence[DeviceId] = ()
    init: Sequence[DeviceId] = ()


def found_by(situation: Situation) -> Inventory:
    cards = [
        {"pci": f"0000:0{card}:00.0", "card": f"card{card}", "tiles": 2, "nodes": [{"path": "/dev/null"}]}
        for card in (3, 4)
    ]
    found = msgspec.convert({"cards": cards, "unit": "tile"}, SimulatedSettings).backend().scan(Path("/"))
    devices = [
        replace(one, health=Health("it is hot")) if one.id in situation.unhealthy else one
        for one in found.devices
    ]
    return replace(found, devices=tuple(devices))


def ledger_of(situation: Situation) -> Ledger:
    other = ContainerKey(PodUid("other"), "main")
    own = ContainerKey(kubelet_uid(pod(situation)), "init")
    answers = [(other, situation.held), (own, situation.init)]
    return Ledger(
        R, in_flight=tuple(InFlight(key.container, frozenset(ids), key) for key, ids in answers if ids)
    )


def answer(situation: Situation) -> Allocation | Refusal:
    inventory = found_by(situation)
    surroundings = Surroundings(R, inventory, ledger_of(situation), {}, Assignments())
    request = Request(situation.chosen, match(situation))
    given = Allocation(tuple(situation.chosen), ContainerEdits())
    return follow(request, lambda _tiles, _environment: given, Policies(), surroundings)


def advice(situation: Situation) -> str:
    refused = answer(situation)
    assert isinstance(refused, Refusal)
    assert refused.code == "mismatch"
    return refused.sentence.partition("; ")[2]


def pod(situation: Situation) -> Pod:
    text = render_own(Assignment({"main": {R: situation.assigned}}))
    main = Container("main", limits={R: len(situation.chosen)})
    init = Container("init", limits={R: max(1, len(situation.init))})
    return fakes.pod("pod", main, init=(init,), annotations={ASSIGNMENT_ANNOTATION: text})


def match(situation: Situation) -> Match:
    made = pod(situation)
    return Match(ContainerKey(kubelet_uid(made), "main"), made, Proof.VISIBLE)


@pytest.mark.parametrize(
    ("situation", "expected"),
    [
        (Situation((device(A0),), [B0]), AGAIN),
        (
            Situation((unit(UNIT, 0),), [A0, B0]),
            COUNTS,
        ),
        (
            Situation((device(A0),), [B0], held=[A0]),
            f"{A0}, which it is assigned, is held by another pod: have others assigned to it",
        ),
        (
            Situation((unit(UNIT),), [A0, B0], held=[A1]),
            f"{A1}, which it is assigned, is held by another pod: have others assigned to it",
        ),
        (
            Situation((device(A0),), [B0], unhealthy=[A0]),
            f"{A0}, which it is assigned, is unhealthy (it is hot): have others assigned to it",
        ),
        (
            Situation((device(A0),), [B0], init=[B0]),
            HANDED_ON,
        ),
        (Situation((device(A0),), [B0], init=[A0]), AGAIN),
    ],
)
def test_each_mismatch_is_told_what_helps(situation: Situation, expected: str) -> None:
    assert advice(situation) == expected


some = st.lists(st.sampled_from(TILES), max_size=2, unique=True)


@given(
    st.lists(st.sampled_from([device(A0), device(B1), unit(UNIT, 0), unit(UNIT)]), min_size=1, max_size=2),
    st.lists(st.sampled_from(TILES), min_size=1, max_size=4, unique=True),
    some,
    some,
    some,
)
def test_pod_is_to_be_created_again_only_where_it_can_be_given_what_it_is_assigned(
    assigned: Sequence[Piece],
    chosen: Sequence[DeviceId],
    held: Sequence[DeviceId],
    unhealthy: Sequence[DeviceId],
    init: Sequence[DeviceId],
) -> None:
    situation = Situation(tuple(assigned), chosen, held, unhealthy, init)
    refused = answer(situation)
    if isinstance(refused, Refusal) and refused.code == "mismatch":
        target = find_target(situation.assigned, found_by(situation), len(chosen), R)
        free = [one for one in TILES if one not in held and one not in unhealthy]
        best = choose(target, free, (), len(chosen))
        can_be_given = len(best) == len(chosen) and explain_misfit(target, best) is None
        assert can_be_given or "create the pod again" not in refused.sentence


def test_what_else_is_refused_is_told_what_helps() -> None:
    manager = ResourceManager(ResourceRules(R), msgspec.convert({"cards": []}, SimulatedSettings).backend())
    nothing, unknown = manager.allocate([]), manager.allocate([A0])
    assert isinstance(nothing, Refusal)
    assert "create the pod again" not in nothing.sentence
    assert isinstance(unknown, Refusal)
    assert unknown.sentence.endswith("create the pod again, for which the kubelet will choose another")
