"""The scheduler on a real control plane: gangs on 50 simulated nodes, bound by kube-scheduler as planned."""

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from accelet.kube.apiresources import (
    CONFIG_MAPS,
    EVENTS,
    JOBS,
    LEASES,
    NODES,
    PODS,
    ApiResource,
    eviction_of,
)
from accelet.kube.client import Client
from accelet.kube.errors import ForbiddenError, NotFoundError
from accelet.kube.nodes import parse_node
from accelet.kube.podparser import parse_pod
from accelet.kube.pods import Pod
from accelet.kube.selection import HOSTNAME
from accelet.scheduler.cluster.topology import Scheme
from accelet.scheduler.gangs.grouping import EXCLUSIVE, GATE_PREFIX
from accelet.scheduler.gangs.levels import REQUIRED_LEVEL
from accelet.scheduler.gangs.rankslices import SLICE_LEVEL, SLICE_SIZE
from accelet.scheduler.release import is_refused
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.https_client import RefusedError
from tests.e2e.cluster.kubeconfig import Token, write_kubeconfig
from tests.e2e.shipped_kinds import RESOURCES

NAMESPACES = ApiResource("Namespace", "namespaces")
GPU = "example.com/gpu"
BLOCKS, SUBBLOCKS, HOSTS = 2, 5, 5
_LABELS = Scheme().label_sets[0]
_MANIFESTS = Path(__file__).parents[2] / "deploy" / "scheduler.yaml"
_PREEMPTION = Path(__file__).parents[2] / "deploy" / "preemption.yaml"
_CLASSES = ApiResource("PriorityClass", "priorityclasses", "scheduling.k8s.io")
Where = Mapping[str, tuple[str, ...]]


@pytest.fixture
async def client(cluster: ControlPlane) -> AsyncIterator[Client]:
    client = await Client.connect(Path(cluster.kubeconfig), threads=8)
    yield client
    client.close()


@pytest.fixture
async def nodes(client: Client) -> AsyncIterator[Where]:
    """The place of each of 50 nodes of 8 GPUs, which nobody runs anything on but which are well."""
    run = f"{time.time_ns():x}"
    places = {
        f"sim-{run}-{b}-{s}-{h}": (f"{run}-b{b}", f"s{b}{s}", f"h{b}{s}{h}")
        for b in range(BLOCKS)
        for s in range(SUBBLOCKS)
        for h in range(HOSTS)
    }
    await asyncio.gather(*(_make_node(client, name, place) for name, place in places.items()))
    beating = asyncio.create_task(_beat(client, list(places)))
    yield places
    beating.cancel()
    await asyncio.gather(beating, return_exceptions=True)
    await asyncio.gather(*(client.delete(NODES, None, name) for name in places))


async def _beat(client: Client, names: Sequence[str]) -> None:
    """Says of each node, as its kubelet would, that it is alive."""
    while True:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        for name in names:
            lease = {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": name},
                "spec": {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": now},
            }
            await client.patch(LEASES, "kube-node-lease", name, lease, "apply")
        await asyncio.sleep(10)


@pytest.fixture
async def kubeconfig(cluster: ControlPlane, client: Client, tmp_path: Path) -> Path:
    """That of the account, and with no more than the rights, which deploy/scheduler.yaml gives.

    What it applies stays in the cluster: modules that must not find it run before, by their names.
    """
    for manifest in yaml.safe_load_all(_MANIFESTS.read_text()):
        resource, name = RESOURCES[manifest["kind"]], manifest["metadata"]["name"]
        namespace = manifest["metadata"].get("namespace")
        # There is no image here for the Deployment to run: it is only judged.
        await client.patch(
            resource, namespace, name, manifest, "apply", dry_run=manifest["kind"] == "Deployment"
        )
    path = "/api/v1/namespaces/kube-system/serviceaccounts/accelet-scheduler/token"
    answer = json.loads(cluster.client.send("POST", path, {"spec": {}}))
    ca = cluster.authority.keys.certificate
    token = Token(answer["status"]["token"])
    return write_kubeconfig(tmp_path / "kubeconfig", server=cluster.url, ca=ca, credentials=token)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "scheduler.log"


@pytest.fixture
async def namespace(client: Client) -> AsyncIterator[str]:
    name = f"gangs-{time.time_ns():x}"
    await client.create(NAMESPACES, None, {"metadata": {"name": name}})
    await until(lambda: _exists(client, ApiResource("ServiceAccount", "serviceaccounts"), name, "default"))
    yield name
    await client.delete(NAMESPACES, None, name)


async def _make_node(client: Client, name: str, place: Sequence[str]) -> None:
    labels = {HOSTNAME: name, **dict(zip(_LABELS, place, strict=True))}
    await client.create(NODES, None, {"metadata": {"name": name, "labels": labels}})
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    resources = {"cpu": "64", "memory": "256Gi", "pods": "110", GPU: "8"}
    ready = {"type": "Ready", "status": "True", "reason": "Simulated", "lastHeartbeatTime": now}
    status = {"capacity": resources, "allocatable": resources, "conditions": [ready]}
    await client.patch(NODES, None, name, {"status": status}, "strategic", subresource="status")


def gang_job(name: str, pods: int, gpus: int, **annotations: str) -> dict[str, Any]:
    resources = {"limits": {GPU: str(gpus), "cpu": "100m"}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "parallelism": pods,
            "completions": pods,
            "completionMode": "Indexed",
            "template": {
                "metadata": {"annotations": annotations},
                "spec": {
                    "restartPolicy": "Never",
                    "schedulingGates": [{"name": f"{GATE_PREFIX}{name}"}],
                    "containers": [{"name": "main", "image": "none", "resources": resources}],
                },
            },
        },
    }


