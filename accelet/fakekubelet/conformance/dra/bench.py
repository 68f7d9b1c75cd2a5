"""What a check of a DRA driver works with: a fresh API server, fake kubelet, and driver."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Protocol, Self

from accelet.fakekubelet.claims.cdi import CdiDevices, UnresolvableError
from accelet.fakekubelet.claims.driverclient import Answered, ClaimRef
from accelet.fakekubelet.claims.kubeclaims import kube_claims
from accelet.fakekubelet.claims.view import DriverView
from accelet.fakekubelet.conformance.bench import PATIENCE_S, FailedError, SkippedError
from accelet.fakekubelet.conformance.launch import NODE, Launcher, Plugin
from accelet.fakekubelet.kubelet import FakeKubelet
from accelet.fakekubelet.services.plugin import CallError
from accelet.fakekubelet.trace import StillWaitingError

NAMESPACE = "checks"
Json = Mapping[str, Any]


class Cluster(Protocol):
    """An API server for the driver under test. It blocks, for a moment at most."""

    def start(self, kubeconfig: Path, node: str) -> None:
        """Begins, with a Node of this name; `kubeconfig` says where."""

    def stop(self) -> None: ...

    def slices(self) -> Sequence[Json]:
        """All ResourceSlices."""
        ...

    def create(self, plural: str, namespace: str, body: Json) -> Json:
        """Makes a pod or ResourceClaim (`pods`, `resourceclaims`), and gives it as it is stored."""
        ...

    def delete(self, plural: str, namespace: str, name: str) -> None: ...


@dataclass(slots=True)
class DraBench:
    """One check's own cluster, kubelet, folder and driver."""

    launcher: Launcher
    make_cluster: Callable[[], Cluster]
    version: str = "1.36"
    driver: str | None = None
    root: Path = field(init=False)
    kubelet: FakeKubelet = field(init=False)
    cluster: Cluster = field(init=False)
    plugins: list[Plugin] = field(default_factory=list)
    _stack: AsyncExitStack = field(default_factory=AsyncExitStack)

    async def __aenter__(self) -> Self:
        self.root = Path(self._stack.enter_context(TemporaryDirectory(prefix="cd-", dir="/tmp")))
        for folder in ("device-plugins", "plugins", "plugins_registry", "cdi"):
            (self.root / folder).mkdir()
        self.cluster = self.make_cluster()
        self.cluster.start(self.root / "kubeconfig", NODE)
        self._stack.callback(self.cluster.stop)
        claims = await self._stack.enter_async_context(kube_claims(self.root / "kubeconfig"))
        self.kubelet = FakeKubelet(
            self.root, version=self.version, node_name=NODE, claims=claims, cdi_dirs=[self.root / "cdi"]
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.gather(*(plugin.kill() for plugin in self.plugins))
        await self.kubelet.stop()
        await self._stack.aclose()

    @property
    def plugin(self) -> Plugin:
        """The driver that was started last."""
        return self.plugins[-1]

    async def launch(self) -> None:
        self.plugins.append(await self.launcher.launch(self.root))

    async def begin(self) -> None:
        """A kubelet that has removed whatever slices there were, and a driver that has just been started."""
        await self.kubelet.start()
        await self.kubelet.trace.until(
            lambda: any(each.event == "slices-wiped" for each in self.kubelet.trace), "a kubelet's beginning"
        )
        await self.launch()

    async def ready(self) -> DriverView:
        """The driver, once it is connected and has published devices.

        Raises:
            SkippedError: it did not come so far, which is another check's business.
        """
        await self.begin()
        try:
            view = await self.registered()
            await self.published(view.driver)
        except (StillWaitingError, FailedError) as error:
            raise SkippedError("it does not register and publish (see D1)") from error
        return view

    async def registered(self) -> DriverView:
        """The driver asked for, or the first that registers, once it is connected.

        Raises:
            StillWaitingError: none does.
        """
        trace = self.kubelet.trace

        def names() -> list[str]:
            return [each.resource or "" for each in trace if each.event == "driver-registered"]

        await trace.until(
            lambda: bool(names()) and self.driver in (None, *names()),
            "a driver to register",
            timeout_s=PATIENCE_S,
        )
        return await self.kubelet.driver_registered(self.driver or names()[0], timeout_s=PATIENCE_S)

    async def published(self, driver: str) -> Sequence[Json]:
        """The specs of the driver's slices, once its pool is whole and has devices.

        Raises:
            FailedError: it does not become so.
        """
        try:
            async with asyncio.timeout(PATIENCE_S):
                while not (found := self.pool(driver)):  # noqa: ASYNC110 - it is asked for over and over
                    await asyncio.sleep(0.05)
        except TimeoutError:
            seen = len([one for one in self.cluster.slices() if one["spec"]["driver"] == driver])
            raise FailedError(
                f"its pool is not whole after {PATIENCE_S:g} s; {seen} slices are there"
            ) from None
        return found

    def pool(self, driver: str) -> Sequence[Json]:
        """Nothing as long as slices are missing, or there are no devices in them."""
        specs = [one["spec"] for one in self.cluster.slices() if one["spec"]["driver"] == driver]
        newest = max((spec["pool"]["generation"] for spec in specs), default=0)
        specs = [spec for spec in specs if spec["pool"]["generation"] == newest]
        is_whole = bool(specs) and len(specs) == specs[0]["pool"]["resourceSliceCount"]
        return specs if is_whole and any(spec.get("devices") for spec in specs) else ()

    # Claims.

    def device(self, view: DriverView) -> dict[str, Any]:
        """The first device, as an allocation's result; of a shareable one a share with its default amounts.

        Raises:
            SkippedError: there is none any more.
        """
        for spec in self.pool(view.driver):
            for device in spec.get("devices", ()):
                result = {
                    "request": "device",
                    "driver": view.driver,
                    "pool": spec["pool"]["name"],
                    "device": device["name"],
                }
                return result | _share(device)
        raise SkippedError("it publishes no device")

    def claim(self, view: DriverView, name: str = "one", **changed: str) -> ClaimRef:
        """A claim of the first device at the API server, and its pod; `changed` is of the result."""
        pod = {
            "metadata": {"name": name},
            "spec": {
                "nodeName": NODE,
                "resourceClaims": [{"name": "claim", "resourceClaimName": name}],
                "containers": [{"name": "main", "resources": {"claims": [{"name": "claim"}]}}],
            },
        }
        consumer = self.cluster.create("pods", NAMESPACE, pod)["metadata"]
        result = self.device(view) | changed
        status = {
            "allocation": {"devices": {"results": [result]}},
            "reservedFor": [{"resource": "pods", "name": name, "uid": consumer["uid"]}],
        }
        body = {"metadata": {"name": name}, "spec": {}, "status": status}
        made = self.cluster.create("resourceclaims", NAMESPACE, body)["metadata"]
        return ClaimRef(NAMESPACE, name, made["uid"])

    async def prepared(self, view: DriverView, ref: ClaimRef) -> Answered:
        """The answer to Prepare, which has to succeed.

        Raises:
            SkippedError: it does not, which is another check's business.
        """
        answer = await self.asked(view, ref)
        if answer.error or not answer.devices:
            raise SkippedError(f"it does not prepare (see P1): {answer.error or 'no devices'}")
        return answer

    async def asked(self, view: DriverView, ref: ClaimRef) -> Answered:
        """The answer to Prepare.

        Raises:
            FailedError: the whole call failed, or the claim is not answered for.
        """
        await view.connected(timeout_s=PATIENCE_S)
        try:
            answers = await view.client.prepare([ref])
        except CallError as error:
            raise FailedError(f"Prepare failed as a whole: {error}") from error
        if list(answers) != [ref.uid]:
            raise FailedError(f"one claim was asked for, and {len(answers)} were answered")
        return answers[ref.uid]

    async def unprepared(self, view: DriverView, ref: ClaimRef) -> str:
        """The error of Unprepare, empty if there is none.

        Raises:
            FailedError: the whole call failed, or the claim is not answered for.
        """
        await view.connected(timeout_s=PATIENCE_S)
        try:
            answers = await view.client.unprepare([ref])
        except CallError as error:
            raise FailedError(f"Unprepare failed as a whole: {error}") from error
        if ref.uid not in answers:
            raise FailedError("Unprepare did not answer for the claim")
        return answers[ref.uid].error

    def missing(self, answer: Answered) -> str | None:
        """Which CDI devices of an answer a runtime would not find."""
        try:
            CdiDevices([self.root / "cdi"]).inject(
                name for device in answer.devices for name in device.cdi_ids
            )
        except UnresolvableError as error:
            return str(error)
        return None

    def cdi_files(self) -> list[Path]:
        """What lies in the CDI folder."""
        return sorted((self.root / "cdi").glob("[!.]*"))


def _share(device: Json) -> dict[str, Any]:
    if not device.get("allowMultipleAllocations"):
        return {}
    amounts = {
        name: str(capacity.get("requestPolicy", {}).get("default", capacity["value"]))
        for name, capacity in device.get("capacity", {}).items()
    }
    return {"shareID": "5f1d0f4e-0000-4000-8000-000000000001", "consumedCapacity": amounts}
