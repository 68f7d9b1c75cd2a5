"""Storms of pods on a real kubelet, and what they cost it and the agent."""

import json
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from random import Random

from tests.e2e.assigned_pods import LABEL, STAY, draw_pod
from tests.e2e.assigning_agent import GPU, AssigningAgent, Matches, project_environment
from tests.e2e.cluster.https_client import Json
from tests.e2e.cluster.images import BUSYBOX_IMAGE
from tests.e2e.cluster.node import Node
from tests.e2e.cluster.waiting import wait_until
from tests.e2e.cluster.workloads import Workloads
from tests.integration.identity.world import gas

COLLECTION = "/api/v1/namespaces/default/pods"
THREADS = 8
OTHER_CLIENT_HZ = 50


@dataclass(frozen=True, slots=True)
class Place:
    """Where a storm blows."""

    node: Node
    agent: AssigningAgent
    workloads: Workloads


Kind = Callable[[int, Place], None]
"""Has so many pods bound to the node at once."""


@dataclass(frozen=True, slots=True)
class Figures:
    """What one storm cost.

    `gets` are the kubelet's, from whomever; `refusals` counts pods by what was said of them; `made_in` is of
    how many different seconds their times of creation are.
    """

    seconds: float
    matches: Matches
    gets: int
    phases: Mapping[str, int]
    refusals: Mapping[str, int]
    made_in: int

    def __str__(self) -> str:
        ends = f"{self.seconds:6.1f} s, {dict(self.phases)} made in {self.made_in} s"
        ends += f", refused: {dict(self.refusals)}" if self.refusals else ""
        if not self.matches.searches:
            return ends
        return (
            f"{ends}, {self.matches.searches} matches, {self.matches.gets_a_match:.2f} Gets each (the kubelet"
            f" counts {self.gets}), p50 {self.matches.quantile_ms(0.5):.1f} ms,"
            f" p99 {self.matches.quantile_ms(0.99):.1f} ms {dict(self.matches.doubts) or ''}"
        )


def blow(kind: Kind, count: int, place: Place) -> Figures:
    """One storm, from the first pod that is made until all have been admitted or refused."""
    before, gets = place.agent.matches(), count_gets(place.node)
    started = time.monotonic()
    kind(count, place)
    pods = wait_until(
        "all pods have been decided on",
        lambda: _decided(count, place.workloads),
        timeout_s=600,
        evidence=lambda: str(_phases(list_pods(place.workloads))),
    )
    seconds = time.monotonic() - started
    matches = place.agent.matches().since(before)
    refusals = _counted([why_failed(pod) for pod in pods if pod["status"]["phase"] == "Failed"])
    made_in = len({pod["metadata"]["creationTimestamp"] for pod in pods})
    asked = count_gets(place.node)
    gets = asked - gets if asked >= gets else asked  # a new kubelet counts from nothing
    return Figures(seconds, matches, gets, _phases(pods), refusals, made_in)


def generated_names(count: int, place: Place) -> None:
    """The pods of one Deployment, all with one assignment."""
    labels = {LABEL: "storm"}
    spec = {"hostNetwork": True, "terminationGracePeriodSeconds": 0, "containers": [_container()]}
    template = {"metadata": {"labels": labels, "annotations": gas("card1", "card1:gt1")}, "spec": spec}
    deployment: Json = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "storm"},
        "spec": {"replicas": count, "selector": {"matchLabels": labels}, "template": template},
    }
    place.workloads.apply(deployment)


def recurring_names(count: int, place: Place) -> None:
    """Bare pods, each with an assignment of its own."""
    _at_once(place.workloads.apply, _draw(count))


def random_binding(count: int, place: Place) -> None:
    """Bare pods that wait for a scheduler, and are bound in another order than that of their creation."""
    pods = _draw(count)
    for pod in pods:
        pod["spec"]["schedulerName"] = "nobody"
    _at_once(place.workloads.apply, pods)
    names = [pod["metadata"]["name"] for pod in pods]
    Random(count).shuffle(names)

    def bind(name: str) -> None:
        target = {"kind": "Node", "name": place.node.name}
        binding: Json = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name},
            "target": target,
        }
        place.workloads.client.send("POST", f"{COLLECTION}/{name}/binding", binding)

    _at_once(bind, names)


def beside_another_client(count: int, place: Place) -> None:
    """As `recurring_names`, while another client asks podresources 50 times a second."""
    with other_client(place.node):
        recurring_names(count, place)
        _wait_until_decided(count, place.workloads)


