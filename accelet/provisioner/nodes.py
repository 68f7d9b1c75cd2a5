"""Nodes of slices: what we read of them, and the patches that open and close them."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from accelet.kinds.slicerequest import SliceOwner
from accelet.kube.nodes import Node
from accelet.kube.pods import Pod
from accelet.kube.selection import Taint
from accelet.provisioner.deciding.view import SliceNode
from accelet.provisioner.demand.selectors import JOB_KEY, NAMESPACED_JOB, SLICE_LABELS, job_key
from accelet.provisioner.demand.slices import TPU
from accelet.provisioner.pools.plan import KEEPING_OUT, NOT_READY, NOT_READY_TO_FILL
from accelet.provisioner.record import SliceRequest

CORDONED_BY: Final = "accelet.dev/cordoned-by"
CORDONED_AT: Final = "accelet.dev/cordoned-at"
_BINDING: Final = (*SLICE_LABELS, JOB_KEY, NAMESPACED_JOB)
EXCLUSIVE_TAINT: Final = Taint("alpha.jobset.sigs.k8s.io/no-schedule", "NoSchedule")

_LONGEST_LABEL: Final = 63


_STUCK_S: Final = 30.0
"""For the clocks of the API server and ours to differ."""

REBINDINGS: Final = 3
_A_MINUTE_S: Final = 60.0
"""So often a minute a running slice is bound anew: somebody may take our labels off each time."""


class Rebindings:
    """When the nodes of slices that run were bound lately."""

    def __init__(self) -> None:
        self._times_s: dict[str, list[float]] = {}

    def wait_s(self, uid: str, now_s: float) -> float:
        """How long not to bind a request's nodes."""
        times_s = self._times_s.get(uid, [])
        return max(0.0, times_s[0] + _A_MINUTE_S - now_s) if len(times_s) >= REBINDINGS else 0.0

    def note(self, uid: str, now_s: float) -> None:
        """They are bound now."""
        self._times_s[uid] = [*self._times_s.get(uid, ()), now_s][-REBINDINGS:]
        self._times_s = {
            key: times for key, times in self._times_s.items() if times[-1] > now_s - _A_MINUTE_S
        }


def binding_labels(request: SliceRequest) -> Mapping[str, str]:
    """The labels that bind a slice's nodes to its Job: our own, JobSet's and the original provisioner's."""
    slice_label, set_label = SLICE_LABELS
    labels = {slice_label: request.name, set_label: request.spec.slice_set.name}
    owner = request.spec.owner
    if owner is not None:
        labels[JOB_KEY] = job_key(request.namespace, owner.job)
        labels[NAMESPACED_JOB] = f"{request.namespace}_{owner.job}"
    return {key: value for key, value in labels.items() if len(value) <= _LONGEST_LABEL}


def is_work(pod: Pod) -> bool:
    """Whether a pod keeps its node from being deleted: not ended, and neither mirror nor of a DaemonSet."""
    is_own = pod.is_mirror or any(owner.is_controller and owner.kind == "DaemonSet" for owner in pod.owners)
    return not (is_own or pod.is_terminal)


def is_stuck(end_s: float | None, node: Node | None, now_s: float) -> bool:
    """Whether a pod is only there since its kubelet is not: deleted, past its grace, on a Node not Ready.

    `end_s` is the pod's deletionTimestamp, which has its grace in it; None for one that is not deleted.
    """
    is_over = end_s is not None and now_s >= end_s + _STUCK_S
    return is_over and (node is None or not node.is_ready)


def see_node(node: Node, pool: str, labels: Mapping[str, str], pods: Iterable[str]) -> SliceNode:
    """A Node as decisions see it; `labels` are those that it should have, `pods` those that keep it."""
    is_cordoned = node.unschedulable and CORDONED_BY in node.annotations
    is_kept = any(taint.key in KEEPING_OUT for taint in node.taints)
    chips = node.allocatable.get(TPU, 0)
    return SliceNode(
        name=node.name,
        pool=pool,
        is_ready=node.is_ready,
        chips=chips if isinstance(chips, int) else 0,
        is_open=not (is_cordoned or is_kept),
        is_bound=all(node.labels.get(key) == labels.get(key) for key in _BINDING),
        closed_s=_read_time(node.annotations.get(CORDONED_AT)) if is_cordoned or is_kept else None,
        is_starting=any(taint.key == NOT_READY_TO_FILL.key for taint in node.taints),
        pods=tuple(pods),
    )


def open_patch(node: Node, labels: Mapping[str, str], owner: SliceOwner | None) -> dict[str, Any]:
    """The merge patch by which a Node takes the pods of its Job, and no others'; takes back only a cordon of
    ours.
    """
    taints = [taint for taint in node.taints if taint.key not in (*KEEPING_OUT, EXCLUSIVE_TAINT.key)]
    if owner is not None and owner.exclusive:
        taints.append(EXCLUSIVE_TAINT)
    patch: dict[str, Any] = {
        "metadata": {
            "resourceVersion": node.resource_version,
            "labels": {key: labels.get(key) for key in _BINDING},
            "annotations": {CORDONED_BY: None, CORDONED_AT: None},
        },
        "spec": {"taints": [_render(taint) for taint in taints] or None},
    }
    if CORDONED_BY in node.annotations:
        patch["spec"]["unschedulable"] = None
    return patch


def close_patch(node: Node, uid: str, now_s: float) -> dict[str, Any]:
    """The merge patch by which a Node takes no more pods."""
    taints = [taint for taint in node.taints if taint.key not in KEEPING_OUT]
    return {
        "metadata": {
            "resourceVersion": node.resource_version,
            "annotations": {CORDONED_BY: uid, CORDONED_AT: f"{now_s:.3f}"},
        },
        "spec": {"unschedulable": True, "taints": [_render(taint) for taint in (*taints, NOT_READY)]},
    }


def _render(taint: Taint) -> dict[str, str]:
    value = {"value": taint.value} if taint.value else {}
    return {"key": taint.key, "effect": taint.effect, **value}


def _read_time(text: str | None) -> float | None:
    try:
        return max(0.0, min(float(text or ""), 1e11))
    except ValueError:
        return None
