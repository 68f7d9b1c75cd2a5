"""What is read of a task's objects, whatever somebody put there, and what is made for it."""

import gc
import json
import tracemalloc
from contextlib import suppress
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.gputask.deciding.said import read_events
from accelet.gputask.objects.jobs import JobCondition, parse_job, parse_service
from accelet.gputask.objects.manifests import job_body, service_body
from accelet.gputask.objects.pods import TaskPod, parse_pod
from accelet.gputask.objects.ranks import read_ranks, write_ranks
from accelet.gputask.objects.task import parse_kept_task, parse_task
from accelet.gputask.settings import TaskSettings
from accelet.gputask.state import TaskState
from accelet.kinds.gputask import (
    GPU_TASKS,
    MOST_RANKS,
    TaskCards,
    TaskContainer,
    TaskMoves,
    TaskNetwork,
    TaskSource,
    TaskToleration,
    TaskVariable,
    TaskVolume,
)
from accelet.kube.errors import MalformedObjectError
from accelet.kube.writing.ownership import owner_reference
from tests.unit.gputask.world import failure, make_task

PREFIX = "gke.io/topology-aware-auto-"


def _template(**spec: Any) -> dict[str, Any]:
    template: dict[str, Any] = job_body(make_task(spec=spec), 3, PREFIX, None)["spec"]["template"]
    return template


def _environment(**spec: Any) -> dict[str, Any]:
    (container,) = _template(**spec)["spec"]["containers"]
    return {one["name"]: one.get("value", one.get("valueFrom")) for one in container.get("env", ())}


def test_ranks_are_told_where_they_meet() -> None:
    said = _environment(replicas=4)

    assert (said["MASTER_ADDR"], said["WORLD_SIZE"], said["PET_NNODES"]) == ("train-3-0.train", "4", "4")
    path = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
    assert said["RANK"]["fieldRef"]["fieldPath"] == path
    assert _environment(replicas=1) == {}
    assert _template(replicas=4)["spec"]["subdomain"] == "train"


@pytest.mark.parametrize(("moves", "is_told"), [(None, False), (0, False), (60, True)])
def test_a_program_that_has_time_to_save_reads_from_a_file_that_it_is_asked(
    moves: int | None, is_told: bool
) -> None:
    own = TaskContainer(image="app", volumes=(TaskVolume(mount_path="/data", claim="data"),))
    move = None if moves is None else TaskMoves(save_seconds=moves)
    spec = _template(container=own, move=move)["spec"]
    (container,) = spec["containers"]
    mounts = {one["mountPath"]: one["name"] for one in container["volumeMounts"]}
    volumes = {one["name"]: one for one in spec["volumes"]}

    assert mounts.keys() == ({"/data", "/run/accelet/task"} if is_told else {"/data"})
    assert set(mounts.values()) == volumes.keys()
    if is_told:
        (file,) = volumes[mounts["/run/accelet/task"]]["downwardAPI"]["items"]
        assert file["fieldRef"]["fieldPath"] == "metadata.annotations['accelet.dev/save']"
        said = _environment(container=own, move=move)["ACCELET_SAVE_FILE"]
        assert said == f"/run/accelet/task/{file['path']}"


def test_a_variable_of_the_user_goes_before_ours() -> None:
    own = TaskContainer(image="app", env=(TaskVariable(name="MASTER_PORT", value="1"),))

    (container,) = _template(replicas=2, container=own)["spec"]["containers"]
    ports = [one["value"] for one in container["env"] if one["name"] == "MASTER_PORT"]
    assert ports == ["1"]


