"""What may be changed of a pod, as Kubernetes 1.36 has it in ValidatePodUpdate (pkg/apis/core/validation)."""

from typing import Any

from accelet.fakeapi.jsoncopy import copy_json
from accelet.fakeapi.lifecycle import Json

Wrong = list[tuple[str, str]]
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def pod_rules(old: Json | None, new: Json) -> Wrong:
    """Use as `api.state.validate["pods"] = pod_rules`.

    Gates may only go. Of a gated pod the node selector may only grow, and each required node affinity term
    that is not empty may only get requirements at its ends; the rest of the spec is fixed but for images
    and added tolerations.
    """
    if old is None:
        return []
    before, after = copy_json(old["spec"]), copy_json(new["spec"])
    if not before.get("nodeName") and after.get("nodeName") and not before.get("schedulingGates"):
        before["nodeName"] = after["nodeName"]  # what the binding subresource does
    wrong = _gates(before, after)
    if before.pop("schedulingGates", None):
        wrong += _selector(before, after) + _affinity(before, after)
    after.pop("schedulingGates", None)
    wrong += _tolerations(before, after)
    for spec in (before, after):
        for container in [*spec.get("containers", []), *(spec.get("initContainers") or [])]:
            container.pop("image", None)
    if {k: v for k, v in before.items() if v} != {k: v for k, v in after.items() if v}:
        wrong.append(("spec", "Forbidden: pod updates may not change other fields"))
    return wrong


def _gates(before: Json, after: Json) -> Wrong:
    old = {gate["name"] for gate in before.get("schedulingGates") or []}
    new = {gate["name"] for gate in after.get("schedulingGates") or []}
    return [("spec.schedulingGates", "Forbidden: only deletion is allowed")] if new - old else []


def _selector(before: Json, after: Json) -> Wrong:
    old, new = before.pop("nodeSelector", None) or {}, after.pop("nodeSelector", None) or {}
    if old.items() <= new.items():
        return []
    return [("spec.nodeSelector", "Invalid value: only additions are allowed (no mutations or deletions)")]


def _affinity(before: Json, after: Json) -> Wrong:
    old, new = _take_node_affinity(before), _take_node_affinity(after)
    old_terms = (old.get(_REQUIRED) or {}).get("nodeSelectorTerms") or []
    new_terms = (new.get(_REQUIRED) or {}).get("nodeSelectorTerms") or []
    place = f"spec.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms"
    if not old_terms:
        return []
    if len(old_terms) != len(new_terms):
        return [(place, "Invalid value: no additions/deletions to non-empty NodeSelectorTerms list")]
    return [
        (f"{place}[{index}]", "Invalid value: only additions are allowed (no mutations or deletions)")
        for index, (was, now) in enumerate(zip(old_terms, new_terms, strict=True))
        if not _only_adds(was, now)
    ]


def _take_node_affinity(spec: Json) -> Json:
    affinity: Json = spec.get("affinity") or {}
    node_affinity: Json = affinity.pop("nodeAffinity", None) or {}
    if not affinity:
        spec.pop("affinity", None)
    return node_affinity


def _only_adds(was: Json, now: Json) -> bool:
    parts = ("matchExpressions", "matchFields")
    if not any(was.get(part) for part in parts):
        return not any(now.get(part) for part in parts)
    return all((now.get(part) or [])[: len(was.get(part) or [])] == (was.get(part) or []) for part in parts)


def _tolerations(before: Json, after: Json) -> Wrong:
    old: list[Any] = before.pop("tolerations", None) or []
    new: list[Any] = after.pop("tolerations", None) or []
    if all(toleration in new for toleration in old):
        return []
    return [("spec.tolerations", "Forbidden: existing toleration can not be modified")]
