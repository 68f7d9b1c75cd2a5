import json
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.kube.errors import MalformedObjectError
from accelet.kube.objects import Condition, Owner
from accelet.kube.podparser import parse_pod
from accelet.kube.pods import Pod
from accelet.scheduler.cluster.shape import shape_of
from accelet.scheduler.cluster.topology import Scheme
from accelet.scheduler.gangs.grouping import GANG_SIZE, GATE_PREFIX, Gang, find_gangs
from accelet.scheduler.gangs.workload import Workload, parse_workload
from accelet.scheduler.state import SchedulerState
from tests.fakes.manifests import raw_container, raw_pod
from tests.unit.scheduler.values import pod

_JOB = "batch.kubernetes.io/job-name"
_INDEX = "batch.kubernetes.io/job-completion-index"
_SET = "jobset.sigs.k8s.io/jobset-name"
_GROUP = "jobset.sigs.k8s.io/replicatedjob-name"
_KUBEFLOW = "training.kubeflow.org/job-name"
_TYPE = "training.kubeflow.org/replica-type"
_REPLICA = "training.kubeflow.org/replica-index"
_LWS = "leaderworkerset.sigs.k8s.io/name"


def _names(gang: Gang) -> list[str]:
    return [member.name for member in gang.pods]


def _only(*pods, workloads=()) -> Gang:  # type: ignore[no-untyped-def]  # pods as they come
    (gang,) = find_gangs(pods, workloads)
    return gang


@pytest.mark.parametrize(
    ("labels", "owner", "name"),
    [
        ({_SET: "set", _JOB: "set-workers-0"}, Owner("Job", "set-workers-0", "u"), "ml/set"),
        ({_KUBEFLOW: "torch", "job-name": "torch-launcher"}, None, "ml/torch"),
        ({_LWS: "lws", "leaderworkerset.sigs.k8s.io/group-index": "2"}, None, "ml/lws-2"),
        ({_JOB: "job"}, Owner("Job", "job", "u"), "ml/job"),
        ({"job-name": "old"}, None, "ml/old"),
        ({}, Owner("StatefulSet", "db", "u", is_controller=True), "ml/db"),
        ({"name": "by-label"}, None, "ml/by-label"),
        ({}, None, "ml/j"),
    ],
)
def test_a_gang_is_known_by_its_widest_owner(
    labels: Mapping[str, str], owner: Owner | None, name: str
) -> None:
    assert str(_only(pod("p", labels=labels, owner=owner)).key) == name


def test_pods_of_a_job_need_not_be_neighbours_in_the_list() -> None:
    first, other, last = (
        pod("a-0", labels={_JOB: "a"}),
        pod("b-0", labels={_JOB: "b"}),
        pod("a-1", labels={_JOB: "a"}),
    )
    assert [_names(gang) for gang in find_gangs([first, other, last])] == [["a-0", "a-1"], ["b-0"]]


def test_jobs_of_one_name_in_two_namespaces_are_two_gangs() -> None:
    pods = [pod("p", labels={_JOB: "j"}), pod("p", labels={_JOB: "j"}, namespace="other")]
    assert [str(gang.key) for gang in find_gangs(pods)] == ["ml/j", "other/j"]


def test_what_a_pod_asks_for_is_worked_out_once_for_each_version_of_it() -> None:
    state = SchedulerState(Scheme(), GATE_PREFIX)
    for rank in range(2):
        state.set_pod(pod(f"p-{rank}", labels={"job-name": "j"}, version=1))
    (before,) = state.gangs()
    state.set_pod(pod("p-2", labels={"job-name": "j"}, version=1))
    state.set_pod(pod("p-1", labels={"job-name": "j"}, version=2, gpus=3))
    (after,) = state.gangs()
    assert after.shapes[0] is before.shapes[0]
    assert after.shapes[1] == shape_of(after.pods[1]) != before.shapes[1]
    assert len(after.pods) == 3


