import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.kube.errors import MalformedObjectError
from accelet.kube.nodes import Node
from accelet.kube.objects import Condition
from accelet.kube.podparser import parse_pod
from accelet.kube.pods import Pod
from accelet.kube.selection import NodeTerm, Requirement, Taint
from accelet.scheduler.cluster.shape import shape_of
from accelet.scheduler.cluster.topology import Scheme
from accelet.scheduler.errors import PlanTooLargeError
from accelet.scheduler.gangs.grouping import CARDS_GATE, GATE_PREFIX, GangKey
from accelet.scheduler.record import LABEL, Placement, Record, parse_record
from accelet.scheduler.release import Lift, Steps, lift_patch, next_steps
from accelet.scheduler.state import KILLED_WITHIN_S, TOLD_WITHIN_S, SchedulerState
from tests.fakes.nodes import node
from tests.unit.scheduler.card_values import I915, card, card_container, card_node, card_pod
from tests.unit.scheduler.values import pod

_GANG = GangKey("ml", "j", "Job")
_RECORD = Record(_GANG, tuple(Placement(f"j-{i}", f"u{i}", f"n{i}") for i in range(3)), 10_100, 100)


def _pod(index: int, **more) -> Pod:  # type: ignore[no-untyped-def]
    return pod(f"j-{index}", labels={"job-name": "j"}, uid=f"u{index}", version=7, **more)


def test_a_plan_reads_back_as_it_was_written() -> None:
    body = _RECORD.to_body()
    assert parse_record(body) == _RECORD
    assert Record(GangKey("ml", "j", "JobSet"), (), 0, 0).name != _RECORD.name


def _config_map(text: str, name: str = "x", **labels: str) -> dict[str, object]:
    metadata = {"name": name, "namespace": "ml", "labels": {LABEL: "v1", **labels}}
    return {"metadata": metadata, "data": {"plan.json": text}}


@pytest.mark.parametrize(
    ("assignment", "is_taken"),
    [
        ([{"unit": "0000-03-00.0", "tiles": [0]}], True),
        ([{"unit": "0000-03-00.0", "tiles": [0, 1]}], False),
        ([{"unit": "0000-03-00.0", "tiles": [0]}, {"unit": "0000-04-00.0", "tiles": [0]}], False),
        ([{"unit": "0000-03-00.0"}], False),
    ],
)
def test_a_plan_that_gives_other_than_is_asked_for_is_not_carried_out(
    assignment: list[dict[str, object]], is_taken: bool
) -> None:
    state = SchedulerState(Scheme(), GATE_PREFIX)
    state.set_node(card_node("n0", card(3), card(4)))
    asking = replace(card_pod("greedy", card_container(tiles=1)), uid="u")
    state.set_pod(asking)
    text = json.dumps({"version": 1, "containers": {"main": {I915: assignment}}})
    record = Record(GangKey(asking.namespace, "greedy", "pod"), (Placement("greedy", "u", "n0", text),), 0, 0)
    state.set_record(record)
    steps = state.steps(record)
    assert (bool(steps.lifts), bool(steps.lost)) == (is_taken, not is_taken)


def test_a_config_map_without_the_schedulers_label_is_no_plan() -> None:
    body = _RECORD.to_body()
    unlabelled = {**body, "metadata": {"name": _RECORD.name, "namespace": "ml"}}
    with pytest.raises(MalformedObjectError, match="is no plan of the scheduler's"):
        parse_record(unlabelled)


def test_a_plan_under_another_gangs_name_is_none() -> None:
    body = _RECORD.to_body()
    text = body["data"]["plan.json"]  # type: ignore[index]
    with pytest.raises(
        MalformedObjectError, match=f"is of another gang, whose plan is called {_RECORD.name}"
    ):
        parse_record(_config_map(text, "accelet-plan-0"))


@given(st.text(max_size=30) | st.just('{"distance":' + "9" * 5000), st.text(max_size=20))
def test_whatever_a_config_map_holds_is_a_plan_or_malformed(text: str, name: str) -> None:
    with pytest.raises(MalformedObjectError):
        parse_record(_config_map(text, name))


def test_a_config_map_that_holds_no_plan_is_named() -> None:
    body = _config_map("{}")
    with pytest.raises(MalformedObjectError, match=r"ConfigMap ml/x: data\[plan.json\]"):
        parse_record(body)


