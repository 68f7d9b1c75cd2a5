"""Objects made at random, stored by a real API server and read back: parsers can read all that it has."""

import os
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accelet.kube.objects import read_page
from accelet.kube.podparser import parse_pod
from accelet.scheduler.cluster.topology import Scheme
from accelet.scheduler.gangs.grouping import EXCLUSIVE, GANG_SIZE, GATE_PREFIX
from accelet.scheduler.gangs.levels import REQUIRED_LEVEL
from accelet.scheduler.state import SchedulerState
from tests.e2e.cluster.https_client import Json, RefusedError
from tests.e2e.tenants.installation import Tenant

OBJECTS = 10_000 if os.environ.get("ACCELET_HYPOTHESIS_PROFILE") == "soak" else 150
DIGITS = st.text("0123456789", min_size=1, max_size=30) | st.integers(1, 5000).map(lambda size: "9" * size)
AMOUNTS = st.tuples(
    DIGITS,
    st.just("") | DIGITS.map(lambda digits: f".{digits}"),
    st.sampled_from(["", "n", "u", "m", "k", "Ki", "E", "Ei"])
    | st.integers(-20_000, 20_000).map("e{}".format),
).map("".join)
WHOLE = DIGITS | st.integers(0, 20_000).map("1e{}".format)
NOTES = st.dictionaries(
    st.sampled_from([GANG_SIZE, REQUIRED_LEVEL, EXCLUSIVE, "gas-same-gpu", "gas-allow", "gas-deny", "x.y/z"]),
    DIGITS | st.text(max_size=50) | st.integers(0, 20_000).map(lambda size: "[" * size),
    max_size=4,
)
LIMITS = st.dictionaries(st.sampled_from(["cpu", "memory", "ephemeral-storage"]), AMOUNTS, max_size=3)
DEVICES = st.dictionaries(
    st.sampled_from(["x.y/z", "gpu.intel.com/i915", "gpu.intel.com/tiles", "gpu.intel.com/memory.max"]),
    WHOLE,
    max_size=3,
)


@st.composite
def pods(draw: st.DrawFn) -> Json:
    fields: Json = {}
    for _ in range(draw(st.integers(0, 300))):
        fields = {"f:a": fields}
    entry = {"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1"}
    container = {"name": "main", "image": "none", "resources": {"limits": {**draw(LIMITS), **draw(DEVICES)}}}
    spec: dict[str, Any] = {
        "terminationGracePeriodSeconds": draw(st.sampled_from([0, 1, 9_000_000_000, 2**63 - 1])),
        "containers": [container],
        "schedulingGates": [{"name": f"{GATE_PREFIX}{draw(st.sampled_from('abc'))}"}],
        "tolerations": [
            {
                "key": "k",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": draw(st.integers(0, 2**63 - 1)),
            }
        ],
    }
    metadata = {
        "generateName": "corpus-",
        "annotations": draw(NOTES),
        "managedFields": [{**entry, "fieldsV1": fields}],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


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