def test_only_pods_with_our_gate_are_planned_but_all_live_members_are_known() -> None:
    labels = {_JOB: "j"}
    gang = _only(
        pod("j-0", labels=labels, on="n0"),
        pod("j-1", labels=labels),
        pod("j-2", labels=labels, on="n1", phase="Succeeded"),
    )
    assert _names(gang) == ["j-1"]
    assert [member.name for member in gang.members] == ["j-0", "j-1"]


def test_another_gate_beside_ours_keeps_the_whole_gang_waiting() -> None:
    gang = _only(pod("p-0"), pod("p-1", gates=("gke.io/topology-aware-auto-j", "example.com/quota")))
    assert gang.objection == "pod p-1 is also held by the gate example.com/quota"


def test_a_gang_with_resource_claims_is_not_planned() -> None:
    """Which devices there are for claims, and where, only kube-scheduler knows."""
    gang = _only(pod("p-0"), replace(pod("p-1"), has_resource_claims=True))
    assert gang.objection == (
        "pod p-1 has resource claims, for which kube-scheduler alone finds devices: "
        "gangs with claims are not placed"
    )


def test_ranks_come_from_the_completion_index() -> None:
    pods = [pod(f"j-{letter}", labels={_JOB: "j", _INDEX: str(index)}) for index, letter in enumerate("zyx")]
    assert _names(_only(*pods)) == ["j-z", "j-y", "j-x"]


def test_a_broken_index_counts_as_none_and_follows() -> None:
    indexes = {"a": "-1", "b": "1", "c": "two", "d": "0", "e": ""}
    pods = [pod(f"j-{name}", labels={_JOB: "j", _INDEX: index}) for name, index in indexes.items()]
    assert _names(_only(*pods)) == ["j-d", "j-b", "j-a", "j-c", "j-e"]


def test_two_pods_of_one_rank_keep_the_order_of_their_names() -> None:
    pods = [pod(name, labels={_JOB: "j", _INDEX: "0"}) for name in ("j-b", "j-a")]
    assert _names(_only(*pods)) == ["j-a", "j-b"]


def test_without_an_index_the_number_at_the_end_of_the_name_counts() -> None:
    assert _names(_only(pod("w-10"), pod("w-9"), pod("master"), pod("w-1"))) == [
        "master",
        "w-1",
        "w-9",
        "w-10",
    ]


def test_random_name_endings_are_not_taken_for_numbers() -> None:
    owner = Owner("ReplicaSet", "web", "u", is_controller=True)
    names = ["web-b9", "web-a10", "web-c1"]
    assert _names(_only(*(pod(name, owner=owner) for name in names))) == sorted(names)


def test_kubeflow_ranks_the_master_before_workers_and_by_index() -> None:
    def of(kind: str, index: int, name: str):  # type: ignore[no-untyped-def]  # a pod
        return pod(name, labels={_KUBEFLOW: "t", _TYPE: kind, _REPLICA: str(index)})

    gang = _only(of("worker", 1, "c"), of("worker", 0, "b"), of("Master", 0, "z"))
    assert _names(gang) == ["z", "b", "c"]


def test_a_jobset_is_one_gang_ordered_by_its_jobs() -> None:
    def of(group: str, job: int, index: int):  # type: ignore[no-untyped-def]  # a pod
        labels = {_SET: "s", _GROUP: group, "jobset.sigs.k8s.io/job-index": str(job), _INDEX: str(index)}
        return pod(f"s-{group}-{job}-{index}", labels=labels)

    pods = [of("workers", 1, 0), of("workers", 0, 1), of("leader", 0, 0), of("workers", 0, 0)]
    known = Workload("JobSet", "ml", "s", 4, groups=("workers", "leader"))
    assert _names(_only(*pods)) == ["s-leader-0-0", "s-workers-0-0", "s-workers-0-1", "s-workers-1-0"]
    assert _names(_only(*pods, workloads=[known]))[-1] == "s-leader-0-0"


