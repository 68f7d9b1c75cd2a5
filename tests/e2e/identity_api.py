"""The policies of deploy/identity in force for a while, and requests that only try."""

import http.client
import json
import ssl
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from accelet.provisioner.identity.names import WORKERS
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.waiting import wait_until
from tests.unit.provisioner.manifests import job

Json = dict[str, Any]

FOLDER = Path(__file__).parents[2] / "deploy" / "identity"
JOB_SET_KIND = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "jobsets.jobset.x-k8s.io"},
    "spec": {
        "group": "jobset.x-k8s.io",
        "scope": "Namespaced",
        "names": {"kind": "JobSet", "plural": "jobsets", "singular": "jobset", "listKind": "JobSetList"},
        "versions": [
            {
                "name": "v1alpha2",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                },
            }
        ],
    },
}
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


PODS = "/api/v1/namespaces/default/pods"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
SETS = "/apis/apps/v1/namespaces/default/statefulsets"
JOB_SETS = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets"


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a request: the object, or the refusal; and the warnings."""

    status: int
    body: Json
    warnings: Sequence[str]

    @property
    def refusal(self) -> str | None:
        """The sentence, without which policy says it."""
        if self.status < 300:
            return None
        message: str = self.body["message"]
        assert "ValidatingAdmissionPolicy" in message, message
        return message.split("denied request: ", 1)[1]

    @property
    def warning(self) -> str | None:
        told = [each.split(" with binding ", 1)[1] for each in self.warnings if " with binding " in each]
        assert len(told) < 2, told
        return told[0].split(": ", 1)[1].removesuffix('"').replace('\\"', '"') if told else None


class Api:
    """Requests that only try, over a few connections which stay open until it is closed."""

    def __init__(self, control_plane: ControlPlane) -> None:
        self._host = urlsplit(control_plane.url).netloc
        self._token = control_plane.admin_token.text
        self._trust = ssl.create_default_context(cafile=str(control_plane.authority.keys.certificate))
        self._idle: deque[http.client.HTTPSConnection] = deque()

    def send(self, method: str, path: str, body: Json) -> Answer:
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = http.client.HTTPSConnection(self._host, timeout=60, context=self._trust)
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        connection.request(method, path + "?dryRun=All", json.dumps(body), headers)
        with connection.getresponse() as response:
            answer: Json = json.loads(response.read())
        self._idle.append(connection)
        return Answer(response.status, answer, response.headers.get_all("Warning") or [])

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()


@contextmanager
def job_sets_known(cluster: ControlPlane) -> Iterator[None]:
    """The API server stores JobSets until the end, whatever is in them."""
    cluster.client.send("POST", DEFINITIONS, JOB_SET_KIND)
    try:
        yield
    finally:
        cluster.client.send("DELETE", f"{DEFINITIONS}/jobsets.jobset.x-k8s.io")


@contextmanager
def identity_in_force(cluster: ControlPlane, api: Api) -> Iterator[None]:
    """Has the shipped policies judge all requests until the end; the kind JobSet must be known."""
    workloads = cluster.workloads
    shipped = [
        each
        for path in sorted(FOLDER.glob("*.yaml"))
        if path.name != "kustomization.yaml"
        for each in yaml.safe_load_all(path.read_text())
    ]

    def is_in_force(path: str, body: Json) -> Callable[[], bool]:
        def probe() -> bool:
            answer = api.send("POST", path, body)
            return answer.status == 422 and "ValidatingAdmissionPolicy" in answer.body["message"]

        return probe

    with workloads.applied(shipped):
        for path, body in _refused().items():
            wait_until(f"{path} is judged", is_in_force(path, body), timeout_s=60)
        # What writes comes into force with what judges, or a moment later.
        good = suspended_job("good")
        wait_until(
            "Jobs are stamped",
            lambda: WORKERS in str(api.send("POST", "/apis/batch/v1/namespaces/default/jobs", good).body),
            timeout_s=60,
        )
        yield


def suspended_job(name: str, pods: int = 4) -> Json:
    """A Job that makes no pods."""
    body = job(pods=pods, subdomain="svc", restartPolicy="Never")
    return {**body, "metadata": {"name": name}, "spec": {**body["spec"], "suspend": True}}


def _refused() -> Mapping[str, Json]:
    """Something of each kind that is refused."""
    spec = job(topology="5x5", restartPolicy="Never")["spec"]
    template = spec["template"]
    stateful = {"template": {"metadata": {"labels": {"a": "b"}}, "spec": {**template["spec"]}}}
    stateful["template"]["spec"].pop("restartPolicy")
    name = {"name": "refused"}
    replicated = [{"name": "w", "template": {"spec": spec}}]
    return {
        PODS: {"metadata": name, "spec": template["spec"]},
        JOBS: {"metadata": name, "spec": spec},
        SETS: {"metadata": name, "spec": {**stateful, "selector": {"matchLabels": {"a": "b"}}}},
        JOB_SETS: {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "metadata": name,
            "spec": {"replicatedJobs": replicated},
        },
    }
