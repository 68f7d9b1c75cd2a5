"""A fake and a real kubelet for claims, and the API server each has."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

from accelet.fakeapi import FakeApi
from accelet.fakekubelet import FakeKubelet, PodRecord, a_pod, kube_claims
from tests.e2e.cluster.images import BUSYBOX_IMAGE
from tests.e2e.cluster.waiting import wait_until
from tests.e2e.scenarios.dra.driver import DRIVER, containers_view
from tests.e2e.scenarios.dra.script import AdmitClaims
from tests.e2e.scenarios.nodes import Site
from tests.e2e.scenarios.realkubelet import RealKubelet
from tests.fakes.clocks import QuickClock

CLAIMS, SLICES = "apis/resource.k8s.io/v1/resourceclaims", "apis/resource.k8s.io/v1/resourceslices"
PATIENCE_S = 150.0
"""A kubelet comes back to a pod whose claim it could not read only after 60 to 90 s."""
Json = dict[str, Any]


class ClaimKubelet(Protocol):
    """A kubelet that scenarios of claims can be played on. `root` is its folder, `cdi` its runtime's."""

    root: Path
    own_root: Path
    cdi: Path

    async def admit(self, action: AdmitClaims) -> str: ...

    async def remove(self, pod: str) -> None: ...

    async def stop(self) -> None: ...

    async def start(self) -> None: ...

    async def publish(self) -> None: ...

    async def wiped(self) -> None: ...

    def pod_name(self, uid: str) -> str: ...


def claim_body(name: str, devices: Sequence[str], driver: str) -> Json:
    request = {"name": "device", "exactly": {"deviceClassName": "recording", "count": max(1, len(devices))}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"devices": {"requests": [request]}},
    }


def claim_status(devices: Sequence[str], driver: str) -> Json:
    results = [
        {"request": "device", "driver": driver, "pool": "pool", "device": device} for device in devices
    ]
    return {"allocation": {"devices": {"results": results}}, "reservedFor": []}


def consumer(pod: Json) -> Json:
    return {"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}


def slice_body(node: str) -> Json:
    pool = {"name": "pool", "generation": 1, "resourceSliceCount": 1}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"recording-{node}"},
        "spec": {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": [{"name": "a"}]},
    }


class FakeClaimKubelet:
    """Implements `ClaimKubelet`."""

    def __init__(self, api: FakeApi, kubelet: FakeKubelet) -> None:
        self.api, self.kubelet = api, kubelet
        self.root = self.own_root = kubelet.plugins_dir.parent
        self.cdi = self.root / "cdi"
        self._names: dict[str, str] = {}
        self._records: dict[str, PodRecord] = {}

    async def admit(self, action: AdmitClaims) -> str:
        pod = self.api.state.create("api/v1/pods", "default", {"metadata": {"name": action.pod}})
        self._names[pod["metadata"]["uid"]] = action.pod
        for name, devices in action.claims.items():
            if devices:
                body = claim_body(name, devices, action.driver)
                status = claim_status(devices, action.driver)
                self.api.state.create(CLAIMS, "default", body | {"status": status})
            claim = self.api.state.get(CLAIMS, ("default", name))
            claim["status"]["reservedFor"].append(consumer(pod))
            self.api.state.replace(CLAIMS, ("default", name), claim)
        claims = {name: name for name in action.claims}
        made = a_pod(action.pod, uid=pod["metadata"]["uid"], claims=claims)
        record = self._records[action.pod] = await self.kubelet.admit(made)
        if record.claim_error is not None:
            return record.claim_error
        await self.kubelet.running(record)
        return f"running: {containers_view(record['main'].injected.envs)}"

    async def remove(self, pod: str) -> None:
        await self.kubelet.remove(self._records[pod])
        await self.kubelet.released(self._records[pod])

    async def stop(self) -> None:
        await self.kubelet.stop()

    async def start(self) -> None:
        await self.kubelet.start()

    async def publish(self) -> None:
        self.api.state.create(SLICES, "", slice_body("node"))

    async def wiped(self) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while self.api.state.list(SLICES, {}, None)["items"]:  # noqa: ASYNC110 - nothing tells
                await asyncio.sleep(0.05)

    def pod_name(self, uid: str) -> str:
        return self._names[uid]


@asynccontextmanager
async def fake_claim_kubelet(folder: Path, version: str) -> AsyncIterator[FakeClaimKubelet]:
    with FakeApi() as api:
        api.write_kubeconfig(folder / "kubeconfig")
        async with kube_claims(folder / "kubeconfig") as claims:
            cdi = [folder / "cdi"]
            kubelet = FakeKubelet(folder, version=version, clock=QuickClock(5), claims=claims, cdi_dirs=cdi)
            async with kubelet:
                yield FakeClaimKubelet(api, kubelet)


