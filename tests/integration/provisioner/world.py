"""A fake API server with JobSets, and a kube-scheduler that fills the nodes of their slices."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from accelet.fakeapi import FakeApi, Json
from tests.unit.provisioner.manifests import job_set

PODS, NODES, MAPS = "api/v1/pods", "api/v1/nodes", "api/v1/configmaps"
JOB_SETS = "apis/jobset.x-k8s.io/v1alpha2/jobsets"
REQUESTS = "apis/accelet.dev/v1alpha1/slicerequests"
EVENTS = "apis/events.k8s.io/v1/events"
SLICE_SET = "accelet.dev/slice-set"


class World:
    """JobSets in the namespace `ml`. One pod goes to each open node of a wanted set."""

    def __init__(self, api: FakeApi) -> None:
        self.api, self.state = api, api.state
        self.state.create("api/v1/namespaces", "", {"metadata": {"name": "kube-system"}})
        self.partial: list[str] = []
        self.killed: list[str] = []
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._schedule, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._is_over.set()
        with self.state.changed:
            self.state.changed.notify_all()
        self._thread.join()

    def ask(self, name: str, replicas: int = 2, **changes: Any) -> None:
        raw = job_set(name, replicas, **changes)
        del raw["metadata"]["uid"]
        self.state.create(JOB_SETS, "ml", raw)

    def finish(self, name: str) -> None:
        """The JobSet completes: its pods end first, and none starts in between, which would never end."""
        done = {"status": {"conditions": [{"type": "Completed", "status": "True"}]}}
        with self.state.changed:
            self.end_pods(name)
            self.state.patch(JOB_SETS, ("ml", name), "merge-patch", done)

    def end_pods(self, name: str) -> None:
        for pod in self.objects(PODS):
            if pod["metadata"]["name"].startswith(f"{name}."):
                self.state.patch(
                    PODS, ("ml", pod["metadata"]["name"]), "merge-patch", {"status": {"phase": "Failed"}}
                )

    def lose(self, node: str) -> None:
        """The machine dies; its pod was deleted an hour ago and nobody ends it."""
        status = {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}
        self.state.patch(NODES, ("", node), "merge-patch", status)
        for pod in self.objects(PODS):
            if pod["spec"].get("nodeName") == node:
                ending = {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}
                key = ("ml", pod["metadata"]["name"])
                self.state.patch(PODS, key, "merge-patch", {"metadata": ending})

    def objects(self, resource: str) -> list[Json]:
        found: list[Json] = self.state.list(resource, {}, None)["items"]
        return found

    def phases(self, name: str = "") -> list[str]:
        return [
            (one.get("status") or {}).get("phase", "Pending")
            for one in self.objects(REQUESTS)
            if one["metadata"]["name"].startswith(name)
        ]

    def conditions(self, kind: str) -> list[str]:
        """The messages of the conditions of this kind that are True."""
        return [
            condition["message"]
            for one in self.objects(REQUESTS)
            for condition in (one.get("status") or {}).get("conditions", ())
            if (condition["type"], condition["status"]) == (kind, "True")
        ]

    def notes(self) -> list[str]:
        return [event["note"] for event in self.objects(EVENTS)]

    def reasons(self) -> set[str]:
        """Those of all Events."""
        return {event["reason"] for event in self.objects(EVENTS)}

    def running(self, name: str) -> int:
        return sum(
            pod["metadata"]["name"].startswith(f"{name}.")
            and (pod.get("status") or {}).get("phase") != "Failed"
            for pod in self.objects(PODS)
        )

    def _schedule(self) -> None:
        with self.state.changed:
            while not self._is_over.is_set():
                self._fill()
                self.state.changed.wait(0.5)

    def _fill(self) -> None:
        nodes = {node["metadata"]["name"]: node for node in self.objects(NODES)}
        pods = {pod["metadata"]["name"]: pod for pod in self.objects(PODS)}
        owners = {one["metadata"]["name"]: one for one in self.objects(JOB_SETS)}
        for pod in pods.values():
            is_over = (pod.get("status") or {}).get("phase") == "Failed"
            node = pod["spec"].get("nodeName")
            if node is not None and node not in nodes and not is_over:
                self.killed.append(pod["metadata"]["name"])
        for name, node in nodes.items():
            labels, spec = node["metadata"]["labels"], node.get("spec") or {}
            kept = {taint["key"] for taint in spec.get("taints") or ()} - {"google.com/tpu"}
            if SLICE_SET not in labels or kept or spec.get("unschedulable"):
                continue
            owner = labels[SLICE_SET].rpartition("-")[0]
            if owner not in owners or owners[owner].get("status") or owners[owner]["spec"].get("suspend"):
                continue
            if f"{owner}.{name}" not in pods:
                self._check_whole(labels[SLICE_SET])
                body = {"metadata": {"name": f"{owner}.{name}"}, "spec": {"nodeName": name, "containers": []}}
                self.state.create(PODS, "ml", body)

    def _check_whole(self, name: str) -> None:
        """No pod starts while a part of its set is still to come."""
        members = [one for one in self.objects(REQUESTS) if one["spec"]["set"]["name"] == name]
        phases = [(one.get("status") or {}).get("phase") for one in members]
        if not set(phases) <= {"Joined", "Ready", "Repairing", "Releasing"}:
            self.partial.append(f"{name}: {phases}")


@contextmanager
def open_world(api: FakeApi) -> Iterator[World]:
    world = World(api)
    try:
        yield world
    finally:
        world.close()
