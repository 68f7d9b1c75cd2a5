"""What a check works with: a fresh fake kubelet and a freshly started plugin."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Final, Generic, Protocol, Self, TypeVar

from accelet.fakekubelet.conformance.launch import Hardware, Launcher, Plugin
from accelet.fakekubelet.conformance.load import Effort, effort_of, effort_of_session, wait_while_at_work
from accelet.fakekubelet.devices.holdings import read_checkpoint
from accelet.fakekubelet.kubelet import FakeKubelet
from accelet.fakekubelet.node import PodRecord, RegisterCall
from accelet.fakekubelet.pods import Pod
from accelet.fakekubelet.resource import ResourceView
from accelet.fakekubelet.trace import StillWaitingError
from accelet.kubelet.api import deviceplugin_pb2 as api

_T = TypeVar("_T")

_SETTLING_S = 0.2
"""How long after its first resource a plugin may register its others."""

_LAST_LINES, _MOST_OF_A_LINE = 5, 300

PATIENCE_S: Final = 10.0
"""How long a check waits for what has to come before it can begin, while the plugin does nothing."""

LONGEST_PATIENCE_S: Final = 60.0
"""How long it waits in all for a plugin that is at work, on a busy machine for instance."""


class FailedError(Exception):
    """The plugin does not do what it should. The text says what it did instead."""


class LateError(FailedError):
    """The plugin does what it should, but `late_by_s` later than it may. A busy machine may be why."""

    def __init__(self, text: str, late_by_s: float) -> None:
        super().__init__(text)
        self.late_by_s = late_by_s


class SkippedError(Exception):
    """It cannot be told. The text says why."""


class Burdened(Protocol):
    """What a check works with, and how busy the machine was meanwhile."""

    def delay_s(self) -> float:
        """For how many seconds plugin and kubelet have waited for a processor since this began."""
        ...


B = TypeVar("B", bound=Burdened)
"""A `Bench`, or that of another kind of plugin."""


class Load:
    """How much the plugins of one check have worked, and waited for a processor."""

    def __init__(self) -> None:
        self._at_first = effort_of(os.getpid())

    def of(self, plugins: Sequence[Plugin]) -> Effort:
        """What those with processes of their own have used so far."""
        return sum((effort_of_session(each.pid) for each in plugins if each.pid is not None), Effort())

    def delay_s(self, plugins: Sequence[Plugin]) -> float:
        """As `Burdened.delay_s`."""
        own = effort_of(os.getpid()).since(self._at_first)
        return own.waited_s + self.of(plugins).waited_s

    async def patiently(self, plugins: Sequence[Plugin], wait: Callable[[float], Awaitable[_T]]) -> _T:
        """`wait(timeout_s)`, for longer than that while the plugins are at work.

        Raises:
            StillWaitingError: it did not come.
            FailedError: likewise.
        """
        return await wait_while_at_work(
            wait,
            lambda: self.of(plugins),
            patience_s=PATIENCE_S,
            at_most_s=LONGEST_PATIENCE_S,
            gives_up=(StillWaitingError, FailedError, TimeoutError),
        )


@dataclass(slots=True)
class Bench:
    """One check's own kubelet, folder and plugin. `resource` is the one to look at, if it matters which.

    `host_root` is where the host's files are, for a plugin that was told so too.
    """

    launcher: Launcher
    version: str = "1.36"
    resource: str | None = None
    hardware: Hardware | None = None
    host_root: str = "/"
    root: Path = field(init=False)
    kubelet: FakeKubelet = field(init=False)
    plugins: list[Plugin] = field(default_factory=list)
    _folder: "TemporaryDirectory[str]" = field(init=False)
    _load: Load = field(default_factory=Load)

    async def __aenter__(self) -> Self:
        # Short: a socket's path has 107 bytes, and plugins give their sockets long names.
        self._folder = TemporaryDirectory(prefix="ck-", dir="/tmp")
        self.root = Path(self._folder.name)
        self.kubelet = FakeKubelet(self.root, version=self.version)
        for folder in (self.kubelet.plugins_dir, self.kubelet.pod_resources_dir):
            folder.mkdir()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await asyncio.gather(*(plugin.kill() for plugin in self.plugins))
        await self.kubelet.stop()
        self._folder.cleanup()

    @property
    def plugin(self) -> Plugin:
        """The plugin that was started last."""
        return self.plugins[-1]

    async def launch(self) -> Plugin:
        plugin = await self.launcher.launch(self.root)
        self.plugins.append(plugin)
        return plugin

    async def ready(self) -> ResourceView:
        """A running kubelet, a running plugin, and its resource once it has been listed.

        Raises:
            SkippedError: it did not come so far, which is another check's business.
        """
        await self.kubelet.start()
        await self.launch()
        try:
            view = await self.patiently(self.richest)
        except StillWaitingError as error:
            raise SkippedError("it does not register and list (see R1)") from error
        return view

    async def patiently(self, wait: Callable[[float], Awaitable[_T]]) -> _T:
        """`wait(timeout_s)`, for longer than that while the plugin is at work.

        Raises:
            StillWaitingError: what it waits for did not come.
        """
        return await self._load.patiently(self.plugins, wait)

    def delay_s(self) -> float:
        """For how many seconds plugin and kubelet have waited for a processor since this began."""
        return self._load.delay_s(self.plugins)

    async def richest(self, timeout_s: float = PATIENCE_S) -> ResourceView:
        """The resource asked for, or else, of those that are listed soon, the one with most to give.

        Raises:
            StillWaitingError: none is registered and listed.
        """
        first = self.kubelet.resource(self.resource or await self.first_resource(timeout_s))
        await first.registered(timeout_s=timeout_s)
        await first.devices(timeout_s=timeout_s)
        if self.resource is not None:
            return first
        with suppress(StillWaitingError):
            await self.kubelet.trace.until(lambda: False, "the others", timeout_s=_SETTLING_S)
        names = sorted({call.resource for call in self.kubelet.register_calls})
        return max(map(self.kubelet.resource, names), key=lambda view: (len(view.healthy), view is first))

    async def first_resource(self, timeout_s: float = PATIENCE_S) -> str:
        """The resource that is registered first.

        Raises:
            StillWaitingError: none is.
        """
        trace = self.kubelet.trace

        def names() -> list[str]:
            return [event.resource for event in trace if event.event == "registered" and event.resource]

        await trace.until(lambda: bool(names()), "a resource to be registered", timeout_s=timeout_s)
        return names()[0]

    async def with_devices(self, count: int) -> ResourceView:
        """As `ready`, with at least `count` healthy devices.

        Raises:
            SkippedError: there are fewer.
        """
        view = await self.ready()

        async def enough(_timeout_s: float) -> None:
            await self.kubelet.trace.until(lambda: len(view.healthy) >= count, "healthy devices", timeout_s=2)

        try:
            await self.patiently(enough)
        except StillWaitingError:
            raise SkippedError(f"it has {len(view.healthy)} healthy devices, {count} are needed") from None
        return view

    def calls(self, view: ResourceView) -> list[RegisterCall]:
        """The calls of Register for this resource."""
        return [call for call in self.kubelet.register_calls if call.resource == view.resource]

    async def next_call(self, view: ResourceView, after: int, timeout_s: float) -> RegisterCall | None:
        """The Register call number `after` + 1, if it comes in time."""
        try:
            await self.kubelet.trace.until(
                lambda: len(self.calls(view)) > after, "a Register", timeout_s=timeout_s
            )
        except StillWaitingError:
            return None
        return self.calls(view)[after]

    async def back(self, view: ResourceView, registrations: int) -> None:
        """The resource registered and listed again.

        Raises:
            SkippedError: it did not come back, which is another check's business.
        """

        async def returned(timeout_s: float) -> None:
            await view.registered(times=registrations, timeout_s=timeout_s)
            await self.kubelet.trace.until(
                lambda: self._has_listed(view), "the new list", timeout_s=timeout_s
            )

        try:
            await self.patiently(returned)
        except StillWaitingError as error:
            raise SkippedError("it does not come back (see R4 and R10)") from error

    def _has_listed(self, view: ResourceView) -> bool:
        """Whether there is a list of the last registration; until then an older one is still known."""
        events = [each.event for each in self.kubelet.trace if each.resource == view.resource]
        return "list" in events[len(events) - 1 - events[::-1].index("registered") :]

    async def admitted(self, pod: Pod) -> PodRecord:
        """`pod`, which has to be taken.

        Raises:
            FailedError: it was rejected.
        """
        record = await self.kubelet.admit(pod)
        if record.rejection is not None:
            raise FailedError(record.rejection.message)
        return record

    def answer(self, record: PodRecord, view: ResourceView) -> api.ContainerAllocateResponse:
        """What the plugin answered for the pod's container `main`, to the letter, as the kubelet keeps it."""
        text = (self.kubelet.plugins_dir / "kubelet_internal_checkpoint").read_text()
        held = read_checkpoint(text)[0].of_container(record.pod.uid, "main")[view.resource]
        return api.ContainerAllocateResponse.FromString(held.response)

    def on_host(self, path: str) -> Path:
        """Where a file of the host is found from here."""
        return Path(self.host_root.replace("{root}", str(self.root))) / path.lstrip("/")

    async def ended(self, *, see: str) -> None:
        """Asks the plugin to end, and waits until it has.

        Raises:
            SkippedError: it does not, which is the business of the check `see`.
        """
        await self.plugin.terminate()
        try:
            await self.patiently(lambda timeout_s: asyncio.wait_for(self.plugin.wait(), timeout_s))
        except TimeoutError:
            raise SkippedError(f"it does not end (see {see})") from None

    def needed_hardware(self) -> Hardware:
        """What takes devices away.

        Raises:
            SkippedError: nobody said how.
        """
        if self.hardware is None:
            raise SkippedError("needs --unplug-command and --replug-command")
        return self.hardware

    def needed_pid(self) -> int:
        """The plugin's process.

        Raises:
            SkippedError: it has none of its own.
        """
        if self.plugin.pid is None:
            raise SkippedError("needs a process")
        return self.plugin.pid


def last_words(output: str) -> str:
    """The last whole lines of what a plugin wrote, for a sentence that says how it ended."""
    lines = [line[:_MOST_OF_A_LINE] for line in output.splitlines() if line.strip()][-_LAST_LINES:]
    if not lines:
        return "wrote nothing"
    return f"wrote: {lines[0]}" if len(lines) == 1 else "\n".join(["wrote at the end:", *lines])


async def timed(work: Awaitable[object]) -> float:
    """How many seconds `work` took."""
    began = time.monotonic()
    await work
    return time.monotonic() - began


@dataclass(frozen=True, slots=True)
class Check(Generic[B]):
    """One thing a plugin owes. `run` returns a short finding, or raises FailedError or SkippedError.

    `needs_process` is for those that watch the plugin's process or kill it.
    """

    id: str
    title: str
    run: Callable[[B], Awaitable[str]]
    needs_process: bool = False
