"""A hundred pods of each of four kinds at once: every container's own view is what it was assigned."""

import json
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random

import pytest

from resourcemanager.matching.caller import GETS_BEFORE_READ
from tests.e2e.agent import wait_for_allocatable
from tests.e2e.assigned_pods import KINDS, LABEL, STAY, VIEW, AssignedPod, draw_pod, read_view
from tests.e2e.assigning_agent import (
    GPU,
    SHARES,
    AssigningAgent,
    assigning_agent,
    project_environment,
    write_cards_config,
)
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.https_client import Json
from tests.e2e.cluster.images import BUSYBOX_IMAGE
from tests.e2e.cluster.node import Node
from tests.e2e.cluster.node_namespace import NodeProcess
from tests.e2e.cluster.waiting import wait_until
from tests.e2e.cluster.workloads import Workloads
from tests.e2e.standstill import seen_standstill
from tests.integration.identity.storm import CARDS, wanted_view
from tests.integration.identity.world import gas

PODS = int(os.environ.get("ACCELET_E2E_PODS", "100"))
COLLECTION = "/api/v1/namespaces/default/pods"
GETS_A_MATCH = 1.1
"""Podresources allows 100 calls a second to all its clients, and a storm needs most of them."""

LATE_S = 0.5
"""A standstill so long is a good part of the 2 s that the agent has to answer."""
MOSTLY = 0.7

LENIENT = ("on_mismatch: lenient", "on_unproven: default")
"""As the original: whoever is not found, or gets other cards, gets whole cards."""

Say = Callable[[str], None]

pytestmark = pytest.mark.timeout(1800)


@dataclass
class Outcome:
    """What became of the containers with an assignment; `others` are those that are not right, in words."""

    counts: Counter[str] = field(default_factory=Counter)
    others: list[str] = field(default_factory=list)
    allocate_ms: float = 0.0


@pytest.fixture
def agent(cluster: ControlPlane, node: Node, tmp_path: Path) -> Iterator[AssigningAgent]:
    with assigning_agent(cluster, node, tmp_path) as agent:
        yield agent


@pytest.fixture
def original(cluster: ControlPlane, node: Node, tmp_path: Path) -> Iterator[NodeProcess]:
    """An agent with the original's rule in the matching's place."""
    config = write_cards_config(tmp_path / "original.yaml", options=LENIENT)
    words: list[str | Path] = [
        sys.executable,
        "-m",
        "tests.e2e.original_agent",
        config,
        str(cluster.kubeconfig),
        node.name,
    ]
    process = node.process("original", words, env=project_environment())
    process.start()
    wait_for_allocatable(node, GPU, CARDS * SHARES, timeout_s=90)
    yield process
    process.terminate()
    wait_for_allocatable(node, GPU, 0)  # so that the next one waits for its own


@pytest.mark.parametrize("kind", KINDS)
def test_containers_see_what_they_were_assigned_by_one_question_each(
    kind: str, agent: AssigningAgent, node: Node, workloads: Workloads, say: Say
) -> None:
    with seen_standstill() as standstill:
        outcome = run_at_once(draw_pods(kind), node, workloads)
    matches = agent.matches()
    tell(kind, "accelet", outcome, say)
    say(f"  {matches}")
    told = "\n".join(outcome.others) + agent.process.log_tail()
    assert outcome.counts["wrong"] == 0, told
    if standstill.most_s > LATE_S:
        # Time passes that the agent has to answer in, and what is not proven by then is refused.
        say(f"  the machine stood still for {standstill.most_s:.1f} s")
        assert outcome.counts["right"] > MOSTLY * sum(outcome.counts.values()), told
        return
    assert outcome.counts["right"] == sum(outcome.counts.values()), told
    assert matches.doubts == {}
    # On a busy machine the watch may lag behind the kubelet's: then some are asked for in vain before a read.
    in_vain = GETS_BEFORE_READ * matches.questions.get("read-pods", 0)
    assert matches.questions["get"] - in_vain <= GETS_A_MATCH * matches.searches


@pytest.mark.thorough
@pytest.mark.usefixtures("original")
@pytest.mark.parametrize("kind", KINDS)
def test_how_many_the_originals_rule_gets_right_is_told(
    kind: str, node: Node, workloads: Workloads, say: Say
) -> None:
    tell(kind, "the original's rule", run_at_once(draw_pods(kind), node, workloads), say)


def draw_pods(kind: str) -> Sequence[AssignedPod]:
    random = Random(f"{kind} {PODS}")
    return [draw_pod(kind, number, random) for number in range(PODS)]


def tell(kind: str, who: str, outcome: Outcome, say: Say) -> None:
    total = sum(outcome.counts.values())
    say(
        f"\n{kind}, {who}: {outcome.counts['right']} of {total} containers with an assignment see exactly it"
        f" ({PODS} pods at once; the kubelet's mean of Allocate {outcome.allocate_ms:.1f} ms)"
    )
    for sentence in outcome.others[:3]:
        say(f"  {sentence}")


