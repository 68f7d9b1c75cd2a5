"""Whether containers get what they need, whatever the kubelet does around it."""

import asyncio
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import grpc

from accelet.fakekubelet.conformance.bench import (
    Bench,
    Check,
    FailedError,
    LateError,
    SkippedError,
    timed,
)
from accelet.fakekubelet.devices.devicemanager import AllocationError
from accelet.fakekubelet.devices.options import ContainerOptions
from accelet.fakekubelet.faults import Refuse
from accelet.fakekubelet.node import ContainerState
from accelet.fakekubelet.pods import a_container, a_pod
from accelet.fakekubelet.resource import ResourceView
from accelet.fakekubelet.trace import StillWaitingError

_LONGEST_ENV: Final = 128 * 1024
"""Linux takes no longer string at exec (MAX_ARG_STRLEN)."""


def _of(view: ResourceView, count: int) -> dict[str, int]:
    return {view.resource: count}


async def answers_each_container(bench: Bench) -> str:
    view = await bench.with_devices(2)
    first, second = sorted(view.healthy)[:2]
    client = bench.kubelet.client(view.resource)
    for asked in ([[first]], [[first], [second]]):
        try:
            answered = len(await client.allocate(*asked))
        except AllocationError as error:
            # A plugin that wants to know the pod may refuse a call that belongs to none.
            raise SkippedError(f"it refuses calls that no pod is behind: {error}") from None
        if answered != len(asked):
            raise FailedError(f"asked for {len(asked)} containers it answered for {answered}")
    return "one answer for each container"


async def gives_short_environment(bench: Bench) -> str:
    view = await bench.with_devices(1)
    record = await bench.admitted(a_pod("all", limits=_of(view, len(view.healthy))))
    lengths = {name: len(name) + len(value) + 2 for name, value in record["main"].options.envs.items()}
    longest = max(lengths, key=lambda name: lengths[name], default=None)
    if longest is not None and lengths[longest] > _LONGEST_ENV:
        raise FailedError(f"{longest} has {lengths[longest]} bytes for {len(view.healthy)} devices")
    return f"at most {max(lengths.values(), default=0)} bytes"


async def answers_soon(bench: Bench) -> str:
    view = await bench.with_devices(1)
    for number in range(10):
        record = await bench.admitted(a_pod(f"pod-{number}", limits=_of(view, 1)))
        await bench.kubelet.remove(record)
    times = {
        what: [event.t for event in bench.kubelet.trace if event.event == what]
        for what in ("allocate", "allocated")
    }
    took = [end - begin for begin, end in zip(times["allocate"], times["allocated"], strict=True)]
    median = statistics.median(took)
    if median > 0.1:
        raise LateError(
            f"Allocate takes {median * 1000:.0f} ms in the middle; 100 ms are allowed", median - 0.1
        )
    return f"{median * 1000:.1f} ms in the middle, {max(took) * 1000:.1f} ms at most"


async def answers_again(bench: Bench) -> str:
    view = await bench.with_devices(1)
    record = await bench.admitted(
        a_pod(
            "twice",
            init_containers=[a_container("init", _of(view, 1))],
            containers=[a_container("main", _of(view, 1))],
        )
    )
    first, second = record["init"].options, record["main"].options
    if _essence(first) != _essence(second):
        raise FailedError("asked again for the same device it gave something else")
    return "the same answer twice"


def _essence(options: ContainerOptions) -> tuple[object, ...]:
    """All but annotations, in which a plugin may number its answers."""
    return dict(options.envs), options.mounts, options.devices, options.cdi_devices


async def refuses_strangers(bench: Bench) -> str:
    view = await bench.with_devices(1)
    try:
        await bench.kubelet.client(view.resource).allocate(["no-such-device"])
    except AllocationError as error:
        return str(error)[:100]
    raise FailedError("it gave a device that it never listed")


async def refuses_the_unhealthy(bench: Bench) -> str:
    view = await bench.with_devices(1)
    if not view.unhealthy:
        device = min(view.healthy)
        await bench.needed_hardware().unplug(bench.root, device)
        try:
            await bench.patiently(lambda timeout_s: view.devices(unhealthy=1, timeout_s=timeout_s))
        except StillWaitingError:
            raise SkippedError("it does not list it as unhealthy (see L10 and L11)") from None
    try:
        await bench.kubelet.client(view.resource).allocate([min(view.unhealthy)])
    except AllocationError as error:
        return str(error)[:100]
    raise FailedError("it gave a device that it lists as unhealthy")