def test_the_global_job_index_orders_a_jobset_by_itself() -> None:
    def of(group: str, everywhere: int):  # type: ignore[no-untyped-def]  # a pod
        labels = {
            _SET: "s",
            _GROUP: group,
            "jobset.sigs.k8s.io/job-global-index": str(everywhere),
            _INDEX: "0",
        }
        return pod(f"s-{group}-{everywhere}", labels=labels)

    assert _names(_only(of("b", 0), of("a", 2), of("b", 1))) == ["s-b-0", "s-b-1", "s-a-2"]


def test_a_gang_misses_what_its_owner_says_and_is_not_there() -> None:
    pods = [pod(f"j-{i}", labels={_JOB: "j"}, on="n0" if i == 0 else None) for i in range(3)]
    assert _only(*pods, workloads=[Workload("Job", "ml", "j", 8)]).missing == 5
    assert _only(*pods, workloads=[Workload("Job", "ml", "j", 3)]).missing == 0
    assert _only(*pods).missing == 0


def test_a_gang_is_counted_if_its_owner_can_tell_the_size_though_it_is_not_seen_yet() -> None:
    assert _only(pod("j-0", labels={_JOB: "j"}, owner=Owner("Job", "j", "u", is_controller=True))).is_counted
    assert not _only(pod("j-0", labels={_JOB: "j"})).is_counted
    assert not _only(pod("w-0", owner=Owner("StatefulSet", "w", "u", is_controller=True))).is_counted


def test_an_annotation_says_the_size_of_a_gang_without_an_owner() -> None:
    assert _only(pod("p-0", annotations={GANG_SIZE: "4"})).missing == 3
    assert (
        _only(pod("p-0", annotations={GANG_SIZE: "many"})).objection
        == f'{GANG_SIZE} is "many", not a number of pods'
    )


def test_a_leader_worker_group_says_its_size_itself() -> None:
    labels = {_LWS: "l", "leaderworkerset.sigs.k8s.io/worker-index": "1"}
    gang = _only(pod("l-0-1", labels=labels, annotations={"leaderworkerset.sigs.k8s.io/size": "4"}))
    assert gang.missing == 3


def test_pods_that_contradict_one_another_are_not_planned() -> None:
    one, two = ({"accelet.dev/required-level": level} for level in ("host", "block"))
    gang = _only(pod("p-0", annotations=one), pod("p-1", annotations=two))
    assert gang.objection is not None
    assert gang.objection.startswith('accelet.dev/required-level is "host" on pod p-0 and "block" on pod p-1')


def test_exclusive_is_true_or_false() -> None:
    assert _only(pod("p-0", annotations={"accelet.dev/exclusive": "true"})).is_exclusive
    assert _only(pod("p-0", annotations={"accelet.dev/exclusive": "yes"})).objection == (
        'accelet.dev/exclusive is "yes", neither "true" nor "false"'
    )


def test_pods_that_all_take_the_same_port_of_their_node_get_a_node_each() -> None:
    def ports(*numbers: int, address: str | None = None, protocol: str = "TCP") -> list[dict[str, object]]:
        said = {} if address is None else {"hostIP": address}
        return [{"containerPort": n, "hostPort": n, "protocol": protocol, **said} for n in numbers]

    def is_exclusive(*of: list[dict[str, object]]) -> bool:
        raws = [
            raw_pod(
                f"p-{rank}",
                labels={"job-name": "j"},
                gates=(f"{GATE_PREFIX}j",),
                containers=[raw_container() | {"ports": each}],
            )
            for rank, each in enumerate(of)
        ]
        return _only(*map(parse_pod, raws)).is_exclusive

    assert is_exclusive(ports(29500), ports(29500, 80))
    assert is_exclusive(ports(80, address="10.0.0.1"), ports(80, address="10.0.0.1"))
    assert not is_exclusive(ports(29500), ports(29501))
    assert not is_exclusive(ports(53), ports(53, protocol="UDP"))
    assert not is_exclusive(ports(80, address="10.0.0.1"), ports(80, address="10.0.0.2"))
    assert not is_exclusive(ports(80), [])
    assert not is_exclusive([{"containerPort": 80}], [{"containerPort": 80}])
    assert not is_exclusive([{"containerPort": 80, "hostPort": 0}], [{"containerPort": 80, "hostPort": 0}])


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=6), st.randoms())
def test_gangs_are_in_order_of_priority_then_age_however_they_are_listed(
    gangs: list[tuple[int, int]],
    random: st.randoms,  # type: ignore[valid-type]  # hypothesis's Random
) -> None:
    pods = [
        pod(f"p{number}", labels={_JOB: f"j{number}"}, priority=priority, created_s=created)
        for number, (priority, created) in enumerate(gangs)
    ]
    random.shuffle(pods)  # type: ignore[attr-defined]
    found = [(gang.priority, gang.created_s, gang.key) for gang in find_gangs(pods)]
    assert found == sorted(found, key=lambda item: (-item[0], item[1], item[2]))