def test_cards_are_asked_for_as_on_pods() -> None:
    cards = TaskCards(cards=2, tiles=4, memory="8Gi", same_numa=True, allow=("card0", "card1"))
    network = TaskNetwork(required_level="block", exclusive_level="subblock", exclusive=True)
    template = _template(cards=cards, network=network)

    (container,) = template["spec"]["containers"]
    asked = {"gpu.intel.com/i915": "2", "gpu.intel.com/tiles": "4", "gpu.intel.com/memory.max": "8Gi"}
    assert container["resources"] == {"limits": asked, "requests": asked}
    assert [one["name"] for one in template["spec"]["schedulingGates"]] == [
        "gke.io/topology-aware-auto-train",
        "accelet.dev/cards",
    ]
    assert template["metadata"]["annotations"] == {
        "accelet.dev/required-level": "block",
        "accelet.dev/exclusive-level": "subblock",
        "accelet.dev/exclusive": "true",
        "gas-allocate-single-numa": "true",
        "gas-allow": "card0,card1",
    }


def test_cards_of_others_have_no_gate_of_ours_beside_the_gangs() -> None:
    template = _template(cards=TaskCards(resource="nvidia.com/gpu", cards=8))

    assert len(template["spec"]["schedulingGates"]) == 1


def test_a_gate_of_a_long_name_is_one_the_api_server_takes() -> None:
    body = job_body(make_task(name="a" * 50), 1, PREFIX, None)
    (gate,) = body["spec"]["template"]["spec"]["schedulingGates"]

    assert len(gate["name"].split("/")[1]) == 63


def test_volumes_sources_and_tolerations_are_those_of_a_pod() -> None:
    own = TaskContainer(
        image="app",
        env_from=(TaskSource(secret="s"), TaskSource(config_map="c")),
        volumes=(
            TaskVolume(mount_path="/data", claim="d", read_only=True),
            TaskVolume(mount_path="/c", config_map="c"),
            TaskVolume(mount_path="/s", secret="s"),
            TaskVolume(mount_path="/shm", scratch="Memory"),
        ),
    )
    pod = _template(container=own, tolerations=(TaskToleration(key="gpu", operator="Exists"),))["spec"]

    (container,) = pod["containers"]
    assert container["envFrom"] == [{"secretRef": {"name": "s"}}, {"configMapRef": {"name": "c"}}]
    assert [next(key for key in one if key != "name") for one in pod["volumes"]] == [
        "persistentVolumeClaim",
        "configMap",
        "secret",
        "emptyDir",
    ]
    assert container["volumeMounts"][0] == {"name": "volume-0", "mountPath": "/data", "readOnly": True}
    assert pod["tolerations"] == [{"key": "gpu", "operator": "Exists"}]


@pytest.mark.parametrize(
    ("restart", "forgives", "action"),
    [("All", True, "FailJob"), ("Rank", True, "Ignore"), ("Rank", False, "Count")],
)
def test_what_a_disruption_is_to_the_job(restart: str, forgives: bool, action: str) -> None:
    given = failure(restart=restart, forgive_disruptions=forgives, fatal_exit_codes=(9, 3), retries=2)
    spec = job_body(make_task(spec={"on_failure": given}), 1, PREFIX, 60)["spec"]

    fatal, disrupted = spec["podFailurePolicy"]["rules"]
    assert fatal["onExitCodes"]["values"] == [3, 9]
    assert disrupted["action"] == action
    assert spec["activeDeadlineSeconds"] == 60
    assert ("backoffLimit" in spec, "backoffLimitPerIndex" in spec) == (restart == "All", restart == "Rank")


