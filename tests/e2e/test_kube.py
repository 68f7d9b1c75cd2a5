"""The reflector, the lease and the events against a real API server."""

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from accelet.control.lease import Election, Terms
from accelet.control.leaserecord import parse_lease
from accelet.kube.apiresources import CONFIG_MAPS, EVENTS, JOBS, LEASES, NODES, PODS, ApiResource, Body
from accelet.kube.client import Client
from accelet.kube.errors import (
    ConflictError,
    EndingError,
    ForbiddenError,
    GoneError,
    InvalidError,
    KubeError,
    NotFoundError,
)
from accelet.kube.nodes import Node, parse_node
from accelet.kube.podparser import parse_pod
from accelet.kube.pods import Pod
from accelet.kube.recording.eventlog import Message, Subject
from accelet.kube.recording.events import EventRecorder
from accelet.kube.watching.pace import Pace
from accelet.kube.watching.reflector import Reflector
from accelet.kube.watching.source import Scope
from accelet.kube.watching.store import Change
from tests.contract.apiserver import CHECKS, WIDGETS, Check, widget_definition
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.kubeconfig import Token, write_kubeconfig
from tests.e2e.cluster.waiting import wait_until
from tests.integration.kube.podpatches import PATCHES
from tests.integration.kube.waiting import eventually

SERVICE_ACCOUNTS = ApiResource("ServiceAccount", "serviceaccounts")
NAMESPACES = ApiResource("Namespace", "namespaces")
QUICK = Pace(first_s=0.05, most_s=1.0, healthy_s=1.0, watch_s=(2.0, 4.0))


@pytest.fixture
async def client(cluster: ControlPlane) -> AsyncIterator[Client]:
    client = await Client.connect(Path(cluster.kubeconfig), threads=4)
    yield client
    client.close()


async def default_account(client: Client, namespace: str) -> None:
    """Waits for the account without which no pod is admitted; a controller makes it."""
    async with asyncio.timeout(30):
        while True:
            try:
                await client.get(SERVICE_ACCOUNTS, namespace, "default")
            except NotFoundError:
                await asyncio.sleep(0.05)
            else:
                return


@pytest.fixture
async def namespace(client: Client) -> AsyncIterator[str]:
    name = f"kube-{random.randrange(1 << 32):08x}"
    await client.create(NAMESPACES, None, {"metadata": {"name": name}})
    await default_account(client, name)
    yield name
    await client.delete(NAMESPACES, None, name)


def gated_pod(name: str, **spec: Any) -> dict[str, Any]:
    """A pod that no scheduler touches."""
    limits = {"cpu": "1500m", "memory": "1.5Gi", "example.com/device": "2"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"run": name}},
        "spec": {
            "schedulingGates": [{"name": "example.com/wait"}],
            "automountServiceAccountToken": False,
            "containers": [{"name": "main", "image": "none", "resources": {"limits": limits}}],
            **spec,
        },
    }


async def names(client: Client, namespace: str) -> dict[str, str]:
    """Name to version, as the API server says now."""
    return {
        (pod := parse_pod(raw)).name: pod.resource_version
        async for page in client.list_pages(PODS, namespace)
        for raw in page.items
    }


def versions(reflector: Reflector[Pod]) -> dict[str, str]:
    return {pod.name: pod.resource_version for pod in reflector.store}


async def test_pod_is_read_as_the_api_server_defaults_it(client: Client, namespace: str) -> None:
    pod = parse_pod(await client.create(PODS, namespace, gated_pod("p")))
    assert pod.gates == ("example.com/wait",)
    (main,) = pod.containers
    assert main.requests == main.limits == {"cpu": 1.5, "memory": 3 << 29, "example.com/device": 2}
    assert abs(pod.created_s - time.time()) < 60
    assert (pod.phase, pod.node_name, pod.scheduler_name) == ("Pending", None, "default-scheduler")