async def gives_twice_what_the_kubelet_lost(bench: Bench) -> str:
    view = await bench.with_devices(1)
    await bench.admitted(a_pod("first", limits=_of(view, len(view.healthy))))
    lost = min(view.healthy)
    bench.kubelet.forget_held(view.resource, [lost])
    second = await bench.kubelet.admit(a_pod("second", limits=_of(view, 1)))
    if second.rejection is not None:
        raise FailedError(
            f"the kubelet gave {lost} twice, which it can, and it was: {second.rejection.message}"
        )
    return f"{lost} given twice"


async def prefers_what_is_possible(bench: Bench) -> str:
    view = await _preferring(bench, 2)
    for available, must, size in _questions(sorted(view.healthy)):
        wish = await _ask(bench, view, available, must, size)
        if len(set(wish)) != size or len(wish) != size:
            raise FailedError(f"asked for {size} of {len(available)} it prefers {len(wish)}")
        if not set(must) <= set(wish) <= set(available):
            raise FailedError(
                "it prefers devices that are not available, or leaves out those that must be there"
            )
    return "a subset, of the right size, with all that must be there"


async def prefers_the_same_again(bench: Bench) -> str:
    view = await _preferring(bench, 2)
    for available, must, size in _questions(sorted(view.healthy)):
        first = await _ask(bench, view, available, must, size)
        for order in (available, available[::-1]):
            if set(await _ask(bench, view, order, must, size)) != set(first):
                raise FailedError("asked the same again it prefers other devices")
    return "the same wish for the same question"


async def never_fails_to_prefer(bench: Bench) -> str:
    view = await _preferring(bench, 1)
    some = sorted(view.healthy)[:1]
    odd: tuple[tuple[list[str], list[str], int], ...] = (
        ([], [], 0),
        ([], [], 1),
        (some, [], 5),
        ([*some, "unknown"], ["unknown"], 1),
        ([*some, "unknown"], ["unknown"], 2),
    )
    for available, must, size in odd:
        try:
            await _ask(bench, view, available, must, size)
        except FailedError as error:
            raise FailedError(
                f"asked for {size} of {available} with {must} it fails, which rejects the pod: {error}"
            ) from None
    return f"{len(odd)} odd questions answered"


async def _preferring(bench: Bench, count: int) -> ResourceView:
    view = await bench.with_devices(count)
    if not view.options.prefers:
        raise SkippedError("it states no preferences")
    return view


