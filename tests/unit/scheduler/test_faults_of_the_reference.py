"""What GKE's topology scheduler gets wrong when it plans, one test each, and what ours does instead."""

import json
from pathlib import Path

from click.testing import CliRunner

from accelet.cli import main
from accelet.kube.objects import Owner
from accelet.kube.podparser import parse_pod
from accelet.kube.selection import Taint, Toleration
from accelet.scheduler.gangs.grouping import EXCLUSIVE, find_gangs
from accelet.scheduler.gangs.workload import Workload
from benches.scheduler.window import slide
from tests.fakes.nodes import node
from tests.unit.scheduler.values import plan, plan_one, pod

_JOB = "job-name"


def _gang(name: str, count: int, **more):  # type: ignore[no-untyped-def]  # pods
    return [pod(f"{name}-{rank}", labels={_JOB: name}, **more) for rank in range(count)]


def _host(number: int, **more):  # type: ignore[no-untyped-def]  # a node
    return node(f"n{number}", f"b0/s0/h{number}", **more)


def test_a_pod_without_labels_is_planned_like_any_other() -> None:
    raw = {
        "metadata": {"name": "bare", "namespace": "ml", "labels": None},
        "spec": {
            "containers": [{"name": "c"}],
            "schedulingGates": [{"name": "gke.io/topology-aware-auto-x"}],
        },
    }
    assert plan_one([_host(0)], [parse_pod(raw)]).nodes == ("n0",)


def test_eight_pods_of_one_gpu_fit_on_one_node_of_eight() -> None:
    assert plan_one([_host(0)], _gang("j", 8)).nodes == ("n0",) * 8


def test_two_jobs_may_share_a_node_in_one_round() -> None:
    assert [p.nodes for p in plan([_host(0)], [*_gang("a", 1), *_gang("b", 1)])] == [("n0",), ("n0",)]


def test_a_bound_pod_still_pulling_its_image_takes_its_place() -> None:
    pulling = pod("x", on="n0", gpus=8, phase="Pending")
    assert plan_one([_host(0)], [pulling, *_gang("j", 1)]).nodes is None


def test_a_container_that_has_ended_in_a_running_pod_still_counts() -> None:
    raw = {
        "metadata": {"name": "x", "namespace": "ml"},
        "spec": {
            "nodeName": "n0",
            "containers": [
                {"name": "b", "resources": {"requests": {"nvidia.com/gpu": "1"}}},
                {"name": "a", "resources": {"requests": {"nvidia.com/gpu": "7"}}},
            ],
        },
        "status": {
            "phase": "Running",
            "containerStatuses": [
                {"name": "a", "state": {"terminated": {"exitCode": 0}}},
                {"name": "b", "state": {"running": {}}},
            ],
        },
    }
    assert plan_one([_host(0)], [parse_pod(raw), *_gang("j", 1)]).nodes is None


def test_every_resource_counts_and_so_do_init_containers_overhead_and_the_number_of_pods() -> None:
    def waits(more: dict[str, int], **spec: object) -> bool:
        raw = {
            "metadata": {"name": "p", "namespace": "ml"},
            "spec": {
                "containers": [{"name": "c"}],
                "schedulingGates": [{"name": "gke.io/topology-aware-auto-x"}],
                **spec,
            },
        }
        return plan_one([_host(0, more=more)], [parse_pod(raw)]).nodes is None

    tpu = {"google.com/tpu": "4"}
    assert waits({}, containers=[{"name": "c", "resources": {"requests": tpu}}])
    assert not waits({"google.com/tpu": 4}, containers=[{"name": "c", "resources": {"requests": tpu}}])
    assert waits({"google.com/tpu": 3}, initContainers=[{"name": "i", "resources": {"requests": tpu}}])
    assert waits({"cpu": 1}, overhead={"cpu": "1100m"})
    assert waits({"pods": 0})


def test_nodes_without_labels_are_far_from_each_other_and_may_stand_among_others() -> None:
    nodes = [
        node("lost0"),
        node("lost1"),
        node("half", labels={"cloud.google.com/gce-topology-block": "b0"}),
        _host(0),
    ]
    decided = plan_one(nodes, _gang("j", 4, gpus=8))
    assert decided.distance == 3_000_000
    assert decided.nodes is not None
    assert decided.nodes[0] == "n0"


def test_pods_of_a_job_that_are_apart_in_the_list_stay_one_gang_and_are_all_planned() -> None:
    owner = Owner("Job", "a", "u", is_controller=True)
    listed = [pod("a-0", owner=owner), pod("b", labels={"name": "b"}), pod("a-1", owner=owner)]
    assert sorted(len(p.gang.pods) for p in plan([_host(0)], listed)) == [1, 2]