_META = {"name": "x", "namespace": "ml"}
_POD_SPEC: dict[str, object] = {"template": {}}


_MPI_LATE: dict[str, object] = {
    "launcherCreationPolicy": "WaitForWorkersReady",
    "mpiReplicaSpecs": {"Launcher": {"replicas": 1}, "Worker": {"replicas": 2}},
}


@pytest.mark.parametrize(
    ("kind", "spec", "status", "size"),
    [
        ("Job", {}, {}, 1),
        ("Job", {"parallelism": 8, "completions": 8}, {}, 8),
        ("Job", {"parallelism": 8, "completions": 20}, {"succeeded": 15}, 5),
        ("Job", {"parallelism": 8, "completions": 8}, {"succeeded": 9}, 0),
        ("LeaderWorkerSet", {"replicas": 3, "leaderWorkerTemplate": {"size": 4}}, {}, 4),
        ("PyTorchJob", {"pytorchReplicaSpecs": {"Master": {}, "Worker": {"replicas": 7}}}, {}, 8),
        ("MPIJob", {"mpiReplicaSpecs": {"Launcher": {"replicas": 1}, "Worker": {"replicas": 2}}}, {}, 3),
        ("MPIJob", _MPI_LATE, {}, 2),
        ("MPIJob", _MPI_LATE, {"replicaStatuses": {"Worker": {"active": 1}}}, 2),
        ("MPIJob", _MPI_LATE, {"replicaStatuses": {"Worker": {"active": 2}}}, 3),
        ("RayCluster", {"headGroupSpec": {}}, {}, 1),
        (
            "RayCluster",
            {
                "workerGroupSpecs": [
                    {"groupName": "a", "replicas": 3, "numOfHosts": 2},
                    {"groupName": "b", "replicas": 1, "minReplicas": 2, "maxReplicas": 4},
                    {"groupName": "c", "replicas": 9, "maxReplicas": 4},
                    {"groupName": "d", "replicas": 9, "suspend": True},
                    {"groupName": "e"},
                ]
            },
            {},
            1 + 6 + 2 + 4,
        ),
        ("SparkApplication", {"driver": {}, "executor": {"instances": 4}}, {}, 5),
        ("SparkApplication", {"driver": {}}, {}, 2),
        (
            "SparkApplication",
            {"executor": {"instances": 9}, "dynamicAllocation": {"enabled": True, "initialExecutors": 3}},
            {},
            4,
        ),
        ("StatefulSet", {"replicas": 5}, {}, 5),
        (
            "JobSet",
            {
                "replicatedJobs": [
                    {"name": "a", "template": {"spec": {"parallelism": 2}}},
                    {"name": "b", "replicas": 3, "template": {"spec": {"parallelism": 4, "completions": 2}}},
                ]
            },
            {},
            8,
        ),
    ],
)
def test_an_owner_says_how_many_pods_run_at_a_time(
    kind: str, spec: dict[str, object], status: dict[str, object], size: int
) -> None:
    workload = parse_workload({"kind": kind, "metadata": _META, "spec": spec, "status": status})
    assert (workload.size, workload.namespace, workload.name) == (size, "ml", "x")