def test_a_queue_lets_the_job_go() -> None:
    body = job_body(make_task(spec={"queue": "team"}), 1, PREFIX, None)

    assert body["spec"]["suspend"] is True
    assert body["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "team"


def test_rank_zero_may_decide() -> None:
    body = job_body(make_task(spec={"success": "RankZero"}), 1, PREFIX, None)

    assert body["spec"]["successPolicy"] == {"rules": [{"succeededIndexes": "0"}]}


def test_the_service_is_headless_and_finds_this_task_alone() -> None:
    spec = service_body(make_task())["spec"]

    assert spec["clusterIP"] == "None"
    assert spec["selector"] == {"accelet.dev/task-uid": "task-uid"}


def _job(**status: Any) -> Any:
    return parse_job({"metadata": {"name": "train-1", "namespace": "ml"}, "spec": {}, "status": status})


def _failed(text: str, codes: tuple[int, ...] = (), reason: str = "PodFailurePolicy") -> Any:
    """The Job of a task with these fatal exit codes, which has failed."""
    raw = job_body(make_task(spec={"on_failure": failure(fatal_exit_codes=codes)}), 1, PREFIX, None)
    condition = {"type": "Failed", "status": "True", "reason": reason, "message": text}
    return parse_job({**raw, "status": {"conditions": [condition]}})


def test_which_rule_a_job_failed_by_is_told_by_its_place() -> None:
    first, second = "... matching FailJob rule at index 0", "... matching FailJob rule at index 1"

    assert _failed(first, (9,)).is_fatal
    assert _failed(second, (9,)).is_disruption
    assert _failed(first).is_disruption
    assert not _failed(first).is_fatal
    assert not _failed("... matching FailJob rule at index 10", (9,)).is_disruption
    assert not _failed(first, reason="BackoffLimitExceeded").is_disruption


def test_a_job_is_read_as_far_as_it_says() -> None:
    job = _job(
        succeeded=2,
        terminating=1,
        completedIndexes="0,1",
        conditions=[{"type": "Complete", "status": "True"}],
    )

    assert (job.succeeded, job.terminating, job.complete) == (2, 1, JobCondition("", ""))
    assert (job.attempt, job.owner_uid, job.parallelism) == (0, "", 1)


@pytest.mark.parametrize("text", ["", "-1", "٣", "1e9", "99999999999999999999", "0x1", " 1"])
def test_an_attempt_or_rank_that_is_none_is_no_number(text: str) -> None:
    metadata = {"name": "x", "labels": {"accelet.dev/attempt": text}}
    rank = {"batch.kubernetes.io/job-completion-index": text}

    assert parse_job({"metadata": metadata, "spec": {}}).attempt == 0
    assert parse_pod({"metadata": {"name": "x", "annotations": rank}, "spec": {}}).rank is None


@given(st.sets(st.integers(0, MOST_RANKS - 1), max_size=60))
def test_ranks_as_text_are_the_ranks(ranks: set[int]) -> None:
    assert read_ranks(write_ranks(ranks, 10_000)) == ranks
    assert len(write_ranks(ranks, 20)) <= 20


@given(st.text(max_size=60) | st.from_regex(r"[0-9]{1,9}-[0-9]{1,9}(,[0-9]{1,9}-[0-9]{1,9}){0,3}"))
def test_no_text_is_more_ranks_than_there_can_be(text: str) -> None:
    assert len(read_ranks(text)) <= MOST_RANKS * 2


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(_JSON, _JSON)
def test_whatever_is_stored_is_a_value_or_malformed(spec: Any, status: Any) -> None:
    raw = json.dumps({"metadata": {"name": "x", "namespace": "ml"}, "spec": spec, "status": status}).encode()
    for parse in (parse_task, parse_job, parse_pod):
        with suppress(MalformedObjectError):
            parse(raw)


def test_of_a_task_of_a_megabyte_next_to_nothing_is_kept() -> None:
    """Whoever may make hundreds of them must not fill the controller's memory."""
    env = [{"name": f"V{number}", "value": "x" * 10_000} for number in range(100)]
    spec = {"container": {"image": "i", "env": env}, "replicas": 3}
    raw = msgspec.Raw(json.dumps({"metadata": {"name": "t", "uid": "u"}, "spec": spec}).encode())
    tracemalloc.start()
    kept = parse_kept_task(raw)
    gc.collect()
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size < 50_000
    assert (kept.uid, kept.spec.replicas) == ("u", 3)
    assert len(parse_task(raw).spec.container.env) == 100


def test_the_newest_event_of_each_sort_tells() -> None:
    def event(reason: str, message: str, minute: int) -> dict[str, Any]:
        return {"reason": reason, "message": message, "lastTimestamp": f"2026-01-01T00:{minute:02}:00Z"}

    events = [
        event("FailedCreate", "newer", 5),
        event("FailedCreate", "older", 4),
        event("Waiting", "needs 4 nodes,\n best has 3", 1),
        event("SuccessfulCreate", "not this", 9),
        {"reason": 7},
    ]
    report = read_events(events, "job", 1.0, 5.0)

    assert (report.refused, report.waiting) == ("newer", "needs 4 nodes, best has 3")


@pytest.mark.parametrize("told", [{}, {"is_deleted": True}, {"is_disrupted": True}])
def test_a_pod_that_ended_by_itself_and_no_other_is_remembered_when_it_is_gone(told: dict[str, bool]) -> None:
    state = TaskState(TaskSettings(version="v1").times)
    task = make_task()
    state.set_task(task)
    owner = [{"kind": "Job", "name": "train-1", "uid": "job", "controller": True}]
    job = {"name": "train-1", "namespace": "ml", "uid": "job", "labels": {"accelet.dev/attempt": "1"}}
    task_owner = [owner_reference(GPU_TASKS, "train", task.uid)]
    assert (
        state.set_job(parse_job({"metadata": {**job, "ownerReferences": task_owner}, "spec": {}})) == task.key
    )
    labels = {"accelet.dev/task-uid": task.uid}
    rank = {"batch.kubernetes.io/job-completion-index": "1"}
    metadata = {"name": "p", "namespace": "ml", "uid": "p", "labels": labels, "annotations": rank}
    raw = {"metadata": {**metadata, "ownerReferences": owner}, "spec": {}, "status": {"phase": "Succeeded"}}
    pod = replace(parse_pod(raw), **told)  # type: ignore[arg-type]  # both are flags
    assert state.set_pod(pod) == task.key
    state.remove_pod(pod)
    begun = msgspec.structs.replace(task.status, attempt=1)
    view = state.view(make_task(status=begun), 1.0)

    assert view.done == (set() if told else {1})
    assert view.pods == ()


def test_answers_that_come_late_take_back_nothing_that_a_watch_has_told_of_a_pod() -> None:
    state = TaskState(TaskSettings(version="v1").times)
    task = make_task()
    state.set_task(task)
    metadata = {"name": "p", "namespace": "ml", "uid": "p", "labels": {"accelet.dev/task-uid": task.uid}}

    def pod(version: str, **said: str) -> TaskPod:
        versioned = {**metadata, "resourceVersion": version, "annotations": said}
        return parse_pod({"metadata": versioned, "spec": {}})

    newest = pod("12", **{"accelet.dev/saved": "move-uid"})
    state.set_pod(newest)
    state.renew_pod(pod("11"))
    state.set_pod(pod("11"))
    assert state.view(task, 1.0).pods == (newest,)
    state.remove_pod(newest)
    state.renew_pod(pod("13"))
    assert state.view(task, 1.0).pods == (), "it is gone"


@pytest.mark.parametrize(
    "other", [{"apiVersion": "accelet.dev/v9"}, {"apiVersion": "v1"}, {"kind": "ConfigMap"}]
)
def test_a_job_that_names_something_else_by_the_uid_of_a_task_is_not_the_tasks(other: dict[str, str]) -> None:
    owner = {**owner_reference(GPU_TASKS, "train", "task-uid"), **other}
    metadata = {"name": "train-1", "namespace": "ml", "uid": "job", "ownerReferences": [owner]}
    assert parse_job({"metadata": metadata, "spec": {}}).owner_uid == ""
    assert parse_service({"metadata": metadata}).owner_uid == ""


def test_answers_that_come_after_the_end_of_a_task_or_its_job_bring_neither_back() -> None:
    state = TaskState(TaskSettings(version="v1").times)
    task = make_task()
    state.set_task(task)
    owner = [owner_reference(GPU_TASKS, "train", task.uid)]
    job = parse_job(
        {
            "metadata": {"name": "train-1", "namespace": "ml", "uid": "job", "ownerReferences": owner},
            "spec": {},
        }
    )
    state.set_job(job)
    state.renew_job(replace(job, is_deleted=True))
    assert [one.is_deleted for one in state.view(task, 1.0).jobs] == [True]
    state.remove_job(job)
    state.renew_job(job)
    assert state.view(task, 1.0).jobs == ()
    state.remove_task(task)
    state.renew_task(task)
    assert state.tasks == {}


def test_pods_and_jobs_of_another_namespace_are_nobodys_here() -> None:
    state = TaskState(TaskSettings(version="v1").times)
    task = make_task()
    state.set_task(task)
    metadata = {"name": "p", "namespace": "evil", "uid": "p", "labels": {"accelet.dev/task-uid": task.uid}}
    state.set_pod(parse_pod({"metadata": metadata, "spec": {}}))

    assert state.view(task, 1.0).pods == ()


@pytest.mark.parametrize(
    ("status", "refusal"),
    [
        ({"phase": "Failed", "reason": "UnexpectedAdmissionError"}, "UnexpectedAdmissionError"),
        ({"phase": "Failed", "reason": "x" * 1000}, "x" * 63),
        ({"phase": "Failed", "reason": "Evicted", "containerStatuses": [{"state": {}}]}, ""),
        ({"phase": "Running", "reason": "Odd"}, ""),
        ({"phase": "Failed"}, ""),
    ],
)
def test_a_pod_that_its_kubelet_did_not_admit_has_no_container(status: dict[str, Any], refusal: str) -> None:
    assert parse_pod({"metadata": {"name": "p"}, "spec": {}, "status": status}).refusal == refusal


def _done_pod(name: str, *, namespace: str = "ml") -> TaskPod:
    owner = [{"kind": "Job", "name": "train-1", "uid": "job", "controller": True}]
    metadata = {
        "name": name,
        "namespace": namespace,
        "uid": name,
        "labels": {"accelet.dev/task-uid": "task-uid"},
        "annotations": {"batch.kubernetes.io/job-completion-index": "1"},
        "ownerReferences": owner,
    }
    return parse_pod({"metadata": metadata, "spec": {}, "status": {"phase": "Succeeded"}})


def test_pods_that_name_jobs_that_there_are_not_leave_nothing_behind() -> None:
    """Whoever may write pods may have one name another Job with each change, as fast as she likes."""
    state, changes, comes = TaskState(TaskSettings(version="v1").times), _done_pod("a"), _done_pod("b")
    tracemalloc.start()
    for number in range(5_000):
        state.set_pod(replace(changes, job_uid=f"a{number}", resource_version=str(number + 1)))
        state.set_pod(replace(comes, job_uid=f"b{number}", resource_version=str(number + 1)))
        state.remove_pod(comes)
    gc.collect()
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 100_000


def test_a_pod_of_another_namespace_has_no_rank_of_a_job_done() -> None:
    state = TaskState(TaskSettings(version="v1").times)
    task = make_task()
    state.set_task(task)
    owner = [owner_reference(GPU_TASKS, "train", task.uid)]
    job = {"name": "train-1", "namespace": "ml", "uid": "job", "labels": {"accelet.dev/attempt": "1"}}
    state.set_job(parse_job({"metadata": {**job, "ownerReferences": owner}, "spec": {}}))
    state.set_pod(_done_pod("p", namespace="evil"))
    begun = msgspec.structs.replace(task.status, attempt=1)

    assert state.view(make_task(status=begun), 1.0).done == frozenset()
