"""The admission policies of deploy/policies, in force for a while."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import yaml

from tests.e2e.cluster.https_client import Json, RefusedError
from tests.e2e.cluster.waiting import wait_until
from tests.e2e.cluster.workloads import COLLECTIONS, Workloads

FOLDER = Path(__file__).parents[2] / "deploy" / "policies"
PODS = "/api/v1/namespaces/default/pods"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
TRIED = "?dryRun=All"


@contextmanager
def policies_in_force(workloads: Workloads) -> Iterator[None]:
    """Has the shipped policies judge all requests until the end, and none a moment later.

    The API server takes policies up, and forgets them, some time after they are written: what comes of
    requests that only try (`dryRun`) shows when.
    """
    effects = (_gates, _demands_a_scheduler, _protects_assignments, _protects_plans)
    with workloads.applied(_shipped()):
        for effect in effects:
            _wait(workloads, effect, wanted=True)
        yield
    for effect in effects:
        _wait(workloads, effect, wanted=False)


def gate_out_of_force(workloads: Workloads) -> AbstractContextManager[None]:
    """Takes away for a while what gives pods the gate, as in a cluster before Kubernetes 1.36."""
    return _out_of_force(workloads, "MutatingAdmissionPolicyBinding", "accelet-gate", _gates)


@contextmanager
def requests_out_of_force(workloads: Workloads) -> Iterator[None]:
    """Lets pods have cards for a while that no scheduler has chosen."""
    binding = "ValidatingAdmissionPolicyBinding"
    with (
        gate_out_of_force(workloads),
        _out_of_force(workloads, binding, "accelet-requests", _demands_a_scheduler),
    ):
        yield


def assignments_out_of_force(workloads: Workloads) -> AbstractContextManager[None]:
    """Lets everybody write assignments for a while, as administrators do in an emergency."""
    return _out_of_force(
        workloads, "ValidatingAdmissionPolicyBinding", "accelet-assignments", _protects_assignments
    )


@contextmanager
def _out_of_force(
    workloads: Workloads, kind: str, name: str, effect: Callable[[Workloads], bool]
) -> Iterator[None]:
    (binding,) = (each for each in _shipped() if each["kind"] == kind and each["metadata"]["name"] == name)
    workloads.client.send("DELETE", f"{COLLECTIONS[kind]}/{name}")
    _wait(workloads, effect, wanted=False)
    yield
    workloads.apply(binding)
    _wait(workloads, effect, wanted=True)


def _shipped() -> Iterator[Json]:
    for path in sorted(FOLDER.glob("*.yaml")):
        if path.name != "kustomization.yaml":
            yield from yaml.safe_load_all(path.read_text())


def _wait(workloads: Workloads, effect: Callable[[Workloads], bool], *, wanted: bool) -> None:
    what = f"the API server{'' if wanted else ' no longer'} {effect.__name__.strip('_').replace('_', ' ')}"
    wait_until(what, lambda: effect(workloads) is wanted, timeout_s=30)


def _gates(workloads: Workloads) -> bool:
    pod = _pod(resources={"limits": {"gpu.intel.com/tiles": "1", "gpu.intel.com/i915": "1"}})
    try:
        return "accelet.dev/cards" in workloads.client.send("POST", PODS + TRIED, pod)
    except RefusedError:
        return False


def _demands_a_scheduler(workloads: Workloads) -> bool:
    pod = _pod(resources={"limits": {"gpu.intel.com/tiles": "1"}})
    pod["spec"]["nodeName"] = "some-node"
    return _is_refused(workloads, PODS, pod)


def _protects_assignments(workloads: Workloads) -> bool:
    pod = _pod()
    pod["metadata"]["annotations"] = {"gas-ts": "1"}
    return _is_refused(workloads, PODS, pod)


def _protects_plans(workloads: Workloads) -> bool:
    labels = {"accelet.dev/placement-plan": "v1"}
    plan: Json = {"metadata": {"name": "forged", "labels": labels}}
    return _is_refused(workloads, CONFIG_MAPS, plan)


def _is_refused(workloads: Workloads, path: str, body: Json) -> bool:
    try:
        workloads.client.send("POST", path + TRIED, body)
    except RefusedError as error:
        return error.status in (403, 422)
    return False


def _pod(**container: object) -> Json:
    containers = [{"name": "main", "image": "none", **container}]
    return {"metadata": {"name": "policies-in-force"}, "spec": {"containers": containers}}