def test_kubeflow_groups_are_in_rank_order() -> None:
    spec = {"pytorchReplicaSpecs": {"Worker": {"replicas": 2}, "Master": {"replicas": 1}}}
    raw = {"kind": "PyTorchJob", "metadata": _META, "spec": spec}
    assert parse_workload(raw).groups == ("master", "worker")


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ({"parallelism": "many"}, "workload ml/x: spec.parallelism: Expected `int | null`, got `str`"),
        ({"selector": {}}, "ConfigMap ml/x: spec: does not say how many pods run at a time"),
    ],
)
def test_an_owner_that_cannot_be_read_is_named(spec: dict[str, object], sentence: str) -> None:
    with pytest.raises(MalformedObjectError) as refusal:
        parse_workload({"kind": "ConfigMap", "metadata": _META, "spec": spec})
    assert str(refusal.value) == sentence


def _of(kind: str, spec: dict[str, object]) -> Workload:
    return parse_workload({"kind": kind, "metadata": _META, "spec": spec})


def test_a_ray_cluster_is_one_gang_with_its_head_first() -> None:
    spec: dict[str, object] = {"workerGroupSpecs": [{"groupName": "big", "replicas": 1}, {"groupName": "a"}]}
    labels = {"ray.io/cluster": "x"}
    owner = Owner("RayCluster", "x", "u", is_controller=True)
    head = replace(pod("x-head-9", labels={**labels, "ray.io/group": "headgroup"}), owners=(owner,))
    worker = replace(pod("x-big-worker-1", labels={**labels, "ray.io/group": "big"}), owners=(owner,))
    (alone,) = find_gangs([worker], [_of("RayCluster", spec)])
    assert alone.missing == 1
    (whole,) = find_gangs([worker, head], [_of("RayCluster", spec)])
    assert [member.name for member in whole.pods] == ["x-head-9", "x-big-worker-1"]
    assert whole.missing == 0


def test_executors_are_waited_for_once_their_driver_runs() -> None:
    application = _of("SparkApplication", {"executor": {"instances": 2}})
    labels = {"sparkoperator.k8s.io/app-name": "x"}
    driver = pod("x-driver", labels={**labels, "spark-role": "driver"})
    (first,) = find_gangs([driver], [application])
    assert (first.size, first.missing) == (1, 0)
    running = replace(driver, node_name="n0", gates=(), conditions=(Condition("Ready", "True"),))
    executors = [pod(f"x-exec-{n}", labels={**labels, "spark-role": "executor"}) for n in (1, 2)]
    (half,) = find_gangs([running, executors[0]], [application])
    assert half.missing == 1
    (whole,) = find_gangs([*reversed(executors), running], [application])
    assert [member.name for member in whole.members] == ["x-driver", "x-exec-1", "x-exec-2"]
    assert whole.missing == 0


def test_the_launcher_of_the_mpi_operator_comes_first_though_a_job_makes_it() -> None:
    labels = {"training.kubeflow.org/job-name": "x"}
    made_by_job = Owner("Job", "x-launcher", "u", is_controller=True)
    launcher = pod("x-launcher-q7", labels={**labels, "training.kubeflow.org/job-role": "launcher"})
    workers = [
        pod(f"x-worker-{n}", labels={**labels, "training.kubeflow.org/job-role": "worker"}) for n in (0, 1)
    ]
    late = _of("MPIJob", {"mpiReplicaSpecs": {"Launcher": {"replicas": 1}, "Worker": {"replicas": 2}}})
    (gang,) = find_gangs([*workers, replace(launcher, owners=(made_by_job,))], [late])
    assert [member.name for member in gang.pods] == ["x-launcher-q7", "x-worker-0", "x-worker-1"]