async def test_errors_are_as_the_api_server_sends_them(client: Client, namespace: str) -> None:
    pod = parse_pod(await client.create(PODS, namespace, gated_pod("p")))
    with pytest.raises(NotFoundError):
        await client.get(PODS, namespace, "absent")
    with pytest.raises(ConflictError):
        await client.create(PODS, namespace, gated_pod("p"))
    with pytest.raises(InvalidError) as invalid:
        await client.patch(PODS, namespace, "p", {"spec": {"nodeName": "n"}}, "merge", dry_run=True)
    assert "spec" in str(invalid.value)
    failing_test = [{"op": "test", "path": "/metadata/uid", "value": "another"}]
    with pytest.raises(InvalidError):
        await client.patch(PODS, namespace, "p", failing_test, "json")
    with pytest.raises(ConflictError):
        await client.delete(PODS, namespace, "p", uid="another")
    lift: list[Body] = [
        {"op": "test", "path": "/metadata/uid", "value": pod.uid},
        {"op": "remove", "path": "/spec/schedulingGates/0"},
        {"op": "add", "path": "/spec/nodeSelector", "value": {"kubernetes.io/hostname": "nowhere"}},
    ]
    await client.patch(PODS, namespace, "p", lift, "json", dry_run=True)
    assert parse_pod(await client.get(PODS, namespace, "p")).gates
    assert not parse_pod(await client.patch(PODS, namespace, "p", lift, "json")).gates


@pytest.mark.parametrize(("name", "spec", "patch", "taken"), PATCHES, ids=[patch[0] for patch in PATCHES])
async def test_patches_of_gated_pods_are_judged_as_the_fake_server_judges(
    client: Client, namespace: str, *, name: str, spec: dict[str, Any], patch: dict[str, Any], taken: bool
) -> None:
    pod = {"metadata": {"name": name}, "spec": {**spec, "automountServiceAccountToken": False}}
    await client.create(PODS, namespace, pod)
    if taken:
        await client.patch(PODS, namespace, name, patch, "merge")
    else:
        with pytest.raises(InvalidError):
            await client.patch(PODS, namespace, name, patch, "merge")


@pytest.fixture(scope="module")
def widgets(cluster: ControlPlane) -> Iterator[None]:
    """The custom kind of the contract, served."""
    path, body = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", widget_definition()
    cluster.client.send("POST", path, body)
    wait_until("the custom kind is served", lambda: cluster.client.try_get(WIDGETS.path()), timeout_s=20)
    yield
    cluster.client.send("DELETE", f"{path}/{body['metadata']['name']}")


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.usefixtures("widgets")
async def test_contract_of_the_fake_server(client: Client, namespace: str, check: Check) -> None:
    await check(client, namespace)


async def test_a_namespace_that_ends_takes_changes_and_nothing_new_and_says_so(client: Client) -> None:
    name = f"ending-{random.randrange(1 << 32):08x}"
    await client.create(NAMESPACES, None, {"metadata": {"name": name}})
    kept = {"metadata": {"name": "kept", "finalizers": ["example.com/kept"]}}
    await client.create(CONFIG_MAPS, name, kept)
    await client.delete(NAMESPACES, None, name)

    async def is_refused() -> bool:
        try:
            await client.create(JOBS, name, _job("late"))
        except EndingError as error:
            return "because it is being terminated" in error.message
        return False

    async with asyncio.timeout(60):
        while not await is_refused():  # noqa: ASYNC110 - the API server is another process
            await asyncio.sleep(0.1)
    await client.patch(CONFIG_MAPS, name, "kept", {"data": {"still": "changed"}}, "merge")
    await client.patch(CONFIG_MAPS, name, "kept", {"metadata": {"finalizers": None}}, "merge")
    with pytest.raises(NotFoundError):
        await client.create(JOBS, f"{name}-never-made", _job("nowhere"))


def _job(name: str) -> dict[str, Any]:
    pods = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "none"}]}
    return {"metadata": {"generateName": f"{name}-"}, "spec": {"suspend": True, "template": {"spec": pods}}}


