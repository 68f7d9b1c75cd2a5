"""Plays a script on a kubelet, whichever it is, and gives its transcript."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from accelet.fakekubelet.scenario import Outcome
from accelet.fakekubelet.scenario.format import Admit, Step
from tests.e2e.scenarios.answers import WAIT_S
from tests.e2e.scenarios.changes import FolderChanges
from tests.e2e.scenarios.looking import CHECKPOINT, PLUGINS_DIR, Kubelet, Looking
from tests.e2e.scenarios.plugin import RecordingPlugin, register
from tests.e2e.scenarios.script import (
    Act,
    Asked,
    Behave,
    Fate,
    Lists,
    Look,
    OnPlugin,
    Outlives,
    Register,
    Serve,
)
from tests.e2e.scenarios.transcript import Transcript

WAITING = ("wait", "pause", "asked", "ended", "fate", "outlives")
STARTING = ("start_kubelet", "restart_kubelet", "reboot")


@dataclass(slots=True)
class Stage:
    """One script on one kubelet. Its plugins are closed whatever happens."""

    kubelet: Kubelet
    transcript: Transcript = field(default_factory=Transcript)
    plugins: dict[str, RecordingPlugin] = field(default_factory=dict)
    resources: set[str] = field(default_factory=set)
    changes: FolderChanges | None = None

    @property
    def folder(self) -> Path:
        """Where plugins are."""
        return self.kubelet.root / PLUGINS_DIR

    @property
    def looking(self) -> Looking:
        return Looking(self.kubelet, self.transcript, self.resources)

    async def play(self, script: Sequence[tuple[str, Act | Step]]) -> list[str]:
        self.kubelet.meet(self.plugins)
        try:
            for heading, step in script:
                # What happens while something is waited for is a consequence of the step before.
                if step.name not in WAITING:
                    self.transcript.begin(heading)
                await self._perform(step)
            return self.transcript.render()
        finally:
            for plugin in self.plugins.values():
                await plugin.close()

    async def _perform(self, step: Act | Step) -> None:
        if isinstance(step, Step):
            before = {name: plugin.registrations for name, plugin in self.plugins.items()}
            outcome = await self.kubelet.perform(step)
            if step.name == "stop_kubelet":
                await self._streams_end()
            if step.name in STARTING:
                for name, plugin in self.plugins.items():
                    await plugin.is_back(before[name])
            if step.name != "pause":
                self._tell(outcome)
        else:
            act: Callable[[object], Awaitable[None]] = getattr(self, f"_{step.name}")
            await act(step.action)

    async def _streams_end(self) -> None:
        for plugin in self.plugins.values():
            await plugin.answers.until_ended()

    def _tell(self, outcome: Outcome) -> None:
        self.transcript.add("", outcome.detail)
        if outcome.problem is not None:
            self.transcript.add("", f"PROBLEM {outcome.problem}")

    # What plugins do.

    async def _serve(self, action: Serve) -> None:
        if (old := self.plugins.get(action.plugin)) is not None:
            await old.close()
        plugin = RecordingPlugin(self.folder, action, self.transcript)
        self.plugins[action.plugin] = plugin
        self.resources.add(action.resource)
        await plugin.serve()

    async def _lists(self, action: Lists) -> None:
        self.plugins[action.plugin].answers.set_list(action.devices, action.unhealthy)

    async def _behave(self, action: Behave) -> None:
        self.plugins[action.plugin].answers.behave(action)

    async def _release(self, action: OnPlugin) -> None:
        self.plugins[action.plugin].answers.released.set()

    async def _close(self, action: OnPlugin) -> None:
        await self.plugins[action.plugin].close()

    async def _asked(self, action: Asked) -> None:
        await self.plugins[action.plugin].answers.is_asked(action.times)

    async def _register(self, action: Register) -> None:
        serving = self.plugins.get(action.endpoint.removesuffix(".sock"))
        if serving is not None:
            serving.answers.opened.clear()
        answer = await register(self.folder, action.resource, action.endpoint, version=action.version)
        self.transcript.add("", answer)
        if serving is not None and answer == "OK":
            await asyncio.wait_for(serving.answers.opened.wait(), WAIT_S)

    async def _ended(self, action: OnPlugin) -> None:
        await asyncio.wait_for(self.plugins[action.plugin].answers.ended.wait(), WAIT_S)

    # What happens to the folder.

    async def _litter(self, _action: object) -> None:
        """Everything that may lie in the folder when a kubelet starts."""
        (self.folder / "nested").mkdir()
        (self.folder / "note.txt").write_text("a file")
        for path in (self.folder / "old.sock", self.folder / "nested" / "inner.sock"):
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(str(path))
        (self.folder / "link.sock").symlink_to("nested/inner.sock")

    async def _spoil(self, _action: object) -> None:
        (self.folder / CHECKPOINT).write_text('{"Data":')

    async def _watch(self, _action: object) -> None:
        self.changes = FolderChanges(self.folder)

    async def _watched(self, _action: object) -> None:
        assert self.changes is not None, "a script watches before it asks what was watched"
        for sentence in await self.changes.end("kubelet.sock", CHECKPOINT):
            self.transcript.add("inotify", sentence)

    # Pods.

    async def _bind(self, action: Admit) -> None:
        await self.kubelet.bind(action)

    async def _fate(self, action: Fate) -> None:
        self._tell(await self.kubelet.fate(action.pod, action.expect))

    async def _outlives(self, action: Outlives) -> None:
        runs = await self.kubelet.outlives(action.pod)
        self.transcript.add("", "the kubelet goes on" if runs else "the kubelet crashed")
        if not runs:
            await self._streams_end()

    # What the kubelet shows.

    async def _look(self, action: Look) -> None:
        await self.looking.look(action)

    async def _burst(self, _action: object) -> None:
        await self.looking.burst()
