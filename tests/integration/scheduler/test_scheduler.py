"""Whole runs of the scheduler against an API server, with a kube-scheduler that binds what is released."""

import asyncio
import socket
from collections.abc import Sequence
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from accelet.fakeapi import Answer, Drop, Fault
from accelet.kinds.waiting import WAITING_ANNOTATION, WaitingReason, parse_waiting
from accelet.scheduler.gangs.grouping import GANG_MIN
from accelet.scheduler.gangs.levels import EXCLUSIVE_LEVEL, REQUIRED_LEVEL
from tests.fakes.manifests import raw_container, raw_pod
from tests.free_ports import free_port
from tests.integration.kube.waiting import eventually
from tests.integration.scheduler.conftest import Start
from tests.integration.scheduler.world import GATE, GPU, JOBS, PODS, World, pinned_node


async def test_a_gang_is_placed_pinned_released_and_its_plan_is_cleared_away(
    world: World, start: Start
) -> None:
    world.add_nodes(2, 2, 2)
    async with start():
        world.add_job("train", 16, gpus=2)
        await eventually(lambda: world.is_bound("train", 16) and not world.plans())
        said = "16 pods on 4 nodes, distance 10,200, optimal"
        await eventually(lambda: any(said in note for note in world.notes()))
    assert set(world.where("train").values()) in (
        {"n000", "n001", "n010", "n011"},
        {"n100", "n101", "n110", "n111"},
    )
    assert all(pinned_node(pod) == pod["spec"]["nodeName"] for pod in world.pods("train"))


async def test_the_plan_is_written_before_any_gate_is_lifted_and_each_pod_gets_one_patch(
    world: World, start: Start
) -> None:
    world.add_nodes(1, 1, 2)
    async with start():
        world.add_job("train", 16)
        await eventually(lambda: world.is_bound("train", 16) and not world.plans())
    writes = [
        (seen.method, seen.path.split("/")[5], bool(seen.query.get("dryRun")))
        for seen in world.api.seen
        if seen.method != "GET" and "/namespaces/ml/" in seen.path and "events" not in seen.path
    ]
    assert writes == [
        ("POST", "configmaps", False),
        ("PATCH", "pods", True),
        *[("PATCH", "pods", False)] * 16,
        ("DELETE", "configmaps", False),
    ]