async def _pods(client: Client, namespace: str, job: str) -> list[Pod]:
    """A job's pods by rank."""
    query = {"labelSelector": f"job-name={job}"}
    pods = [
        parse_pod(raw) async for page in client.list_pages(PODS, namespace, query, None) for raw in page.items
    ]
    return sorted(pods, key=lambda pod: int(pod.labels["batch.kubernetes.io/job-completion-index"]))


async def _exists(client: Client, resource: ApiResource, namespace: str, name: str) -> bool:
    try:
        await client.get(resource, namespace, name)
    except NotFoundError:
        return False
    return True


async def until(condition: Any, within_s: float = 60.0) -> None:
    async with asyncio.timeout(within_s):
        while not await condition():  # noqa: ASYNC110 - the API server is another process
            await asyncio.sleep(0.05)


@asynccontextmanager
async def running_scheduler(
    kubeconfig: Path, log: Path, config: Path | None = None
) -> AsyncIterator[asyncio.subprocess.Process]:
    """A replica, as a process of its own."""
    with log.open("ab") as out:
        process = await asyncio.create_subprocess_exec(
            *(
                Path(sys.executable).with_name("accelet"),
                "scheduler",
                "--kubeconfig",
                str(kubeconfig),
                *(("--config", str(config)) if config else ()),
            ),
            stdout=out,
            stderr=out,
        )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def _is_bound(client: Client, namespace: str, job: str, count: int) -> bool:
    pods = await _pods(client, namespace, job)
    return len(pods) == count and all(pod.node_name for pod in pods)


def _apart_from(**labels: str) -> dict[str, Any]:
    """An affinity that keeps a pod from the nodes of those with these labels."""
    term = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": labels}}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def _ruled_jobs() -> dict[str, dict[str, Any]]:
    """Jobs whose pods kube-scheduler lets share no node, each by a rule of its own."""
    jobs = {name: gang_job(name, 6, 1) for name in ("ported", "shy")}
    spec = jobs["ported"]["spec"]["template"]["spec"]
    spec["containers"][0]["ports"] = [{"containerPort": 29500, "hostPort": 29500}]
    jobs["shy"]["spec"]["template"]["spec"]["affinity"] = _apart_from(**{"job-name": "shy"})
    return jobs


async def test_gangs_are_bound_where_they_were_planned(
    kubeconfig: Path, client: Client, nodes: Where, namespace: str, log: Path
) -> None:
    planned: dict[str, str] = {}
    jobs = {
        "whole": gang_job("whole", 5, 8, **{REQUIRED_LEVEL: "subblock"}),
        "shared": gang_job("shared", 24, 2),
        "apart": gang_job("apart", 7, 1, **{EXCLUSIVE: "true"}),
        "sliced": gang_job("sliced", 6, 2, **{SLICE_SIZE: "3", SLICE_LEVEL: "host"}),
        **_ruled_jobs(),
    }
    async with running_scheduler(kubeconfig, log):
        for name, job in jobs.items():  # one after the other: how many nodes one gets depends on who is there
            await client.create(JOBS, namespace, job)
            count = job["spec"]["parallelism"]
            await until(lambda n=name, c=count: _is_bound(client, namespace, n, c))
            for pod in await _pods(client, namespace, name):
                (term,) = pod.required_terms or ()
                planned[pod.name] = term.fields[0].values[0]
                assert pod.node_name == planned[pod.name]
        assert len({nodes[pod.node_name or ""][1] for pod in await _pods(client, namespace, "whole")}) == 1
        assert len({pod.node_name for pod in await _pods(client, namespace, "shared")}) == 6
        sliced = [pod.node_name for pod in await _pods(client, namespace, "sliced")]
        assert sliced == [sliced[0]] * 3 + [sliced[3]] * 3, "four would fit on a node"
        for name, count in (("apart", 7), ("ported", 6), ("shy", 6)):
            assert len({pod.node_name for pod in await _pods(client, namespace, name)}) == count
        await until(lambda: _has_no_plans(client, namespace))
        await until(lambda: _is_noted(client, namespace, "5 pods on 5 nodes, distance 400, optimal"))


