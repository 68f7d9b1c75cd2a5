"""What the Node's labels change for TPUs, between an API server, the agent and a kubelet."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from accelet.agent.process import Agent
from accelet.fakeapi import Answer, FakeApi, Fault, Hang
from accelet.fakehost.tpu import HOSTS
from accelet.fakekubelet import FakeKubelet, a_pod
from accelet.node.apiconnection import ApiConnection
from accelet.node.ownnode import OwnNode
from tests.fakes.manifests import raw_node
from tests.integration.agent.running import agent, until, write_config

TPU = "google.com/tpu"
NODES = "api/v1/nodes"
EVENTS = "apis/events.k8s.io/v1/events"
OF_A_SLICE = {"cloud.google.com/gke-tpu-topology": "4x8"}
OF_FOUR_CHIPS = {"tpu.google.com/chip-count": "4"}


@pytest.fixture
def api() -> Iterator[FakeApi]:
    with FakeApi() as server:
        yield server


def make_node(api: FakeApi, labels: Mapping[str, str]) -> None:
    api.state.create(NODES, "", raw_node(labels=labels))


def relabel(api: FakeApi, labels: Mapping[str, str]) -> None:
    api.state.patch(NODES, ("", "node"), "merge-patch", {"metadata": {"labels": dict(labels)}})


def events(api: FakeApi) -> list[Any]:
    return list(api.state.collection(EVENTS).objects.values())


@asynccontextmanager
async def serving(
    folder: Path, api: FakeApi, settings: str = ", node_labels: true"
) -> AsyncIterator[tuple[FakeKubelet, Agent]]:
    HOSTS["v5e-8"].write(folder)
    config = write_config(folder, f"- {{name: {TPU}, backend: tpu{settings}}}\n")
    kubeconfig = api.write_kubeconfig(folder / "kubeconfig")
    async with FakeKubelet(folder) as kubelet, agent(folder, config, kubeconfig) as running:
        tpu = await kubelet.registered(TPU)
        await tpu.devices(healthy=8)
        yield kubelet, running


async def topology_given(kubelet: FakeKubelet) -> str:
    pod = await kubelet.admit(a_pod("whole", limits={TPU: 8}))
    return pod["main"].options.envs["TPU_TOPOLOGY"]


def sample(running: Agent, name: str, **labels: str) -> float | None:
    return running.metrics.registry.get_sample_value(name, labels)


async def test_labels_tell_the_slice_from_the_first_container_on(folder: Path, api: FakeApi) -> None:
    make_node(api, OF_A_SLICE)
    async with serving(folder, api) as (kubelet, running):
        assert await topology_given(kubelet) == "4x8"
        assert sample(running, "accelet_discovery_warnings", resource=TPU) == 0
    assert events(api) == []


async def test_without_the_setting_nobody_is_asked(folder: Path, api: FakeApi) -> None:
    make_node(api, OF_A_SLICE)
    async with serving(folder, api, "") as (kubelet, _):
        assert await topology_given(kubelet) == "2x4"
    assert api.seen == []


async def test_labels_that_disagree_are_one_event_and_a_metric_and_harm_no_chip(
    folder: Path, api: FakeApi
) -> None:
    make_node(api, OF_FOUR_CHIPS)
    async with serving(folder, api) as (kubelet, running):
        await until(lambda: len(events(api)) == 1)
        assert sample(running, "accelet_discovery_warnings", resource=TPU) == 1
        assert sample(running, "accelet_devices", resource=TPU, health="Healthy") == 8
        assert await topology_given(kubelet) == "2x4"

    (event,) = events(api)
    assert (event["regarding"]["kind"], event["regarding"]["name"]) == ("Node", "node")
    assert (event["type"], event["reason"]) == ("Warning", "HardwareContradiction")
    assert event["metadata"]["namespace"] == "default"
    assert event["note"] == f"{TPU}: a label of the Node gives this host 4 chips, 8 were found"


@pytest.mark.parametrize(
    "action",
    [
        pytest.param(Answer(403, "Forbidden"), id="forbidden"),
        pytest.param(Answer(503), id="overloaded"),
        # A server that says nothing is given up after half a minute.
        pytest.param(Hang(), id="silent", marks=pytest.mark.thorough),
    ],
)
async def test_chips_are_served_with_their_slice_however_late_the_labels_are(
    folder: Path, api: FakeApi, action: Answer | Hang
) -> None:
    make_node(api, OF_A_SLICE)
    fault = Fault(action, path="/nodes/", times=1000)
    api.faults.append(fault)
    HOSTS["v5e-8"].write(folder)
    config = write_config(folder, f"- {{name: {TPU}, backend: tpu, node_labels: true}}\n")
    kubeconfig = api.write_kubeconfig(folder / "kubeconfig")
    async with FakeKubelet(folder) as kubelet, agent(folder, config, kubeconfig) as running:
        await until(lambda: api.count(path="/nodes/") > 0)
        assert [(check.is_ok, check.detail) for check in running.readiness() if check.name == TPU] == [
            (False, "the labels of its Node were not read yet")
        ]
        assert kubelet.resource(TPU).registrations == 0
        api.faults.remove(fault)
        await (await kubelet.registered(TPU, timeout_s=60)).devices(healthy=8)
        assert await topology_given(kubelet) == "4x8"


async def test_without_a_way_to_an_api_server_chips_wait_and_that_is_said(folder: Path) -> None:
    HOSTS["v5e-8"].write(folder)
    config = write_config(folder, f"- {{name: {TPU}, backend: tpu, node_labels: true}}\n")
    async with FakeKubelet(folder), agent(folder, config, folder / "no-such-file") as running:
        await until(lambda: sample(running, "accelet_node_read_failures_total") == 1)
        (check,) = [check for check in running.readiness() if check.name == TPU]
        assert (check.is_ok, check.detail) == (False, "the labels of its Node were not read yet")


@asynccontextmanager
async def knowing(
    folder: Path, api: FakeApi, *, labels_changed: Callable[[], None] = lambda: None
) -> AsyncIterator[tuple[OwnNode, list[int]]]:
    """The Node read all the time, and the failures to read it."""
    failures: list[int] = []
    connection = ApiConnection(api.write_kubeconfig(folder / "kubeconfig"))
    node = OwnNode(
        "node",
        connection,
        labels_changed=labels_changed,
        failed=lambda: failures.append(len(failures)),
        read_s=0.05,
    )
    running = asyncio.create_task(node.run())
    try:
        yield node, failures
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        connection.close()


async def test_labels_are_read_again_and_stay_known_while_nobody_answers(folder: Path, api: FakeApi) -> None:
    make_node(api, OF_A_SLICE)
    changes: list[None] = []
    async with knowing(folder, api, labels_changed=lambda: changes.append(None)) as (node, failures):
        await until(lambda: node.labels == OF_A_SLICE)
        fault = Fault(Answer(403, "Forbidden"), path="/nodes/", times=1000)
        api.faults.append(fault)
        await until(lambda: len(failures) > 2)
        assert node.labels == OF_A_SLICE
        api.faults.remove(fault)
        relabel(api, OF_FOUR_CHIPS)
        await until(lambda: node.labels == OF_A_SLICE | OF_FOUR_CHIPS)
        assert len(changes) == 2


async def test_event_is_counted_up_while_its_cause_lasts_and_no_longer(folder: Path, api: FakeApi) -> None:
    make_node(api, {})
    async with knowing(folder, api) as (node, _):
        node.report(TPU, ["two sources disagree"])
        await until(lambda: [each.get("series", {}).get("count", 1) >= 3 for each in events(api)] == [True])
        node.report(TPU, [])
        asked = api.count(path="/nodes/")
        await until(lambda: api.count(path="/nodes/") > asked + 1)
        sent = api.count(path="/events")
        await until(lambda: api.count(path="/nodes/") > asked + 4)
        assert api.count(path="/events") <= sent + 1
    assert len(events(api)) == 1
