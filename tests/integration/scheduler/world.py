"""A fake API server with nodes, jobs that make pods, and a kube-scheduler that binds pinned pods."""

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from accelet.assignments.nodecards import NODE_CARDS_ANNOTATION, NodeCard, render_node_cards
from accelet.assignments.ownform import ASSIGNMENT_ANNOTATION
from accelet.fakeapi import FakeApi, Json
from accelet.scheduler.gangs.grouping import CARDS_GATE, GATE_PREFIX
from tests.fakes.manifests import raw_container, raw_node, raw_pod

PODS, NODES, JOBS = "api/v1/pods", "api/v1/nodes", "apis/batch/v1/jobs"
PLANS = "api/v1/configmaps"
GPU, CARD = "nvidia.com/gpu", "gpu.intel.com/i915"
GATE = f"{GATE_PREFIX}job"


class World:
    """`api` is the server. Jobs make lost pods anew and pods are bound as long as `is_binding`."""

    def __init__(self, api: FakeApi) -> None:
        self.api, self.state = api, api.state
        self.is_binding = True
        self.problems: list[str] = []
        self.unfit: set[str] = set()
        """Nodes that kube-scheduler has a reason of its own to put nobody on."""
        self.denied: set[tuple[str, str]] = set()
        """Pods that a webhook lets nobody pin to a node."""
        self._jobs: dict[tuple[str, str], Json] = {}
        self._is_over = threading.Event()
        self.state.validate["pods"] = self._check_pod
        self._thread = threading.Thread(target=self._live, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._is_over.set()
        with self.state.changed:
            self.state.changed.notify_all()
        self._thread.join()

    def add_node(self, name: str, where: str, gpus: int = 8) -> None:
        self.state.create(NODES, "", raw_node(name, where, gpus=gpus))

    def add_card_node(self, name: str, *cards: NodeCard) -> None:
        """A node that publishes cards, as its agent and its kubelet would have it."""
        self.state.create(NODES, "", raw_node(name, gpus=0, cards=cards))

    def publish(self, name: str, *cards: NodeCard) -> None:
        """What the node's agent publishes now."""
        said = {"metadata": {"annotations": {NODE_CARDS_ANNOTATION: render_node_cards(cards)}}}
        self.state.patch(NODES, ("", name), "merge-patch", said)

    def add_card_pod(
        self, name: str, annotations: Mapping[str, str] | None = None, cards: int = 1, **parts: int
    ) -> None:
        """A pod as the admission policy leaves it; `parts` are `tiles`, `millicores`, all of one."""
        asked = {CARD: cards, **{f"gpu.intel.com/{part}": amount for part, amount in parts.items()}}
        texts = {key: str(amount) for key, amount in asked.items()}
        one = raw_container(requests={GPU: "0", **texts}, limits=texts)
        body = raw_pod(name, gates=(CARDS_GATE,), labels={}, annotations=annotations, containers=[one])
        self.state.create(PODS, "ml", body)

    def end_pod(self, name: str) -> None:
        self.state.patch(PODS, ("ml", name), "merge-patch", {"status": {"phase": "Succeeded"}})

    def pod(self, name: str) -> Json:
        return self.state.collection(PODS).objects["ml", name]

    def node_of(self, name: str) -> str | None:
        node: str | None = self.pod(name)["spec"].get("nodeName")
        return node

    def assigned(self, name: str) -> Mapping[str, Any] | None:
        """What the pod's annotation says, by container; None without one."""
        text = (self.pod(name)["metadata"].get("annotations") or {}).get(ASSIGNMENT_ANNOTATION)
        return None if text is None else dict(json.loads(text)["containers"])

    def add_nodes(self, blocks: int, subblocks: int, hosts: int) -> None:
        for b in range(blocks):
            for s in range(subblocks):
                for h in range(hosts):
                    self.add_node(f"n{b}{s}{h}", f"b{b}/s{b}{s}/h{b}{s}{h}")

    def add_job(
        self,
        name: str,
        pods: int,
        gpus: int = 1,
        *,
        spec_of_job: Json | None = None,
        said_on_job: Json | None = None,
        **template: Any,
    ) -> None:
        """A Job; its pods follow. `template` may have spec, annotations and gates."""
        body = {
            "metadata": {"name": name, "annotations": said_on_job or {}},
            "spec": {"parallelism": pods, "completions": pods, **(spec_of_job or {})},
        }
        job = self.state.create(JOBS, "ml", body)
        job["template"] = {"gpus": gpus, **template}
        with self.state.changed:
            self._jobs["ml", name] = job
            self.state.changed.notify_all()

    def bind(self, name: str, node: str, gpus: int) -> None:
        """A pod that somebody else has put on a node."""
        self.state.create(PODS, "ml", _pod(name, gpus, on=node))

    def set_node(self, name: str, **spec: Any) -> None:
        self.state.patch(NODES, ("", name), "merge-patch", {"spec": spec})

    def delete_pod(self, name: str) -> None:
        self.state.delete(PODS, ("ml", name))

    def pods(self, job: str | None = None) -> list[Json]:
        items = self.state.list(PODS, {}, None)["items"]
        return [i for i in items if job is None or i["metadata"].get("labels", {}).get("job-name") == job]

    def gated(self, job: str | None = None) -> list[str]:
        return [pod["metadata"]["name"] for pod in self.pods(job) if pod["spec"].get("schedulingGates")]

    def where(self, job: str) -> dict[str, str]:
        """The node of each bound pod."""
        return {
            pod["metadata"]["name"]: pod["spec"]["nodeName"]
            for pod in self.pods(job)
            if pod["spec"].get("nodeName")
        }

    def plans(self) -> list[Json]:
        found: list[Json] = self.state.list(PLANS, {}, None)["items"]
        return found

    def is_bound(self, job: str, pods: int) -> bool:
        return len(self.where(job)) == pods

    def notes(self) -> list[str]:
        events = self.state.list("apis/events.k8s.io/v1/events", {}, None)["items"]
        return [event["note"] for event in events]

    def _live(self) -> None:
        while not self._is_over.is_set():
            with self.state.changed:
                before = self.state.version
                self._make_pods()
                if self.is_binding:
                    self._bind_pods()
                if self.state.version == before:
                    self.state.changed.wait(0.5)

    def _make_pods(self) -> None:
        there = self.state.collection(PODS).objects
        for (namespace, name), job in self._jobs.items():
            template = job["template"]
            if self.state.collection(JOBS).objects[namespace, name]["spec"].get("suspend"):
                for key in [key for key in there if key[1].startswith(f"{name}-")]:
                    self.state.delete(PODS, key)
                continue
            for index in range(job["spec"]["parallelism"]):
                pod_name = f"{name}-{index}"
                if (namespace, pod_name) not in there:
                    body = _pod(pod_name, template["gpus"], template.get("gates", (GATE,)))
                    body["metadata"] |= {
                        "labels": {"job-name": name, "batch.kubernetes.io/job-completion-index": str(index)},
                        "annotations": template.get("annotations", {}),
                        "ownerReferences": [
                            {
                                "apiVersion": "batch/v1",
                                "kind": "Job",
                                "name": name,
                                "uid": job["metadata"]["uid"],
                                "controller": True,
                            }
                        ],
                    }
                    body["spec"] |= template.get("spec", {})
                    self.state.create(PODS, namespace, body)

    def _bind_pods(self) -> None:
        used: dict[str, int] = {}
        pods = list(self.state.collection(PODS).objects.items())
        for _, pod in pods:
            if pod["spec"].get("nodeName"):
                used[pod["spec"]["nodeName"]] = used.get(pod["spec"]["nodeName"], 0) + _gpus(pod)
        for key, pod in pods:
            node = pinned_node(pod)
            if node is None or pod["spec"].get("nodeName") or pod["spec"].get("schedulingGates"):
                continue
            found = self.state.collection(NODES).objects.get(("", node))
            if found is None or found["spec"].get("unschedulable"):
                continue
            if node in self.unfit:
                self._refuse(key, pod)
                continue
            if used.get(node, 0) + _gpus(pod) <= int(found["status"]["allocatable"][GPU]):
                used[node] = used.get(node, 0) + _gpus(pod)
                body = {"spec": {"nodeName": node}, "status": {"phase": "Running"}}
                self.state.patch(PODS, key, "merge-patch", body)

    def _refuse(self, key: tuple[str, str], pod: Json) -> None:
        if not (pod.get("status") or {}).get("conditions"):
            condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
            self.state.patch(PODS, key, "merge-patch", {"status": {"conditions": [condition]}})

    def _check_pod(self, before: Json | None, after: Json) -> list[tuple[str, str]]:
        """What the API server checks of gated pods (KEP-3838), and that nobody lifts a gate without a pin."""
        if before is None:
            return []
        old, new = _gates(before), _gates(after)
        if not set(new) <= set(old):
            return [("spec.schedulingGates", "only deletion is allowed")]
        if old and not _is_tighter(_terms(before), _terms(after)):
            return [("spec.affinity.nodeAffinity", "field is immutable, only additions are allowed")]
        if not old and _terms(before) != _terms(after):
            return [("spec.affinity", "pod updates may not change fields")]
        if old and (after["metadata"]["name"], pinned_node(after)) in self.denied:
            return [("spec", "a webhook does not like it")]
        return []


def pinned_node(pod: Json) -> str | None:
    for term in _terms(pod) or ():
        for requirement in term.get("matchFields", ()):
            return str(requirement["values"][0])
    return None


def _pod(name: str, gpus: int, gates: Sequence[str] = (), on: str | None = None) -> Json:
    one = raw_container(requests={GPU: str(gpus), "cpu": "1"}, limits={GPU: str(gpus)})
    return raw_pod(name, on=on, gates=gates, labels={}, containers=[one], restartPolicy="Never")


def _gpus(pod: Json) -> int:
    return sum(int(c["resources"]["requests"][GPU]) for c in pod["spec"]["containers"])


def _gates(pod: Json) -> list[str]:
    return [gate["name"] for gate in pod["spec"].get("schedulingGates") or ()]


def _terms(pod: Json) -> list[Json] | None:
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return None if required is None else required["nodeSelectorTerms"]


def _is_tighter(old: list[Json] | None, new: list[Json] | None) -> bool:
    if old is None:
        return True
    if new is None or len(old) != len(new):
        return False
    for before, after in zip(old, new, strict=True):
        if not before and after:
            return False
        for part in ("matchExpressions", "matchFields"):
            start = before.get(part, [])
            if after.get(part, [])[: len(start)] != start:
                return False
    return True


@contextmanager
def open_world(api: FakeApi) -> Iterator[World]:
    world = World(api)
    try:
        yield world
    finally:
        world.close()
