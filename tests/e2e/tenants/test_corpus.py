"""Objects made at random, stored by a real API server and read back: parsers can read all that it has."""

import os
from collections.abc import Callable, Iterator
from functools import partial

import pytest
from hypothesis import strategies as st

from tests.e2e.cluster.binaries import Binaries
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.https_client import Client, Json
from tests.e2e.cluster.waiting import wait_until
from tests.e2e.identity_api import JOB_SET_KIND
from tests.e2e.kustomize import DEPLOY, build
from tests.e2e.tenants import corpus, kinds_corpus
from tests.e2e.tenants.installation import SchedulerProcess, Tenant, acting_as, tile_pod, wait_until_placed
from tests.e2e.tenants.stored import Corpus

IS_SOAK = os.environ.get("ACCELET_HYPOTHESIS_PROFILE") == "soak"
OBJECTS = 10_000 if IS_SOAK else 150
Say = Callable[[str], None]

ACCELET, JOB_SETS = "/apis/accelet.dev/v1alpha1", "/apis/jobset.x-k8s.io/v1alpha2"


@pytest.fixture(scope="module")
def kinds(control_plane: ControlPlane, binaries: Binaries) -> Iterator[None]:
    """Our own kinds, and that of a stranger."""
    definitions = [*build(DEPLOY / "crds", binaries.path("kubectl")), JOB_SET_KIND]
    with control_plane.workloads.applied(definitions):
        for path in (
            f"{ACCELET}/gputasks",
            f"{ACCELET}/slicerequests",
            f"{JOB_SETS}/jobsets",
        ):
            wait_until(f"{path} is served", partial(control_plane.client.try_get, path), timeout_s=30)
        yield


@pytest.mark.usefixtures("kinds")
@pytest.mark.timeout(6_000 if IS_SOAK else 300)
def test_whatever_is_stored_can_be_read(
    mallory: Tenant, alice: Tenant, control_plane: ControlPlane, scheduler: SchedulerProcess, say: Say
) -> None:
    """By the parsers, and what is decided of it then; and by the scheduler, that watches meanwhile."""
    parts = list(corpora(mallory, control_plane))
    assert sum(share for *_, share in parts) == 100
    for one, strategy, share in parts:
        one.fill(strategy, max(5, OBJECTS * share // 100))
        readings = f"{one.unreadable} readings said what is wrong"
        say(f"\n{one.kind}: {one.stored} stored, {len(one.refusals)} refused, {readings}")
        assert one.stored, one.refusals[-1:]
    assert sum(one.stored for one, *_ in parts) > OBJECTS / 2
    alice.make("Pod", tile_pod("modest"))
    wait_until_placed(alice, "modest")
    assert scheduler.is_running
    assert scheduler.faults() == []
    assert scheduler.longest_line < 5_000


Part = tuple[Corpus, st.SearchStrategy[Json], int]
"""How many of a hundred objects are of it."""


def corpora(mallory: Tenant, control_plane: ControlPlane) -> Iterator[Part]:
    """What a tenant writes, a node that was taken over, and who has stolen the token of the scheduler."""
    administrator = control_plane.client
    thief = acting_as(control_plane, "kube-system", "accelet-scheduler")
    here = f"/namespaces/{mallory.namespace}"
    resources = "/apis/resource.k8s.io/v1"

    def of(kind: str, path: str, writer: Client = mallory.client, *, has_status: bool = False) -> Corpus:
        return Corpus(kind, writer, administrator, path, has_status=has_status)

    yield of("Pod", mallory.path("Pod")), corpus.pods() | kinds_corpus.tasks_pods(), 40
    yield of("Job", mallory.path("Job")), corpus.jobs(), 10
    yield of("StatefulSet", f"/apis/apps/v1{here}/statefulsets"), kinds_corpus.stateful_sets(), 2
    yield of("Service", f"/api/v1{here}/services"), kinds_corpus.services(), 1
    yield of("Event", f"/api/v1{here}/events"), kinds_corpus.events(mallory.namespace), 3
    yield of("JobSet", f"{JOB_SETS}{here}/jobsets", administrator), kinds_corpus.job_sets(), 4
    yield of("GPUTask", f"{ACCELET}{here}/gputasks", administrator), kinds_corpus.tasks(), 8
    path = f"{ACCELET}{here}/slicerequests"
    yield of("SliceRequest", path, administrator), kinds_corpus.slice_requests(), 6
    path = f"{resources}{here}/resourceclaims"
    yield of("ResourceClaim", path, administrator, has_status=True), kinds_corpus.claims(), 6
    path = f"/apis/coordination.k8s.io/v1{here}/leases"
    yield of("Lease", path, administrator), kinds_corpus.leases(), 2
    yield of("Node", "/api/v1/nodes", administrator), corpus.nodes(), 8
    path = f"{resources}/resourceslices"
    yield of("ResourceSlice", path, administrator), kinds_corpus.resource_slices(), 2
    yield of("ConfigMap", mallory.path("ConfigMap"), thief), corpus.plans(mallory.namespace), 8