async def test_apply_and_subresources(client: Client, namespace: str) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "plan"}, "data": {"a": "1"}}
    await client.patch(CONFIG_MAPS, namespace, "plan", body, "apply")
    await client.patch(CONFIG_MAPS, namespace, "plan", {**body, "data": {"a": "2"}}, "apply")
    assert json.loads(await client.get(CONFIG_MAPS, namespace, "plan"))["data"] == {"a": "2"}
    await client.create(NODES, None, {"metadata": {"name": f"node-of-{namespace}"}})
    status = {"status": {"capacity": {"example.com/device": "8", "cpu": "7900m"}}}
    raw = await client.patch(NODES, None, f"node-of-{namespace}", status, "strategic", subresource="status")
    node: Node = parse_node(raw)
    assert node.capacity["example.com/device"] == 8
    await client.delete(NODES, None, node.name)


async def test_reflector_follows_through_churn_and_restarts(
    client: Client, namespace: str, cluster: ControlPlane
) -> None:
    changes: list[Change[Pod]] = []
    chance = random.Random(5)
    scope = Scope(PODS, namespace, page_size=7)
    failures: list[KubeError] = []
    reflector = Reflector(
        client, scope, parse_pod, changed=changes.append, failed=failures.append, pace=QUICK
    )
    task = asyncio.create_task(reflector.run())
    try:
        for number in range(20):
            await client.create(PODS, namespace, gated_pod(f"p{number:02}"))
        await asyncio.wait_for(reflector.synced(), 30)
        for step in range(120):
            name = f"p{chance.randrange(20):02}"
            there = name in await names(client, namespace) if step % 3 == 0 else None
            if there is False:
                await client.create(PODS, namespace, gated_pod(name))
            elif there:
                await client.delete(PODS, namespace, name)
            else:
                await label(client, namespace, name, str(step))
        truth = await names(client, namespace)
        await eventually(lambda: versions(reflector) == truth)
        await reflector.refresh()
        assert versions(reflector) == truth

        failures.clear()
        cluster.api_server.kill()
        await eventually(lambda: bool(failures), 30)
        await asyncio.to_thread(cluster.start_api_server)
        await client.create(PODS, namespace, gated_pod("after-restart"))
        truth = await names(client, namespace)
        await eventually(lambda: versions(reflector) == truth, 60)
        replayed: dict[str, Pod] = {}
        for change in changes:
            if change.after is None:
                del replayed[change.key[1]]
            else:
                replayed[change.key[1]] = change.after
        assert {name: pod.resource_version for name, pod in replayed.items()} == truth
    finally:
        task.cancel()


async def label(client: Client, namespace: str, name: str, value: str) -> None:
    try:
        await client.patch(PODS, namespace, name, {"metadata": {"labels": {"step": value}}}, "merge")
    except NotFoundError:
        return  # deleted a moment ago


async def test_watch_without_events_is_kept_current_by_bookmarks(client: Client, namespace: str) -> None:
    """They come about once a minute, if something of the resource has changed anywhere in the cluster."""
    reflector = Reflector(client, Scope(PODS, field_selector="spec.nodeName=nowhere"), parse_pod)
    task = asyncio.create_task(reflector.run())
    try:
        await asyncio.wait_for(reflector.synced(), 30)
        created = parse_pod(await client.create(PODS, namespace, gated_pod("elsewhere")))
        version = int(created.resource_version)
        await eventually(lambda: int(reflector.store.resource_version) >= version, 100)
        assert len(reflector.store) == 0
    finally:
        task.cancel()


async def test_list_from_the_cache_comes_in_pages(client: Client, namespace: str) -> None:
    """At any version but 0, of which it comes in one piece."""
    for name in ("a", "b", "c"):
        last = parse_pod(await client.create(PODS, namespace, gated_pod(name)))
    fresh = {"resourceVersion": last.resource_version, "resourceVersionMatch": "NotOlderThan"}
    assert len((await client.list_page(PODS, namespace, fresh)).items) == 3
    pages = client.list_pages(PODS, namespace, {**fresh, "resourceVersion": "1"}, 2)
    assert [len(page.items) async for page in pages] == [2, 1]
    pages = client.list_pages(PODS, namespace, {"resourceVersion": "0"}, 2)
    assert [len(page.items) async for page in pages] == [3]


