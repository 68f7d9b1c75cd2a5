"""Whether a driver is found, publishes, says how its devices are, and goes as it should."""

import asyncio
from typing import Final

from accelet.fakekubelet.claims.view import DriverView
from accelet.fakekubelet.conformance.bench import PATIENCE_S, Check, FailedError, LateError, SkippedError
from accelet.fakekubelet.conformance.dra.bench import DraBench
from accelet.fakekubelet.services.plugin import CallError
from accelet.fakekubelet.trace import StillWaitingError

_LONGEST_HEALTH_S: Final = 90.0


async def registers_and_publishes(bench: DraBench) -> str:
    await bench.begin()
    view = await bench.patiently(bench.registered)
    specs = await bench.patiently(lambda timeout_s: bench.published(view.driver, timeout_s))
    count = sum(len(spec.devices or ()) for spec in specs)
    return f"{view.driver} with {count} devices in {len(specs)} ResourceSlices"


async def lists_v1(bench: DraBench) -> str:
    view = await bench.ready()
    listed = view.client.listed
    known = [name for name in listed if name in ("v1.DRAPlugin", "v1beta1.DRAPlugin")]
    if known[:1] != ["v1.DRAPlugin"]:
        raise FailedError(f"it lists {', '.join(listed)}: kubelets take the first service they know")
    return ", ".join(listed)


async def publishes_again(bench: DraBench) -> str:
    view = await bench.ready()
    await bench.kubelet.wipe_slices()
    try:
        await bench.patiently(lambda timeout_s: bench.published(view.driver, timeout_s))
    except FailedError:
        raise FailedError(f"{PATIENCE_S:g} s after a kubelet removed its slices they are not back") from None
    return "its slices are back"


async def bears_a_new_kubelet(bench: DraBench) -> str:
    view = await bench.ready()
    await bench.kubelet.restart()
    try:
        await bench.patiently(lambda timeout_s: view.connected(times=2, timeout_s=timeout_s))
    except StillWaitingError:
        raise FailedError(f"a new kubelet did not find it again in {PATIENCE_S:g} s") from None
    return "it was found again"


async def answers_for_nothing(bench: DraBench) -> str:
    view = await bench.ready()
    try:
        answers = {**await view.client.prepare([]), **await view.client.unprepare([])}
    except CallError as error:
        raise FailedError(f"a call without claims failed: {error}") from error
    if answers:
        raise FailedError("it answered for claims that nobody asked for")
    return "calls without claims"


async def tells_health_of_all(bench: DraBench) -> str:
    view = await bench.ready()
    wanted = _with_health(bench, view)
    try:
        await bench.patiently(lambda timeout_s: _told(bench, view, wanted, timeout_s))
    except StillWaitingError:
        left = sorted(wanted - {device for _, device in view.health})
        raise FailedError(f"it says nothing of {len(left)} devices, {left[0]} for one") from None
    return f"{len(wanted)} devices"


def _with_health(bench: DraBench, view: DriverView) -> set[str]:
    """The devices whose health is to be told.

    Raises:
        SkippedError: nobody asks for it.
    """
    if not any(name.endswith(".DRAResourceHealth") for name in view.client.listed):
        raise SkippedError("it lists no health service")
    if not bench.kubelet.version.health_services:
        raise SkippedError(f"kubelets {bench.version} watch no health")
    return {device.name for spec in bench.pool(view.driver) for device in spec.devices or ()}


async def _told(bench: DraBench, view: DriverView, wanted: set[str], timeout_s: float) -> None:
    await bench.kubelet.trace.until(
        lambda: wanted <= {device for _, device in view.health}, "health", timeout_s=timeout_s
    )


async def tells_health_again(bench: DraBench) -> str:
    """What was said of a device holds for 30 s, or for as long as was said with it; then it is Unknown.

    Source: pkg/kubelet/cm/dra/healthinfo.go (DefaultHealthTimeout, getHealthInfo), Kubernetes 1.36.
    """
    view = await bench.ready()
    wanted = _with_health(bench, view)
    try:
        await bench.patiently(lambda timeout_s: _told(bench, view, wanted, timeout_s))
    except StillWaitingError:
        raise SkippedError("it does not tell the health of all its devices (see D7)") from None
    lasts_s = max(view.health_lasts_s.values())
    if lasts_s > _LONGEST_HEALTH_S:
        raise SkippedError(f"what it says holds for {lasts_s:g} s, which is not waited for")
    await asyncio.sleep(lasts_s + 1)
    left = sorted(wanted - {device for _, device in view.health})
    if left:
        raise LateError(
            f"{lasts_s:g} s after it had told its health, that of {len(left)} devices is unknown, "
            f"{left[0]} for one",
            lasts_s / 2,
        )
    return f"it is told again within {lasts_s:g} s"


async def leaves_its_slices(bench: DraBench) -> str:
    view = await bench.ready()
    await bench.ended()
    if not bench.pool(view.driver):
        raise FailedError("it removed its ResourceSlices when it ended: a rolling update leaves a gap")
    return "its slices stay"


async def leaves_the_registry(bench: DraBench) -> str:
    await bench.ready()
    await bench.ended()
    left = [path.name for path in sorted((bench.root / "plugins_registry").iterdir())]
    if left:
        raise FailedError(f"after SIGTERM it left {', '.join(left)} in plugins_registry")
    return "gone"


REGISTERING_DRIVERS: Final[tuple[Check[DraBench], ...]] = (
    Check("D1", "registers and publishes its devices", registers_and_publishes),
    Check("D2", "lists v1.DRAPlugin before v1beta1", lists_v1),
    Check("D4", "publishes again what a kubelet removed", publishes_again),
    Check("D5", "is found again by a new kubelet", bears_a_new_kubelet),
    Check("D6", "answers calls without claims", answers_for_nothing),
    Check("D7", "tells the health of all its devices", tells_health_of_all),
    Check("D8", "leaves its ResourceSlices when it ends", leaves_its_slices),
    Check("D17", "tells health again before it is out of date", tells_health_again),
    Check("D9", "takes its registration socket along on SIGTERM", leaves_the_registry),
)