def test_a_plan_nested_too_deeply_is_named() -> None:
    text = '{"more":' + "[" * 100_000
    body = _config_map(text)
    with pytest.raises(MalformedObjectError, match=r"ConfigMap ml/x: data\[plan.json\]"):
        parse_record(body)


def test_a_gang_too_large_for_one_config_map_is_refused() -> None:
    many = tuple(Placement(f"a-rather-long-name-{i:05}", "u" * 36, "node" * 8) for i in range(10_000))
    with pytest.raises(PlanTooLargeError, match="10,000 pods"):
        replace(_RECORD, placements=many).to_body()


_STATES = st.sampled_from(
    ("gated", "gated, node bad", "lifted", "lifted, node bad", "bound", "gone", "anew", "going", "ended")
)


@given(st.lists(_STATES, min_size=3, max_size=3))
def test_what_is_left_of_a_plan_follows_from_each_pod_by_itself(states: list[str]) -> None:
    pods = {}
    for index, state in enumerate(states):
        made = _pod(index, gates=() if state.startswith("lifted") else (f"{GATE_PREFIX}j",))
        made = replace(made, node_name=f"n{index}", gates=()) if state == "bound" else made
        made = replace(made, uid="another") if state == "anew" else made
        made = replace(made, deleted_s=1.0) if state == "going" else made
        made = replace(made, phase="Failed") if state == "ended" else made
        if state != "gone":
            pods[made.key] = made
    bad = {f"n{i}" for i, state in enumerate(states) if state.endswith("bad")}
    steps = next_steps(_RECORD, pods, lambda _pod, at: at not in bad, GATE_PREFIX)
    assert [lift.node for lift in steps.lifts] == [f"n{i}" for i, s in enumerate(states) if s == "gated"]
    assert [p.node for p in steps.lost] == [f"n{i}" for i, s in enumerate(states) if s == "gated, node bad"]
    assert len(steps.stranded) == states.count("lifted, node bad")
    assert len(steps.waiting) == states.count("lifted")
    assert steps.is_begun == any(s.startswith(("lifted", "bound")) for s in states)
    assert steps.is_finished == all(s in ("bound", "gone", "anew", "going", "ended") for s in states)
    parts = [
        next_steps(_RECORD.part(first, 2), pods, lambda _pod, at: at not in bad, GATE_PREFIX)
        for first in (0, 2)
    ]
    assert parts[0] + parts[1] == steps, "a large plan is looked at part by part"


_PIN = {"key": "metadata.name", "operator": "In", "values": ["n1"]}


@pytest.mark.parametrize(
    ("terms", "patched"),
    [
        (None, [{"matchFields": [_PIN]}]),
        (
            (NodeTerm((Requirement("a", "Exists"),)), NodeTerm()),
            [{"matchExpressions": [{"key": "a", "operator": "Exists"}], "matchFields": [_PIN]}, {}],
        ),
        (
            (NodeTerm((), (Requirement("metadata.name", "NotIn", ("n2",)),)),),
            [{"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n2"]}, _PIN]}],
        ),
    ],
)
def test_every_term_that_says_anything_is_pinned(
    terms: tuple[NodeTerm, ...] | None, patched: list[object]
) -> None:
    patch = lift_patch(Lift(_pod(1, terms=terms), "n1"), GATE_PREFIX)
    assert patch == {
        "metadata": {"uid": "u1", "resourceVersion": "7"},
        "spec": {
            "schedulingGates": [],
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": patched}
                }
            },
        },
    }


def test_only_our_gates_are_lifted() -> None:
    held = _pod(1, gates=("a.example/x", f"{GATE_PREFIX}j", "b.example/y"))
    spec = lift_patch(Lift(held, "n1"), GATE_PREFIX)["spec"]
    assert isinstance(spec, dict)
    assert spec["schedulingGates"] == [{"name": "a.example/x"}, {"name": "b.example/y"}]


def _state() -> SchedulerState:
    state = SchedulerState(Scheme(), GATE_PREFIX)
    for index in range(3):
        state.set_node(node(f"n{index}", f"b/s/h{index}"))
    return state


def _free(state: SchedulerState) -> list[int]:
    return [int(slots) for slots in state.cluster.room().slots(shape_of(pod("any")))]