async def _is_noted(client: Client, namespace: str, note: str) -> bool:
    """Whether an Event says so: they are sent one after the other, later than what they tell."""
    page = await client.list_page(EVENTS, namespace)
    return any(json.loads(bytes(raw)).get("note") == note for raw in page.items)


async def _has_no_plans(client: Client, namespace: str) -> bool:
    page = await client.list_page(CONFIG_MAPS, namespace, {"labelSelector": "accelet.dev/placement-plan=v1"})
    return not page.items


@pytest.mark.usefixtures("nodes")
async def test_two_hundred_pods_are_released_soon_after_the_last_is_created(
    kubeconfig: Path, client: Client, namespace: str, log: Path, say: Any
) -> None:
    async with running_scheduler(kubeconfig, log):
        await client.create(JOBS, namespace, gang_job("warm", 1, 1))
        await until(lambda: _is_bound(client, namespace, "warm", 1))
        await client.create(JOBS, namespace, gang_job("large", 200, 1))
        created_s, released_s = await _times(client, namespace, "large", 200)
    say(f"200 pods: {released_s - created_s:.2f} s from the last one created to the last gate lifted")
    assert released_s - created_s < 10, "3 s on two idle cores"


async def _times(client: Client, namespace: str, job: str, count: int) -> tuple[float, float]:
    """When the last pod was seen created, and when the last gate was seen lifted."""
    created: set[str] = set()
    lifted: set[str] = set()
    created_s = lifted_s = 0.0
    query = {"labelSelector": f"job-name={job}"}
    async with asyncio.timeout(90):
        while len(lifted) < count:
            # The API server ends a watch that is read too slowly; the next one begins with what is there.
            async with client.watch(PODS, namespace, query) as watch:
                async for line in (line async for lines in watch for line in lines):
                    event = json.loads(line)
                    if event["type"] == "BOOKMARK":
                        continue
                    name = event["object"]["metadata"]["name"]
                    gates = event["object"]["spec"].get("schedulingGates")
                    if name not in created:
                        created.add(name)
                        created_s = time.monotonic()
                    if not gates and name not in lifted:
                        lifted.add(name)
                        lifted_s = time.monotonic()
                    if len(lifted) == count:
                        break
    return created_s, lifted_s


@pytest.mark.usefixtures("nodes")
async def test_a_killed_replica_leaves_nothing_half_done(
    kubeconfig: Path, client: Client, namespace: str, log: Path
) -> None:
    async with running_scheduler(kubeconfig, log) as first:
        await client.create(JOBS, namespace, gang_job("warm", 1, 1))
        await until(lambda: _is_bound(client, namespace, "warm", 1))
        await client.create(JOBS, namespace, gang_job("train", 150, 2))

        async def is_under_way() -> bool:
            pods = await _pods(client, namespace, "train")
            return any(not pod.gates for pod in pods)

        await until(is_under_way)
        first.kill()
        await first.wait()
    began_s = time.monotonic()
    async with running_scheduler(kubeconfig, log):
        await until(lambda: _is_bound(client, namespace, "train", 150))
    assert time.monotonic() - began_s < 20


_FORGIVING = {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]}


@pytest.fixture
async def may_preempt(kubeconfig: Path, client: Client, tmp_path: Path) -> AsyncIterator[Path]:
    """A configuration with preemption, which the account of `kubeconfig` has the rights for."""
    manifests = list(yaml.safe_load_all(_PREEMPTION.read_text()))
    for manifest in manifests:
        resource = RESOURCES[manifest["kind"]]
        await client.patch(resource, None, manifest["metadata"]["name"], manifest, "apply")
    config = tmp_path / "preemption.yaml"
    config.write_text("version: v1\npreemption: {gangs: true}\n")
    yield config
    for manifest in manifests:
        await client.delete(RESOURCES[manifest["kind"]], None, manifest["metadata"]["name"])


