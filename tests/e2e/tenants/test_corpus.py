"""Objects made at random, stored by a real API server and read back: parsers can read all that it has."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import pytest
from hypothesis import strategies as st

from tests.e2e.cluster.binaries import Binaries
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.https_client import Client, Json
from tests.e2e.cluster.waiting import wait_until
from tests.e2e.kustomize import DEPLOY, build
from tests.e2e.tenants import corpus, kinds_corpus, others_corpus
from tests.e2e.tenants.installation import SchedulerProcess, Tenant, acting_as, tile_pod, wait_until_placed
from tests.e2e.tenants.others_corpus import STRANGERS, definition
from tests.e2e.tenants.stored import Corpus

IS_SOAK = os.environ.get("ACCELET_HYPOTHESIS_PROFILE") == "soak"
OBJECTS = 10_000 if IS_SOAK else 150
SHARES: Mapping[str, float] = {
    "Pod": 32,
    "Job": 8,
    "StatefulSet": 2,
    "Service": 1,
    "Event": 3,
    "JobSet": 4,
    "GPUTask": 8,
    "OriginalTask": 1,
    "Move": 4,
    "SliceRequest": 5,
    "ResourceClaim": 6,
    "Lease": 1,
    "Node": 7,
    "ResourceSlice": 2,
    "ConfigMap": 5,
    "PodDisruptionBudget": 1,
    "Workload": 2,
    "AdmissionCheck": 1,
    "ResourceFlavor": 0.5,
    "Topology": 0.5,
    "ProvisioningRequest": 1,
    "LeaderWorkerSet": 1,
    "PyTorchJob": 0.5,
    "MPIJob": 0.5,
    "RayCluster": 1,
    "SparkApplication": 1,
    "PodGroup": 1,
}
"""How many of a hundred objects are of a kind."""

AT_A_TIME = [[kind] for kind in SHARES] if IS_SOAK else [list(SHARES)]
Say = Callable[[str], None]

ACCELET, ORIGINAL = "/apis/accelet.dev/v1alpha1", "/apis/falldio.com/v1"


@pytest.fixture(scope="module")
def kinds(control_plane: ControlPlane, binaries: Binaries) -> Iterator[None]:
    """Our own kinds, the original's, and those of strangers."""
    shipped = [
        each
        for folder in ("crds", "crds/original")
        for each in build(DEPLOY / folder, binaries.path("kubectl"))
        if each["kind"] == "CustomResourceDefinition"
    ]
    with control_plane.workloads.applied([*shipped, *map(definition, STRANGERS)]):
        for path in (
            *(f"{ACCELET}/{plural}" for plural in ("gputasks", "slicerequests", "moves")),
            f"{ORIGINAL}/gputasks",
            *(f"/apis/{group}/{version}/{plural}" for group, version, plural in STRANGERS.values()),
        ):
            wait_until(f"{path} is served", partial(control_plane.client.try_get, path), timeout_s=30)
        yield


@pytest.mark.usefixtures("kinds")
@pytest.mark.timeout(6_000 if IS_SOAK else 300)
@pytest.mark.parametrize("chosen", AT_A_TIME, ids="-".join if IS_SOAK else lambda _: "all")
def test_whatever_is_stored_can_be_read(  # noqa: PLR0917  what takes part
    chosen: Sequence[str],
    mallory: Tenant,
    alice: Tenant,
    control_plane: ControlPlane,
    scheduler: SchedulerProcess,
    say: Say,
) -> None:
    """By the parsers, and what is decided of it then; and by the scheduler, that watches meanwhile."""
    assert sum(SHARES.values()) == 100
    parts = [part for part in corpora(mallory, control_plane) if part[0].kind in chosen]
    assert len(parts) == len(chosen)
    for one, strategy in parts:
        wanted = max(5, int(OBJECTS * SHARES[one.kind] / 100))
        one.fill(strategy, wanted, tries=50 if IS_SOAK else 1)
        readings = f"{one.unreadable} readings said what is wrong; {one.lost} answers were lost"
        say(f"\n{one.kind}: {one.stored} stored, {len(one.refusals)} refused, {readings}")
        assert one.stored >= (wanted if IS_SOAK else 1), one.refusals[-1:]
    assert sum(one.stored for one, _ in parts) > OBJECTS * sum(map(SHARES.__getitem__, chosen)) / 200
    alice.make("Pod", tile_pod("modest"))
    wait_until_placed(alice, "modest")
    assert scheduler.is_running
    assert scheduler.faults() == []
    assert scheduler.longest_line < 5_000


Part = tuple[Corpus, st.SearchStrategy[Json]]


def corpora(mallory: Tenant, control_plane: ControlPlane) -> Iterator[Part]:
    """What a tenant writes, a node that was taken over, and who has stolen the token of the scheduler."""
    administrator = control_plane.client
    thief = acting_as(control_plane, "kube-system", "accelet-scheduler")
    here = f"/namespaces/{mallory.namespace}"
    resources = "/apis/resource.k8s.io/v1"

    def of(kind: str, path: str, writer: Client = mallory.client, *, has_status: bool = False) -> Corpus:
        return Corpus(kind, writer, administrator, path, has_status=has_status)

    yield of("Pod", mallory.path("Pod")), corpus.pods() | kinds_corpus.tasks_pods()
    yield of("Job", mallory.path("Job")), corpus.jobs()
    yield of("StatefulSet", f"/apis/apps/v1{here}/statefulsets"), kinds_corpus.stateful_sets()
    yield of("Service", f"/api/v1{here}/services"), kinds_corpus.services()
    yield of("Event", f"/api/v1{here}/events"), kinds_corpus.events(mallory.namespace)
    yield of("GPUTask", f"{ACCELET}{here}/gputasks", administrator), kinds_corpus.tasks()
    yield of("OriginalTask", f"{ORIGINAL}{here}/gputasks", administrator), others_corpus.original_tasks()
    yield of("Move", f"{ACCELET}{here}/moves", administrator, has_status=True), others_corpus.moves()
    path = f"/apis/policy/v1{here}/poddisruptionbudgets"
    yield of("PodDisruptionBudget", path), others_corpus.budgets()
    path = f"{ACCELET}{here}/slicerequests"
    yield of("SliceRequest", path, administrator), kinds_corpus.slice_requests()
    path = f"{resources}{here}/resourceclaims"
    yield of("ResourceClaim", path, administrator, has_status=True), kinds_corpus.claims()
    path = f"/apis/coordination.k8s.io/v1{here}/leases"
    yield of("Lease", path, administrator), kinds_corpus.leases()
    yield of("Node", "/api/v1/nodes", administrator), corpus.nodes()
    path = f"{resources}/resourceslices"
    yield of("ResourceSlice", path, administrator), kinds_corpus.resource_slices()
    yield of("ConfigMap", mallory.path("ConfigMap"), thief), corpus.plans(mallory.namespace)
    yield of("JobSet", _of_stranger("JobSet", here), administrator), kinds_corpus.job_sets()
    for kind in others_corpus.SHAPES:
        yield of(kind, _of_stranger(kind, here), administrator), others_corpus.strangers(kind)


def _of_stranger(kind: str, here: str) -> str:
    group, version, plural = STRANGERS[kind]
    return f"/apis/{group}/{version}{here}/{plural}"