def test_a_written_plan_holds_its_room_until_its_pods_are_bound_or_gone() -> None:
    state = _state()
    for index in range(3):
        state.set_pod(_pod(index, gpus=8))
    assert len(state.gangs()) == 1
    state.set_record(_RECORD)
    assert (_free(state), state.gangs()) == ([0, 0, 0], [])
    state.set_pod(replace(_pod(0, gpus=8, on="n0"), resource_version="8"))
    assert _free(state) == [0, 0, 0]
    state.remove_pod(("ml", "j-1"), 0.0)
    assert _free(state) == [0, 8, 0]
    state.set_pod(replace(_pod(1, gpus=8), uid="another", resource_version="9"))
    assert _free(state) == [0, 8, 0], "the plan was for its predecessor"
    (gang,) = state.gangs()
    assert [member.node_name for member in gang.members] == ["n0", None, "n2"]
    state.remove_record(_RECORD)
    assert _free(state) == [0, 8, 8]


def test_old_news_is_ignored() -> None:
    state = _state()
    newer = replace(_pod(0), resource_version="10", gates=())
    state.set_pod(newer)
    state.set_pod(_pod(0))
    assert state.pods["ml", "j-0"] == newer
    state.set_record(replace(_RECORD, resource_version="10"))
    state.set_record(replace(_RECORD, placements=(), resource_version="9"))
    assert len(state.records[_RECORD.key].placements) == 3
    state.remove_record(replace(_RECORD, uid="its predecessor"))
    assert len(state.records[_RECORD.key].placements) == 3


def test_a_node_whose_room_somebody_took_does_not_take_a_planned_pod_any_more() -> None:
    state = _state()
    state.set_pod(_pod(0, gpus=8))
    state.set_record(replace(_RECORD, placements=_RECORD.placements[:1]))
    assert len(state.steps(state.records[_RECORD.key]).lifts) == 1
    state.set_pod(pod("thief", on="n0", gpus=1))
    assert len(state.steps(state.records[_RECORD.key]).lost) == 1
    state.remove_pod(("ml", "thief"), 0.0)
    state.set_node(node("n0", "b/s/h0", is_cordoned=True))
    assert len(state.steps(state.records[_RECORD.key]).lost) == 1
    state.set_node(node("n0", "b/s/h0"))
    assert len(state.steps(state.records[_RECORD.key]).lifts) == 1
    state.remove_node("n0")
    assert len(state.steps(state.records[_RECORD.key]).lost) == 1


_ONE_TILE = '{"version":1,"containers":{"main":{"gpu.intel.com/i915":[{"unit":"0000-00-00.0","tiles":[0]}]}}}'


def _lifted(at: str) -> Pod:
    """A pod as our patch has left it."""
    patch = lift_patch(Lift(card_pod("p"), at, _ONE_TILE), GATE_PREFIX)
    spec = {"containers": [{"name": "main", "resources": {"limits": dict.fromkeys(_ASKED, "1")}}]}
    metadata = {"name": "p", "namespace": "ml", "resourceVersion": "8", **patch["metadata"]}  # type: ignore[dict-item]
    return parse_pod({"metadata": metadata | {"resourceVersion": "8"}, "spec": spec | patch["spec"]})  # type: ignore[operator]


_ASKED = ("gpu.intel.com/i915", "gpu.intel.com/tiles")


def _tiles(state: SchedulerState) -> set[int]:
    states = state.cluster.cards.states("a")
    assert states is not None
    return set(states[0].tiles)


def test_a_released_pod_holds_its_cards_until_it_is_bound_though_its_plan_is_gone() -> None:
    state = SchedulerState(Scheme(), GATE_PREFIX)
    state.set_node(card_node("a", card(0)))
    state.set_pod(card_pod("p"))
    gang = GangKey("ml", "p", "pod")
    plan = Record(gang, (Placement("p", "uid-p", "a", _ONE_TILE),), 0, 0)
    state.set_record(plan)
    assert _tiles(state) == {1}
    state.set_pod(_lifted("a"))
    state.remove_record(plan)
    assert _tiles(state) == {1}
    state.set_pod(replace(_lifted("a"), node_name="a", resource_version="9"))
    assert _tiles(state) == {1}
    state.remove_pod(("ml", "p"), 0.0)
    assert _tiles(state) == {0, 1}


