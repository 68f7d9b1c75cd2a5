"""Whether the plugin registers, and does so again whenever it has to."""

import asyncio
import os
import socket
import time
from pathlib import Path
from typing import Final

import grpc

from accelet.fakekubelet.conformance.bench import (
    PATIENCE_S,
    Bench,
    Check,
    FailedError,
    LateError,
    SkippedError,
    last_words,
)
from accelet.fakekubelet.conformance.load import effort_of_session
from accelet.fakekubelet.faults import Refuse
from accelet.fakekubelet.resource import ResourceView
from accelet.fakekubelet.trace import StillWaitingError

_GIVING_UP_S: Final = 12.0
"""Longer than any check allows, to be able to say how late it was."""

_DIAL_RETRY_S: Final = 0.7
"""The kubelet's second try to connect comes after one second, less up to a fifth of jitter."""


async def registers(bench: Bench) -> str:
    await bench.kubelet.start()
    plugin = await bench.launch()
    began = time.monotonic()
    coming = asyncio.create_task(bench.patiently(bench.richest))
    ending = asyncio.create_task(plugin.wait())
    try:
        await asyncio.wait({coming, ending}, return_when=asyncio.FIRST_COMPLETED)
        if not coming.done():
            raise FailedError(f"it ended with {ending.result()} and {last_words(plugin.output())}")
        view = coming.result()
    except StillWaitingError:
        missing = _what_is_missing(bench, time.monotonic() - began)
        raise FailedError(f"{missing}; it runs and {last_words(plugin.output())}") from None
    finally:
        for task in (coming, ending):
            task.cancel()
        await asyncio.gather(coming, ending, return_exceptions=True)
    return f"{view.resource} with {len(view.last_list)} devices"


def _what_is_missing(bench: Bench, waited_s: float) -> str:
    others = sorted({call.resource for call in bench.kubelet.register_calls} - {bench.resource})
    if bench.resource is None:
        return f"nothing registered and listed in {waited_s:.0f} s"
    instead = f"; what registered is {', '.join(others)}" if others else ""
    return f"{bench.resource} did not register and list in {waited_s:.0f} s{instead}"


async def serves_first(bench: Bench) -> str:
    view = await bench.ready()
    took = _seconds_between(bench, "register", "registered", view)
    if took >= _DIAL_RETRY_S:
        raise LateError(
            f"the kubelet could connect only after {took:.2f} s: serve before calling Register",
            took - _DIAL_RETRY_S,
        )
    return f"answered after {took * 1000:.0f} ms"


def _seconds_between(bench: Bench, first: str, second: str, view: ResourceView) -> float:
    events = [event for event in bench.kubelet.trace if event.resource == view.resource]
    begin = next(event.t for event in events if event.event == first)
    return next(event.t for event in events if event.event == second) - begin


async def waits_for_the_answer(bench: Bench) -> str:
    call = bench.calls(await bench.ready())[0]
    if call.deadline_s is not None and call.deadline_s < 14:
        raise FailedError(
            f"Register waits {call.deadline_s:.0f} s; the kubelet may need 10 s to dial back, so wait 15 s"
        )
    return "for ever" if call.deadline_s is None else f"{call.deadline_s:.0f} s"


async def follows_a_restart(bench: Bench) -> str:
    view = await bench.ready()
    before = len(bench.calls(view))
    await bench.kubelet.restart()
    return await _registers_within(bench, view, before, 1.0, "the kubelet's restart")


async def _registers_within(bench: Bench, view: ResourceView, before: int, seconds: float, after: str) -> str:
    began = bench.kubelet.trace.events[-1].t
    call = await bench.next_call(view, before, _GIVING_UP_S)
    if call is None:
        late_by_s = _GIVING_UP_S - seconds
        raise LateError(f"it did not register in {_GIVING_UP_S:g} s after {after}", late_by_s)
    came = next(
        event.t
        for event in bench.kubelet.trace
        if event.event == "register" and event.resource == view.resource and event.t >= began
    )
    if (took := came - began) > seconds:
        text = f"it registered {took:.2f} s after {after}; {seconds:g} s are allowed"
        raise LateError(text, took - seconds)
    return f"after {(came - began) * 1000:.0f} ms"


async def waits_for_a_kubelet(bench: Bench) -> str:
    plugin = await bench.launch()
    await asyncio.sleep(1.5)
    if plugin.exit_code is not None:
        raise FailedError(f"without a kubelet it ended with {plugin.exit_code}")
    await bench.kubelet.start()
    began = bench.kubelet.trace.events[-1].t
    try:
        await bench.first_resource()
    except StillWaitingError:
        text = f"it did not register in {PATIENCE_S:g} s after the kubelet had come"
        raise LateError(text, PATIENCE_S - 6) from None
    came = next(event.t for event in bench.kubelet.trace if event.event == "register")
    if (took := came - began) > 6:
        text = f"it registered {took:.1f} s after the kubelet had come; 6 s are allowed"
        raise LateError(text, took - 6)
    return f"{(came - began) * 1000:.0f} ms after the kubelet"