def test_an_answer_that_comes_late_takes_back_nothing() -> None:
    """Else the version that its next write is for is never the API server's, and its Job stays suspended."""
    state = SchedulerState(Scheme(), GATE_PREFIX)
    answer = Workload("Job", "ml", "train", 1, uid="u", resource_version="5")
    state.renew_workload(answer)
    assert state.job("ml", "train") is None
    state.set_workload(replace(answer, resource_version="6", done=1))
    for late in (answer, replace(answer, uid="former", resource_version="9")):
        state.renew_workload(late)
        known = state.job("ml", "train")
        assert known is not None
        assert (known.done, known.resource_version) == (1, "6")
    state.renew_workload(replace(answer, resource_version="7"))
    assert state.job("ml", "train") == answer


def _indexed(completions: int, **more: object) -> Workload:
    spec = {"parallelism": completions, "completions": completions, "completionMode": "Indexed", **more}
    return _parsed("Job", "j", spec)


def _parsed(kind: str, name: str, spec: Mapping[str, object]) -> Workload:
    return parse_workload(
        json.dumps({"metadata": {"name": name, "namespace": "ml"}, "spec": spec}).encode(), kind
    )


def _of_job(index: int, job: str = "j", **labels: str) -> Pod:
    return pod(
        f"{job}-{index}",
        labels={_JOB: job, **labels},
        annotations={_INDEX: str(index)},
        owner=Owner("Job", job, f"uid-{job}", is_controller=True),
    )


def test_pods_whose_index_is_beyond_the_completions_of_their_job_are_not_waited_for() -> None:
    pods = [_of_job(index) for index in range(6)]
    gang = _only(*pods, workloads=[_indexed(4)])
    assert _names(gang) == [f"j-{index}" for index in range(4)]
    assert (gang.size, gang.missing) == (4, 0)
    assert _names(_only(*pods, workloads=[_indexed(4, completionMode="NonIndexed")])) == [
        one.name for one in pods
    ]
    assert _names(_only(*pods)) == [one.name for one in pods]


def test_a_pod_that_its_job_has_no_use_for_is_no_gang() -> None:
    assert not find_gangs([_of_job(5)], [_indexed(4)])


def test_of_each_job_of_a_jobset_its_own_completions_count() -> None:
    template = {"parallelism": 2, "completions": 2, "completionMode": "Indexed"}
    jobs = [{"name": name, "replicas": 1, "template": {"spec": template}} for name in "ab"]
    owner = _parsed("JobSet", "s", {"replicatedJobs": jobs})
    pods = [_of_job(index, f"s-{name}-0", **{_SET: "s", _GROUP: name}) for name in "ab" for index in range(3)]
    assert _names(_only(*pods, workloads=[owner])) == ["s-a-0-0", "s-a-0-1", "s-b-0-0", "s-b-0-1"]
    larger = replace(_indexed(3), name="s-b-0")
    assert _names(_only(*pods, workloads=[owner, larger]))[-1] == "s-b-0-2"


def test_replicas_beyond_those_of_an_elastic_kubeflow_job_are_not_waited_for() -> None:
    owner = _parsed("PyTorchJob", "t", {"pytorchReplicaSpecs": {"Worker": {"replicas": 2}}})
    pods = [
        pod(f"t-worker-{index}", labels={_KUBEFLOW: "t", _TYPE: "worker", _REPLICA: str(index)})
        for index in range(4)
    ]
    assert _names(_only(*pods, workloads=[owner])) == ["t-worker-0", "t-worker-1"]


def test_a_job_that_is_made_smaller_has_its_gang_made_anew() -> None:
    state = SchedulerState(Scheme(), GATE_PREFIX)
    state.set_workload(_indexed(6))
    for index in range(6):
        state.set_pod(_of_job(index))
    assert [len(gang.pods) for gang in state.gangs()] == [6]
    state.set_workload(_indexed(4))
    assert [len(gang.pods) for gang in state.gangs()] == [4]
