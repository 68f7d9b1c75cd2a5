"""Rules that are left to kube-scheduler keep no gang from being planned; docs/scheduler.md lists them."""

from dataclasses import replace
from typing import Any

import pytest

from accelet.kube.podparser import parse_pod
from accelet.scheduler.gangs.grouping import GATE_PREFIX
from accelet.scheduler.placement.plan import Plan
from tests.fakes.manifests import raw_container, raw_pod
from tests.fakes.nodes import GPU, node
from tests.unit.scheduler.values import plan_one

_ZONE = "topology.kubernetes.io/zone"
_OWN = {"matchLabels": {"job-name": "j"}}
_OTHERS = {"matchLabels": {"job-name": "another"}}
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def _decide(**spec: Any) -> Plan:
    pods = [
        raw_pod(
            f"j-{rank}",
            labels={"job-name": "j", "app": "j"},
            gates=(f"{GATE_PREFIX}j",),
            containers=[raw_container(requests={GPU: 1})],
            **spec,
        )
        for rank in range(2)
    ]
    nodes = [node("a", "x/p/1"), node("b", "x/p/2")]
    zoned = [replace(one, labels={**one.labels, _ZONE: "z"}) for one in nodes]
    return plan_one(zoned, [parse_pod(raw) for raw in pods])


def _anti(**term: Any) -> dict[str, Any]:
    return {"affinity": {"podAntiAffinity": {_REQUIRED: [{"labelSelector": _OWN, **term}]}}}


@pytest.mark.parametrize(
    "spec",
    [
        _anti(topologyKey=_ZONE),
        _anti(topologyKey="kubernetes.io/hostname", namespaceSelector={"matchLabels": {"team": "a"}}),
        {"affinity": {"podAffinity": {_REQUIRED: [{"labelSelector": _OTHERS, "topologyKey": _ZONE}]}}},
        {
            "topologySpreadConstraints": [
                {
                    "maxSkew": 1,
                    "topologyKey": "kubernetes.io/hostname",
                    "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": {"matchLabels": {"app": "j"}},
                }
            ]
        },
        {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "in-one-zone"}}]},
    ],
    ids=["another key", "namespaces by labels", "affinity to others", "spread", "volume"],
)
def test_what_is_not_judged_refuses_nobody(spec: dict[str, Any]) -> None:
    assert _decide(**spec).nodes == ("a", "a")


def test_a_gang_with_resource_claims_is_not_placed_and_the_reason_says_so() -> None:
    decided = _decide(resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "one"}])
    assert decided.nodes is None
    assert "gangs with claims are not placed" in (decided.reason or "")
