"""A node whose claims are prepared on files in a folder, with an API server's claims and pods."""

import json
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from accelet.accelerators.device import UnitId
from accelet.dra.errors import DraError
from accelet.dra.metrics import DraMetrics
from accelet.dra.preparing.decide import DriverOffer
from accelet.dra.preparing.grant import hardware_of
from accelet.dra.publishing.build import build_pool
from accelet.dra.publishing.served import ServedResource
from accelet.dra.running.changes import Prepared, RecordChanges
from accelet.dra.running.claimreader import ClaimReader, ClaimRef
from accelet.dra.running.claims import Claims, HeldUnits
from accelet.dra.running.places import Places
from accelet.dra.running.records import ClaimRecords
from accelet.kube.apiresources import ApiResource
from accelet.kube.errors import KubeError

NODE = "node-1"


class Objects:
    """An API server's claims, each of one device, and their pods; `pods` are other ones, by their claim.

    Claims in `groups` are reserved for that PodGroup, and `bound` are the pods that are bound to the node.
    """

    def __init__(self, driver: str, devices: Mapping[str, str]) -> None:
        self._driver, self.devices = driver, dict(devices)
        self.pods: dict[str, Mapping[str, Any]] = {}
        self.groups: dict[str, str] = {}
        self.bound: list[Mapping[str, Any]] | KubeError = []

    async def get(self, resource: ApiResource, _namespace: str | None, name: str, /) -> bytes:
        if resource.kind == "Pod":
            claim = name.removeprefix("pod-")
            return json.dumps(self.pods.get(claim) or self._pod(claim)).encode()
        return json.dumps(self._claim(name, self.devices[name])).encode()

    async def pods_on(self, node: str, namespace: str, /) -> AsyncIterator[bytes]:
        assert (node, namespace) == (NODE, "ml")
        if isinstance(self.bound, KubeError):
            raise self.bound
        for pod in self.bound:
            yield json.dumps(pod).encode()

    def _claim(self, name: str, device: str) -> dict[str, Any]:
        result = {"request": "it", "driver": self._driver, "pool": NODE, "device": device}
        pod = {"name": f"pod-{name}", "uid": f"pod-uid-{name}"}
        owner: dict[str, Any] = {"kind": "Pod", "controller": True, **pod}
        consumer: dict[str, Any] = {"resource": "pods", **pod}
        if group := self.groups.get(name):
            named = {"name": group, "uid": f"uid-{group}"}
            owner = {"kind": "PodGroup", "controller": True, **named}
            consumer = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", **named}
        return {
            "metadata": {"name": name, "namespace": "ml", "uid": f"uid-{name}", "ownerReferences": [owner]},
            "status": {
                "allocation": {"devices": {"results": [result]}},
                "reservedFor": [consumer],
            },
        }

    def _pod(self, claim: str) -> dict[str, Any]:
        uses = {"resources": {"claims": [{"name": "it"}]}}
        return {
            "metadata": {"name": f"pod-{claim}", "namespace": "ml", "uid": f"pod-uid-{claim}"},
            "spec": {
                "resourceClaims": [{"name": "it", "resourceClaimName": claim}],
                "containers": [{"name": "main", **uses}],
            },
        }


async def nobody(_units: Collection[UnitId]) -> frozenset[UnitId]:
    return frozenset()


def an_offer(*resources: ServedResource, driver: str = "gpu.accelet.dev") -> DriverOffer:
    """What a driver has with these resources."""
    return DriverOffer(build_pool(driver, NODE, resources), hardware_of(resources))


def touch_nodes(root: Path, resource: ServedResource) -> None:
    """Makes the device files of a resource's hardware."""
    for device in resource.inventory.devices:
        for node in device.nodes:
            path = root / node.host_path.lstrip("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()


class Node:
    """A driver's part that prepares claims, each named like the device it was given; `root` is the host.

    What there is may be changed as `offer`.
    """

    def __init__(
        self,
        root: Path,
        resource: ServedResource,
        driver: str = "gpu.accelet.dev",
        *,
        held_units: HeldUnits = nobody,
        records: Callable[[Places], ClaimRecords] = ClaimRecords,
        boot: str = "b",
    ) -> None:
        self.offer = an_offer(resource, driver=driver)
        self.places = Places(root / "kubelet", root / "cdi", driver, "")
        self.cdi = self.places.cdi
        touch_nodes(root, resource)
        self.objects = objects = Objects(
            driver, {device.name: device.name for device in self.offer.pool.devices}
        )
        self.reader = ClaimReader(objects, driver, NODE)
        self.changes = RecordChanges(records(self.places), lambda: self.offer, root=root, boot=boot)
        self.claims = Claims(
            self.reader,
            self.changes,
            metrics=DraMetrics(CollectorRegistry()),
            driver=driver,
            held_units=held_units,
            patience_s=0,
        )

    async def prepare(self, *devices: str) -> dict[str, Prepared]:
        refs = [ClaimRef("ml", device, f"uid-{device}") for device in devices]
        outcomes = await self.claims.prepare(refs)
        return {device: outcomes[f"uid-{device}"] for device in devices}

    async def unprepare(self, *devices: str) -> dict[str, DraError | None]:
        refs = [ClaimRef("ml", device, f"uid-{device}") for device in devices]
        outcomes = await self.claims.unprepare(refs)
        return {device: outcomes[f"uid-{device}"] for device in devices}

    def files(self) -> list[Path]:
        """The CDI files there are."""
        return sorted(self.cdi.glob("*.json"))

    def mounts(self) -> set[tuple[str, str]]:
        """Host and container paths that the CDI files mount."""
        return {
            (mount["hostPath"], mount["containerPath"])
            for path in self.files()
            for device in json.loads(path.read_text())["devices"]
            for mount in device["containerEdits"].get("mounts", ())
        }
