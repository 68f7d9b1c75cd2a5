"""Kueue's part in tests: it gives a Workload quota, lets its job run, and takes the quota back."""

from typing import Any

from accelet.fakeapi import Json
from accelet.scheduler.admission.kueue import CONTROLLER
from tests.fakes.manifests import raw_container, raw_pod
from tests.integration.scheduler.world import GATE, GPU, World

CHECKS = "apis/kueue.x-k8s.io/v1beta2/admissionchecks"
FLAVORS = "apis/kueue.x-k8s.io/v1beta2/resourceflavors"
TOPOLOGIES = "apis/kueue.x-k8s.io/v1beta2/topologies"
WORKLOADS = "apis/kueue.x-k8s.io/v1beta2/workloads"
_SINCE = "2026-01-01T00:00:{:02}Z"


def pod_set(pods: int, gpus: int = 8, *, gate: str = GATE, name: str = "main", **spec: Any) -> Json:
    one = raw_container(requests={GPU: str(gpus), "cpu": "1"}, limits={GPU: str(gpus)})
    pod = raw_pod("template", gates=(gate,) if gate else (), containers=[one], restartPolicy="Never", **spec)
    return {"name": name, "count": pods, "template": {"spec": pod["spec"]}}


class Queue:
    """A ClusterQueue with the check `places`; each Workload is of a Job of its own name."""

    def __init__(self, world: World) -> None:
        self._world, self._state = world, world.state
        self._reserved = 0
        self._state.create(
            CHECKS,
            "",
            {"metadata": {"name": "places", "generation": 1}, "spec": {"controllerName": CONTROLLER}},
        )

    def is_active(self) -> bool:
        check = self._state.get(CHECKS, ("", "places"))
        conditions = (check.get("status") or {}).get("conditions") or ()
        return [(one["type"], one["status"]) for one in conditions] == [("Active", "True")]

    def add(self, name: str, *sets: Json, **spec: Any) -> None:
        """A Workload that waits for quota."""
        owner = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "name": name,
            "uid": f"uid-{name}",
            "controller": True,
        }
        metadata = {"name": f"job-{name}", "ownerReferences": [owner]}
        self._state.create(WORKLOADS, "ml", {"metadata": metadata, "spec": {"podSets": [*sets], **spec}})

    def reserve(self, name: str, *, since: str = "", flavor: str = "", **counts: int) -> None:
        """Gives a Workload quota, of a flavor, for all of its pods or for fewer of a pod set."""
        self._reserved += 1
        since = since or _SINCE.format(self._reserved)
        sets = self.workload(name)["spec"]["podSets"]
        flavors = {"flavors": {GPU: flavor}} if flavor else {}
        assigned = [
            {"name": one["name"], "count": counts.get(one["name"], one["count"]), **flavors} for one in sets
        ]
        self._set_status(
            name,
            admission={"clusterQueue": "q", "podSetAssignments": assigned},
            conditions=[_condition("QuotaReserved", since)],
            admissionChecks=[{"name": "places", "state": "Pending", "message": "", **self._retries(name)}],
        )

    def admit(self, name: str) -> None:
        before = self.workload(name)["status"]["conditions"]
        self._set_status(name, conditions=[*before, _condition("Admitted", _SINCE.format(0))])

    def evict(self, name: str) -> None:
        """Takes the quota back, as Kueue does after a Retry too."""
        retries = self.check(name).get("retryCount", 0) + (self.check(name)["state"] == "Retry")
        self._set_status(
            name,
            admission=None,
            conditions=[_condition("Evicted", _SINCE.format(0))],
            admissionChecks=[{"name": "places", "state": "Pending", "message": "", "retryCount": retries}],
        )

    def workload(self, name: str) -> Json:
        return self._state.get(WORKLOADS, ("ml", f"job-{name}"))

    def delete(self, name: str) -> None:
        self._state.delete(WORKLOADS, ("ml", f"job-{name}"))

    def check(self, name: str) -> Json:
        (check,) = self.workload(name)["status"]["admissionChecks"]
        return dict(check)

    def says(self, name: str, state: str) -> bool:
        return bool(self.check(name)["state"] == state)

    def _retries(self, name: str) -> Json:
        checks = (self.workload(name).get("status") or {}).get("admissionChecks") or [{}]
        return {"retryCount": checks[0].get("retryCount", 0)}

    def _set_status(self, name: str, **status: Any) -> None:
        key, patch = ("ml", f"job-{name}"), {"status": status}
        self._state.patch(WORKLOADS, key, "merge-patch", patch, subresource="status")


def _condition(kind: str, since: str) -> Json:
    return {"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": since}