async def is_quiet_while_it_waits(bench: Bench) -> str:
    """A killed kubelet leaves its socket file behind, and connections to it are refused.

    The plugin is measured once it has been registered and listed, so that its start does not count.
    """
    await bench.ready()
    pid = bench.needed_pid()
    await bench.kubelet.stop()
    await asyncio.sleep(1.5)
    before, waited, began = _cpu_seconds(pid), effort_of_session(pid), time.monotonic()
    await asyncio.sleep(2)
    took = time.monotonic() - began
    if (code := bench.plugin.exit_code) is not None:
        raise FailedError(f"when kubelet.sock was dead it ended with {code}")
    used = _cpu_seconds(pid) - before
    # On a busy machine who spins gets little: what counts is how much it took of what it could have had.
    could = max(took / 4, took - effort_of_session(pid).since(waited).waited_s)
    if used > 0.15 * could:
        raise FailedError(
            f"it used {used:.2f} s of processor time in {could:.1f} s against a dead kubelet.sock"
        )
    await bench.plugin.kill()
    await _bears_a_dead_socket(bench)
    return f"{used:.2f} s of processor time in {could:.1f} s"


async def _bears_a_dead_socket(bench: Bench) -> None:
    """Raises FailedError if a plugin that finds a dead socket at its start does not wait for a kubelet."""
    plugin = await bench.launch()
    ending = asyncio.create_task(plugin.wait())
    await asyncio.wait([ending], timeout=1.5)
    if ending.done():
        raise FailedError(f"with a dead kubelet.sock it ended with {ending.result()}")
    ending.cancel()
    await asyncio.gather(ending, return_exceptions=True)


