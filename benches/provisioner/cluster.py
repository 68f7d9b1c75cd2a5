"""A cluster in which many slices of simulated machines are ready, as an API server would have it."""

from collections.abc import Iterator
from typing import Any

import msgspec

from accelet.fakeapi import FakeApi
from accelet.kinds.slicerequest import (
    FINALIZER,
    SliceRequestSpec,
    SliceRequestStatus,
    SliceSet,
)
from accelet.provisioner.deciding.view import SliceRecord
from accelet.provisioner.demand.selectors import SLICE_LABELS
from accelet.provisioner.planning import Identity, machines_of, plan_pool
from accelet.provisioner.pools.machines import Refusal
from accelet.provisioner.pools.plan import NOT_READY, PoolPlan, pool_name
from accelet.provisioner.pools.tiers import Attempt, Tier
from accelet.provisioner.providers.simulated.body import SimulatedPool, node_body, render_body, status_body
from accelet.provisioner.record import status_of
from accelet.provisioner.settings import DEFAULT_SETTINGS

REQUESTS = "apis/accelet.dev/v1alpha1/slicerequests"
NODES, PODS, MAPS = "api/v1/nodes", "api/v1/pods", "api/v1/configmaps"
NAMESPACE = "ml"
_SPEC = SliceRequestSpec(
    accelerator="tpu-v6e-slice", topology="4x4", chips_per_pod=4, slice_set=SliceSet(name="a-set")
)
_MADE_S, _TIME = 1_700_000_000.0, "2023-11-14T22:13:20Z"


def request(number: int) -> dict[str, Any]:
    """A SliceRequest as a person writes it, a set of its own."""
    name = f"slice-{number}"
    spec = msgspec.structs.replace(_SPEC, slice_set=SliceSet(name=name))
    metadata = {"name": name, "namespace": NAMESPACE, "finalizers": [FINALIZER]}
    return {"metadata": metadata, "spec": msgspec.to_builtins(spec)}


def member(number: int, size: int) -> dict[str, Any]:
    """A SliceRequest of one machine in a set of that many."""
    spec = msgspec.structs.replace(_SPEC, topology="2x2", slice_set=SliceSet(name="large", size=size))
    metadata = {"name": f"large-{number}", "namespace": NAMESPACE, "finalizers": [FINALIZER]}
    return {"metadata": metadata, "spec": msgspec.to_builtins(spec)}


def fill(api: FakeApi, slices: int, cluster: str) -> None:
    """Puts that many ready slices into the API server, each with its pool, its Nodes and a pod on each."""
    for number in range(slices):
        made = api.state.create(REQUESTS, NAMESPACE, request(number))
        name, uid = made["metadata"]["name"], made["metadata"]["uid"]
        plan = _plan(name, uid, cluster)
        record = SliceRecord("Ready", since_s=_MADE_S, attempt=1, pool=plan.name, tier="on-demand", sent=True)
        status = status_of(record, "4/4", SliceRequestStatus())
        api.state.patch(REQUESTS, (NAMESPACE, name), "merge-patch", {"status": status})
        body = render_body(plan, created_s=_MADE_S)
        api.state.create(MAPS, "kube-system", body)
        pool = msgspec.json.decode(body["data"]["pool"], type=SimulatedPool)
        for node in nodes(name, plan, pool):
            api.state.create(NODES, "", node)
            node_name = node["metadata"]["name"]
            pod = {
                "metadata": {"name": f"pod-{node_name}"},
                "spec": {"nodeName": node_name, "containers": []},
            }
            api.state.create(PODS, NAMESPACE, pod | {"status": {"phase": "Running"}})


def nodes(request_name: str, plan: PoolPlan, pool: SimulatedPool) -> Iterator[dict[str, Any]]:
    """The pool's Nodes, ready, bound and open."""
    for index in range(pool.hosts):
        node = node_body(plan.name, index, pool) | status_body(pool, _TIME)
        node["metadata"]["labels"] |= dict.fromkeys(SLICE_LABELS, request_name)
        node["spec"]["taints"] = [one for one in node["spec"]["taints"] if one["key"] != NOT_READY.key]
        yield node


def _plan(name: str, uid: str, cluster: str) -> PoolPlan:
    machines = machines_of(_SPEC)
    assert not isinstance(machines, Refusal)
    identity = Identity(pool_name(name, uid, 1), uid, cluster)
    plan = plan_pool(_SPEC, machines, Attempt(Tier("on-demand"), ""), identity, DEFAULT_SETTINGS)
    assert not isinstance(plan, Refusal)
    return plan