def test_the_end_of_one_assumption_ends_no_other_of_the_same_gang() -> None:
    state = SchedulerState(Scheme(), GATE_PREFIX)
    state.set_node(card_node("a", card(0)))
    state.set_pod(card_pod("p"))
    gang = GangKey("ml", "p", "pod")
    former, latter = (Record(gang, (Placement("p", "uid-p", "a", _ONE_TILE),), 0, 0) for _ in range(2))
    state.assume(former)
    state.assume(latter)
    state.end_assumption(former)
    assert state.is_assumed(gang)
    assert _tiles(state) == {1}
    state.end_assumption(latter)
    state.end_assumption(latter)
    assert not state.is_assumed(gang)
    assert _tiles(state) == {0, 1}


def test_cards_of_a_pod_deleted_by_force_are_free_when_the_kubelet_must_have_ended_it() -> None:
    state = SchedulerState(Scheme(), GATE_PREFIX)
    state.set_node(card_node("a", card(0)))
    running = replace(_lifted("a"), node_name="a", phase="Running", grace_s=5)
    state.set_pod(running)
    state.set_pod(replace(running, grace_s=0, resource_version="9"))
    state.remove_pod(("ml", "p"), 100.0)
    assert _tiles(state) == {1}
    state.set_pod(replace(running, uid="successor", phase="Pending", node_name=None, annotations={}))
    assert state.let_go(105.0 + KILLED_WITHIN_S - 1) == 1
    assert _tiles(state) == {1}
    assert state.let_go(105.0 + KILLED_WITHIN_S) is None
    assert _tiles(state) == {0, 1}


def _ghost() -> SchedulerState:
    """A state at 100 s, when a pod was deleted by force that was given 285 years to end."""
    state = SchedulerState(Scheme(), GATE_PREFIX)
    state.set_node(card_node("a", card(0)))
    state.set_pod(replace(_lifted("a"), node_name="a", phase="Running", grace_s=9_000_000_000))
    state.remove_pod(("ml", "p"), 100.0)
    assert _tiles(state) == {1}
    return state


def test_cards_of_a_ghost_are_free_when_its_nodes_agent_would_have_told_of_it() -> None:
    state = _ghost()
    assert state.let_go(100.0 + TOLD_WITHIN_S - 1) == 1
    assert _tiles(state) == {1}
    assert state.let_go(100.0 + TOLD_WITHIN_S) is None
    assert _tiles(state) == {0, 1}


def test_a_ghost_that_the_agent_tells_of_is_the_agents_to_count() -> None:
    state = _ghost()
    state.set_node(card_node("a", card(0, unassigned=1)))
    state.let_go(100.0 + TOLD_WITHIN_S)
    (found,) = state.cluster.cards.states("a") or ()
    assert found.is_shared, "nobody is given tiles of the card"


def test_cards_of_a_ghost_are_kept_while_its_node_is_away() -> None:
    state = _ghost()
    away = card_node("a", card(0))
    state.set_node(replace(away, conditions=(Condition("Ready", "Unknown"),)))
    for now_s in (200.0, 1_000.0, 1_000_000.0):
        assert state.let_go(now_s) == TOLD_WITHIN_S
        assert _tiles(state) == {1}
    state.set_node(away)
    assert state.let_go(1_000_000.0) == TOLD_WITHIN_S
    state.let_go(1_000_000.0 + TOLD_WITHIN_S)
    assert _tiles(state) == {0, 1}


@pytest.mark.parametrize("looked_s", [None, 130.0])
def test_cards_of_a_ghost_are_kept_until_its_node_has_been_well_for_long_enough(
    looked_s: float | None,
) -> None:
    """However often it was looked meanwhile: a standby never looks, the leader of a quiet cluster seldom."""
    state = _ghost()
    well = card_node("a", card(0))
    state.set_node(replace(well, conditions=(Condition("Ready", "Unknown"),)))
    if looked_s is not None:
        state.let_go(looked_s)
    state.set_node(well)
    back_s = 240.0
    assert state.let_go(back_s) == TOLD_WITHIN_S
    state.set_node(replace(well, labels={"other": "label"}))
    assert state.let_go(back_s + TOLD_WITHIN_S - 1) == 1
    assert _tiles(state) == {1}
    assert state.let_go(back_s + TOLD_WITHIN_S) is None
    assert _tiles(state) == {0, 1}