@pytest.fixture
async def priorities(client: Client) -> AsyncIterator[Mapping[int, str]]:
    """The names of classes of these priorities."""
    names = {value: f"gangs-{time.time_ns():x}-{value}" for value in (10, 20, 1000)}
    for value, name in names.items():
        await client.create(_CLASSES, None, {"metadata": {"name": name}, "value": value})
    yield names
    for name in names.values():
        await client.delete(_CLASSES, None, name)


async def _end(cluster: ControlPlane, client: Client, namespace: str, job: str) -> None:
    """Ends the pods of a job that are to end, as the kubelets of their nodes would."""
    for pod in await _pods(client, namespace, job):
        if pod.deleted_s is not None and pod.node_name:
            status = {"status": {"phase": "Failed"}}
            path = PODS.path(namespace, pod.name)
            with suppress(NotFoundError, RefusedError):  # the garbage collector was quicker
                await client.patch(PODS, namespace, pod.name, status, "strategic", subresource="status")
                await asyncio.to_thread(cluster.client.send, "DELETE", path, {"gracePeriodSeconds": 0})


async def _cannot_evict_by_name(kubeconfig: Path, namespace: str, pod: Pod) -> None:
    """The account's policy has it say which pod of this name it means."""
    account = await Client.connect(kubeconfig)
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod.name}}
    with pytest.raises(ForbiddenError, match="that it knows by its UID"):
        await account.create(eviction_of(pod.name), namespace, eviction)
    account.close()


async def test_a_gang_of_high_priority_gets_the_room_of_the_lowest_though_its_scheduler_was_killed(
    *,
    may_preempt: Path,
    kubeconfig: Path,
    cluster: ControlPlane,
    client: Client,
    nodes: Where,
    namespace: str,
    log: Path,
    priorities: Mapping[int, str],
) -> None:
    jobs = {"low": (20, 20), "lowest": (10, len(nodes) - 20), "high": (1000, 25)}
    manifests = {name: gang_job(name, count, 8) for name, (_, count) in jobs.items()}
    for name, (priority, _) in jobs.items():
        template = manifests[name]["spec"]["template"]["spec"]
        template["priorityClassName"] = priorities[priority]
        manifests[name]["spec"]["podFailurePolicy"] = _FORGIVING
    async with running_scheduler(kubeconfig, log, may_preempt) as first:
        for name in ("low", "lowest"):
            await client.create(JOBS, namespace, manifests[name])
            await until(lambda n=name: _is_bound(client, namespace, n, jobs[n][1]))
        await until(lambda: _has_no_plans(client, namespace))
        kept = {pod.uid for pod in await _pods(client, namespace, "low")}
        given = {pod.node_name for pod in await _pods(client, namespace, "lowest")}
        await _cannot_evict_by_name(kubeconfig, namespace, (await _pods(client, namespace, "low"))[0])
        await client.create(JOBS, namespace, manifests["high"])

        async def is_evicting() -> bool:
            return any(pod.deleted_s is not None for pod in await _pods(client, namespace, "lowest"))

        await until(is_evicting)
        first.kill()
        await first.wait()
    assert all(pod.gates for pod in await _pods(client, namespace, "high"))
    async with running_scheduler(kubeconfig, log, may_preempt):

        async def is_in() -> bool:
            await _end(cluster, client, namespace, "lowest")
            return await _is_bound(client, namespace, "high", 25)

        await until(is_in)
        await until(lambda: _has_no_plans(client, namespace))
    assert {pod.node_name for pod in await _pods(client, namespace, "high")} <= given
    assert {pod.uid for pod in await _pods(client, namespace, "low")} == kept
    assert all(pod.gates for pod in await _pods(client, namespace, "lowest") if not pod.is_terminal)


def _shy_job(name: str, **spec: Any) -> dict[str, Any]:
    """A Job that may fail no pod, and whose one pod cannot be beside a neighbour."""
    job = gang_job(name, 1, 2)
    job["spec"] |= {"backoffLimit": 0, **spec}
    job["spec"]["template"]["spec"]["affinity"] = _apart_from(**{"is": "neighbour"})
    return job