def kubelet_restart(count: int, place: Place) -> None:
    """Pods that were bound while there was no kubelet: it finds them all in the first list of its start."""
    place.node.kubelet.process.kill()
    pods = _draw(count)
    for pod in pods:
        pod["spec"]["nodeName"] = place.node.name
    _at_once(place.workloads.apply, pods)
    place.node.kubelet.start()


KINDS: Mapping[str, tuple[Kind, int | None]] = {
    "generated names": (generated_names, None),
    "names that may recur": (recurring_names, None),
    "bound in random order": (random_binding, None),
    "another client, 50 Gets a second": (beside_another_client, None),
    "kubelet restarted, 60 pods wait": (kubelet_restart, 60),
}
"""What `make bench-storm` measures, and with how many pods where it says."""


@contextmanager
def other_client(node: Node) -> Iterator[None]:
    """Somebody else who asks the kubelet's podresources service, evenly."""
    words = [sys.executable, "-m", "tests.e2e.podresources_client", str(OTHER_CLIENT_HZ)]
    process = node.process("podresources client", words, env=project_environment())
    process.start()
    try:
        yield
    finally:
        process.kill()


def clear(workloads: Workloads) -> None:
    """Removes what storms leave, and waits until it is gone."""
    path = "/apis/apps/v1/namespaces/default/deployments/storm?propagationPolicy=Background"
    if workloads.client.try_get(path.partition("?")[0]):
        workloads.client.send("DELETE", path)

    def is_clear() -> bool:
        workloads.client.send("DELETE", f"{COLLECTION}?labelSelector={LABEL}", {"gracePeriodSeconds": 0})
        return not list_pods(workloads)

    wait_until("all pods of the storm are gone", is_clear, timeout_s=300)


def list_pods(workloads: Workloads) -> list[Json]:
    answer = json.loads(workloads.client.send("GET", f"{COLLECTION}?labelSelector={LABEL}"))
    items: list[Json] = answer["items"]
    return items


def count_gets(node: Node) -> int:
    found = re.findall(
        r"^kubelet_pod_resources_endpoint_requests_get\{.*\} (\S+)", node.metrics(), re.MULTILINE
    )
    return sum(int(float(one)) for one in found)


class Refused(StrEnum):
    """Why a pod was refused, in short."""

    FORMER = "a former pod of its name was deleted by force"
    NOT_KNOWN_YET = "it was not known yet who had been admitted or deleted before"
    UNPROVEN = "not proven"
    MISMATCH = "other devices than those assigned"
    NO_AGENT = "by the kubelet: there is no agent"
    TOO_FEW = "by the kubelet: too few devices"


SENTENCES = {
    "had been deleted by force": Refused.FORMER,
    "It is not known yet which pods": Refused.NOT_KNOWN_YET,
    "It is not known which pods were deleted": Refused.NOT_KNOWN_YET,
    "it cannot be told": Refused.UNPROVEN,
    "assigned is": Refused.MISMATCH,
    "unhealthy devices": Refused.NO_AGENT,
    "unregistered device": Refused.NO_AGENT,
    "code = Unavailable": Refused.NO_AGENT,
    "code = Canceled": Refused.NO_AGENT,
    "requested number of devices unavailable": Refused.TOO_FEW,
}


def why_failed(pod: Json) -> str:
    """What the status of a refused pod says, in short; the whole of it where that is not known."""
    said = pod["status"].get("message", "")
    return next(
        (short for words, short in SENTENCES.items() if words in said), said or "its container failed"
    )


def _draw(count: int) -> Sequence[Json]:
    random = Random(count)
    pods = [draw_pod("plain", number, random).manifest for number in range(count)]
    for pod in pods:
        (container,) = pod["spec"]["containers"]
        container["command"] = ["sh", "-c", STAY]
    return pods


def _container() -> Json:
    return {
        "name": "main",
        "image": BUSYBOX_IMAGE,
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", STAY],
        "resources": {"limits": {GPU: "1"}},
    }


def _at_once(act: Callable[..., object], what: Sequence[object]) -> None:
    with ThreadPoolExecutor(THREADS) as threads:
        list(threads.map(act, what))


def _wait_until_decided(count: int, workloads: Workloads) -> None:
    wait_until("all pods have been decided on", lambda: _decided(count, workloads), timeout_s=600)


def _decided(count: int, workloads: Workloads) -> Sequence[Json] | None:
    pods = list_pods(workloads)
    waiting = [pod for pod in pods if pod["status"].get("phase", "Pending") == "Pending"]
    return pods if not waiting and len(pods) >= count else None


def _phases(pods: Sequence[Json]) -> Mapping[str, int]:
    return _counted([pod["status"].get("phase", "Pending") for pod in pods])


def _counted(words: Sequence[str]) -> Mapping[str, int]:
    return {word: words.count(word) for word in sorted(set(words))}
