"""The agent under chaos: in this process, where its tasks can be seen, or in one of its own, to be killed."""

import asyncio
import logging
import os
import signal
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from contextlib import suppress
from pathlib import Path

from accelet.agent.configfile import ConfigFile
from accelet.agent.process import Agent, AgentOptions
from accelet.kubelet.paths import KubeletPaths
from accelet.runtime.run import FatalError
from tests.integration.chaos.suspensions import Suspensions, counting_tasks

REPOSITORY = Path(__file__).parents[3]


class RunningAgent(ABC):
    """One life of an agent that serves from a folder."""

    @property
    @abstractmethod
    def is_over(self) -> bool: ...

    @abstractmethod
    def ask_to_stop(self) -> None:
        """As SIGTERM does."""

    @abstractmethod
    def kill(self) -> None:
        """As SIGKILL does, or as near to it as this kind comes."""

    @abstractmethod
    async def ended(self) -> None: ...

    def describe(self) -> str:
        """What it is doing, in the text or in its log."""
        return ""

    @property
    def starved_s(self) -> float:
        """How long its threads, together, could have run and were given no processor."""
        return 0.0  # in this process the loop's own progress tells


class TaskAgent(RunningAgent):
    """An agent in this loop. The nearest it comes to being killed is to be stopped again in its clean-ups."""

    def __init__(self, folder: Path, stop_at: int = 0) -> None:
        """Stops, as if asked to, at its `stop_at`-th suspension if that is not 0."""
        asyncio.get_running_loop().set_task_factory(counting_tasks)
        self._log = logging.FileHandler(folder / "agent.log")
        self._log.setFormatter(logging.Formatter("%(asctime)s %(message)s %(values)s"))
        logging.getLogger("deviceplugin").addHandler(self._log)
        logging.getLogger("deviceplugin").setLevel("INFO")
        options = AgentOptions(folder, KubeletPaths(folder), "node", None)
        self.agent = Agent(options, ConfigFile(folder / "config.yaml"))
        self.suspensions = Suspensions(stop_at, self.ask_to_stop)
        self._main = self.suspensions.start(self.agent.run())
        self._main.add_done_callback(self._forget_log)

    @property
    def is_over(self) -> bool:
        return self._main.done()

    def _forget_log(self, _: asyncio.Task[None]) -> None:
        logging.getLogger("deviceplugin").removeHandler(self._log)
        self._log.close()

    def describe(self) -> str:
        return "it waits in " + ", ".join(self.suspensions.waiting())

    @property
    def tasks_left(self) -> set[str]:
        return {str(task) for task in self.suspensions.tasks if not task.done()}

    def ask_to_stop(self) -> None:
        self._main.cancel()

    def kill(self) -> None:
        self._main.cancel()
        asyncio.get_running_loop().call_soon(self._main.cancel)

    async def ended(self) -> None:
        with suppress(asyncio.CancelledError, FatalError):
            await asyncio.shield(self._main)


class ProcessAgent(RunningAgent):
    """An agent in a process of its own, forked by a `Zygote`."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._over = asyncio.Event()
        try:
            self._descriptor = os.pidfd_open(pid)
        except ProcessLookupError:  # it killed itself very early
            self._over.set()
        else:
            asyncio.get_running_loop().add_reader(self._descriptor, self._reaped)

    def _reaped(self) -> None:
        asyncio.get_running_loop().remove_reader(self._descriptor)
        os.close(self._descriptor)
        self._over.set()

    @property
    def is_over(self) -> bool:
        return self._over.is_set()

    def ask_to_stop(self) -> None:
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        self._send(signal.SIGKILL)

    def _send(self, number: signal.Signals) -> None:
        if not self.is_over:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._descriptor, number)

    async def ended(self) -> None:
        await self._over.wait()

    def describe(self) -> str:
        if self.is_over:
            return "it is over"
        self._send(signal.SIGUSR1)
        time.sleep(0.1)  # for its threads to write down where they are
        return f"process {self._pid}"

    @property
    def starved_s(self) -> float:
        waited_ns = 0
        for thread in Path(f"/proc/{self._pid}/task").glob("*/schedstat"):
            with suppress(OSError, IndexError):  # it has just ended
                waited_ns += int(thread.read_text().split()[1])
        return waited_ns / 1e9


class Zygote:
    """Starts agents in processes of their own."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.integration.chaos.zygote"],
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def fork(self, folder: Path, at: int = 0) -> ProcessAgent:
        """An agent that serves from `folder`, and kills itself at its `at`-th suspension if that is not 0."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(folder, at, file=self._process.stdin, flush=True)
        return ProcessAgent(int(self._process.stdout.readline()))

    def close(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)  # and what a failed test has left running
        self._process.communicate()
