"""The policies of deploy/identity on a real API server do what the pure functions say, for anything."""

import http.client
import json
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import local
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accelet.provisioner.identity.names import COORDINATOR, FIRST_SLICE, SLICES, WORKERS
from accelet.provisioner.identity.notices import notice_job, notice_job_set, notice_pod, notice_set
from accelet.provisioner.identity.worker import (
    environment_of,
    judge_pod,
    merged_environment,
    parse_worker_pod,
)
from accelet.provisioner.identity.workloads import (
    judge_job,
    judge_job_set,
    judge_set,
    parse_worker_job,
    parse_worker_job_set,
    parse_worker_set,
)
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.waiting import wait_until
from tests.unit.provisioner import identity_objects as objects
from tests.unit.provisioner.manifests import job

Json = dict[str, Any]

FOLDER = Path(__file__).parents[2] / "deploy" / "identity"
STAMPS = (WORKERS, SLICES, FIRST_SLICE, COORDINATOR)
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
        assert len(told) < 2
        return told[0].split(": ", 1)[1].removesuffix('"').replace('\\"', '"') if told else None


class Api:
    """Requests that only try, over a few connections which stay open."""

    def __init__(self, control_plane: ControlPlane) -> None:
        self._host = urlsplit(control_plane.url).netloc
        self._token = control_plane.admin_token.text
        self._trust = ssl.create_default_context(cafile=str(control_plane.authority.keys.certificate))
        self._own = local()

    def send(self, method: str, path: str, body: Json) -> Answer:
        connection = getattr(self._own, "connection", None)
        if connection is None:
            connection = self._own.connection = http.client.HTTPSConnection(
                self._host, timeout=60, context=self._trust
            )
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        connection.request(method, path + "?dryRun=All", json.dumps(body), headers)
        response = connection.getresponse()
        answer: Json = json.loads(response.read())
        return Answer(response.status, answer, response.headers.get_all("Warning") or [])


@pytest.fixture(scope="module")
def api(cluster: ControlPlane) -> Iterator[Api]:
    """With the policies in force, and the kind JobSet known."""
    workloads, api = cluster.workloads, Api(cluster)
    cluster.client.send("POST", DEFINITIONS, JOB_SET_KIND)
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
        good = job(pods=4, subdomain="svc", restartPolicy="Never")
        del good["metadata"]["namespace"], good["metadata"]["uid"]
        wait_until(
            "Jobs are stamped",
            lambda: WORKERS in str(api.send("POST", "/apis/batch/v1/namespaces/default/jobs", good).body),
            timeout_s=60,
        )
        yield api
    cluster.client.send("DELETE", f"{DEFINITIONS}/jobsets.jobset.x-k8s.io")


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


PODS = "/api/v1/namespaces/default/pods"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
SETS = "/apis/apps/v1/namespaces/default/statefulsets"
JOB_SETS = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets"

BATCH = 50
seeded = settings(
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)


def _all(api: Api, path: str, bodies: Sequence[Json]) -> Iterator[tuple[Json, Answer]]:
    with ThreadPoolExecutor(4) as threads:
        yield from zip(bodies, threads.map(lambda body: api.send("POST", path, body), bodies), strict=True)


@settings(seeded, max_examples=20)
@given(bodies=st.lists(objects.pods(), min_size=BATCH, max_size=BATCH))
def test_pods_get_what_the_pure_function_says(api: Api, bodies: list[Json]) -> None:
    for body, answer in _all(api, PODS, bodies):
        pod = parse_worker_pod(body)
        assert answer.refusal == judge_pod(pod)
        assert answer.warning == (None if answer.refusal else notice_pod(pod))
        if answer.refusal is not None:
            continue
        given_to = {one.place: environment_of(pod) for one in pod.template.containers}
        for one in pod.template.containers:
            kind, index = one.place.split("/")
            env = answer.body["spec"][kind][int(index)].get("env", [])
            seen = [(each["name"], None if "valueFrom" in each else each.get("value", "")) for each in env]
            assert seen == list(merged_environment(one, given_to[one.place]))
        others = [each for each in answer.body["spec"]["containers"] if "resources" not in each]
        assert all(each.get("env") == _written(body, each["name"]) for each in others)


def _written(body: Json, name: str) -> Any:
    return next(each.get("env") for each in body["spec"]["containers"] if each["name"] == name)


@settings(seeded, max_examples=4)
@given(bodies=st.lists(objects.jobs(), min_size=BATCH, max_size=BATCH))
def test_jobs_are_stamped_or_refused(api: Api, bodies: list[Json]) -> None:
    for body, answer in _all(api, JOBS, bodies):
        found = parse_worker_job({**body, "metadata": {"name": "a"}})
        assert answer.refusal == judge_job(found)
        if answer.refusal is None:
            assert answer.warning == notice_job(found)
            assert _stamps(answer.body["spec"]["template"]) == dict(found.stamps)


@settings(seeded, max_examples=3)
@given(bodies=st.lists(objects.stateful_sets(), min_size=BATCH, max_size=BATCH))
def test_stateful_sets_are_stamped_or_refused(api: Api, bodies: list[Json]) -> None:
    for body, answer in _all(api, SETS, bodies):
        found = parse_worker_set(body)
        assert answer.refusal == judge_set(found)
        if answer.refusal is None:
            assert answer.warning == notice_set(found)
            assert _stamps(answer.body["spec"]["template"]) == dict(found.stamps)


@settings(seeded, max_examples=4)
@given(bodies=st.lists(objects.job_sets(), min_size=BATCH, max_size=BATCH))
def test_job_sets_are_stamped_or_refused(api: Api, bodies: list[Json]) -> None:
    for body, answer in _all(api, JOB_SETS, bodies):
        found = parse_worker_job_set(body)
        assert answer.refusal == judge_job_set(found)
        if answer.refusal is None:
            assert answer.warning == notice_job_set(found)
            seen = [
                _stamps(each["template"]["spec"]["template"])
                for each in answer.body["spec"]["replicatedJobs"]
            ]
            assert seen == [dict(found.stamps(each)) for each in found.jobs]


def _stamps(template: Json) -> Mapping[str, str]:
    annotations = template.get("metadata", {}).get("annotations", {})
    return {key: value for key, value in annotations.items() if key in STAMPS}