async def test_refresh_compares_first(client: Client, namespace: str) -> None:
    for name in ("same", "changed", "gone"):
        await client.create(PODS, namespace, gated_pod(name))
    reflector = Reflector(client, Scope(PODS, namespace, compares_first=True), parse_pod)
    task = asyncio.create_task(reflector.run())
    try:
        await asyncio.wait_for(reflector.synced(), 30)
        await label(client, namespace, "changed", "new")
        await client.delete(PODS, namespace, "gone")
        await client.create(PODS, namespace, gated_pod("new"))
        truth = await names(client, namespace)
        await reflector.refresh()
        assert versions(reflector) == truth
    finally:
        task.cancel()


async def test_version_that_is_too_old_is_gone(client: Client, namespace: str) -> None:
    async def follow() -> None:
        async with client.watch(PODS, namespace, {"resourceVersion": "1", "timeoutSeconds": "5"}) as watch:
            async for lines in watch:
                for line in lines:
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        assert event["object"]["code"] == 410
                        raise GoneError("watch", 410, "Expired", "")

    with pytest.raises(GoneError):
        await follow()


async def test_leadership_passes_on(client: Client, namespace: str) -> None:
    terms = Terms(duration_s=3, renew_within_s=2.0, retry_s=0.2)
    leading: list[str] = []

    async def lead(name: str) -> None:
        leading.append(name)
        try:
            await asyncio.Event().wait()
        finally:
            leading.remove(name)

    tasks = {
        name: asyncio.create_task(
            Election(client, namespace, "accelet", name, terms=terms).run(partial(lead, name))
        )
        for name in ("a", "b", "c")
    }
    for remaining in (3, 2, 1):
        await eventually(lambda: len(leading) == 1)
        (leader,) = leading
        record = parse_lease(await client.get(LEASES, namespace, "accelet"))
        assert (record.holder, record.transitions) == (leader, 3 - remaining)
        task = tasks.pop(leader)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def sent(recorder: EventRecorder, number: int) -> bool:
    return recorder.sent == number


async def test_events_are_accepted_and_counted(client: Client, namespace: str) -> None:
    pod = parse_pod(await client.create(PODS, namespace, gated_pod("p")))
    recorder = EventRecorder(client, "accelet.dev/agent", "accelet-test")
    task = asyncio.create_task(recorder.run())
    long = Message(Subject.of_pod(pod), "Warning", "Refused", "Allocate", "ä" * 5000)
    node = Message(Subject("Node", "n" * 253), "Normal", "Listed", "Scan", "8 devices")
    for number in range(1, 4):
        recorder.record(long)
        await eventually(partial(sent, recorder, number))
    recorder.record(node)
    await eventually(lambda: recorder.sent == 4)
    page = await client.list_page(EVENTS, namespace)
    (event,) = [json.loads(bytes(raw)) for raw in page.items]
    assert event["series"]["count"] == 3
    assert event["regarding"]["name"] == "p"
    assert recorder.dropped == 0
    task.cancel()


async def test_what_rbac_forbids_is_forbidden(
    client: Client, cluster: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    account = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
    await eventually(lambda: bool(cluster.client.try_get(account)), 30)
    answer = json.loads(await client._send("POST", f"{account}/token", body={"spec": {}}))
    path = write_kubeconfig(
        tmp_path / "kubeconfig",
        server=cluster.url,
        ca=cluster.authority.keys.certificate,
        credentials=Token(answer["status"]["token"]),
    )
    nobody = await Client.connect(path)
    with pytest.raises(ForbiddenError, match="cannot list resource"):
        await nobody.list_page(PODS, namespace)
    nobody.close()
