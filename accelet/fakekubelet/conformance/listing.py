"""Whether the device list is right: complete, stable, quiet, within limits."""

import asyncio
import re
from collections import Counter
from collections.abc import Iterable
from typing import Final

from accelet.fakekubelet.conformance.bench import Bench, Check, FailedError, LateError, SkippedError
from accelet.fakekubelet.conformance.launch import Hardware
from accelet.fakekubelet.devices.devicemanager import HEALTHY, PluginDevice
from accelet.fakekubelet.pods import a_pod
from accelet.fakekubelet.resource import ResourceView
from accelet.fakekubelet.services.plugin import MAX_RECEIVE_BYTES
from accelet.fakekubelet.trace import StillWaitingError
from accelet.kubelet.api import deviceplugin_pb2 as api

_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,63}")
_MOST_NUMA_NODES: Final = 64


async def lists_at_once(bench: Bench) -> str:
    view = await bench.ready()
    events = [event for event in bench.kubelet.trace if event.resource == view.resource]
    opened = next(event.t for event in events if event.event == "watch")
    took = next(event.t for event in events if event.event == "list") - opened
    # A long list takes its time to be read.
    allowed = 0.25 + len(view.last_list) * 20e-6
    if took > allowed:
        raise LateError(f"the first list came {took:.2f} s after ListAndWatch was opened", took - allowed)
    return f"after {took * 1000:.0f} ms"


async def lists_the_same_after_a_cut(bench: Bench) -> str:
    view = await bench.ready()
    before = set(view.last_list)
    await bench.kubelet.cut_stream(view.resource)
    await bench.back(view, 2)
    return _same(before, set(view.last_list), "after its stream was cut")


async def lists_the_same_after_its_own_restart(bench: Bench) -> str:
    view = await bench.ready()
    before = {device.id for device in view.last_list}
    await bench.plugin.kill()
    await bench.launch()
    await bench.back(view, 2)
    return _same(before, {device.id for device in view.last_list}, "after its own restart")


def _same(before: set[object] | set[str] | set[PluginDevice], after: Iterable[object], when: str) -> str:
    gone, new = len(before - set(after)), len(set(after) - before)
    if gone or new:
        raise FailedError(f"{when} {gone} entries of its list were missing and {new} were new or changed")
    return f"{len(before)} devices"


async def is_quiet(bench: Bench) -> str:
    view = await bench.ready()
    await asyncio.sleep(3)
    seen = [event.event for event in bench.kubelet.trace if event.resource == view.resource]
    lists, streams = seen.count("list"), seen.count("watch")
    if lists > streams:
        raise FailedError(f"it sent {lists} lists in 3 s although nothing had changed")
    return "one list in 3 s"


async def has_plain_ids(bench: Bench) -> str:
    view = await bench.ready()
    odd = sorted({device.id for device in view.last_list if not _ID.fullmatch(device.id)})
    if odd:
        raise FailedError(f"{len(odd)} ids are not of [A-Za-z0-9._-]{{1,63}}, {odd[0]!r} for one")
    return f"{len(view.last_list)} ids"


async def has_unique_ids(bench: Bench) -> str:
    view = await bench.ready()
    await asyncio.sleep(0.5)  # its other resources, if it has any
    names = {call.resource for call in bench.kubelet.register_calls} | {view.resource}
    ids = Counter(device.id for name in names for device in bench.kubelet.resource(name).last_list)
    twice = sorted(name for name, count in ids.items() if count > 1)
    if twice:
        raise FailedError(f"{len(twice)} ids are listed more than once, {twice[0]} for one")
    return f"over {len(names)} resources"


async def knows_two_words(bench: Bench) -> str:
    view = await bench.ready()
    odd = sorted({device.health for device in view.last_list} - {HEALTHY, "Unhealthy"})
    if odd:
        raise FailedError(
            f"health is {odd[0]!r}; the kubelet knows Healthy, and takes all else for unhealthy"
        )
    if bench.hardware is not None:
        return await _says_unhealthy(bench, bench.hardware, view)
    if all(device.health == HEALTHY for device in view.last_list):
        raise SkippedError("all is healthy; give --unplug-command and --replug-command to see the other word")
    return "Healthy and Unhealthy"


async def _says_unhealthy(bench: Bench, hardware: Hardware, view: ResourceView) -> str:
    """What it calls a device that was taken away."""
    if not view.healthy:
        return "Unhealthy"
    device = min(view.healthy)
    await hardware.unplug(bench.root, device)
    try:
        await bench.kubelet.trace.until(
            lambda: device not in view.healthy,
            "the device to be noticed as gone",
            timeout_s=PATIENCE_UNPLUG_S,
        )
    except StillWaitingError:
        raise SkippedError("it does not notice (see L10)") from None
    finally:
        await hardware.replug(bench.root, device)
    if device not in view.listed:
        raise SkippedError("what is unplugged leaves its list")
    if (health := view.listed[device].health) != "Unhealthy":
        raise FailedError(f"health is {health!r} once {device} was unplugged; the word is Unhealthy")
    return "Healthy, and Unhealthy once unplugged"


async def leaves_out_what_it_does_not_know(bench: Bench) -> str:
    view = await bench.ready()
    odd = sorted(device.id for device in view.last_list if device.numa_nodes == ())
    if odd:
        raise FailedError(
            f"{len(odd)} devices have an empty topology, {odd[0]} for one: podresources will not show them"
        )
    return "no empty topology"