async def test_a_pod_that_kube_scheduler_refuses_is_evicted_only_where_that_costs_its_job_nothing(
    kubeconfig: Path, client: Client, nodes: Where, namespace: str, log: Path
) -> None:
    where = min(nodes)
    container = {"name": "main", "image": "none", "resources": {"limits": {GPU: "6"}}}
    neighbour = {
        "metadata": {"name": "neighbour", "labels": {"is": "neighbour"}},
        "spec": {"nodeName": where, "containers": [container]},
    }
    await client.create(PODS, namespace, neighbour)
    config = log.with_name("config.yaml")
    config.write_text("version: v1\nstranded_after_s: 2\n")
    await until(lambda: _are_open(client, nodes))
    async with running_scheduler(kubeconfig, log, config):
        # The fullest node that has room is the neighbour's.
        await client.create(JOBS, namespace, _shy_job("forgiving", podFailurePolicy=_FORGIVING))
        await until(lambda: _is_bound(client, namespace, "forgiving", 1), within_s=120)
        await client.create(JOBS, namespace, _shy_job("strict"))
        await until(lambda: _is_told(client, namespace, "strict", "Unbound"))
        (moved,) = await _pods(client, namespace, "forgiving")
        (stays,) = await _pods(client, namespace, "strict")
        assert moved.node_name != where
        assert (stays.node_name, stays.gates, stays.deleted_s) == (None, (), None)
        for name in ("forgiving", "strict"):
            status = json.loads(await client.get(JOBS, namespace, name))["status"]
            assert not [one for one in status.get("conditions", []) if one["type"] == "Failed"]
            assert status.get("failed", 0) == 0


def _pinned_and_spread(name: str, node: str, policy: str) -> dict[str, Any]:
    """A pod as it is released, that is to be on another node than those of its own kind."""
    pin = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [pin]}}
    labels = {"spread": policy}
    constraint = {
        "maxSkew": 1,
        "topologyKey": HOSTNAME,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": labels},
        "nodeAffinityPolicy": policy,
    }
    container = {"name": "main", "image": "none", "resources": {"limits": {"cpu": "100m"}}}
    spec = {
        "containers": [container],
        "affinity": {"nodeAffinity": required},
        "topologySpreadConstraints": [constraint],
    }
    return {"metadata": {"name": name, "labels": labels}, "spec": spec}


async def test_kube_scheduler_spreads_pinned_pods_only_where_the_constraint_ignores_node_affinity(
    client: Client, nodes: Where, namespace: str
) -> None:
    """What docs/scheduler.md says of topology spread follows from that."""
    await until(lambda: _are_open(client, nodes))
    for policy in ("Honor", "Ignore"):
        for number in range(2):
            pod = _pinned_and_spread(f"{policy.lower()}-{number}", min(nodes), policy)
            await client.create(PODS, namespace, pod)

    async def bound_and_refused(policy: str) -> tuple[int, int]:
        page = await client.list_page(PODS, namespace, {"labelSelector": f"spread={policy}"})
        pods = [parse_pod(raw) for raw in page.items]
        return sum(pod.node_name is not None for pod in pods), sum(map(is_refused, pods))

    async def are_settled() -> bool:
        found = [await bound_and_refused(policy) for policy in ("Honor", "Ignore")]
        return all(bound + refused == 2 for bound, refused in found)

    await until(are_settled)
    assert await bound_and_refused("Honor") == (2, 0)
    assert await bound_and_refused("Ignore") == (1, 1)


async def _are_open(client: Client, names: Iterable[str]) -> bool:
    """Whether the taint that the API server gives each new Node, that it is not ready, is gone from all."""
    page = await client.list_page(NODES, None)
    nodes = [parse_node(raw) for raw in page.items]
    return {node.name for node in nodes if not node.taints} >= set(names)


async def _is_told(client: Client, namespace: str, job: str, reason: str) -> bool:
    return any(one["reason"] == reason for one in await _events_of(client, namespace, job))


async def is_said(client: Client, namespace: str, job: str, sentence: str) -> bool:
    """Whether an Event of a Job has these words."""
    return any(sentence in one.get("note", "") for one in await _events_of(client, namespace, job))


async def _events_of(client: Client, namespace: str, job: str) -> list[dict[str, Any]]:
    page = await client.list_page(EVENTS, namespace)
    events = [json.loads(bytes(raw)) for raw in page.items]
    return [one for one in events if one["regarding"]["name"] == job]


async def label(client: Client, node: str, labels: Mapping[str, str]) -> None:
    await client.patch(NODES, None, node, {"metadata": {"labels": dict(labels)}}, "merge")
