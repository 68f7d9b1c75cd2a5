"""The policies of deploy/identity on a real API server do what the pure functions say, for anything."""

import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from accelet.provisioner.identity.names import COORDINATOR, FIRST_SLICE, SLICES, WORKERS
from accelet.provisioner.identity.worker import (
    environment_of,
    judge_pod,
    merged_environment,
    parse_worker_pod,
)
from accelet.provisioner.identity.workloads import (
    judge_changed_job,
    judge_job,
    judge_job_set,
    judge_set,
    parse_worker_job,
    parse_worker_job_set,
    parse_worker_set,
)
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.identity_api import (
    JOB_SETS,
    JOBS,
    PODS,
    SETS,
    Answer,
    Api,
    identity_in_force,
    job_sets_known,
    suspended_job,
)
from tests.unit.provisioner import identity_objects as objects
from tests.unit.provisioner.identity_notices import notice_job, notice_job_set, notice_pod, notice_set
from tests.unit.provisioner.manifests import job_set

Json = dict[str, Any]

STAMPS = (WORKERS, SLICES, FIRST_SLICE, COORDINATOR)
BATCH = 50


@pytest.fixture(scope="module")
def api(cluster: ControlPlane) -> Iterator[Api]:
    """With the policies in force, and a Job that is older than they are."""
    cluster.workloads.apply(suspended_job("before", pods=2))
    with closing(Api(cluster)) as api, job_sets_known(cluster), identity_in_force(cluster, api):
        yield api
    cluster.client.send("DELETE", f"{JOBS}/before")


seeded = settings(
    deadline=None,
    derandomize=True,
    # A batch that fails is small enough to read, and each smaller one would be asked for again.
    phases=(Phase.generate,),
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
        assert answer.refusal == judge_pod(pod), body
        if answer.refusal is not None:
            continue
        assert answer.warning == notice_pod(pod), body
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
        assert answer.refusal == judge_job(found), body
        if answer.refusal is None:
            assert answer.warning == notice_job(found)
            assert _stamps(answer.body["spec"]["template"]) == dict(found.stamps)


@settings(seeded, max_examples=3)
@given(bodies=st.lists(objects.stateful_sets(), min_size=BATCH, max_size=BATCH))
def test_stateful_sets_are_stamped_or_refused(api: Api, bodies: list[Json]) -> None:
    for body, answer in _all(api, SETS, bodies):
        found = parse_worker_set(body)
        assert answer.refusal == judge_set(found), body
        if answer.refusal is None:
            assert answer.warning == notice_set(found)
            assert _stamps(answer.body["spec"]["template"]) == dict(found.stamps)


@settings(seeded, max_examples=4)
@given(bodies=st.lists(objects.job_sets(), min_size=BATCH, max_size=BATCH))
def test_job_sets_are_stamped_or_refused(api: Api, bodies: list[Json]) -> None:
    for body, answer in _all(api, JOB_SETS, bodies):
        found = parse_worker_job_set(body)
        assert answer.refusal == judge_job_set(found), body
        if answer.refusal is None:
            assert answer.warning == notice_job_set(found)
            seen = [
                _stamps(each["template"]["spec"]["template"])
                for each in answer.body["spec"]["replicatedJobs"]
            ]
            assert seen == [dict(found.stamps(each)) for each in found.jobs]


def test_a_suspended_job_set_is_stamped_once_a_queue_says_of_which_tpus_it_is(
    cluster: ControlPlane, api: Api
) -> None:
    """As Kueue lets one run: with the node labels of its ResourceFlavor, in one update with `suspend`."""
    raw = job_set("queued", restartPolicy="Never")
    kept = {"labels": {"kueue.x-k8s.io/queue-name": "tpus"}}
    body = {**raw, "metadata": {"name": "queued", **kept}, "spec": {**raw["spec"], "suspend": True}}
    template = body["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    flavor = template.pop("nodeSelector")
    cluster.client.send("POST", JOB_SETS, body)
    path = f"{JOB_SETS}/queued"

    def update(**changes: Any) -> Json:
        """What an update that only tries makes of the JobSet's first template."""
        seen: Json = json.loads(cluster.client.send("GET", path))
        replicated = seen["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
        replicated["spec"] |= changes.pop("pods", {})
        seen["spec"] |= changes
        answer = api.send("PUT", path, seen)
        assert answer.refusal is None
        made: Json = answer.body["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
        stamps = parse_worker_job_set(seen)
        assert not _stamps(made) or _stamps(made) == dict(stamps.stamps(stamps.jobs[0]))
        return made

    assert _stamps(update()) == {}
    assert _stamps(update(suspend=False)) == {}
    let_run = update(suspend=False, pods={"nodeSelector": flavor})
    assert _stamps(let_run) == {SLICES: "2", FIRST_SLICE: "0", COORDINATOR: "w"}

    cluster.client.send("PATCH", path, {"spec": {"suspend": False}})
    running = update(pods={"nodeSelector": flavor})
    assert _stamps(running) == {}, "the Jobs of one that runs would not get them, and JobSet would refuse it"
    cluster.client.send("DELETE", path)


def test_jobs_are_judged_anew_where_they_change(cluster: ControlPlane, api: Api) -> None:
    cluster.workloads.apply(suspended_job("changed"))
    for name, sentence in (
        ("changed", "the workers' names were made for 4 pods, not for 8: make a new Job"),
        ("before", "4x4 with 4 chips a pod needs 4 pods, the Job has 8"),
    ):
        path = f"{JOBS}/{name}"
        seen: Json = json.loads(cluster.client.send("GET", path))
        seen["metadata"]["labels"]["mine"] = "changed"
        # The Job controller writes a new Job's status at any moment: nothing conflicts without a version.
        del seen["metadata"]["resourceVersion"]
        assert api.send("PUT", path, seen).refusal is None
        seen["spec"] |= {"completions": 8, "parallelism": 8}
        found = judge_changed_job(parse_worker_job(seen))
        assert api.send("PUT", path, seen).refusal == found == sentence
    cluster.client.send("DELETE", f"{JOBS}/changed")


def _stamps(template: Json) -> Mapping[str, str]:
    annotations = template.get("metadata", {}).get("annotations", {})
    return {key: value for key, value in annotations.items() if key in STAMPS}
