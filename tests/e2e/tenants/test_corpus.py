"""Objects made at random, stored by a real API server and read back: parsers can read all that it has."""

import os

from hypothesis import HealthCheck, given, settings

from accelet.kube.objects import read_page
from accelet.kube.podparser import parse_pod
from accelet.scheduler.cluster.topology import Scheme
from accelet.scheduler.gangs.grouping import GATE_PREFIX
from accelet.scheduler.state import SchedulerState
from tests.e2e.cluster.https_client import Json, RefusedError
from tests.e2e.tenants.corpus import pods
from tests.e2e.tenants.installation import Tenant

OBJECTS = 10_000 if os.environ.get("ACCELET_HYPOTHESIS_PROFILE") == "soak" else 150


def test_whatever_is_stored_can_be_read(mallory: Tenant) -> None:
    stored = 0
    refusals: list[str] = []

    @settings(max_examples=OBJECTS, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(pods())
    def store(pod: Json) -> None:
        nonlocal stored
        try:
            made = mallory.make("Pod", pod)
        except RefusedError as error:
            assert error.status in (400, 403, 422)  # noqa: PT017 - what is refused harms nobody
            refusals.append(str(error))
            return
        stored += 1
        path = mallory.path("Pod", made["metadata"]["name"])
        parsed = parse_pod(mallory.client.send("GET", path).encode())
        assert parsed.uid == made["metadata"]["uid"]
        mallory.client.send("DELETE", path, {"gracePeriodSeconds": 0})

    store()
    assert stored > OBJECTS / 4, refusals[-3:]


def test_a_list_of_them_makes_gangs(mallory: Tenant) -> None:
    state = SchedulerState(Scheme(), GATE_PREFIX)
    for pod in (
        {"resources": {"limits": {"x.y/z": "9" * 5000}}},
        {"resources": {"limits": {"memory": "1e10001"}}},
        {"resources": {"limits": {"gpu.intel.com/i915": "9" * 5000, "gpu.intel.com/tiles": "9" * 4999}}},
    ):
        body: Json = {
            "metadata": {"generateName": "absurd-"},
            "spec": {
                "schedulingGates": [{"name": f"{GATE_PREFIX}a"}],
                "containers": [{"name": "main", "image": "none", **pod}],
            },
        }
        mallory.make("Pod", body)
    page = read_page(mallory.client.send("GET", mallory.path("Pod")).encode(), "Pod")
    for item in page.items:
        state.set_pod(parse_pod(item))
    assert len(page.items) == 3
    assert state.gangs()