def test_a_job_named_jobless_and_pods_of_one_name_in_two_namespaces_are_kept_apart() -> None:
    pods = [
        pod("p", labels={_JOB: "jobless"}),
        pod("p", namespace="other", labels={_JOB: "jobless"}),
        pod("p2"),
    ]
    assert [str(gang.key) for gang in find_gangs(pods)] == ["ml/j", "ml/jobless", "other/jobless"]


def test_ranks_that_are_partly_numbers_and_partly_names_are_sorted_all_the_same() -> None:
    pods = _gang("j", 2)
    pods.append(pod("j-x", labels={_JOB: "j", "batch.kubernetes.io/job-completion-index": "0"}))
    decided = plan_one([_host(0)], pods)
    assert [placed.name for placed, _ in decided.placements] == ["j-x", "j-0", "j-1"]


def test_master_and_worker_of_the_same_index_keep_their_places() -> None:
    def of(kind: str):  # type: ignore[no-untyped-def]  # a pod
        labels = {"training.kubeflow.org/job-name": "t", "training.kubeflow.org/replica-type": kind}
        return pod(f"t-{kind}-0", labels={**labels, "training.kubeflow.org/replica-index": "0"})

    for listed in ([of("worker"), of("master")], [of("master"), of("worker")]):
        (gang,) = find_gangs(listed)
        assert [member.name for member in gang.pods] == ["t-master-0", "t-worker-0"]


def test_taints_are_judged_by_operator_value_and_effect() -> None:
    def goes(taint: Taint, *tolerations: Toleration) -> bool:
        return plan_one([_host(0, taints=[taint])], [pod("p", tolerations=tolerations)]).nodes is not None

    taint = Taint("k", "NoSchedule", "v")
    assert goes(taint, Toleration("", "Exists"))
    assert not goes(taint, Toleration("k", "Equal", "other"))
    assert not goes(taint, Toleration("k", "Exists", "", "NoExecute"))
    assert goes(taint, Toleration("k", "Equal", "v"), Toleration("k", "Equal", "other"))
    assert goes(Taint("k", "PreferNoSchedule"))
    assert plan_one([_host(0, is_cordoned=True)], [pod("p")]).nodes is None


def test_an_incomplete_gang_is_not_begun() -> None:
    decided = plan_one([_host(0)], _gang("j", 2), [Workload("Job", "ml", "j", 3)])
    assert decided.reason == "waits for 1 of its 3 pods to be created"


def test_priority_goes_before_age() -> None:
    old, urgent = _gang("old", 1, gpus=8, created_s=1), _gang("urgent", 1, gpus=8, created_s=2, priority=1)
    placed = [str(p.gang.key) for p in plan([_host(0)], [*old, *urgent]) if p.nodes]
    assert placed == ["ml/urgent"]


def test_a_recreated_pod_is_placed_beside_its_gang() -> None:
    nodes = [*(_host(number) for number in range(3)), *(node(f"far{i}", f"a/s/h{i}") for i in range(2))]
    members = [pod(f"j-{rank}", labels={_JOB: "j"}, on=f"n{rank}", gpus=8) for rank in range(2)]
    assert plan_one(nodes, [*members, pod("j-2", labels={_JOB: "j"}, gpus=8)]).nodes == ("n2",)


def test_quantities_are_read_as_kubernetes_reads_them(tmp_path: Path) -> None:
    for text in ("1mi", "1 Gi", "1_000", "NaN", "Infinity"):
        nodes, pods = tmp_path / "nodes.json", tmp_path / "pods.json"
        bad = {"kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": {"x": text}}}
        nodes.write_text(json.dumps({"items": [bad]}))
        pods.write_text('{"items": []}')
        result = CliRunner().invoke(main, ["plan", "--nodes", str(nodes), "--pods", str(pods)])
        assert (result.exit_code, "is no quantity" in result.stderr) == (2, True)


def test_four_unlike_pods_on_four_nodes_are_placed_where_the_window_sees_no_way() -> None:
    """Each rank has one node of its own; the window's pointers must fall in step and find none."""
    nodes = [_host(number, labels={"for": str(rank)}) for number, rank in enumerate((1, 0, 3, 2))]
    pods = [
        pod(f"j-{rank}", labels={_JOB: "j"}, selector={"for": str(rank)}, annotations={EXCLUSIVE: "true"})
        for rank in range(4)
    ]
    assert slide([(f"h{n}",) for n in range(4)], 4, lambda rank, n: (1, 0, 3, 2)[n] == rank, (1,)) is None
    decided = plan_one(nodes, pods)
    assert decided.nodes == ("n1", "n0", "n3", "n2")
    assert decided.is_optimal
