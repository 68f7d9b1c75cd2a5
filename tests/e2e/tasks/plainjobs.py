"""Indexed Jobs of an ordinary namespace, by the JSON of the API server, for facts about Jobs and kubelets."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.e2e.cluster.https_client import Client, Json
from tests.e2e.cluster.images import BUSYBOX_IMAGE
from tests.e2e.cluster.waiting import wait_until

DISRUPTED = [{"type": "DisruptionTarget", "status": "True"}]
IGNORED: Json = {"podFailurePolicy": {"rules": [{"action": "Ignore", "onPodConditions": DISRUPTED}]}}
FAILING: Json = {"podFailurePolicy": {"rules": [{"action": "FailJob", "onPodConditions": DISRUPTED}]}}
GATED: Json = {"schedulingGates": [{"name": "example.com/held"}]}
RESTS = 'trap "exit 143" TERM; sleep 3600 & wait'
SLOW = 'trap "sleep 3; exit 143" TERM; sleep 3600 & wait'
SAVES = 'trap "exit 0" TERM; sleep 3600 & wait'
WITHIN_S = 90.0


@dataclass(frozen=True)
class PlainJobs:
    """Makes Jobs in a namespace, and looks at them and their pods."""

    client: Client
    namespace: str

    def make(self, name: str, script: str, ranks: int = 1, pod: Json | None = None, **spec: Any) -> None:
        self.client.send("POST", self._jobs, _job(name, script, ranks, pod or {}, spec))

    def patch(self, name: str, spec: Json) -> None:
        self.client.send("PATCH", f"{self._jobs}/{name}", {"spec": spec})

    def status(self, name: str) -> Json:
        status: Json = json.loads(self.client.send("GET", f"{self._jobs}/{name}"))["status"]
        return status

    def condition(self, name: str, kind: str) -> Json | None:
        found = self.status(name).get("conditions") or ()
        return next((one for one in found if one["type"] == kind and one["status"] == "True"), None)

    def pods(self, name: str) -> list[Json]:
        """Its pods, the lowest rank first."""
        path = f"{self._pods}?labelSelector=batch.kubernetes.io/job-name%3D{name}"
        items: list[Json] = json.loads(self.client.send("GET", path))["items"]
        return sorted(items, key=rank_of)

    def pod(self, name: str) -> Json:
        """A pod by its name."""
        found: Json = json.loads(self.client.send("GET", f"{self._pods}/{name}"))
        return found

    def wait(self, name: str, what: str, condition: Callable[[list[Json]], Any]) -> list[Json]:
        """Until it holds of the Job's pods, which are returned."""
        found: list[list[Json]] = []

        def holds() -> bool:
            found.append(self.pods(name))
            return bool(condition(found[-1]))

        def evidence() -> str:
            pods = [(one["metadata"]["name"], one["status"]) for one in found[-1]]
            return json.dumps([self.status(name), pods], indent=1)

        wait_until(f"{name}: {what}", holds, timeout_s=WITHIN_S, evidence=evidence)
        return found[-1]

    def running(self, name: str, count: int = 1) -> list[Json]:
        return self.wait(
            name, f"{count} pods run", lambda pods: sum(map(is_running, pods)) == count == len(pods)
        )

    def condition_comes(self, name: str, kind: str) -> Json:
        self.wait(name, f"is {kind}", lambda _: self.condition(name, kind))
        found = self.condition(name, kind)
        assert found is not None
        return found

    def evict(self, pod: str, **options: Any) -> None:
        body = {"metadata": {"name": pod}, "deleteOptions": options}
        self.client.send("POST", f"{self._pods}/{pod}/eviction", body)

    def delete(self, pod: str) -> None:
        self.client.send("DELETE", f"{self._pods}/{pod}")

    @property
    def _jobs(self) -> str:
        return f"/apis/batch/v1/namespaces/{self.namespace}/jobs"

    @property
    def _pods(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods"


def _job(name: str, script: str, ranks: int, pod: Json, spec: Json) -> Json:
    container = {"name": "main", "image": BUSYBOX_IMAGE, "command": ["sh", "-c", script]}
    made = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 10, "containers": [container], **pod}
    counts = {"completionMode": "Indexed", "parallelism": ranks, "completions": ranks}
    return {
        "metadata": {"name": name},
        "spec": {**counts, "backoffLimit": 0, "template": {"spec": made}, **spec},
    }


def rank_of(pod: Mapping[str, Any]) -> int:
    return int(pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"])


def is_running(pod: Mapping[str, Any]) -> bool:
    return pod["status"].get("phase") == "Running" and not is_told(pod)


def is_told(pod: Mapping[str, Any]) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def is_disrupted(pod: Mapping[str, Any]) -> bool:
    conditions = pod["status"].get("conditions") or ()
    return any(one["type"] == "DisruptionTarget" and one["status"] == "True" for one in conditions)
