"""Pods of a gang that must be beside each other, on a real control plane."""

# ruff: noqa: F811 - fixtures of other modules

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from accelet.kube.apiresources import JOBS, NODES
from accelet.kube.client import Client
from accelet.kube.selection import HOSTNAME
from accelet.scheduler.release import is_refused
from tests.e2e import test_scheduler as site
from tests.e2e.test_scheduler import (  # noqa: F401 - fixtures
    client,
    kubeconfig,
    log,
    namespace,
    nodes,
    running_scheduler,
    until,
)

_ZONE = "topology.kubernetes.io/zone"
_PARITY = "example.com/parity"


@pytest.fixture
async def zones(client: Client, nodes: site.Where) -> Mapping[str, str]:
    """The zone of each node, one for each block; one node has none. Another label divides no level so."""
    first = min(nodes)
    found = {name: f"zone-{place[0][-2:]}" for name, place in nodes.items() if name != first}
    parities = {name: f"p{number % 2}" for number, name in enumerate(sorted(found))}
    await asyncio.gather(
        *(site.label(client, name, {_ZONE: zone, _PARITY: parities[name]}) for name, zone in found.items())
    )
    return found


def _job(name: str, pods: int, gpus: int, label: str) -> dict[str, Any]:
    job = site.gang_job(name, pods, gpus)
    term = {"topologyKey": label, "labelSelector": {"matchLabels": {"job-name": name}}}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    job["spec"]["template"]["spec"]["affinity"] = affinity
    return job


@pytest.mark.usefixtures("zones")
async def test_gangs_are_bound_beside_their_own_pods_as_their_affinity_requires(
    kubeconfig: Path, client: Client, nodes: site.Where, namespace: str, log: Path
) -> None:
    await until(lambda: site._are_open(client, nodes))
    async with running_scheduler(kubeconfig, log):
        for name, label in (("zoned", _ZONE), ("even", _PARITY)):
            await client.create(JOBS, namespace, _job(name, 12, 8, label))
            await until(lambda name=name: site._is_bound(client, namespace, name, 12))
            there = [pod.node_name or "" for pod in await site._pods(client, namespace, name)]
            found = [json.loads(await client.get(NODES, None, at))["metadata"]["labels"] for at in there]
            assert len({labels[label] for labels in found}) == 1
        # 26 nodes are left, at most 14 of one zone and 19 of one parity.
        for name, label in (("zones", _ZONE), ("parities", _PARITY)):
            await client.create(JOBS, namespace, _job(name, 22, 8, label))
        await until(lambda: site.is_said(client, namespace, "zones", "needs 22 nodes in one block, best has"))
        part = "keeps it in one of 2 parts of the cluster"
        await until(lambda: site.is_said(client, namespace, "parities", part))
        for name in ("zones", "parities"):
            assert all(pod.gates for pod in await site._pods(client, namespace, name))


async def test_kube_scheduler_refuses_a_pod_away_from_those_it_must_be_beside(
    client: Client, nodes: site.Where, zones: Mapping[str, str], namespace: str
) -> None:
    """What is judged before planning is what kube-scheduler judges: of pods without gates here."""
    await until(lambda: site._are_open(client, nodes))
    (bare,) = set(nodes) - set(zones)
    here, *_, there = sorted(zones, key=lambda name: zones[name])
    near = next(name for name in zones if name != here and zones[name] == zones[here])
    await client.create(JOBS, namespace, _pinned("first", "j", here))
    await until(lambda: site._is_bound(client, namespace, "first", 1))
    for name, node in (("near", near), ("far", there), ("bare", bare)):
        await client.create(JOBS, namespace, _pinned(name, "j", node))
    # Of another job there is none yet: it may begin in any zone, but nowhere else.
    for name, node in (("begins", there), ("nowhere", bare)):
        await client.create(JOBS, namespace, _pinned(name, name, node))

    async def are_settled() -> bool:
        bound = [await site._is_bound(client, namespace, name, 1) for name in ("near", "begins")]
        refused = [
            pod for name in ("far", "bare", "nowhere") for pod in await site._pods(client, namespace, name)
        ]
        return all(bound) and len(refused) == 3 and all(map(is_refused, refused))

    await until(are_settled)


def _pinned(name: str, group: str, node: str) -> dict[str, Any]:
    """One pod without gates, for one node, that is to be in the zone of those of its group."""
    job = _job(name, 1, 1, _ZONE)
    template = job["spec"]["template"]
    template["metadata"].setdefault("labels", {})["group"] = group
    template["spec"]["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0][
        "labelSelector"
    ] = {"matchLabels": {"group": group}}
    del template["spec"]["schedulingGates"]
    template["spec"]["nodeSelector"] = {HOSTNAME: node}
    return job
