"""Conformance checks tell a busy machine from a slow plugin."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.fakekubelet.conformance.bench import Check, FailedError, LateError
from accelet.fakekubelet.conformance.load import (
    Effort,
    effort_of,
    effort_of_session,
    parse_schedstat,
    wait_while_at_work,
)
from accelet.fakekubelet.conformance.runner import Result, Status, run_on_benches


@given(st.text(max_size=30))
def test_whatever_the_kernel_says_is_read_or_counts_as_nothing(text: str) -> None:
    effort = parse_schedstat(text)
    assert effort.ran_s >= 0
    assert effort.waited_s >= 0


def test_the_kernels_figures_are_nanoseconds() -> None:
    assert parse_schedstat("1500000000 250000000 7\n") == Effort(1.5, 0.25)
    assert parse_schedstat("") == Effort()


@given(*[st.floats(0, 1e6)] * 4)
def test_effort_never_goes_back(ran: float, waited: float, earlier_ran: float, earlier_waited: float) -> None:
    since = Effort(ran, waited).since(Effort(earlier_ran, earlier_waited))
    assert since.ran_s >= 0
    assert since.waited_s >= 0


@contextmanager
def spinning() -> Iterator["subprocess.Popen[bytes]"]:
    """A process of its own session whose child never rests."""
    words = [sys.executable, "-c", "while True: pass"]
    shell = subprocess.Popen(["sh", "-c", '"$@" & wait', "sh", *words], start_new_session=True)
    try:
        yield shell
    finally:
        os.killpg(shell.pid, 9)
        shell.wait()


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="this kernel does not count it")
async def test_what_a_plugins_children_do_counts_as_its_own() -> None:
    with spinning() as process:
        async with asyncio.timeout(60):
            while not _child_works(process.pid):  # noqa: ASYNC110 - the kernel wakes nobody
                await asyncio.sleep(0.02)


def _child_works(leader: int) -> bool:
    """Whether the session has used more than its leader alone."""
    return effort_of_session(leader).ran_s > 2 * effort_of(leader).ran_s + 0.01


def test_a_process_that_is_gone_has_done_nothing() -> None:
    done = subprocess.Popen(["true"])
    done.wait()
    assert effort_of(done.pid) == Effort()


class NotThereError(Exception):
    """What is waited for has not come."""


@dataclass
class Waiting:
    """Comes at the try `comes_at`; the plugin has worked for `works_s` of each."""

    comes_at: int
    works_s: float
    tries: int = 0

    async def wait(self, timeout_s: float) -> str:
        self.tries += 1
        await asyncio.sleep(timeout_s)
        if self.tries < self.comes_at:
            raise NotThereError
        return "here"

    def effort(self) -> Effort:
        return Effort(ran_s=0.0, waited_s=self.tries * self.works_s)


async def waited(waiting: Waiting, at_most_s: float) -> str:
    return await wait_while_at_work(
        waiting.wait, waiting.effort, patience_s=0.01, at_most_s=at_most_s, gives_up=(NotThereError,)
    )


async def test_a_plugin_that_waits_for_a_processor_is_waited_for() -> None:
    waiting = Waiting(comes_at=4, works_s=1000)
    assert await waited(waiting, at_most_s=1000) == "here"
    assert waiting.tries == 4


async def test_a_plugin_that_does_nothing_is_waited_for_once() -> None:
    waiting = Waiting(comes_at=4, works_s=0)
    with pytest.raises(NotThereError):
        await waited(waiting, at_most_s=1000)
    assert waiting.tries == 1


async def test_a_plugin_that_works_for_ever_is_not_waited_for_for_ever() -> None:
    waiting = Waiting(comes_at=10**9, works_s=1000)
    with pytest.raises(NotThereError):
        await waited(waiting, at_most_s=0.05)


@dataclass
class Machine:
    """What checks work with here: it says how busy it is."""

    busy_s: float = 0.0
    entered: int = 0

    async def __aenter__(self) -> "Machine":
        self.entered += 1
        return self

    async def __aexit__(self, *ignored: object) -> None:
        pass

    def delay_s(self) -> float:
        return self.busy_s


@dataclass
class Slow:
    """A check that is late until its try number `until`."""

    until: int
    error: Exception = field(default_factory=lambda: LateError("it took 2 s; 1 s is allowed", 1.0))
    tries: int = 0
    done: list[Result] = field(default_factory=list)

    async def run(self, machine: Machine) -> str:
        self.tries += 1
        if self.tries < self.until:
            raise self.error
        return "in time"

    async def on(self, machine: Machine, jobs: int = 1) -> Status:
        """What became of it beside another check, and that it was said once."""
        checks = [Check("X1", "is there", _passes), Check("X2", "is quick", self.run)]
        results = await run_on_benches(
            checks,
            lambda: machine,
            gate=("X1", "see X1"),
            jobs=jobs,
            done=self.done.append,
            calm_within_s=0.0,
        )
        assert sorted(result.id for result in self.done) == ["X1", "X2"]
        assert [result.id for result in results] == ["X1", "X2"]
        return results[1].status


async def _passes(machine: Machine) -> str:
    return "it is"


async def test_what_is_late_on_a_busy_machine_is_tried_again() -> None:
    slow = Slow(until=3)
    assert await slow.on(Machine(busy_s=1.1)) is Status.PASS
    assert slow.tries == 3


async def test_what_is_late_while_others_run_is_tried_again_alone() -> None:
    slow = Slow(until=2)
    assert await slow.on(Machine(), jobs=4) is Status.PASS
    alone = Slow(until=3)
    assert await alone.on(Machine(), jobs=4) is Status.FAIL
    assert alone.tries == 2


@pytest.mark.parametrize("busy_s", [0.0, 0.9])
async def test_what_is_later_than_the_machine_is_busy_fails_at_once(busy_s: float) -> None:
    slow = Slow(until=2)
    assert await slow.on(Machine(busy_s)) is Status.FAIL
    assert slow.tries == 1


async def test_what_stays_late_fails_and_says_that_the_machine_was_busy() -> None:
    slow = Slow(until=10**9)
    assert await slow.on(Machine(busy_s=1.5)) is Status.FAIL
    (late,) = [result for result in slow.done if result.id == "X2"]
    assert late.detail == (
        "it took 2 s; 1 s is allowed; the machine is busy, plugin and kubelet waited 1.5 s for a processor"
    )


async def test_what_is_wrong_is_not_tried_again_however_busy_the_machine_is() -> None:
    slow = Slow(until=2, error=FailedError("it is wrong"))
    assert await slow.on(Machine(busy_s=1.1), jobs=4) is Status.FAIL
    assert slow.tries == 1