class RealClaimKubelet:
    """A real one. Its pods are bound by the test, with devices it chose. Implements `ClaimKubelet`."""

    def __init__(self, site: Site) -> None:
        self.kubelet = RealKubelet(site.node, site.cluster)
        self.node, self.workloads = site.node, site.cluster.workloads
        self.root, self.own_root = self.kubelet.root, Path("/var/lib/kubelet")
        self.cdi = self.node.path("/run/cdi")
        self._names: dict[str, str] = {}

    async def admit(self, action: AdmitClaims) -> str:
        return await asyncio.to_thread(self._admit, action)

    def _admit(self, action: AdmitClaims) -> str:
        pod = self.workloads.apply(_manifest(action))
        self._names[pod["metadata"]["uid"]] = action.pod
        path = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
        for name, devices in action.claims.items():
            if devices:
                made = self.workloads.apply(claim_body(name, devices, action.driver))
                made["status"] = claim_status(devices, action.driver)
            else:
                made = self._get(f"{path}/{name}")
            made["status"]["reservedFor"] = [*made["status"].get("reservedFor", ()), consumer(pod)]
            self.workloads.client.send("PUT", f"{path}/{name}/status", made)
        target = {"apiVersion": "v1", "kind": "Node", "name": self.node.name}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": action.pod}, "target": target}
        self.workloads.client.send("POST", f"/api/v1/namespaces/default/pods/{action.pod}/binding", binding)
        if action.expect is not None:
            return self._event(action.pod, pod["metadata"]["uid"], action.expect)
        self.workloads.wait_for_phase(action.pod, "Running", timeout_s=PATIENCE_S)
        log = wait_until(
            "the container has looked", lambda: _view(self.workloads.log(action.pod)), timeout_s=30
        )
        return f"running: {log}"

    def _event(self, pod: str, uid: str, words: str) -> str:
        def found() -> str | None:
            events = self.workloads.events(pod)
            messages = (str(event["message"]) for event in events if event["involvedObject"]["uid"] == uid)
            return next((message for message in messages if words in message), None)

        return wait_until(f"an event about {pod} says {words}", found, timeout_s=PATIENCE_S)

    def _get(self, path: str) -> Json:
        found: Json = json.loads(self.workloads.client.send("GET", path))
        return found

    async def remove(self, pod: str) -> None:
        await asyncio.to_thread(self.workloads.delete_pod, pod)

    async def stop(self) -> None:
        await asyncio.to_thread(self.kubelet.stop)

    async def start(self) -> None:
        await asyncio.to_thread(self.kubelet.start)

    async def publish(self) -> None:
        await asyncio.to_thread(self.workloads.client.send, "POST", f"/{SLICES}", slice_body(self.node.name))

    async def wiped(self) -> None:
        def gone() -> bool:
            items = self._get(f"/{SLICES}")["items"]
            return not [each for each in items if each["spec"]["driver"] == DRIVER]

        await asyncio.to_thread(wait_until, "the slice is gone", gone, timeout_s=PATIENCE_S)

    def pod_name(self, uid: str) -> str:
        return self._names[uid]

    async def clean(self, names: Sequence[str]) -> None:
        """Removes the claims, whose pods are gone."""
        path = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
        for name in names:
            await asyncio.to_thread(self.workloads.client.send, "DELETE", f"{path}/{name}")


def _view(log: str) -> str | None:
    found = re.search(r"^view: (.*)$", log, re.MULTILINE)
    return None if found is None else containers_view(_pairs(found[1]))


def _pairs(text: str) -> Mapping[str, str]:
    return dict(word.partition("=")[::2] for word in text.split())


def _manifest(action: AdmitClaims) -> Json:
    claims = [{"name": name, "resourceClaimName": name} for name in action.claims]
    show = "echo \"view: $(env | grep ^CLAIM_ | tr '\\n' ' ')\"; sleep 3600"
    container = {
        "name": "main",
        "image": BUSYBOX_IMAGE,
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", show],
        "resources": {"claims": [{"name": name} for name in action.claims]},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": action.pod, "namespace": "default"},
        "spec": {
            # Bound by the test, once its claims are reserved for it.
            "schedulerName": "nobody",
            "hostNetwork": True,
            "terminationGracePeriodSeconds": 1,
            "resourceClaims": claims,
            "containers": [container],
        },
    }
