"""A node under chaos: hardware, kubelet and agent, what can be done to them, and when all must be well."""

import asyncio
import tempfile
from collections.abc import Callable, Iterable, Set
from contextlib import suppress
from pathlib import Path

from accelet.fakekubelet import FakeKubelet, Phase, PodRecord, a_container, a_pod
from tests.integration.agent.running import write_config
from tests.integration.chaos.agents import RunningAgent, TaskAgent
from tests.integration.chaos.hardware import RESOURCES, A, B, Card, Hardware
from tests.integration.chaos.progress import Progress
from tests.integration.chaos.watchman import WITHIN_S, Watchman

HINT_S = 0.15
"""From a hint to the end of the scan that follows it: 0.1 s for more hints to come, then the scan."""

RELOAD_S = 0.5
"""Until the agent has taken over another configuration."""

STOP_S = 2.0
HANG_S = 20.0

SAID_LINES = 120
"""What of the agent's log is reported: enough for a stack of each of its threads."""


class ChaosError(AssertionError):
    """Something did not hold. The text says what, and what the kubelet saw last."""


class World:
    """One node. A method returns when what it does is done; `settle` waits until all is well."""

    def __init__(
        self, folder: Path, version: str, seed: int, start_agent: Callable[[], RunningAgent]
    ) -> None:
        self.folder = folder
        self.kubelet = FakeKubelet(folder, version=version, seed=seed)
        self.hardware = Hardware(folder / "hardware")
        self._start_agent = start_agent
        self._agent: RunningAgent | None = None
        self._inherited: Set[str] = frozenset()
        self._registered_before = 0
        self._policies = {A: "none", B: "none"}
        self._progress = Progress(self._look)
        self._watchman = Watchman(self.kubelet, self._progress, self._expected, self._starved_s)
        self._pods = 0
        self._has_flapped = False
        self._reloaded_at_s = 0.0
        self._violation: ChaosError | None = None

    async def begin(self) -> None:
        (self.folder / "dev").mkdir()
        self._configure()
        await self.kubelet.start()
        self._progress.start()
        self.start_agent()

    def _look(self) -> None:
        self._watchman.look()
        if self._watchman.violations and self._violation is None:
            self._violation = self._wrong(self._watchman.violations[0])

    def _starved_s(self) -> float:
        return self._agent.starved_s if self._agent is not None else 0.0

    def _expected(self) -> Set[str]:
        """The resources that should be registered by now, were it not for those who are not there."""
        kubelet = self.kubelet
        can_register = (
            kubelet.is_running
            and kubelet.faults.register.fault is None
            and (kubelet.plugins_dir / "kubelet.sock").exists()
            and self._agent is not None
        )
        return self._policies.keys() if can_register else frozenset()

    # What happens to the agent.

    def start_agent(self) -> None:
        if self._agent is None:
            self._configure()  # with a wrong configuration it would rightly refuse to start
            self._inherited = self._sockets()
            self._registered_before = len(self.kubelet.register_calls)
            self._agent = self._start_agent()
            self._watchman.agent_has_started()

    async def stop_agent(self) -> None:
        """Ends it as a rolling update does; it has two seconds and leaves nothing behind.

        What a killed one left is still there only if this one was stopped before it could register.
        """
        agent, self._agent = self._agent, None
        if agent is None:
            return
        agent.ask_to_stop()
        if not await self._progress.until(lambda: agent.is_over, STOP_S):
            raise self._wrong("the agent has not ended 2 s after it was asked to")
        await agent.ended()
        has_registered = len(self.kubelet.register_calls) > self._registered_before
        if left := self._sockets() - (frozenset() if has_registered else self._inherited):
            raise self._wrong(f"the agent has left {', '.join(sorted(left))}")
        if isinstance(agent, TaskAgent):
            await self._gone(agent)

    def _sockets(self) -> Set[str]:
        return {path.name for path in self.kubelet.plugins_dir.glob("accelet-*.sock")}

    async def kill_agent(self) -> None:
        agent, self._agent = self._agent, None
        if agent is None:
            return
        agent.kill()
        if not await self._progress.until(lambda: agent.is_over, STOP_S):
            raise self._wrong("the agent has not ended 2 s after it was killed")
        self._watchman.agent_is_killed()

    async def _gone(self, agent: TaskAgent) -> None:
        if not await self._progress.until(lambda: not agent.tasks_left, WITHIN_S):
            raise self._wrong(f"tasks are left of the agent: {agent.tasks_left}")

    def _check_agent_lives(self) -> None:
        if self._agent is not None and self._agent.is_over:
            raise self._wrong("the agent has ended by itself")

    # What happens to its configuration and its hardware.

    def reload(self, policies: dict[str, str]) -> None:
        """Another configuration: the resources to be served, each with its policy."""
        self._policies = policies
        self._configure()
        self._watchman.disturbed()

    async def break_config(self) -> None:
        """A configuration that is not taken over, so the one in force, which has had its time, stays."""
        await self._progress.until(lambda: self._progress.now_s > self._reloaded_at_s + RELOAD_S, RELOAD_S)
        (self.folder / "config.yaml").write_text("version: v2\n")

    def _configure(self) -> None:
        self._reloaded_at_s = self._progress.now_s
        write_config(self.folder, *(self.hardware.config(*entry) for entry in self._policies.items()))

    def flap(self, resource: str, card: int, state: Card) -> None:
        self.hardware.set(resource, card, state)
        self._has_flapped = True
        self._hint()

    def _hint(self) -> None:
        with tempfile.NamedTemporaryFile(dir=self.folder / "dev"):
            pass

    # What happens to the kubelet.

    async def start_kubelet(self) -> None:
        await self.kubelet.start()

    async def stop_kubelet(self) -> None:
        await self.kubelet.stop()

    async def restart_kubelet(self) -> None:
        await self.kubelet.restart()

    async def replace_kubelet(self) -> None:
        await self.kubelet.replace()

    async def reboot(self) -> None:
        await self.kubelet.reboot()

    async def replace_directory(self) -> None:
        await self.kubelet.replace_directory()

    async def cut_stream(self, resource: str) -> None:
        if self.kubelet.is_running:
            await self.kubelet.cut_stream(resource)
            self._watchman.disturbed()

    def drop_kubelet_socket(self) -> None:
        with suppress(FileNotFoundError):
            self.kubelet.drop_socket()

    def remove_sockets(self) -> None:
        for path in self.kubelet.plugins_dir.glob("accelet-*.sock"):
            path.unlink(missing_ok=True)
        self._watchman.disturbed()

    def lift_faults(self) -> None:
        self.kubelet.faults.register.lift()
        self.kubelet.faults.disk_full = False
        self._watchman.disturbed()

    # What happens to pods.

    async def admit(self, limits: dict[str, int], *, has_init: bool, starts: bool) -> None:
        """Binds a pod; if the kubelet runs, waits until it is decided about."""
        self._pods += 1
        init = [a_container("init", limits)] if has_init else []
        pod = a_pod(f"pod-{self._pods}", containers=[a_container("main", limits)], init_containers=init)
        record = self.kubelet.bind(pod, start=starts)
        if self.kubelet.is_running and not await self._progress.until(
            lambda: record.admitted is not None, HANG_S
        ):
            raise self._wrong(f"{pod} is not decided about after {HANG_S:.0f} s")

    async def finish(self, number: int) -> None:
        if record := self._pick(number):
            await self.kubelet.finish(record, Phase.SUCCEEDED)

    async def remove(self, number: int) -> None:
        if record := self._pick(number):
            await self.kubelet.remove(record)

    async def start_late(self) -> None:
        """Starts what was admitted without: its containers may only now ask for their devices."""
        waiting = [record for record in self.kubelet.pods if record.admitted and not record.starts]
        if waiting and self.kubelet.is_running:
            await self.kubelet.start_containers(waiting[0])

    def _pick(self, number: int) -> PodRecord | None:
        pods = self.kubelet.pods
        return pods[number % len(pods)] if pods else None

    # When all must be well.

    async def pause(self, seconds: float) -> None:
        """Lets everybody run for a while; anything that did not hold meanwhile is raised."""
        await asyncio.sleep(seconds)
        self._check_agent_lives()
        if self._violation is not None:
            raise self._violation

    async def settle(self) -> None:
        """Nothing goes wrong any more; within a second the kubelet must know all that is true."""
        self.lift_faults()
        self._configure()
        if not (self.kubelet.plugins_dir / "kubelet.sock").exists():
            await self.kubelet.stop()
        await self.kubelet.start()
        self.start_agent()
        if self._has_flapped:
            self._has_flapped = False
            for _ in range(2):  # a device that failed is believed again after two good scans
                self._hint()
                await self._progress.until(lambda: False, HINT_S)
        within_s = max(map(self._watchman.granted_s, RESOURCES))
        starved_s = self._starved_s()
        is_true = await self._progress.until(lambda: not any(self._untrue()), within_s)
        self._check_agent_lives()
        if not is_true and not await self._progress.until(
            lambda: not any(self._untrue()), self._starved_s() - starved_s
        ):
            raise self._wrong(f"{within_s:.2f} s after the last disturbance: {'; '.join(self._untrue())}")
        await self.pause(0)

    def _untrue(self) -> Iterable[str]:
        """What the kubelet has that is not so."""
        for resource in RESOURCES:
            view, streams = self.kubelet.resource(resource), self._watchman.streams[resource]
            is_served = resource in self._policies
            if streams != is_served:
                yield f"{resource} has {streams} streams"
            healthy = self.hardware.healthy(resource) if is_served else frozenset()
            if view.healthy != healthy or view.allocatable != len(healthy):
                yield f"{resource} is {sorted(view.healthy)} to the kubelet and {sorted(healthy)} in truth"
            if is_served and (unlisted := self._held(resource) - view.listed.keys()):
                yield f"{resource} no longer lists {sorted(unlisted)}, which containers hold"

    def _held(self, resource: str) -> set[str]:
        live = [record for record in self.kubelet.pods if record.admitted and not record.is_over]
        containers = [container for record in live for container in record.containers.values()]
        return {device for container in containers for device in container.devices.get(resource, ())}

    async def end(self) -> None:
        """Ends everything; nothing may be left of it."""
        await self.stop_agent()
        await self.kubelet.stop()
        # Ours and the progress's own; what was killed may take a moment to go.
        await self._progress.until(lambda: len(asyncio.all_tasks()) == 2, WITHIN_S)
        await self._progress.stop()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        if left:
            raise self._wrong(f"tasks are left: {left}")

    async def abandon(self) -> None:
        """Ends everything after a failure, whatever its state."""
        if self._agent is not None:
            self._agent.ask_to_stop()
            await self._agent.ended()
        await self.kubelet.stop()
        await self._progress.stop()

    def _wrong(self, what: str) -> ChaosError:
        seen = "\n".join(f"  {event}" for event in self.kubelet.trace.events[-40:])
        doing = self._agent.describe() if self._agent is not None else "there is none"
        log = self.folder / "agent.log"
        said = "\n".join(log.read_text().splitlines()[-SAID_LINES:]) if log.exists() else "  nothing"
        return ChaosError(
            f"{what}\nkubelet {self.kubelet.version}, seed {self.kubelet.seed}, longest lag of the loop "
            f"{self._progress.longest_lag_s:.2f} s, agent starved for {self._starved_s():.2f} s; "
            f"what the kubelet saw last:\n{seen}\n"
            f"what the agent said last ({doing}):\n{said}"
        )
