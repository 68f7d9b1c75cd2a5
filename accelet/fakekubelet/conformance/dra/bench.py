"""What a check of a DRA driver works with: a fresh API server, fake kubelet, and driver."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

from accelet.fakekubelet.claims.cdi import CdiDevices, UnresolvableError
from accelet.fakekubelet.claims.driverclient import Answered, ClaimRef
from accelet.fakekubelet.claims.kubeclaims import kube_claims
from accelet.fakekubelet.claims.view import DriverView
from accelet.fakekubelet.conformance.bench import PATIENCE_S, FailedError, Load, SkippedError
from accelet.fakekubelet.conformance.dra.sliceforms import (
    SliceDevice,
    SliceError,
    SliceSpec,
    newest,
    parse_spec,
)
from accelet.fakekubelet.conformance.dra.slicerules import Fault, Rule, pool_faults
from accelet.fakekubelet.conformance.launch import NODE, Launcher, Plugin
from accelet.fakekubelet.kubelet import FakeKubelet
from accelet.fakekubelet.services.plugin import CallError
from accelet.fakekubelet.trace import StillWaitingError
from accelet.kube.errors import QuantityError
from accelet.kube.quantity import Quantity, parse_quantity

NAMESPACE = "checks"
Json = Mapping[str, Any]
_T = TypeVar("_T")


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

    def allocate(self, namespace: str, name: str, results: Sequence[Json]) -> None:
        """Gives a ResourceClaim other devices, as if it had been deallocated and allocated again."""

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
    _load: Load = field(default_factory=Load)

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
            view = await self.patiently(self.registered)
            await self.patiently(lambda timeout_s: self.published(view.driver, timeout_s))
        except (StillWaitingError, FailedError) as error:
            raise SkippedError("it does not register and publish (see D1)") from error
        return view

    async def patiently(self, wait: Callable[[float], Awaitable[_T]]) -> _T:
        """`wait(timeout_s)`, for longer than that while the driver is at work.

        Raises:
            StillWaitingError: what it waits for did not come.
            FailedError: likewise.
        """
        return await self._load.patiently(self.plugins, wait)

    def delay_s(self) -> float:
        """For how many seconds driver and kubelet have waited for a processor since this began."""
        return self._load.delay_s(self.plugins)

    async def ended(self) -> None:
        """Asks the driver to end, and waits until it has.

        Raises:
            SkippedError: it does not.
        """
        await self.plugin.terminate()
        try:
            await self.patiently(lambda timeout_s: asyncio.wait_for(self.plugin.wait(), timeout_s))
        except TimeoutError:
            raise SkippedError("it does not end on SIGTERM") from None

    async def restarted(self, view: DriverView) -> None:
        """Kills the driver, starts it again, and waits until it is connected.

        Raises:
            StillWaitingError: it does not come back.
        """
        registrations = view.registrations
        await self.plugin.kill()
        await self.launch()
        await self.patiently(lambda timeout_s: view.connected(times=registrations + 1, timeout_s=timeout_s))

    async def registered(self, timeout_s: float = PATIENCE_S) -> DriverView:
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
            timeout_s=timeout_s,
        )
        return await self.kubelet.driver_registered(self.driver or names()[0], timeout_s=timeout_s)

    async def published(self, driver: str, timeout_s: float = PATIENCE_S) -> Sequence[SliceSpec]:
        """The specs of the driver's slices, once its pool is whole and has devices.

        Raises:
            FailedError: it does not become so.
        """
        try:
            async with asyncio.timeout(timeout_s):
                while not (found := self.pool(driver)):  # noqa: ASYNC110 - it is asked for over and over
                    await asyncio.sleep(0.05)
        except TimeoutError:
            wrong = [fault.text for fault in self.faults(driver) if fault.rule is Rule.POOL]
            raise FailedError(
                f"its pool is not whole after {timeout_s:g} s: {'; '.join(wrong) or 'no slice has devices'}"
            ) from None
        return found

    def slices(self, driver: str) -> list[Json]:
        """All ResourceSlices of the driver, as they are at the API server."""
        return [one for one in self.cluster.slices() if _driver_of(one) == driver]

    def pool(self, driver: str) -> Sequence[SliceSpec]:
        """The slices of the driver's pools; none as long as some are missing, or there are no devices."""
        pools = newest(self._parsed(driver)[0])
        is_whole = all(len(specs) == specs[0].pool.resource_slice_count for specs in pools.values())
        found = [spec for specs in pools.values() for spec in specs]
        return found if is_whole and any(spec.devices for spec in found) else ()

    def faults(self, driver: str) -> list[Fault]:
        """What Kubernetes would not take of what the driver has published."""
        specs, broken = self._parsed(driver)
        faults = [Fault(Rule.POOL, text) for text in broken]
        faults += [fault for pool in newest(specs).values() for fault in pool_faults(pool)]
        faults += [
            Fault(Rule.POOL, f"a slice is of node {spec.node_name}, not of its own")
            for spec in specs
            if spec.node_name != NODE
        ]
        return list(dict.fromkeys(faults))

    def _parsed(self, driver: str) -> tuple[list[SliceSpec], list[str]]:
        specs, broken = [], []
        for one in self.slices(driver):
            try:
                specs.append(parse_spec(one["spec"]))
            except SliceError as error:
                broken.append(str(error))
        return specs, broken

    # Claims.

    def allocation(self, view: DriverView, count: int = 1) -> list[dict[str, Any]]:
        """Results of an allocation: the first `count` devices that can be held beside each other.

        As the scheduler takes them: in their order, as far as counters go, without those that are tainted. Of
        a shareable one it is a share with its default amounts.

        Raises:
            SkippedError: there are not so many.
        """
        results = list(islice(_fitting(view.driver, self.pool(view.driver)), count))
        if len(results) < count:
            raise SkippedError(f"it publishes {len(results)} devices that can be held at a time, of {count}")
        return results

    def claim(
        self,
        view: DriverView,
        name: str = "one",
        *,
        results: Sequence[Mapping[str, Any]] | None = None,
        **changed: str,
    ) -> ClaimRef:
        """A claim at the API server, and its pod, of the first device unless `results` says of which.

        `changed` is of each result.

        Raises:
            SkippedError: no device can be held.
        """
        pod = {
            "metadata": {"name": name},
            "spec": {
                "nodeName": NODE,
                "resourceClaims": [{"name": "claim", "resourceClaimName": name}],
                "containers": [{"name": "main", "resources": {"claims": [{"name": "claim"}]}}],
            },
        }
        given = [{**result, **changed} for result in results or self.allocation(view)]
        consumer = self.cluster.create("pods", NAMESPACE, pod)["metadata"]
        status = {
            "allocation": {"devices": {"results": given}},
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
        if missing := self.missing(answer):
            raise SkippedError(f"it prepares what no runtime finds (see P12): {missing}")
        return answer

    async def asked(self, view: DriverView, ref: ClaimRef) -> Answered:
        """The answer to Prepare.

        Raises:
            FailedError: the whole call failed.
            SkippedError: the claim is not answered for, which is another check's business.
        """
        await view.connected(timeout_s=PATIENCE_S)
        try:
            answers = await view.client.prepare([ref])
        except CallError as error:
            raise FailedError(f"Prepare failed as a whole: {error}") from error
        if ref.uid not in answers:
            raise SkippedError("it does not answer for the claim (see P13)")
        return answers[ref.uid]

    async def unprepared(self, view: DriverView, ref: ClaimRef) -> str:
        """The error of Unprepare, empty if there is none.

        Raises:
            FailedError: the whole call failed.
            SkippedError: the claim is not answered for, which is another check's business.
        """
        await view.connected(timeout_s=PATIENCE_S)
        try:
            answers = await view.client.unprepare([ref])
        except CallError as error:
            raise FailedError(f"Unprepare failed as a whole: {error}") from error
        if ref.uid not in answers:
            raise SkippedError("it does not answer for the claim (see P13)")
        return answers[ref.uid].error

    def missing(self, answer: Answered) -> str | None:
        """Which CDI devices of an answer a runtime would not find, and why."""
        devices = CdiDevices([self.cdi])
        try:
            devices.inject(name for device in answer.devices for name in device.cdi_ids)
        except UnresolvableError as error:
            why = [f"{path.name}: {problem}" for path, problem in sorted(devices.problems.items())]
            return "; ".join([str(error), *why])
        return None

    @property
    def cdi(self) -> Path:
        """The container runtime's folder of CDI files."""
        return self.root / "cdi"

    def cdi_files(self) -> list[Path]:
        """What lies in the CDI folder."""
        return sorted(self.cdi.glob("[!.]*"))


def _driver_of(one: Json) -> object:
    spec = one.get("spec")
    return spec.get("driver") if isinstance(spec, Mapping) else None


def _fitting(driver: str, specs: Sequence[SliceSpec]) -> Iterator[dict[str, Any]]:
    """Each device that still fits when those before it are held, as an allocation's result."""
    left = {
        (spec.pool.name, one.name, name): _amount(counter.value)
        for spec in specs
        for one in spec.shared_counters or ()
        for name, counter in (one.counters or {}).items()
    }
    for spec in specs:
        for device in spec.devices or ():
            wanted = {
                (spec.pool.name, one.counter_set, name): _amount(counter.value)
                for one in device.consumes_counters or ()
                for name, counter in (one.counters or {}).items()
            }
            is_tainted = any(taint.effect in ("NoSchedule", "NoExecute") for taint in device.taints or ())
            if is_tainted or any(amount > left.get(key, -1) for key, amount in wanted.items()):
                continue
            left |= {key: left[key] - amount for key, amount in wanted.items()}
            result = {"request": "device", "driver": driver, "pool": spec.pool.name, "device": device.name}
            yield result | _share(device)


def _amount(value: object) -> Quantity:
    """An amount; one that is none counts as none of it, which is another check's business."""
    try:
        return parse_quantity(str(value))
    except QuantityError:
        return 0


def _share(device: SliceDevice) -> dict[str, Any]:
    if not device.allow_multiple_allocations:
        return {}
    amounts = {}
    for name, capacity in (device.capacity or {}).items():
        policy = capacity.request_policy
        default = policy.default if policy is not None else None
        amounts[name] = str(capacity.value if default is None else default)
    return {"shareID": "5f1d0f4e-0000-4000-8000-000000000001", "consumedCapacity": amounts}