async def fits_on_a_bad_day(bench: Bench) -> str:
    view = await bench.ready()
    # Every device unhealthy and with a NUMA node: the longest the list can get without a new device.
    topology = api.TopologyInfo(nodes=[api.NUMANode(ID=1)])
    worst = api.ListAndWatchResponse(
        devices=[api.Device(ID=each.id, health="Unhealthy", topology=topology) for each in view.last_list]
    )
    if worst.ByteSize() > MAX_RECEIVE_BYTES:
        raise FailedError(
            f"with all {len(view.last_list)} devices unhealthy its list has {worst.ByteSize()} bytes; "
            f"the kubelet takes {MAX_RECEIVE_BYTES}"
        )
    return f"at most {worst.ByteSize()} bytes"


async def keeps_what_is_gone(bench: Bench) -> str:
    hardware = bench.needed_hardware()
    view = await bench.with_devices(1)
    record = await bench.admitted(a_pod("holder", limits={view.resource: 1}))
    (device,) = record["main"].devices[view.resource]
    await hardware.unplug(bench.root, device)
    try:
        await bench.kubelet.trace.until(
            lambda: device not in view.healthy,
            "the device to be noticed as gone",
            timeout_s=PATIENCE_UNPLUG_S,
        )
    except StillWaitingError:
        raise SkippedError("it does not notice (see L10)") from None
    await asyncio.sleep(1)
    if device not in view.listed:
        raise FailedError(f"{device} was unplugged while a container held it, and left the list")
    return f"{device} is listed as {view.listed[device].health}"


async def names_numa_nodes_that_are_there(bench: Bench) -> str:
    """NUMA nodes from 0 to 63, of those that the host has.

    A device of any other node is in no hint, so that pods are rejected where the topology manager insists
    (`TopologyAffinityError`), and -1 is where the kubelet keeps devices without a node. Kubernetes 1.36,
    pkg/kubelet/cm/devicemanager/topology_hints.go (deviceNUMANodes), manager.go (nodeWithoutTopology) and
    topologymanager/bitmask/bitmask.go (0 to 63).
    """
    view = await bench.ready()
    named = {node for device in view.last_list for node in device.numa_nodes or ()}
    if not named:
        raise SkippedError("it names no NUMA node")
    there = _numa_nodes(bench)
    odd = sorted(
        node for node in named if node not in range(_MOST_NUMA_NODES) or (there and node not in there)
    )
    if odd:
        device = next(each.id for each in view.last_list if odd[0] in (each.numa_nodes or ()))
        raise FailedError(f"{device} is on NUMA node {odd[0]}, which the host cannot have or does not have")
    return f"nodes {', '.join(map(str, sorted(named)))}"


def _numa_nodes(bench: Bench) -> frozenset[int]:
    """Those of the host; all that can be where it does not say."""
    folder = bench.on_host("/sys/devices/system/node")
    found = frozenset(int(path.name[4:]) for path in folder.glob("node*") if path.name[4:].isdecimal())
    return found or frozenset(range(_MOST_NUMA_NODES))


async def keeps_the_others(bench: Bench) -> str:
    """When one device is gone, the others stay listed and healthy.

    Each list replaces the one before (pkg/kubelet/cm/devicemanager/manager.go, genericDeviceUpdateCallback),
    so that what one error leaves out is no longer there for any pod.
    """
    hardware = bench.needed_hardware()
    view = await bench.with_devices(2)
    device, *others = sorted(view.healthy)
    await hardware.unplug(bench.root, device)
    try:
        await bench.kubelet.trace.until(
            lambda: device not in view.healthy,
            "the device to be noticed as gone",
            timeout_s=PATIENCE_UNPLUG_S,
        )
    except StillWaitingError:
        raise SkippedError("it does not notice (see L10)") from None
    await asyncio.sleep(1)
    lost = sorted(set(others) - view.healthy)
    if lost:
        raise FailedError(f"{device} was unplugged, and {len(lost)} others went with it, {lost[0]} for one")
    return f"{len(others)} others stayed when {device} went"


async def notices_health(bench: Bench) -> str:
    hardware = bench.needed_hardware()
    view = await bench.with_devices(1)
    device = min(view.healthy)
    for healthy in (False, True):
        await (hardware.replug if healthy else hardware.unplug)(bench.root, device)
        try:
            await bench.kubelet.trace.until(
                lambda healthy=healthy: (device in view.healthy) is healthy,  # type: ignore[misc] # bound now
                "the device's health",
                timeout_s=PATIENCE_UNPLUG_S,
            )
        except StillWaitingError:
            what = "plugged in again" if healthy else "unplugged"
            raise LateError(
                f"{device} was {what}, and {PATIENCE_UNPLUG_S:g} s later nothing had come",
                PATIENCE_UNPLUG_S / 2,
            ) from None
    return f"{device} went and came back"


PATIENCE_UNPLUG_S: Final = 10.0

LISTING: Final[tuple[Check[Bench], ...]] = (
    Check("L1", "sends its first list at once", lists_at_once),
    Check("L2", "lists the same after its stream was cut", lists_the_same_after_a_cut),
    Check("L3", "has the same ids after its own restart", lists_the_same_after_its_own_restart),
    Check("L4", "is silent while nothing changes", is_quiet),
    Check("L5", "has ids that everybody can take", has_plain_ids),
    Check("L6", "has no id twice, in any of its resources", has_unique_ids),
    Check("L7", "says Healthy or Unhealthy", knows_two_words),
    Check("L8", "leaves the topology out where it is unknown", leaves_out_what_it_does_not_know),
    Check("L9", "fits into 4 MiB even if all devices are unhealthy", fits_on_a_bad_day),
    Check("L10", "notices within 10 s that a device is gone or back", notices_health),
    Check("L11", "keeps an unplugged device listed while it is held", keeps_what_is_gone),
    Check("L12", "names NUMA nodes that the host has", names_numa_nodes_that_are_there),
    Check("L13", "keeps the other devices when one is gone", keeps_the_others),
)
