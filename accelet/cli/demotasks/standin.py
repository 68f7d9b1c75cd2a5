"""Stands in for the Job controller, kube-scheduler, kubelets and programs of a cluster that is not there."""

import asyncio
import time
from collections.abc import Sequence
from typing import Any, Final

from accelet.assignments.nodecards import (
    NODE_CARDS_ANNOTATION,
    NodeCard,
    extended_capacity,
    render_node_cards,
)
from accelet.fakeapi import FakeApi, Json
from accelet.gputask.objects.names import RANK, SAVE, SAVED
from accelet.kube.apiresources import JOBS
from accelet.kube.writing.ownership import owner_reference

JOB_OBJECTS: Final = "apis/batch/v1/jobs"
NODES: Final = "api/v1/nodes"
PODS: Final = "api/v1/pods"
JOB_NAME: Final = "batch.kubernetes.io/job-name"
_GRACE: Final = "accelet.dev/demo"
"""Keeps a pod that is told to end until its program has."""

_LOOK_S: Final = 0.02
_ENDS_S: Final = 0.2
_SAVES_S: Final = 0.3
_READY: Final = {
    "phase": "Running",
    "conditions": [{"type": "Ready", "status": "True"}],
    "containerStatuses": [{"name": "main", "ready": True, "state": {"running": {}}}],
}

_ENDED: Final = {
    "phase": "Failed",
    "conditions": [{"type": "Ready", "status": "False"}],
    "containerStatuses": [{"name": "main", "state": {"terminated": {"exitCode": 143}}}],
}


def make_node(api: FakeApi, name: str, cards: Sequence[NodeCard]) -> None:
    """A Node that publishes these cards, as its agent and its kubelet would have it."""
    amounts = {
        "cpu": "64",
        "memory": "256Gi",
        "pods": "110",
        cards[0].resource: str(sum(one.shares for one in cards)),
    }
    amounts |= {key: str(amount) for key, amount in extended_capacity(cards).items()}
    ready = {"type": "Ready", "status": "True"}
    said = {NODE_CARDS_ANNOTATION: render_node_cards(cards)}
    status = {"capacity": amounts, "allocatable": amounts, "conditions": [ready]}
    api.state.create(
        NODES, "", {"metadata": {"name": name, "annotations": said}, "spec": {}, "status": status}
    )


class StandIn:
    """Looks at Jobs and pods every so often, and does what their controllers would.

    A program runs until it is told to end, for which it takes a moment.
    """

    def __init__(self, api: FakeApi) -> None:
        self._api = api
        self._told_s: dict[str, float] = {}
        self._asked_s: dict[str, float] = {}

    async def run(self) -> None:
        """Works until it is cancelled."""
        while True:
            for job in _objects(self._api, JOB_OBJECTS):
                self._run_job(job)
            for pod in _objects(self._api, PODS):
                self._run_pod(pod)
            await asyncio.sleep(_LOOK_S)

    def _run_job(self, job: Json) -> None:
        uid = job["metadata"]["uid"]
        own = [pod for pod in _objects(self._api, PODS) if _owner(pod) == uid]
        told = [pod for pod in own if "deletionTimestamp" in pod["metadata"]]
        live = [pod for pod in own if pod not in told]
        if job["spec"].get("suspend"):
            for pod in live:
                self._api.state.delete(PODS, _key(pod))
        else:
            taken = {pod["metadata"]["annotations"][RANK] for pod in own}
            for rank in range(job["spec"]["completions"]):
                if str(rank) not in taken:
                    self._api.state.create(PODS, job["metadata"]["namespace"], _pod_of(job, rank))
        ready = sum(pod["status"].get("phase") == "Running" for pod in live)
        status = {"active": len(live), "terminating": len(told), "ready": ready}
        if any((job.get("status") or {}).get(key) != count for key, count in status.items()):
            self._api.state.patch(JOB_OBJECTS, _key(job), "merge-patch", {"status": status})

    def _run_pod(self, pod: Json) -> None:
        if "deletionTimestamp" in pod["metadata"]:
            self._end_pod(pod)
        elif _asked_by(pod):
            self._save(pod, _asked_by(pod))
        elif not pod["spec"].get("schedulingGates") and not pod["spec"].get("nodeName"):
            bound = {"spec": {"nodeName": _pinned_node(pod)}, "status": _READY}
            self._api.state.patch(PODS, _key(pod), "merge-patch", bound)

    def _save(self, pod: Json, move: str) -> None:
        """What a program does that finds in its file that it is asked: it saves, and says so."""
        asked_s = self._asked_s.setdefault(pod["metadata"]["uid"], time.monotonic())
        has_said = (pod["metadata"].get("annotations") or {}).get(SAVED) == move
        if not has_said and time.monotonic() - asked_s >= _SAVES_S:
            said = {"metadata": {"annotations": {SAVED: move}}}
            self._api.state.patch(PODS, _key(pod), "merge-patch", said)

    def _end_pod(self, pod: Json) -> None:
        is_running = (pod.get("status") or {}).get("phase") == "Running"
        told_s = self._told_s.setdefault(pod["metadata"]["uid"], time.monotonic())
        if not is_running or time.monotonic() - told_s >= _ENDS_S:
            # A kubelet says first that the containers have ended: until then their cards are held.
            self._api.state.patch(PODS, _key(pod), "merge-patch", {"status": _ENDED})
            self._api.state.patch(PODS, _key(pod), "merge-patch", {"metadata": {"finalizers": []}})


def _pod_of(job: Json, rank: int) -> Json:
    template, name = job["spec"]["template"], job["metadata"]["name"]
    made_of = template.get("metadata") or {}
    return {
        "metadata": {
            "generateName": f"{name}-{rank}-",
            "labels": {**made_of.get("labels", {}), JOB_NAME: name, RANK: str(rank)},
            "annotations": {**made_of.get("annotations", {}), RANK: str(rank)},
            "ownerReferences": [owner_reference(JOBS, name, job["metadata"]["uid"])],
            "finalizers": [_GRACE],
        },
        "spec": template["spec"],
        "status": {"phase": "Pending"},
    }


def _pinned_node(pod: Json) -> str:
    """The one node that the scheduler has left it."""
    required = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    return str(required["nodeSelectorTerms"][0]["matchFields"][0]["values"][0])


def _objects(api: FakeApi, resource: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = api.state.list(resource, {}, None)["items"]
    return found


def _key(one: Json) -> tuple[str, str]:
    return one["metadata"]["namespace"], one["metadata"]["name"]


def _asked_by(pod: Json) -> str:
    """The Move for which its program is to save."""
    return str((pod["metadata"].get("annotations") or {}).get(SAVE, "")).partition(" ")[0]


def _owner(pod: Json) -> str:
    return next((str(one["uid"]) for one in pod["metadata"].get("ownerReferences") or ()), "")
