"""Patches of gated pods, and whether an API server takes them: one table for the fake one and a real one."""

from typing import Any

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
ZONE = {"key": "zone", "operator": "In", "values": ["a"]}
PIN = {"key": "metadata.name", "operator": "In", "values": ["node-1"]}
GATES = [{"name": "example.com/ours"}, {"name": "example.com/theirs"}]


def gated(terms: list[dict[str, Any]] | None = None, **spec: Any) -> dict[str, Any]:
    affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}} if terms else None
    return {
        "schedulingGates": GATES,
        "containers": [{"name": "main", "image": "none"}],
        "nodeSelector": {"pool": "gpu"},
        **({"affinity": affinity} if affinity else {}),
        **spec,
    }


def terms(*of: dict[str, Any]) -> dict[str, Any]:
    return {"spec": {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(of)}}}}}


PATCHES: list[tuple[str, dict[str, Any], dict[str, Any], bool]] = [
    ("gate-removed", gated(), {"spec": {"schedulingGates": GATES[1:]}}, True),
    ("gate-added", gated(), {"spec": {"schedulingGates": [*GATES, {"name": "example.com/new"}]}}, False),
    ("selector-grows", gated(), {"spec": {"nodeSelector": {"host": "h"}}}, True),
    ("selector-shrinks", gated(), {"spec": {"nodeSelector": {"pool": None}}}, False),
    ("selector-changes", gated(), {"spec": {"nodeSelector": {"pool": "cpu"}}}, False),
    ("affinity-first", gated(), terms({"matchFields": [PIN]}), True),
    (
        "pinned-in-each-term",
        gated([{"matchExpressions": [ZONE]}, {"matchFields": [PIN]}]),
        terms({"matchExpressions": [ZONE], "matchFields": [PIN]}, {"matchFields": [PIN, PIN]}),
        True,
    ),
    ("term-added", gated([{"matchExpressions": [ZONE]}]), terms({"matchExpressions": [ZONE]}, {}), False),
    ("term-loosened", gated([{"matchExpressions": [ZONE]}]), terms({"matchFields": [PIN]}), False),
    (
        "empty-term-filled",
        gated([{}, {"matchExpressions": [ZONE]}]),
        terms({"matchFields": [PIN]}, {}),
        False,
    ),
    (
        "empty-term-kept",
        gated([{}, {"matchExpressions": [ZONE]}]),
        terms({}, {"matchExpressions": [ZONE], "matchFields": [PIN]}),
        True,
    ),
    ("priority-changed", gated(), {"spec": {"restartPolicy": "Never"}}, False),
    ("labels-changed", gated(), {"metadata": {"labels": {"a": "b"}}}, True),
]
"""Name, spec of the pod, merge patch, and whether the patch is taken."""
