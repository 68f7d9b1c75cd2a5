"""Volumes on a real control plane: gangs go where kube-scheduler lets their pods have them."""

# ruff: noqa: F811 - fixtures of other modules

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from accelet.kube.apiresources import JOBS, PODS, VOLUME_CLAIMS, VOLUMES
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
from tests.fakes.volumes import in_zone, raw_claim, raw_volume, using

_ZONE = "topology.kubernetes.io/zone"


@pytest.fixture
async def zones(client: Client, nodes: site.Where) -> Mapping[str, str]:
    """The zone of each node: one for each block."""
    found = {name: f"zone-{place[0][-2:]}" for name, place in nodes.items()}
    await asyncio.gather(*(site.label(client, name, {_ZONE: zone}) for name, zone in found.items()))
    return found


def _job(name: str, pods: int, gpus: int, *claims: str) -> dict[str, Any]:
    job = site.gang_job(name, pods, gpus)
    job["spec"]["template"]["spec"] |= using(*claims)
    return job


async def _make_volume(client: Client, namespace: str, claim: str, **where: Any) -> None:
    """A volume for a claim of this namespace alone, which the volume controller binds it to."""
    source = {"hostPath": {"path": "/nowhere"}}
    name = f"{namespace}-{claim}"
    await client.create(VOLUMES, None, raw_volume(name, f"{namespace}/{claim}", source=source, **where))


async def _make_claim(client: Client, namespace: str, claim: str) -> None:
    await client.create(VOLUME_CLAIMS, namespace, raw_claim(claim, volume_class=""))


async def _is_bound(client: Client, namespace: str, claim: str) -> bool:
    found = json.loads(await client.get(VOLUME_CLAIMS, namespace, claim))
    return bool(found["status"]["phase"] == "Bound")


async def _zone_of(client: Client, zones: Mapping[str, str], namespace: str, job: str, pods: int) -> str:
    """The one zone in which all pods of a job are bound, in the end."""
    await until(lambda: site._is_bound(client, namespace, job, pods))
    (zone,) = {zones[pod.node_name or ""] for pod in await site._pods(client, namespace, job)}
    return zone


async def test_gangs_are_bound_where_their_volumes_can_be_reached(
    kubeconfig: Path, client: Client, zones: Mapping[str, str], namespace: str, log: Path
) -> None:
    async with running_scheduler(kubeconfig, log):
        await client.create(JOBS, namespace, site.gang_job("first", 4, 8))
        fuller = await _zone_of(client, zones, namespace, "first", 4)
        (other,) = set(zones.values()) - {fuller}
        await _make_volume(client, namespace, "affine", terms=[in_zone(other)])
        await _make_volume(client, namespace, "labelled", labels={_ZONE: f"elsewhere__{other}"})
        await _make_volume(client, namespace, "there", terms=[in_zone(fuller)])
        for claim in ("affine", "labelled", "there", "late"):
            await _make_claim(client, namespace, claim)
        for claim in ("affine", "labelled", "there"):
            await until(lambda claim=claim: _is_bound(client, namespace, claim))

        for claim in ("affine", "labelled"):
            await client.create(JOBS, namespace, _job(f"by-{claim}", 3, 8, claim))
            assert await _zone_of(client, zones, namespace, f"by-{claim}", 3) == other

        await client.create(JOBS, namespace, _job("torn", 2, 1, "affine", "there"))
        # How many nodes these are is not told here: one whose heartbeat is late counts as not ready.
        sentence = f" where volume {namespace}-affine of claim affine cannot be reached"
        await until(lambda: site.is_said(client, namespace, "torn", sentence))

        await client.create(JOBS, namespace, _job("early", 2, 1, "late"))
        await until(
            lambda: site.is_said(client, namespace, "early", "waits for its volume claim late to be bound")
        )
        await _make_volume(client, namespace, "late", terms=[in_zone(other)])
        assert await _zone_of(client, zones, namespace, "early", 2) == other


async def test_kube_scheduler_refuses_pods_where_their_volumes_cannot_be_reached(
    client: Client, zones: Mapping[str, str], namespace: str
) -> None:
    """What is judged before planning is what kube-scheduler judges: of pods without gates here."""
    here, *_, there = sorted(set(zones.values()))
    await _make_volume(client, namespace, "affine", terms=[in_zone(here)])
    await _make_volume(client, namespace, "labelled", labels={_ZONE: here})
    for claim in ("affine", "labelled"):
        await _make_claim(client, namespace, claim)
        await until(lambda claim=claim: _is_bound(client, namespace, claim))
    of_zone = {zone: name for name, zone in zones.items()}
    for claim in ("affine", "labelled"):
        for zone in (here, there):
            job = _job(f"{claim}-{zone}", 1, 1, claim)
            spec = job["spec"]["template"]["spec"]
            del spec["schedulingGates"]
            spec["nodeSelector"] = {HOSTNAME: of_zone[zone]}
            await client.create(JOBS, namespace, job)

    async def are_settled() -> bool:
        pods = [pod for claim in ("affine", "labelled") for pod in await pods_of(f"{claim}-{there}")]
        bound = [await site._is_bound(client, namespace, f"{c}-{here}", 1) for c in ("affine", "labelled")]
        return len(pods) == 2 and all(map(is_refused, pods)) and all(bound)

    async def pods_of(job: str) -> list[Any]:
        return await site._pods(client, namespace, job)

    await until(are_settled)
    page = await client.list_page(PODS, namespace)
    assert len(page.items) == 4