async def test_required_affinity_is_tightened_and_other_gates_make_the_gang_wait(
    world: World, start: Start
) -> None:
    world.add_nodes(1, 1, 2)
    terms: list[dict[str, Any]] = [
        {"matchExpressions": [{"key": "cloud.google.com/gce-topology-block", "operator": "Exists"}]},
        {},
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    world.add_job("held", 2, gates=(GATE, "example.com/quota"))
    async with start():
        world.add_job("train", 2, spec={"affinity": {"nodeAffinity": required}})
        await eventually(lambda: world.is_bound("train", 2))
        await eventually(lambda: any("also held by the gate example.com/quota" in n for n in world.notes()))
    affinity = world.pods("train")[0]["spec"]["affinity"]["nodeAffinity"]
    first, second = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert first["matchExpressions"] == terms[0]["matchExpressions"]
    assert first["matchFields"][0]["key"] == "metadata.name"
    assert second == {}
    assert len(world.gated("held")) == 2


async def test_a_gang_waits_for_room_with_the_reason_and_starts_when_there_is_some(
    world: World, start: Start
) -> None:
    world.add_nodes(1, 2, 3)
    world.bind("other", "n000", 8)
    world.bind("another", "n010", 8)
    async with start():
        world.add_job("train", 3, gpus=8, annotations={REQUIRED_LEVEL: "subblock"})
        await eventually(
            lambda: any(
                n.startswith("waiting: needs 3 nodes in one sub-block, best has 2") for n in world.notes()
            )
        )
        assert len(world.gated("train")) == 3
        await eventually(lambda: _noted(world, "train-0") is not None)
        noted = _noted(world, "train-0")
        assert noted is not None
        assert noted.text.startswith("needs 3 nodes in one sub-block, best has 2")
        assert (noted.cause, noted.pods) == ("NoRoom", 3)
        assert [_noted(world, f"train-{rank}") for rank in (1, 2)] == [None, None]
        world.delete_pod("other")
        await eventually(lambda: world.is_bound("train", 3))
    assert _noted(world, "train-0") is None, "it does not wait any more"
    assert set(world.where("train").values()) == {"n000", "n001", "n002"}


async def test_a_gang_that_has_a_domain_alone_keeps_others_out_until_it_ends(
    world: World, start: Start
) -> None:
    world.add_nodes(1, 2, 2)
    async with start():
        world.add_job("train", 1, gpus=1, annotations={EXCLUSIVE_LEVEL: "subblock"})
        await eventually(lambda: world.is_bound("train", 1))
        (node,) = world.where("train").values()
        world.add_job("other", 4, gpus=5)
        await eventually(lambda: any("ml/train has to itself" in note for note in world.notes()))
        world.add_job("alone", 1, gpus=1, annotations={EXCLUSIVE_LEVEL: "subblock"})
        await eventually(lambda: world.is_bound("alone", 1))
        assert world.where("alone")["alone-0"][:3] != node[:3]
        world.end_pod("train-0")
        world.end_pod("alone-0")
        await eventually(lambda: world.is_bound("other", 4))


def _noted(world: World, name: str) -> WaitingReason | None:
    return parse_waiting((world.pod(name)["metadata"].get("annotations") or {}).get(WAITING_ANNOTATION, ""))


async def test_a_gang_that_may_begin_with_fewer_does_and_the_others_follow_when_there_is_room(
    world: World, start: Start
) -> None:
    world.add_nodes(1, 1, 4)
    world.bind("other", "n002", 8)
    world.bind("another", "n003", 8)
    async with start():
        world.add_job("train", 4, gpus=8, annotations={GANG_MIN: "2"})
        await eventually(lambda: len(world.gated("train")) == 2 and not world.plans())
        assert set(world.where("train")) == {"train-0", "train-1"}
        await eventually(lambda: any(note.startswith("2 of 4 pods on 2 nodes") for note in world.notes()))
        world.delete_pod("other")
        await eventually(lambda: len(world.gated("train")) == 1 and not world.plans())
        assert world.where("train")["train-2"] == "n002"
        world.delete_pod("another")
        await eventually(lambda: world.is_bound("train", 4))


async def test_a_lost_pod_comes_back_next_to_its_peers(world: World, start: Start) -> None:
    world.add_nodes(2, 1, 3)
    async with start():
        world.add_job("train", 2, gpus=8)
        await eventually(lambda: world.is_bound("train", 2) and not world.plans())
        before = world.where("train")
        world.set_node(before["train-1"], unschedulable=True)
        world.delete_pod("train-1")
        await eventually(lambda: world.is_bound("train", 2))
    after = world.where("train")
    assert after["train-0"] == before["train-0"]
    assert after["train-1"] != before["train-1"]
    assert after["train-1"][:2] == before["train-0"][:2], "in the same block"


async def test_a_pod_whose_node_was_taken_is_made_anew_and_placed_elsewhere(
    world: World, start: Start
) -> None:
    world.add_nodes(1, 1, 3)
    world.is_binding = False
    async with start(stranded_after_s=0.2):
        world.add_job("train", 2, gpus=8)
        await eventually(lambda: not world.gated("train") and len(world.pods("train")) == 2)
        stolen = next(pinned_node(pod) for pod in world.pods("train"))
        assert stolen is not None
        world.bind("thief", stolen, 8)
        world.is_binding = True
        await eventually(lambda: world.is_bound("train", 2) and not world.plans())
    assert stolen not in world.where("train").values()


_TAKES_A_PORT = {"ports": [{"containerPort": 29500, "hostPort": 29500}]}


def _ported() -> dict[str, Any]:
    amounts = {GPU: "1"}
    return {"containers": [raw_container(requests={**amounts, "cpu": "1"}, limits=amounts) | _TAKES_A_PORT]}


def _take_port(world: World, node: str) -> None:
    """Somebody else is there, with the port."""
    one = raw_container(requests={GPU: "0", "cpu": "1"}) | _TAKES_A_PORT
    world.state.create(PODS, "ml", raw_pod("thief", on=node, labels={}, containers=[one]))


async def test_a_released_pod_whose_host_port_another_one_took_is_made_anew_and_placed_elsewhere(
    world: World, start: Start
) -> None:
    world.add_nodes(1, 1, 3)
    world.is_binding = False
    async with start(stranded_after_s=0.2):
        world.add_job("train", 2, spec=_ported())
        await eventually(lambda: not world.gated("train") and len(world.pods("train")) == 2)
        stolen = next(node for pod in world.pods("train") if (node := pinned_node(pod)))
        _take_port(world, stolen)
        await eventually(lambda: bool(_deletions(world)))
        world.is_binding = True
        await eventually(lambda: world.is_bound("train", 2) and not world.plans())
    nodes = set(world.where("train").values())
    assert len(nodes) == 2
    assert stolen not in nodes


async def test_a_pod_whose_host_port_is_taken_before_it_is_released_goes_elsewhere(
    world: World, start: Start
) -> None:
    world.add_nodes(1, 1, 3)
    # No pod can be released for the moment.
    world.api.faults.append(Fault(Answer(503), method="PATCH", path="/pods/", times=6))
    async with start():
        world.add_job("train", 2, spec=_ported())
        await eventually(lambda: bool(world.plans()))
        _take_port(world, "n000")
        await eventually(lambda: world.is_bound("train", 2), within_s=20)
    assert set(world.where("train").values()) == {"n001", "n002"}
    assert not _deletions(world)


async def test_a_node_that_vanishes_between_plan_and_release_is_replaced(world: World, start: Start) -> None:
    world.add_nodes(1, 1, 4)
    # No pod can be released for the moment.
    world.api.faults.append(Fault(Answer(503), method="PATCH", path="/pods/", times=6))
    async with start():
        world.add_job("train", 3, gpus=8)
        await eventually(lambda: bool(world.plans()))
        world.state.delete("api/v1/nodes", ("", "n000"))
        await eventually(lambda: world.is_bound("train", 3), within_s=20)
    assert set(world.where("train").values()) == {"n001", "n002", "n003"}


@pytest.mark.parametrize(
    "action",
    [Answer(409, "Conflict"), Answer(429, retry_after_s=0), Answer(500), Drop(), Drop(after=True)],
    ids=["409", "429", "500", "no answer", "no answer after the write"],
)
@pytest.mark.parametrize("path", ["/pods/", "/configmaps"])
async def test_a_request_that_fails_is_made_again(world: World, start: Start, action: Any, path: str) -> None:
    world.add_nodes(1, 1, 2)
    for method in ("POST", "PATCH", "DELETE"):
        world.api.faults.append(Fault(action, method=method, path=path, times=3))
    async with start():
        world.add_job("train", 12)
        await eventually(lambda: world.is_bound("train", 12) and not world.plans(), within_s=20)


async def test_a_gang_that_the_api_server_refuses_is_left_gated_and_stops_nobody(
    world: World, start: Start
) -> None:
    world.add_nodes(1, 1, 2)
    world.api.faults.append(
        Fault(Answer(422, "Invalid", "no such thing"), method="PATCH", path="/bad-", times=99)
    )
    async with start():
        world.add_job("bad", 2)
        world.add_job("good", 2)
        await eventually(lambda: world.is_bound("good", 2) and not world.plans())
        await eventually(lambda: any("cannot be released" in note for note in world.notes()))
    assert len(world.gated("bad")) == 2


async def test_a_pod_that_is_refused_after_the_rehearsal_is_told_and_follows_when_it_may(
    world: World, start: Start
) -> None:
    world.add_nodes(1, 1, 2)
    world.api.faults.append(
        Fault(Answer(403, "Forbidden", "not today"), method="PATCH", path="/train-1", times=3)
    )
    async with start(stranded_after_s=0.2):
        world.add_job("train", 4)
        await eventually(lambda: any("1 of 4 pods are not released, among them" in n for n in world.notes()))
        await eventually(lambda: world.is_bound("train", 4) and not world.plans())


async def test_a_plan_that_cannot_be_written_gives_its_room_back_and_is_told(
    world: World, start: Start
) -> None:
    world.add_nodes(1, 1, 2)
    world.api.faults.append(
        Fault(Answer(403, "Forbidden", "exceeded quota"), method="POST", path="/configmaps", times=1)
    )
    async with start():
        world.add_job("large", 2, gpus=8)
        await eventually(lambda: any("its plan cannot be written down" in note for note in world.notes()))
        world.add_job("small", 1, gpus=8)
        await eventually(lambda: world.is_bound("small", 1))
    assert len(world.gated("large")) == 2


FORGIVING = {
    "backoffLimit": 0,
    "podFailurePolicy": {
        "rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]
    },
}


def _deletions(world: World) -> list[str]:
    return [seen.path for seen in world.api.seen if seen.method == "DELETE" and "/pods/" in seen.path]


async def test_a_pod_that_kube_scheduler_refuses_is_told_with_the_cure_where_an_eviction_fails_its_job(
    world: World, start: Start
) -> None:
    world.add_nodes(1, 1, 2)
    world.unfit = {"n000", "n001"}
    async with start(stranded_after_s=0.2):
        world.add_job("train", 1, spec_of_job={"backoffLimit": 0})
        await eventually(
            lambda: any("kube-scheduler does not bind it" in note for note in world.notes()), within_s=30
        )
        world.unfit = set()
        await eventually(lambda: world.is_bound("train", 1), within_s=30)
        said = "a podFailurePolicy that ignores DisruptionTarget"
        await eventually(lambda: any(said in note for note in world.notes()))
    assert not _deletions(world)


async def test_a_pod_that_kube_scheduler_refuses_is_evicted_and_placed_elsewhere_where_that_costs_nothing(
    world: World, start: Start
) -> None:
    world.add_nodes(1, 1, 4)
    world.unfit = {"n000"}
    async with start(stranded_after_s=0.2):
        world.add_job("train", 3, gpus=8, spec_of_job=FORGIVING)
        await eventually(lambda: world.is_bound("train", 3) and not world.plans(), within_s=30)
    assert set(world.where("train").values()) == {"n001", "n002", "n003"}
    assert len(_deletions(world)) == 1
    marks = [seen for seen in world.api.seen if seen.method == "PATCH" and seen.path.endswith("/status")]
    assert len(marks) == 1


async def test_where_the_scheduler_may_not_evict_that_is_told(world: World, start: Start) -> None:
    world.add_nodes(1, 1, 4)
    world.unfit = {"n000"}
    may_not = Fault(Answer(403, "Forbidden", "no such right"), method="PATCH", path="/status", times=10_000)
    world.api.faults.append(may_not)
    async with start(stranded_after_s=0.2):
        world.add_job("train", 2, gpus=8, spec_of_job=FORGIVING)
        await eventually(lambda: any("it cannot be evicted" in note for note in world.notes()), within_s=30)
        world.add_job("late", 1, gpus=8)
        await eventually(lambda: world.is_bound("late", 1), within_s=30)
    assert not _deletions(world)


async def test_no_pod_is_removed_that_kube_scheduler_has_nominated(world: World, start: Start) -> None:
    world.add_nodes(1, 1, 2)
    world.is_binding = False
    async with start(stranded_after_s=0.2):
        world.add_job("train", 1, gpus=8, spec_of_job=FORGIVING)
        await eventually(lambda: len(world.pods("train")) == 1 and not world.gated("train"), within_s=30)
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        status = {"nominatedNodeName": "n000", "conditions": [condition]}
        world.state.patch(PODS, ("ml", "train-0"), "merge-patch", {"status": status})
        world.unfit = {"n000", "n001"}
        world.is_binding = True
        # The second one is refused like the first, and gone: the first has stood as long by then.
        world.add_job("other", 1, gpus=8, spec_of_job=FORGIVING)
        await eventually(lambda: bool(_deletions(world)), within_s=30)
    assert all(path.endswith("/pods/other-0") for path in _deletions(world))


async def test_a_job_that_allows_it_is_suspended_and_resumed_to_be_placed_elsewhere(
    world: World, start: Start
) -> None:
    world.add_nodes(1, 1, 4)
    world.unfit = {"n000"}
    async with start(stranded_after_s=0.2):
        allowed = {"accelet.dev/may-suspend": "true"}
        world.add_job("train", 3, gpus=8, spec_of_job={"backoffLimit": 0}, said_on_job=allowed)
        await eventually(lambda: world.is_bound("train", 3) and not world.plans(), within_s=30)
    assert set(world.where("train").values()) == {"n001", "n002", "n003"}
    job = world.state.get(JOBS, ("ml", "train"))
    assert job["spec"]["suspend"] is False
    assert job["metadata"]["annotations"] == allowed
    assert not _deletions(world)


async def test_a_job_that_a_former_leader_has_suspended_is_resumed(world: World, start: Start) -> None:
    world.add_nodes(1, 1, 1)
    left = {"accelet.dev/may-suspend": "true", "accelet.dev/suspended": "true"}
    world.add_job("train", 1, spec_of_job={"suspend": True}, said_on_job=left)
    world.add_job("held", 1, spec_of_job={"suspend": True})
    async with start():
        await eventually(lambda: world.is_bound("train", 1), within_s=30)
    assert world.state.get(JOBS, ("ml", "held"))["spec"]["suspend"] is True, "somebody else has suspended it"


async def test_a_pod_that_a_webhook_refuses_on_one_node_after_the_rehearsal_completes_its_gang_elsewhere(
    world: World, start: Start
) -> None:
    world.add_nodes(1, 1, 5)
    world.denied = {("train-1", "n001")}
    async with start(stranded_after_s=0.2):
        world.add_job("train", 4, gpus=8)
        await eventually(lambda: world.is_bound("train", 4) and not world.plans(), within_s=30)
        said = "1 of 4 pods are not released, among them train-1"
        await eventually(lambda: any(said in note for note in world.notes()))
    assert "n001" not in world.where("train").values()


async def test_a_gang_of_which_a_webhook_refuses_one_pod_everywhere_begins_anew_if_it_may(
    world: World, start: Start
) -> None:
    world.add_nodes(1, 1, 8)
    world.denied = {("train-1", f"n00{host}") for host in range(8)}
    async with start(stranded_after_s=0.1):
        allowed = {"accelet.dev/may-suspend": "true"}
        world.add_job("train", 3, gpus=8, said_on_job=allowed)
        await eventually(
            lambda: any("its Job is suspended and resumed" in note for note in world.notes()), within_s=30
        )
        world.denied = set()
        await eventually(lambda: world.is_bound("train", 3) and not world.plans(), within_s=30)


async def test_a_watch_that_ends_loses_nothing(world: World, start: Start) -> None:
    world.add_nodes(1, 1, 2)
    async with start():
        world.add_job("first", 4)
        await eventually(lambda: world.is_bound("first", 4))
        world.api.end_watches(broken=True)
        world.state.compact()
        world.add_job("second", 4)
        await eventually(lambda: world.is_bound("second", 4))


async def test_a_malformed_pod_is_skipped(world: World, start: Start) -> None:
    world.add_nodes(1, 1, 2)
    world.state.create(PODS, "ml", {"metadata": {"name": "broken"}, "spec": {"containers": "none"}})
    async with start():
        world.add_job("train", 2)
        await eventually(lambda: world.is_bound("train", 2))


async def test_a_gang_without_owner_is_complete_when_nothing_more_comes(world: World, start: Start) -> None:
    world.add_nodes(1, 1, 1)
    one = raw_container(requests={"nvidia.com/gpu": "1"})
    pod = raw_pod("bare-0", gates=(GATE,), labels={}, containers=[one])
    async with start(quiet_s=0.1):
        world.state.create(PODS, "ml", pod)
        await eventually(lambda: not world.gated())


async def test_a_kind_of_owners_that_gives_no_answer_is_logged_once_and_makes_unready(
    world: World, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    world.add_nodes(1, 1, 1)
    away = Fault(Answer(503), path="/pytorchjobs", times=10_000)
    world.api.faults.append(away)
    port = free_port()

    def read() -> str:
        try:
            with urlopen(f"http://127.0.0.1:{port}/readyz?verbose") as answer:
                return str(answer.read().decode())
        except HTTPError as error:
            with error:
                return f"{error.code} {error.read().decode()}"

    async with start(http=("127.0.0.1", port)):
        world.add_job("train", 1)
        await eventually(lambda: away.hits >= 3)
        unready = await asyncio.to_thread(read)
        assert world.gated() == ["train-0"]
        world.api.faults.remove(away)
        await eventually(lambda: world.is_bound("train", 1))
        ready = await asyncio.to_thread(read)
    assert unready.startswith("503 ")
    assert "[-] owners: waits for an answer about the kind PyTorchJob" in unready
    assert "[+] owners: every kind was looked for" in ready
    told = [record for record in caplog.records if "whether the cluster has this kind" in record.message]
    assert [(record.levelname, record.values["kind"]) for record in told] == [  # type: ignore[attr-defined]
        ("WARNING", "PyTorchJob"),
        ("INFO", "PyTorchJob"),
    ]


async def test_metrics_and_readiness_say_how_it_goes(world: World, start: Start) -> None:
    world.add_nodes(1, 1, 2)
    port = free_port()

    def read(path: str) -> str:
        with urlopen(f"http://127.0.0.1:{port}{path}") as answer:
            return str(answer.read().decode())

    async with start(http=("127.0.0.1", port)):
        world.add_job("train", 12)
        world.add_job("large", 17)
        await eventually(lambda: world.is_bound("train", 12) and not world.plans())
        metrics = await asyncio.to_thread(read, "/metrics")
        ready = await asyncio.to_thread(read, "/readyz?verbose")
    for line in (
        "accelet_scheduler_placed_gangs_total 1.0",
        "accelet_scheduler_released_pods_total 12.0",
        "accelet_scheduler_waiting_gangs 1.0",
        "accelet_scheduler_gang_distance_sum 100.0",
        "accelet_scheduler_gang_gap_sum 0.0",
        "accelet_scheduler_leading 1.0",
        "accelet_scheduler_plan_seconds_count",
    ):
        assert line in metrics
    assert "[+] watches" in ready


def guard(world: World, name: str, actions: Sequence[str] = ("Deny",)) -> None:
    """A policy, and what binds it."""
    kinds = "apis/admissionregistration.k8s.io/v1/validatingadmissionpolic"
    world.state.create(f"{kinds}ies", "", {"metadata": {"name": name}})
    spec = {"policyName": name, "validationActions": list(actions)}
    world.state.create(f"{kinds}ybindings", "", {"metadata": {"name": name}, "spec": spec})


async def test_nothing_is_placed_before_the_policies_are_in_force(world: World, start: Start) -> None:
    world.add_nodes(1, 1, 2)
    guard(world, "accelet-assignments")
    world.add_job("train", 2)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    async with start(http=("127.0.0.1", port), require_policies=True):

        def has_looked() -> bool:
            return world.api.count(method="GET", path="policies/accelet-plans") > 1

        await eventually(has_looked)
        status, text = await asyncio.to_thread(look, port)
        assert status == 503
        assert "there is no ValidatingAdmissionPolicy accelet-plans" in text
        assert not world.plans()
        assert not world.is_bound("train", 2)
        assert world.api.count(path="leases") == 0
        guard(world, "accelet-plans")
        await eventually(lambda: world.is_bound("train", 2), within_s=30)


async def test_a_replica_that_sees_no_policies_leaves_the_lease_to_one_that_can_work(
    world: World, start: Start
) -> None:
    world.add_nodes(1, 1, 2)
    world.add_job("train", 2)
    async with start("blind", require_policies=True):
        await eventually(lambda: world.api.count(method="GET", path="policies/accelet-assignments") > 0)
        await eventually(lambda: world.api.count(path="api/v1/pods") > 0)
        async with start("seeing"):
            await eventually(lambda: world.is_bound("train", 2), within_s=30)


def look(port: int) -> tuple[int, str]:
    """What /readyz says."""
    try:
        with urlopen(f"http://127.0.0.1:{port}/readyz", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        with error:
            return error.code, error.read().decode()