def _cpu_seconds(pid: int) -> float:
    """What a process and its children have used; 0 for one that is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return 0.0
    return sum(int(fields[place]) for place in (11, 12, 13, 14)) / os.sysconf("SC_CLK_TCK")


async def follows_a_replacement(bench: Bench) -> str:
    view = await bench.ready()
    before = len(bench.calls(view))
    await bench.kubelet.replace()
    return await _registers_within(bench, view, before, 5.0, "kubelet.sock was replaced by a rename")


async def follows_a_new_folder(bench: Bench) -> str:
    view = await bench.ready()
    before = len(bench.calls(view))
    await bench.kubelet.replace_directory()
    coming = asyncio.create_task(
        _registers_within(bench, view, before, 5.0, "the plugin folder was replaced")
    )
    ending = asyncio.create_task(bench.plugin.wait())
    try:
        await asyncio.wait({coming, ending}, return_when=asyncio.FIRST_COMPLETED)
        if coming.done():
            return coming.result()
        if ending.result() == 0:
            raise FailedError("it ended with 0 when the plugin folder was replaced, so nobody restarts it")
        return f"ended with {ending.result()}, to be restarted"
    finally:
        for task in (coming, ending):
            task.cancel()
        await asyncio.gather(coming, ending, return_exceptions=True)


async def takes_no_for_an_answer(bench: Bench) -> str:
    await bench.kubelet.start()
    bench.kubelet.faults.register.inject(Refuse('the ResourceName "x" is invalid'))
    await bench.launch()

    async def called(timeout_s: float) -> None:
        await bench.kubelet.trace.until(
            lambda: bool(bench.kubelet.register_calls), "a Register", timeout_s=timeout_s
        )

    try:
        await bench.patiently(called)
    except StillWaitingError:
        raise SkippedError("it does not register (see R1)") from None
    await asyncio.sleep(3)
    calls = bench.kubelet.register_calls
    third_second = [call.resource for call in calls if 2 <= call.at - calls[0].at < 3]
    most = max((third_second.count(name) for name in third_second), default=0)
    if most > 2:
        raise FailedError(f"two seconds after its name was refused as invalid it tried {most} times a second")
    return f"{len(calls)} tries in 3 s, {most} of them in the last"


async def tries_again(bench: Bench) -> str:
    await bench.kubelet.start()
    bench.kubelet.faults.register.inject(Refuse("busy", grpc.StatusCode.UNAVAILABLE), times=1)
    await bench.launch()
    try:
        await bench.patiently(bench.first_resource)
    except StillWaitingError:
        if not bench.kubelet.register_calls:
            raise SkippedError("it does not register (see R1)") from None
        raise FailedError(f"after one failure it did not register in {PATIENCE_S:g} s") from None
    return f"registered at try {len(bench.kubelet.register_calls)}"


async def follows_a_cut_stream(bench: Bench) -> str:
    view = await bench.ready()
    before = len(bench.calls(view))
    await bench.kubelet.cut_stream(view.resource)
    return await _registers_within(bench, view, before, 1.0, "its stream was cut")


async def has_one_stream(bench: Bench) -> str:
    view = await bench.ready()
    await asyncio.sleep(3)
    live = most = 0
    for event in bench.kubelet.trace:
        if event.resource == view.resource:
            live += {"watch": 1, "stream-ended": -1}.get(event.event, 0)
            most = max(most, live)
    calls = len(bench.calls(view))
    if most > 1 or calls > 1:
        raise FailedError(f"within 3 s it registered {calls} times and had {most} streams at once")
    return "one registration, one stream"


async def takes_a_fresh_name(bench: Bench) -> str:
    view = await bench.ready()
    await bench.kubelet.cut_stream(view.resource)
    await bench.back(view, 2)
    first, second = (call.endpoint for call in bench.calls(view)[:2])
    if first == second:
        raise FailedError(f"it registered {second} twice: what the old server does late hits the new one")
    return f"{first}, then {second}"


async def keeps_its_new_socket(bench: Bench) -> str:
    view = await bench.ready()
    await bench.kubelet.cut_stream(view.resource)
    await bench.back(view, 2)
    await asyncio.sleep(1)
    path = bench.kubelet.plugins_dir / bench.calls(view)[-1].endpoint
    if not _answers(path):
        raise FailedError(f"one second after it had registered {path.name} nobody listens there")
    return path.name


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(str(path))
        except OSError:
            return False
    return True


async def leaks_nothing(bench: Bench) -> str:
    view = await bench.ready()
    pid = bench.needed_pid()
    counts = []
    for times in range(2, 12):
        await bench.kubelet.restart()
        await bench.back(view, times)
        counts.append(_open_files(pid))
    if counts[-1] > counts[1] + 4:
        raise FailedError(f"over ten kubelet restarts its open files went from {counts[1]} to {counts[-1]}")
    return f"{counts[-1]} open files after ten restarts"


def _open_files(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))  # noqa: PTH208 - only how many


async def takes_newer_messages(bench: Bench) -> str:
    bench.kubelet.faults.unknown_fields = True
    await bench.kubelet.start()
    await bench.launch()
    try:
        await bench.patiently(bench.richest)
    except StillWaitingError:
        if bench.kubelet.register_calls:
            raise FailedError("it does not answer when a request has a field it does not know") from None
        raise SkippedError("it does not register (see R1)") from None
    return "ignores fields it does not know"


async def says_its_options_once(bench: Bench) -> str:
    """The options of Register are those of GetDevicePluginOptions, or are left out.

    The kubelet looks at the latter alone (pkg/kubelet/cm/devicemanager/plugin/v1beta1/server.go, Register,
    ignores the former), and so a difference means that one of them is not what is done.
    """
    view = await bench.ready()
    told = bench.calls(view)[-1].options
    if told is None:
        return "Register names none"
    if told != view.options:
        wrong = [
            word
            for word, one, other in (
                ("pre_start_required", told.pre_start_required, view.options.pre_start_required),
                ("get_preferred_allocation_available", told.prefers, view.options.prefers),
            )
            if one != other
        ]
        raise FailedError(f"Register and GetDevicePluginOptions differ in {' and '.join(wrong)}")
    return "the same in Register and GetDevicePluginOptions"


async def keeps_resources_apart(bench: Bench) -> str:
    view = await bench.ready()
    await asyncio.sleep(1)
    others = {call.resource for call in bench.kubelet.register_calls} - {view.resource}
    if not others:
        raise SkippedError("it has one resource only")
    await bench.kubelet.cut_stream(view.resource)
    await bench.back(view, 2)
    ended = [
        event.resource
        for event in bench.kubelet.trace
        if event.event == "stream-ended" and event.resource in others
    ]
    if ended:
        raise FailedError(f"when {view.resource} was cut off, {', '.join(map(str, ended))} went too")
    return f"{', '.join(sorted(others))} not disturbed"


REGISTERING: Final[tuple[Check[Bench], ...]] = (
    Check("R1", "registers and lists its devices", registers),
    Check("R2", "serves before it registers", serves_first),
    Check("R3", "waits for Register's answer as long as the kubelet may need", waits_for_the_answer),
    Check("R4", "registers within 1 s of a kubelet restart", follows_a_restart),
    Check("R5", "waits for a kubelet that is not there yet", waits_for_a_kubelet),
    Check("R6", "is quiet while kubelet.sock is dead", is_quiet_while_it_waits, needs_process=True),
    Check("R7", "notices a kubelet.sock that was replaced by a rename", follows_a_replacement),
    Check("R8", "notices that the plugin folder is another one", follows_a_new_folder),
    Check("R9", "does not hammer a kubelet that refuses it for good", takes_no_for_an_answer),
    Check("R10", "registers within 1 s of the end of its stream", follows_a_cut_stream),
    Check("R11", "tries again after a passing failure", tries_again),
    Check("R12", "has one registration and one stream at a time", has_one_stream),
    Check("R13", "registers under a socket name not used before", takes_a_fresh_name),
    Check("R14", "never removes a socket that is in use", keeps_its_new_socket),
    Check("R15", "leaks no files over kubelet restarts", leaks_nothing, needs_process=True),
    Check("R16", "understands a newer kubelet", takes_newer_messages),
    Check("R17", "keeps its resources apart", keeps_resources_apart),
    Check("R18", "says the same options when it registers and when asked", says_its_options_once),
)
