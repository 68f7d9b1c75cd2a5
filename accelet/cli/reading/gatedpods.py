"""The pods that our gates hold: lists them, stops that more are held, and lifts the gates off them."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from accelet.kube.apiresources import PODS, ApiResource, Body
from accelet.kube.client import Client
from accelet.kube.errors import (
    ConflictError,
    ForbiddenError,
    GoneError,
    MalformedObjectError,
    NotFoundError,
)
from accelet.kube.podparser import parse_pod
from accelet.kube.pods import Pod
from accelet.scheduler.gangs.grouping import is_gated, is_ours

_GROUP: Final = "admissionregistration.k8s.io"
MUTATING_BINDINGS: Final = ApiResource(
    "MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings", _GROUP
)
VALIDATING_BINDINGS: Final = ApiResource(
    "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", _GROUP
)
GATE: Final = "accelet-gate"
"""The binding by which the API server adds the gate, in deploy/policies/gate.yaml."""

GUARD: Final = "accelet-assignments"
"""The one by which nobody but the scheduler may lift it, in deploy/policies/assignments.yaml."""

_PAGE: Final = 1000
_SETTLE_S: Final = 3.0
"""API servers look for changed policies once a second; until all have, pods may still get the gate."""

_LIFT_S: Final = 4 * _SETTLE_S
_RETRY_S: Final = 0.5


async def list_gated(client: Client) -> tuple[Sequence[Pod], Sequence[str]]:
    """The pods that wait at a gate of ours, by namespace and name, and a note on each that cannot be read.

    Raises:
        KubeError: the API server refuses, or is away.
    """
    try:
        pages = [page async for page in client.list_pages(PODS, None, None, _PAGE)]
    except GoneError:  # it took longer than the API server keeps a list's version
        pages = [page async for page in client.list_pages(PODS, None, None, None)]
    found: list[Pod] = []
    notes: list[str] = []
    for raw in (raw for page in pages for raw in page.items):
        try:
            pod = parse_pod(raw, keeps_environment=False)
        except MalformedObjectError as error:
            notes.append(f"not looked at: {error}")
            continue
        if is_gated(pod):
            found.append(pod)
    return sorted(found, key=lambda pod: pod.key), notes


async def stop_gating(client: Client, settle_s: float = _SETTLE_S) -> None:
    """Takes the binding away by which pods get the gate; returns when API servers have noticed.

    Raises:
        KubeError: the API server refuses, or is away.
    """
    with suppress(NotFoundError):
        await client.delete(MUTATING_BINDINGS, None, GATE)
        await asyncio.sleep(settle_s)


async def lift_all(client: Client, pods: Sequence[Pod], each_s: float = _LIFT_S) -> Sequence[Pod]:
    """Lifts our gates off these pods, after the binding by which nobody may; returns those that stay gated.

    A pod is given up after `each_s`: something else, a webhook say, refuses to have it changed.

    Raises:
        KubeError: the API server refuses otherwise, or is away.
    """
    with suppress(NotFoundError):
        await client.delete(VALIDATING_BINDINGS, None, GUARD)
    stuck: list[Pod] = []
    for pod in pods:
        try:
            async with asyncio.timeout(each_s):
                await _lift(client, pod)
        except TimeoutError:
            stuck.append(pod)
    return stuck


async def _lift(client: Client, pod: Pod) -> None:
    """Asks again while the API server still knows the policy, and where the pod changes under our hands."""
    with suppress(NotFoundError):
        while True:
            newest = parse_pod(await client.get(PODS, *pod.key), keeps_environment=False)
            if newest.uid != pod.uid or not is_gated(newest):
                return
            try:
                await client.patch(PODS, *pod.key, lift_patch(newest), "merge")
            except ConflictError:
                continue
            except ForbiddenError:
                await asyncio.sleep(_RETRY_S)


def lift_patch(pod: Pod) -> Body:
    """Leaves the gates of others, and changes this version of this pod alone."""
    kept = [{"name": gate} for gate in pod.gates if not is_ours(gate)]
    return {
        "metadata": {"uid": pod.uid, "resourceVersion": pod.resource_version},
        "spec": {"schedulingGates": kept or None},
    }