def test_cards_of_a_ghost_that_began_on_a_node_away_are_kept_until_it_has_been_well() -> None:
    state, well = SchedulerState(Scheme(), GATE_PREFIX), card_node("a", card(0))
    state.set_node(replace(well, conditions=(Condition("Ready", "Unknown"),)))
    state.set_pod(replace(_lifted("a"), node_name="a", phase="Running", grace_s=9_000_000_000))
    state.remove_pod(("ml", "p"), 100.0)
    state.set_node(well)
    assert state.let_go(100.0 + TOLD_WITHIN_S) == TOLD_WITHIN_S
    assert _tiles(state) == {1}


def test_cards_of_a_ghost_are_free_when_its_node_is_gone() -> None:
    state = _ghost()
    state.remove_node("a")
    assert state.let_go(101.0) is None
    state.set_node(card_node("a", card(0)))
    assert _tiles(state) == {0, 1}


def test_cards_of_a_ghost_are_free_when_its_node_is_out_of_service() -> None:
    state = _ghost()
    away = replace(card_node("a", card(0)), conditions=(Condition("Ready", "Unknown"),))
    shut_down = Taint("node.kubernetes.io/out-of-service", "NoExecute", "nodeshutdown")
    assert state.set_node(replace(away, taints=(shut_down,))), "news for the planner"
    assert state.let_go(101.0) is None
    assert _tiles(state) == {0, 1}


def test_cards_of_a_pod_whose_containers_had_ended_are_free_at_once() -> None:
    state = SchedulerState(Scheme(), GATE_PREFIX)
    state.set_node(card_node("a", card(0)))
    for phase in ("Succeeded", "Failed", "Pending"):
        state.set_pod(replace(_lifted("a"), node_name="a", phase=phase))
        state.remove_pod(("ml", "p"), 100.0)
        assert _tiles(state) == {0, 1}
        assert state.let_go(100.0) is None


def test_what_a_pod_says_that_was_never_released_holds_nothing() -> None:
    state = SchedulerState(Scheme(), GATE_PREFIX)
    state.set_node(card_node("a", card(0)))
    state.set_pod(replace(_lifted("a"), gates=(CARDS_GATE,)))
    assert _tiles(state) == {0, 1}
    state.set_pod(replace(_lifted("a"), required_terms=None, resource_version="9"))
    assert _tiles(state) == {0, 1}


def test_an_answer_does_not_bring_back_a_pod_that_is_gone() -> None:
    state = SchedulerState(Scheme(), GATE_PREFIX)
    state.set_node(card_node("a", card(0)))
    state.set_pod(card_pod("p"))
    state.remove_pod(("ml", "p"), 0.0)
    state.renew_pod(_lifted("a"))
    assert not state.pods
    state.set_pod(replace(card_pod("p"), uid="successor"))
    state.renew_pod(_lifted("a"))
    assert state.pods["ml", "p"].uid == "successor"
    state.renew_pod(replace(_lifted("a"), uid="successor"))
    assert not state.pods["ml", "p"].gates


def _steps(waiting: Pod, where: Node) -> Steps:
    """Of a plan that says a node only, as those of schedulers that knew nothing of cards."""
    state = SchedulerState(Scheme(), GATE_PREFIX)
    state.set_node(where)
    state.set_pod(waiting)
    plan = Record(GangKey("ml", "p", "pod"), (Placement("p", "uid-p", "a"),), 0, 0)
    state.set_record(plan)
    return state.steps(plan)


def test_who_needs_cards_is_not_released_without() -> None:
    assert _steps(card_pod("p"), card_node("a", card(0))).lost
    assert _steps(card_pod("p", card_container()), card_node("a", card(0))).lifts


def test_a_tile_out_of_service_is_not_given_by_a_plan_that_is_older() -> None:
    state = SchedulerState(Scheme(), GATE_PREFIX)
    state.set_pod(card_pod("p"))
    plan = Record(GangKey("ml", "p", "pod"), (Placement("p", "uid-p", "a", _ONE_TILE),), 0, 0)
    state.set_record(plan)
    state.set_node(card_node("a", card(0), labels={"telemetry.aware/gas-tile-disable-card0_gt1": "true"}))
    assert state.steps(plan).lifts
    state.set_node(card_node("a", card(0), labels={"telemetry.aware/gas-tile-disable-card0_gt0": "true"}))
    assert state.steps(plan).lost
