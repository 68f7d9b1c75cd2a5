"""Who a slice's workers are: the literals, the rules one by one, and what holds for anything."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from accelet.provisioner.identity.children import job_of_set, pod_of_job, stamped_job, worker_environment
from accelet.provisioner.identity.hosts import host_table
from accelet.provisioner.identity.names import LONGEST_VARIABLE, TPU_ENV, WORKERS
from accelet.provisioner.identity.worker import environment_of, judge_pod, parse_worker_pod
from accelet.provisioner.identity.workloads import (
    judge_changed_job,
    judge_job,
    judge_job_set,
    judge_set,
    parse_worker_job,
    parse_worker_job_set,
    parse_worker_set,
)
from accelet.provisioner.pools.machines import Asked, Machines, choose_machines
from release.identity.__main__ import STAGES, render_file
from tests.unit.provisioner import identity_objects as objects
from tests.unit.provisioner.identity_notices import notice_job, notice_job_set, notice_pod, notice_set
from tests.unit.provisioner.manifests import job, job_set

Json = dict[str, Any]

FOLDER = Path(__file__).parents[3] / "deploy" / "identity"


def _worker(index: int = 2, env: list[Json] | None = None, **changes: Any) -> Json:
    made = job(**{"subdomain": "svc", **changes})
    if env is not None:
        made["spec"]["template"]["spec"]["containers"][0]["env"] = env
    return pod_of_job(stamped_job(made), index)


def _named(**values: str) -> list[Json]:
    return [{"name": name, "value": value} for name, value in values.items()]


def _judged(pod: Json) -> str | None:
    return judge_pod(parse_worker_pod(pod))


FOUR = "train-0.svc,train-1.svc,train-2.svc,train-3.svc"


def test_worker_of_a_job_knows_its_number_and_all_names() -> None:
    assert worker_environment(_worker(2)) == {"TPU_WORKER_ID": "2", "TPU_WORKER_HOSTNAMES": FOUR}
    assert _judged(_worker(2)) is None


def test_workers_of_a_job_set_know_their_slice_and_who_coordinates() -> None:
    made = {**job_set(replicas=2), "metadata": {"name": "js"}}
    pod = pod_of_job(job_of_set(made, "w", 1), 3)

    assert worker_environment(pod) == {
        "TPU_WORKER_ID": "3",
        "TPU_WORKER_HOSTNAMES": "js-w-1-0.js,js-w-1-1.js,js-w-1-2.js,js-w-1-3.js",
        "MEGASCALE_NUM_SLICES": "2",
        "MEGASCALE_SLICE_ID": "1",
        "MEGASCALE_COORDINATOR_ADDRESS": "js-w-0-0.js",
        "MEGASCALE_PORT": "8080",
    }


def test_slices_that_are_selected_by_affinity_are_one_program_as_by_node_selectors() -> None:
    """The provisioner makes slices for either."""
    made = {**job_set(replicas=2), "metadata": {"name": "js"}}
    expected = worker_environment(pod_of_job(job_of_set(made, "w", 1), 3))
    spec = made["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    expressions = [
        {"key": key, "operator": "In", "values": [value]} for key, value in spec.pop("nodeSelector").items()
    ]
    terms = [{"matchExpressions": expressions}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    spec["affinity"] = {"nodeAffinity": required}

    assert expected["MEGASCALE_NUM_SLICES"] == "2"
    assert worker_environment(pod_of_job(job_of_set(made, "w", 1), 3)) == expected


@pytest.mark.parametrize(("accelerator", "topology"), [("tpu7x", "2x2x1"), ("tpu-v6e-slice", "2x2")])
def test_single_host_of_any_generation_is_a_slice_of_its_own(accelerator: str, topology: str) -> None:
    alone = {"TPU_WORKER_ID": "0", "TPU_WORKER_HOSTNAMES": "localhost"}
    pod = _worker(0, accelerator=accelerator, topology=topology, pods=1)
    assert worker_environment(pod) == alone
    del pod["metadata"]["ownerReferences"], pod["metadata"]["annotations"]
    assert worker_environment(pod) == alone


def test_process_addresses_from_tpu7x_on() -> None:
    assert worker_environment(_worker(1, accelerator="tpu7x", topology="2x2x2", pods=2)) == {
        "TPU_WORKER_ID": "1",
        "TPU_WORKER_HOSTNAMES": "train-0.svc,train-1.svc",
        "TPU_PROCESS_ADDRESSES": "train-0.svc:8476,train-1.svc:8476",
        "TPU_PROCESS_PORT": "8476",
    }


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ({"TPU_WORKER_HOSTNAMES": "localhost"}, ["TPU_WORKER_ID", "TPU_WORKER_HOSTNAMES"]),
        ({"TPU_WORKER_HOSTNAMES": "", "TPU_WORKER_ID": "0"}, ["TPU_WORKER_ID", "TPU_WORKER_HOSTNAMES"]),
        ({"TPU_WORKER_ID": ""}, ["TPU_WORKER_ID", "TPU_WORKER_HOSTNAMES"]),
        ({"TPU_WORKER_ID": "0"}, []),
        ({"TPU_WORKER_HOSTNAMES": "a,b,c,d"}, []),
        ({"TPU_WORKER_HOSTNAMES": "a,b,c,d", "TPU_WORKER_ID": "0"}, []),
    ],
)
def test_values_of_the_author_stay_unless_they_name_nobody(own: dict[str, str], expected: list[str]) -> None:
    assert list(worker_environment(_worker(env=_named(**own)))) == expected


def test_value_from_elsewhere_is_the_authors() -> None:
    env = [{"name": "TPU_WORKER_HOSTNAMES", "valueFrom": {"configMapKeyRef": {"name": "a", "key": "b"}}}]
    assert worker_environment(_worker(env=env)) == {}
    assert notice_job(parse_worker_job(job(subdomain="svc"))) is None


@pytest.mark.parametrize(
    "marks",
    [
        {"labels": {"leaderworkerset.sigs.k8s.io/name": "a"}},
        {"labels": {"app.kubernetes.io/name": "kuberay"}},
        {"annotations": {TPU_ENV: "off"}},
    ],
)
def test_pods_of_others_are_left_alone(marks: Json) -> None:
    pod = _worker(topology="5x5")
    assert _judged(pod) is not None
    pod["metadata"] |= marks
    assert worker_environment(pod) == {}
    assert _judged(pod) is None


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"pods": 2}, "4x4 with 4 chips a pod needs 4 pods, the Job has 2"),
        ({"topology": "2x2", "pods": 8}, "2x2 with 4 chips a pod needs 1 pod, the Job has 8"),
        (
            {"topology": "5x5", "pods": 6},
            "tpu-v6e-slice has no topology 5x5; it has 1x1, 2x2, 2x4, 4x4, 4x8, 8x8, 8x16 and 16x16",
        ),
        ({"topology": "4xq"}, "tpu-v6e-slice has no topology 4xq; it has 1x1,"),
        ({"topology": "4" * 61}, f"tpu-v6e-slice has no topology {'4' * 60}…; it has 1x1,"),
        ({"accelerator": "tpu-v9"}, "tpu-v9 is no TPU that is sold under"),
        ({"chips": 3}, "tpu-v6e-slice 4x4 has machines of 4 chips; a pod must ask for all of"),
        ({"topology": "2x4", "chips": "1"}, "tpu-v6e-slice 2x4 has machines of 4 or 8 chips; a pod must"),
        (
            {"subdomain": ""},
            "the workers of a slice find each other by their names in DNS: set spec.template",
        ),
    ],
)
def test_jobs_that_no_slice_could_run(changes: Json, sentence: str) -> None:
    told = judge_job(parse_worker_job(job(**{"subdomain": "svc", **changes})))
    assert told is not None
    assert told.startswith(sentence)


def test_jobs_whose_workers_are_no_gang() -> None:
    made = job(subdomain="svc")
    assert judge_job(parse_worker_job(made)) is None
    made["spec"]["parallelism"] = 2
    told = judge_job(parse_worker_job(made))
    assert told == ("all 4 workers of a slice run together: parallelism must be 4 as completions is, not 2")
    made["spec"]["completionMode"] = "NonIndexed"
    told = judge_job(parse_worker_job(made))
    assert told == "the workers of a slice need numbers: set completionMode: Indexed"


def test_stamped_job_keeps_its_number_of_workers() -> None:
    made = stamped_job(job(subdomain="svc"))
    del made["spec"]["template"]["spec"]["nodeSelector"]
    assert judge_changed_job(parse_worker_job(made)) is None
    made["spec"] |= {"completions": 8, "parallelism": 8}
    told = judge_changed_job(parse_worker_job(made))
    assert told == "the workers' names were made for 4 pods, not for 8: make a new Job"


def test_pods_that_are_no_worker() -> None:
    alone = _worker()
    del alone["metadata"]["ownerReferences"]
    assert _judged(alone) == (
        "4x4 with 4 chips a pod needs 4 workers that know of each other: "
        "make an Indexed Job, a JobSet or a StatefulSet of them"
    )
    alone["spec"]["containers"][0]["env"] = _named(TPU_WORKER_ID="1", TPU_WORKER_HOSTNAMES="a,b,c,d")
    assert _judged(alone) is None
    assert _judged(_worker(4)) == "there is no worker 4 of 4"
    other = _worker()
    other["spec"]["hostname"] = "mine"
    told = _judged(other)
    assert told == "a worker's hostname must be train-2, not mine: leave it out of the template"
    several = _worker()
    several["spec"]["containers"] *= 2
    several["spec"]["nodeSelector"]["cloud.google.com/gke-tpu-topology"] = "4x8"
    told = _judged(several)
    assert told is not None
    assert "has machines of 4 chips" in told
    several["spec"]["containers"][0] = {"name": "a", "resources": {"limits": {"google.com/tpu": "2"}}}
    several["spec"]["containers"][1] = {"name": "b", "resources": {"limits": {"google.com/tpu": "2"}}}
    assert _judged(several) == (
        "the chips of a host in a larger slice go to one container, and 2 of the pod's ask for some"
    )


def test_variable_that_no_program_could_be_started_with() -> None:
    longest = "x" * (LONGEST_VARIABLE - len("MINE="))
    assert _judged(_worker(env=_named(MINE=longest))) is None
    told = _judged(_worker(env=_named(MINE=longest + "x")))
    assert told is not None
    assert told.startswith("MINE has 131072 bytes with its name")
    told = _judged(_worker(accelerator="tpu7x", topology="16x24x24", pods=2304, subdomain="s" * 60))
    assert told is not None
    assert "TPU_WORKER_HOSTNAMES has" in told


def test_stateful_sets_are_one_slice() -> None:
    template = {"spec": job()["spec"]["template"]["spec"]}
    spec: Json = {"template": template, "replicas": 4, "serviceName": "svc"}
    made = {"metadata": {"name": "a"}, "spec": spec}
    found = parse_worker_set(made)
    assert judge_set(found) is None
    assert found.stamps == {WORKERS: "4"}
    spec["replicas"] = 8
    found = parse_worker_set(made)
    assert judge_set(found) == "4x4 with 4 chips a pod needs 4 pods, the StatefulSet has 8"
    assert found.stamps == {}
    pod = {
        "metadata": {
            "name": "a-3",
            "annotations": {WORKERS: "4"},
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "a", "uid": "u", "controller": True}
            ],
        },
        "spec": {**template["spec"], "hostname": "a-3", "subdomain": "svc"},
    }
    assert worker_environment(pod) == {
        "TPU_WORKER_ID": "3",
        "TPU_WORKER_HOSTNAMES": "a-0.svc,a-1.svc,a-2.svc,a-3.svc",
    }


def _several(*replicated: Json) -> Json:
    """A JobSet of replicatedJobs a, b, …; each of two slices like the first, but for what is said."""
    jobs = []
    for name, changes in zip("abcd", replicated, strict=False):
        one = {"name": name, "replicas": 2, "template": {"spec": job()["spec"]}}
        jobs.append({**one, **changes})
    return {"apiVersion": "v", "kind": "JobSet", "metadata": {"name": "js"}, "spec": {"replicatedJobs": jobs}}


def _cpu_job() -> Json:
    return {"template": {"spec": {"template": {"spec": {"containers": [{"name": "main"}]}}}}}


def test_slices_of_several_replicated_jobs_count_through_and_leave_out_those_without_tpus() -> None:
    made = _several(_cpu_job(), {}, {"replicas": 1})
    assert judge_job_set(parse_worker_job_set(made)) is None
    seen = worker_environment(pod_of_job(job_of_set(made, "c", 0), 0))
    assert seen["MEGASCALE_NUM_SLICES"] == "3"
    assert seen["MEGASCALE_SLICE_ID"] == "2"
    assert seen["MEGASCALE_COORDINATOR_ADDRESS"] == "js-b-0-0.js"


def test_groups_work_apart_and_unlike_slices_do_not_work_together() -> None:
    apart = _several({}, {"groupName": "other"})
    assert worker_environment(pod_of_job(job_of_set(apart, "b", 1), 0))["MEGASCALE_SLICE_ID"] == "1"
    unlike = _several({}, {"template": {"spec": job(topology="2x4", pods=2)["spec"]}})
    assert "MEGASCALE_SLICE_ID" not in worker_environment(pod_of_job(job_of_set(unlike, "b", 1), 0))
    told = notice_job_set(parse_worker_job_set(unlike))
    assert told is not None
    assert told.startswith("replicatedJob a: MEGASCALE_* is not set")


def test_single_slices_are_programs_of_their_own() -> None:
    made = _several({})
    template = made["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    template["metadata"] = {"annotations": {TPU_ENV: "single-slice"}}
    seen = worker_environment(pod_of_job(job_of_set(made, "a", 1), 0))
    assert list(seen) == ["TPU_WORKER_ID", "TPU_WORKER_HOSTNAMES"]


def test_job_set_without_names_in_dns() -> None:
    made = _several({})
    made["spec"]["network"] = {"enableDNSHostnames": False}
    told = judge_job_set(parse_worker_job_set(made))
    assert told is not None
    assert told.startswith("replicatedJob a: the workers of a slice find each other by their names in DNS")


def test_hosts_are_those_of_the_machines() -> None:
    for key, hosts in host_table().hosts.items():
        accelerator, topology, chips = key.split()
        machines = choose_machines(Asked(accelerator, topology, int(chips), None))
        assert isinstance(machines, Machines)
        assert (machines.hosts, machines.chips_per_host) == (hosts, int(chips))


@given(raw=objects.pods())
def test_any_pod_is_a_whole_worker_or_none(raw: Json) -> None:
    pod = parse_worker_pod(raw)
    given_to = environment_of(pod)
    if "TPU_WORKER_ID" in given_to:
        names = given_to["TPU_WORKER_HOSTNAMES"].split(",")
        assert len(set(names)) == len(names) == max(1, pod.workers)
        assert 0 <= int(given_to["TPU_WORKER_ID"]) < len(names)
    if pod.template.is_known and given_to:
        assert pod.workers == pod.template.hosts
    own = {one.name: one.value for container in pod.template.containers for one in container.env}
    replaced = {"TPU_WORKER_ID": ("", "0"), "TPU_WORKER_HOSTNAMES": ("", "localhost")}
    for name in own.keys() & given_to.keys():
        assert own[name] in replaced[name]
    judge_pod(pod)
    notice_pod(pod)


@given(raw=objects.job_sets())
def test_slices_of_any_job_set_are_numbered_once_each(raw: Json) -> None:
    parsed = parse_worker_job_set(raw)
    judge_job_set(parsed)
    for group in {one.group for one in parsed.jobs}:
        seen: list[str] = []
        for one in parsed.jobs:
            if one.group == group and parsed.stamps(one):
                pods = (pod_of_job(job_of_set(raw, one.name, index), 0) for index in range(one.replicas))
                seen += [worker_environment(pod).get("MEGASCALE_SLICE_ID", "") for pod in pods]
        numbers = [int(number) for number in seen if number]
        assert len(set(numbers)) == len(numbers)
        assert all(number < len(seen) for number in numbers)


@given(raw=objects.jobs())
def test_any_job_is_judged(raw: Json) -> None:
    found = parse_worker_job({**raw, "metadata": {"name": "a"}})
    if judge_job(found) is None and found.stamps and found.template.is_known and not found.template.is_own:
        assert found.stamps == {WORKERS: str(found.template.hosts)}
    notice_job(found)


@given(raw=objects.stateful_sets())
def test_any_stateful_set_is_judged(raw: Json) -> None:
    found = parse_worker_set(raw)
    if judge_set(found) is None and found.stamps:
        assert found.stamps == {WORKERS: str(found.template.hosts)}
    notice_set(found)


def test_policies_are_those_of_the_table() -> None:
    for stage in STAGES:
        written = (FOLDER / f"{stage.name}.yaml").read_text(encoding="utf-8")
        assert written == render_file(stage), "run 'make policies'"
