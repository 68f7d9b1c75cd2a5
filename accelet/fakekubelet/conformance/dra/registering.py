"""Whether a driver is found, publishes, says how its devices are, and goes as it should."""

import asyncio
from collections.abc import Sequence
from typing import Final

from accelet.fakekubelet.conformance.bench import PATIENCE_S, Check, FailedError, SkippedError
from accelet.fakekubelet.conformance.dra.bench import DraBench, Json
from accelet.fakekubelet.conformance.launch import NODE
from accelet.fakekubelet.services.plugin import CallError
from accelet.fakekubelet.trace import StillWaitingError


async def registers_and_publishes(bench: DraBench) -> str:
    await bench.begin()
    view = await bench.registered()
    specs = await bench.published(view.driver)
    count = sum(len(spec.get("devices", ())) for spec in specs)
    return f"{view.driver} with {count} devices in {len(specs)} ResourceSlices"


async def lists_v1(bench: DraBench) -> str:
    view = await bench.ready()
    listed = view.client.listed
    known = [name for name in listed if name in ("v1.DRAPlugin", "v1beta1.DRAPlugin")]
    if known[:1] != ["v1.DRAPlugin"]:
        raise FailedError(f"it lists {', '.join(listed)}: kubelets take the first service they know")
    return ", ".join(listed)


async def publishes_what_is_valid(bench: DraBench) -> str:
    view = await bench.ready()
    problems = list(dict.fromkeys(_problems(bench.pool(view.driver))))
    if problems:
        raise FailedError("; ".join(problems[:3]))
    return "names, counters and limits"


def _problems(specs: Sequence[Json]) -> list[str]:
    problems = []
    names = [device["name"] for spec in specs for device in spec.get("devices", ())]
    if len(set(names)) != len(names):
        problems.append("a device's name is in its pool twice")
    sets = {each["name"] for spec in specs for each in spec.get("sharedCounters", ())}
    for spec in specs:
        devices = spec.get("devices", ())
        if spec.get("nodeName") != NODE:
            problems.append(f"a slice is of node {spec.get('nodeName')}, not of its own")
        is_special = any(device.get("taints") or device.get("consumesCounters") for device in devices)
        if len(devices) > (most := 64 if is_special else 128):
            problems.append(f"a slice has {len(devices)} devices; {most} are allowed")
        used = {each["counterSet"] for device in devices for each in device.get("consumesCounters", ())}
        problems += [f"no slice has the counter set {name}" for name in sorted(used - sets)]
    return problems


async def publishes_again(bench: DraBench) -> str:
    view = await bench.ready()
    await bench.kubelet.wipe_slices()
    try:
        await bench.published(view.driver)
    except FailedError:
        raise FailedError(f"{PATIENCE_S:g} s after a kubelet removed its slices they are not back") from None
    return "its slices are back"


async def bears_a_new_kubelet(bench: DraBench) -> str:
    view = await bench.ready()
    await bench.kubelet.restart()
    try:
        await view.connected(times=2, timeout_s=PATIENCE_S)
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
    if not any(name.endswith(".DRAResourceHealth") for name in view.client.listed):
        raise SkippedError("it lists no health service")
    if not bench.kubelet.version.health_services:
        raise SkippedError(f"kubelets {bench.version} watch no health")
    wanted = {device["name"] for spec in bench.pool(view.driver) for device in spec.get("devices", ())}
    try:
        await bench.kubelet.trace.until(
            lambda: wanted <= {device for _, device in view.health}, "health", timeout_s=PATIENCE_S
        )
    except StillWaitingError:
        left = sorted(wanted - {device for _, device in view.health})
        raise FailedError(f"it says nothing of {len(left)} devices, {left[0]} for one") from None
    return f"{len(wanted)} devices"


async def leaves_its_slices(bench: DraBench) -> str:
    view = await bench.ready()
    await _terminated(bench)
    if not bench.pool(view.driver):
        raise FailedError("it removed its ResourceSlices when it ended: a rolling update leaves a gap")
    return "its slices stay"


async def leaves_the_registry(bench: DraBench) -> str:
    await bench.ready()
    await _terminated(bench)
    left = [path.name for path in sorted((bench.root / "plugins_registry").iterdir())]
    if left:
        raise FailedError(f"after SIGTERM it left {', '.join(left)} in plugins_registry")
    return "gone"


async def _terminated(bench: DraBench) -> None:
    await bench.plugin.terminate()
    try:
        await asyncio.wait_for(bench.plugin.wait(), PATIENCE_S)
    except TimeoutError:
        raise SkippedError("it does not end on SIGTERM") from None


REGISTERING_DRIVERS: Final[tuple[Check[DraBench], ...]] = (
    Check("D1", "registers and publishes its devices", registers_and_publishes),
    Check("D2", "lists v1.DRAPlugin before v1beta1", lists_v1),
    Check("D3", "publishes a pool that schedulers accept", publishes_what_is_valid),
    Check("D4", "publishes again what a kubelet removed", publishes_again),
    Check("D5", "is found again by a new kubelet", bears_a_new_kubelet),
    Check("D6", "answers calls without claims", answers_for_nothing),
    Check("D7", "tells the health of all its devices", tells_health_of_all),
    Check("D8", "leaves its ResourceSlices when it ends", leaves_its_slices),
    Check("D9", "takes its registration socket along on SIGTERM", leaves_the_registry),
)