@pytest.mark.usefixtures("agent")
def test_a_container_resized_and_restarted_in_place_keeps_what_it_was_assigned(
    node: Node, workloads: Workloads
) -> None:
    def resources(cpu: str, memory: str) -> Json:
        amounts = {GPU: "1", "cpu": cpu, "memory": memory}
        return {"limits": amounts, "requests": amounts}

    container = {
        "name": "main",
        "image": BUSYBOX_IMAGE,
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", f"{VIEW}; {STAY}"],
        "resources": resources("100m", "64Mi"),
        "resizePolicy": [
            {"resourceName": "cpu", "restartPolicy": "NotRequired"},
            {"resourceName": "memory", "restartPolicy": "RestartContainer"},
        ],
    }
    metadata = {"name": "resized", "labels": {LABEL: "resized"}, "annotations": gas("card5", "card5:gt1")}
    spec = {"hostNetwork": True, "terminationGracePeriodSeconds": 0, "containers": [container]}
    try:
        workloads.apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        pod = workloads.wait_for_phase("resized", "Running")
        assert own_view(node, pod, "main") == (["/dev/dri/card5"], "1")
        _, calls = allocate_seconds(node)
        for cpu, memory, restarts in (("150m", "64Mi", 0), ("150m", "96Mi", 1)):
            (now,) = pod["spec"]["containers"]
            wanted = {"spec": {"containers": [{**now, "resources": resources(cpu, memory)}]}}
            workloads.client.send("PATCH", f"{COLLECTION}/resized/resize", wanted)
            pod = workloads.wait_for_pod(
                "resized", partial(is_resized, cpu, memory, restarts), what=f"has {cpu} and {memory}"
            )
        views = re.findall(r"view .*", node.container_log(pod, "main"))
        assert views == ["view card5 mask=1"] * 2
        assert allocate_seconds(node)[1] == calls
    finally:
        remove_all(workloads)


def is_resized(cpu: str, memory: str, restarts: int, pod: Json) -> bool:
    """Whether the kubelet says that the container runs with these limits."""
    (status,) = pod["status"]["containerStatuses"]
    limits = status.get("resources", {}).get("limits", {})
    is_running = status["restartCount"] == restarts and "running" in status["state"]
    return is_running and (limits.get("cpu"), limits.get("memory")) == (cpu, memory)


def run_at_once(pods: Sequence[AssignedPod], node: Node, workloads: Workloads) -> Outcome:
    """Applies all pods at once, and looks at them when all have ended."""
    outcome = Outcome()
    before = allocate_seconds(node)
    try:
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(lambda pod: workloads.apply(pod.manifest), pods))
        found = wait_until_ended(len(pods), workloads)
        after = allocate_seconds(node)
        outcome.allocate_ms = 1000 * (after[0] - before[0]) / max(1.0, after[1] - before[1])
        for pod in pods:
            look_at(pod, found[pod.manifest["metadata"]["name"]], node, outcome)
    finally:
        remove_all(workloads)
    return outcome


def look_at(pod: AssignedPod, seen: Json, node: Node, outcome: Outcome) -> None:
    name = pod.manifest["metadata"]["name"]
    for container, assigned in pod.assigned.items():
        if not assigned:
            continue
        view = own_view(node, seen, container)
        kind = "not run" if view is None else "right" if view == wanted_view(assigned) else "wrong"
        outcome.counts[kind] += 1
        if kind != "right":
            why = seen["status"].get("message", "")
            outcome.others.append(f"{name}/{container}: assigned {assigned}, sees {view} {why}")


def own_view(node: Node, pod: Json, container: str) -> tuple[list[str], str | None] | None:
    """What the container printed of itself; None where its pod was not admitted."""
    if pod["status"]["phase"] == "Failed":
        return read_view(node.container_log(pod, container))
    # The pod may be known to have ended before the runtime has written all that it said.
    return wait_until(
        f"{pod['metadata']['name']}/{container} has printed its view",
        lambda: read_view(node.container_log(pod, container)),
        timeout_s=20,
        evidence=lambda: node.container_log(pod, container),
    )


def wait_until_ended(count: int, workloads: Workloads) -> dict[str, Json]:
    def ended() -> dict[str, Json] | None:
        items = list_pods(workloads)
        phases = Counter(pod["status"].get("phase") for pod in items)
        return (
            {pod["metadata"]["name"]: pod for pod in items}
            if phases["Succeeded"] + phases["Failed"] == count
            else None
        )

    def stuck() -> str:
        return str(Counter(pod["status"].get("phase") for pod in list_pods(workloads)))

    return wait_until("all pods have ended", ended, timeout_s=900, evidence=stuck)


def remove_all(workloads: Workloads) -> None:
    workloads.client.send("DELETE", f"{COLLECTION}?labelSelector={LABEL}", {"gracePeriodSeconds": 0})
    wait_until("all pods are gone", lambda: not list_pods(workloads), timeout_s=180)


def list_pods(workloads: Workloads) -> list[Json]:
    answer: Json = json.loads(workloads.client.send("GET", f"{COLLECTION}?labelSelector={LABEL}"))
    items: list[Json] = answer["items"]
    return items


def allocate_seconds(node: Node) -> tuple[float, float]:
    """The kubelet's own sum and count of our Allocate calls."""

    def value(suffix: str) -> float:
        name = f"kubelet_device_plugin_alloc_duration_seconds_{suffix}"
        found = re.search(rf'^{name}\{{resource_name="{GPU}"\}} (\S+)', node.metrics(), re.MULTILINE)
        return float(found[1]) if found else 0.0

    return value("sum"), value("count")