def _questions(ids: Sequence[str]) -> list[tuple[Sequence[str], Sequence[str], int]]:
    """What a kubelet may ask: one, half, all; with nothing and with something that must be there."""
    sizes = sorted({1, max(1, len(ids) // 2), len(ids)})
    return [(ids, must, size) for size in sizes for must in ([], ids[-1:]) if len(must) <= size]


async def _ask(
    bench: Bench, view: ResourceView, available: Sequence[str], must: Sequence[str], size: int
) -> Sequence[str]:
    try:
        return await bench.kubelet.client(view.resource).preferred(available, must, size)
    except AllocationError as error:
        raise FailedError(str(error)) from None


async def prefers_soon(bench: Bench) -> str:
    """GetPreferredAllocation has no deadline, and the kubelet admits no other pod meanwhile.

    Source: pkg/kubelet/cm/devicemanager/endpoint.go, getPreferredAllocation; Kubernetes 1.36.
    """
    view = await _preferring(bench, 1)
    ids = sorted(view.healthy)
    took = [await timed(_ask(bench, view, ids, [], max(1, len(ids) // 2))) for _ in range(10)]
    median = statistics.median(took)
    if median > 0.1:
        raise LateError(
            f"GetPreferredAllocation takes {median * 1000:.0f} ms in the middle; 100 ms are allowed",
            median - 0.1,
        )
    return f"{median * 1000:.1f} ms in the middle, {max(took) * 1000:.1f} ms at most"


async def keeps_its_promises(bench: Bench) -> str:
    view = await bench.with_devices(1)
    record = await bench.admitted(a_pod("keeper", limits=_of(view, 1)))
    options = record["main"].options
    promised = [bench.on_host(mount.host_path) for mount in options.mounts]
    promised += [bench.on_host(device.host_path) for device in options.devices]
    there = [path for path in promised if _exists(path)]
    await bench.plugin.kill()
    await bench.launch()
    await bench.back(view, 2)
    lost = [path for path in there if not _exists(path)]
    if lost:
        raise FailedError(
            f"a running container was given {lost[0]}, which is gone after a restart of the plugin"
        )
    if not await bench.kubelet.restart_container(record):
        raise FailedError(
            f"after a restart of the plugin the container cannot be restarted: {record['main'].error}"
        )
    if not there:
        raise SkippedError("its answers name no file of the host that could be lost")
    return f"{len(there)} paths are still there"


def _exists(path: Path) -> bool:
    return path.exists()


async def readies_again_and_at_once(bench: Bench) -> str:
    view = await bench.with_devices(2)
    if not view.options.pre_start_required:
        raise SkippedError("it asks for no PreStartContainer")
    records = await bench.kubelet.admit_all([a_pod(name, limits=_of(view, 1)) for name in ("a", "b")])
    again = await asyncio.gather(*(bench.kubelet.restart_container(record) for record in records))
    waiting = [
        record["main"].error for record in records if record["main"].state is not ContainerState.RUNNING
    ]
    if waiting or not all(again):
        raise FailedError(f"PreStartContainer failed: {waiting[0] if waiting else ''}")
    return "two containers, twice each"


async def asks_for_one_pod_only(bench: Bench) -> str:
    view = await bench.with_devices(1)
    await bench.admitted(a_pod("a", limits=_of(view, 1)))
    asked = [event.detail for event in bench.kubelet.trace if event.event == "podresources"]
    if not bench.kubelet.version.serves_get:
        raise SkippedError(f"kubelet {bench.version} has no Get")
    if "List" in asked:
        raise FailedError("it called podresources List, which can lose another plugin's devices: use Get")
    if not asked:
        raise SkippedError("it does not ask podresources")
    return f"{len(asked)} calls of podresources"


async def bears_a_busy_kubelet(bench: Bench) -> str:
    view = await bench.with_devices(1)
    refusal = Refuse("rejected by rate limit", grpc.StatusCode.RESOURCE_EXHAUSTED)
    bench.kubelet.faults.pod_resources.inject(refusal, times=2)
    before = _podresources_calls(bench)
    await bench.admitted(a_pod("a", limits=_of(view, 1)))
    if _podresources_calls(bench) == before:
        raise SkippedError("it does not ask podresources")
    return "tried again"


def _podresources_calls(bench: Bench) -> int:
    return sum(event.event == "podresources" for event in bench.kubelet.trace)


async def forgets_a_cancelled_call(bench: Bench) -> str:
    view = await bench.with_devices(1)
    client = bench.kubelet.client(view.resource)
    for pause in (0.0, 0.001, 0.005, 0.03):
        call = asyncio.create_task(client.allocate([min(view.healthy)]))
        await asyncio.sleep(pause)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
    await bench.admitted(a_pod("after", limits=_of(view, 1)))
    return "answers after four cancelled calls"


ALLOCATING: Final[tuple[Check[Bench], ...]] = (
    Check("A1", "answers once for each container", answers_each_container),
    Check("A2", "gives no environment that Linux refuses", gives_short_environment),
    Check("A3", "answers Allocate within 100 ms", answers_soon),
    Check("A4", "gives the same again when asked again", answers_again),
    Check("A5", "refuses a device it never listed", refuses_strangers),
    Check("A6", "refuses a device that is unhealthy", refuses_the_unhealthy),
    Check("A7", "takes a device that the kubelet gives twice", gives_twice_what_the_kubelet_lost),
    Check("A8", "prefers what is possible", prefers_what_is_possible),
    Check("A9", "prefers the same when asked the same", prefers_the_same_again),
    Check("A10", "never fails to prefer", never_fails_to_prefer),
    Check("A11", "keeps what running containers were given over its own restart", keeps_its_promises),
    Check("A12", "readies containers again, and several at once", readies_again_and_at_once),
    Check("A13", "asks podresources for single pods only", asks_for_one_pod_only),
    Check("A14", "bears a kubelet that is busy", bears_a_busy_kubelet),
    Check("A15", "is not disturbed by cancelled calls", forgets_a_cancelled_call),
    Check("A16", "answers GetPreferredAllocation within 100 ms", prefers_soon),
)
