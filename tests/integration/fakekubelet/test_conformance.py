"""The checks of `accelet conformance` find out what is wrong with a plugin, and nothing else."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from accelet.fakekubelet.conformance import (
    CHECKS,
    Bench,
    Check,
    CommandLauncher,
    Launcher,
    Plugin,
    Result,
    Status,
    run_checks,
)
from accelet.fakekubelet.conformance.launch import HardwareError
from accelet.fakekubelet.sample_plugin import GivenUpError, SamplePlugin
from tests.integration.fakekubelet.mutants import MUTANTS, FitsOnAGoodDayOnly, TwoResources

PROCESSES = 8
pytestmark = [pytest.mark.thorough, pytest.mark.timeout(1800)]
IS_SOAK = os.environ.get("ACCELET_HYPOTHESIS_PROFILE") == "soak"
IN_PROCESS = [check for check in CHECKS if not check.needs_process]
WITH_PROCESS = [check for check in CHECKS if check.needs_process]


@dataclass
class _Task:
    """A plugin as a task of this process."""

    task: "asyncio.Task[None]"
    code: int | None = None
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.task.add_done_callback(self._note)

    def _note(self, task: "asyncio.Task[None]") -> None:
        self.code = 0
        if not task.cancelled() and (error := task.exception()) is not None:
            self.code = error.code if isinstance(error, GivenUpError) else 1
        self.ended.set()

    @property
    def pid(self) -> int | None:
        return None

    @property
    def exit_code(self) -> int | None:
        return self.code

    async def terminate(self) -> None:
        self.task.cancel()

    async def kill(self) -> None:
        self.task.cancel()
        await self.ended.wait()

    async def wait(self) -> int:
        await self.ended.wait()
        assert self.code is not None
        return self.code

    def output(self) -> str:
        return ""


@dataclass(frozen=True)
class InThisProcess:
    """Saves starting an interpreter for each check."""

    plugin: Callable[[Path, Path], SamplePlugin]

    async def launch(self, root: Path) -> Plugin:
        folder = root / "hardware"
        if not folder.exists():
            fill(folder)
        return _Task(asyncio.create_task(self.plugin(root / "device-plugins", folder).run()))


def fill(folder: Path) -> None:
    folder.mkdir()
    for number in range(4):
        said = f"numa=0 node=/dev/null cdi=example.com/sample=dev-{number}"
        (folder / f"dev-{number}").write_text(f"healthy {said}")


class FolderHardware:
    """A device is a file; ids may have something appended to its name."""

    async def unplug(self, root: Path, device: str) -> None:
        self._file(root / "hardware", device).rename(root / "unplugged")

    async def replug(self, root: Path, device: str) -> None:
        (root / "unplugged").rename(root / "hardware" / device[: len("dev-0")])

    @staticmethod
    def _file(folder: Path, device: str) -> Path:
        for path in folder.iterdir():
            if device.startswith(path.name):
                return path
        raise HardwareError(f"there is no file for {device}")


async def results(launcher: Launcher, checks: list[Check[Bench]], jobs: int = 8) -> dict[str, Result]:
    done = await run_checks(checks, launcher, hardware=FolderHardware(), jobs=jobs)
    return {result.id: result for result in done}


def failed(found: dict[str, Result]) -> dict[str, str]:
    return {name: result.detail for name, result in found.items() if result.status is Status.FAIL}


def process_of(name: str, folder: Path) -> CommandLauncher:
    return CommandLauncher(
        f"{sys.executable} -m tests.integration.fakekubelet.mutants {name} --dir {{dir}} --devices {folder}"
    )


@pytest.mark.parametrize("plugin", [SamplePlugin, TwoResources], ids=lambda plugin: plugin.__name__)
async def test_a_correct_plugin_passes_all_that_is_seen_without_a_process(plugin: type[SamplePlugin]) -> None:
    found = await results(InThisProcess(plugin), IN_PROCESS)
    assert failed(found) == {}
    skipped = {name for name, result in found.items() if result.status is Status.SKIP}
    # Neither asks podresources; one has a single resource.
    assert skipped == {"A13", "A14"} | (set() if plugin is TwoResources else {"R17"})


async def test_a_correct_plugin_passes_in_a_process_of_its_own(root: Path) -> None:
    fill(root / "hardware")
    launcher = process_of("TwoResources", root / "hardware")
    found = await results(launcher, WITH_PROCESS, jobs=2)
    assert {name: result.status for name, result in found.items()} == dict.fromkeys(found, Status.PASS)


async def test_a_slow_start_is_no_failure_and_is_waited_for(root: Path) -> None:
    fill(root / "hardware")
    checks = [check for check in CHECKS if check.id in ("R1", "R6", "L1")]
    found = await results(process_of("StartsSlowly", root / "hardware"), checks, jobs=3)
    assert {name: result.status for name, result in found.items()} == dict.fromkeys(found, Status.PASS)


async def findings(mutant: type[SamplePlugin], hardware: Path) -> dict[str, str]:
    """What fails with `mutant`, and why."""
    expected = MUTANTS[mutant]
    in_process, jobs = IN_PROCESS, 16
    if mutant is FitsOnAGoodDayOnly:
        # Fifty thousand devices: every list is work.
        in_process, jobs = [check for check in IN_PROCESS if IS_SOAK or check.id in ("L5", "L9")], 1
    found = failed(await results(InThisProcess(mutant), in_process, jobs=jobs))
    # Many run at once here, and some checks measure time: what should not fail has to fail alone too.
    doubtful = [check for check in IN_PROCESS if check.id in found and check.id != expected]
    found = {name: why for name, why in found.items() if name == expected}
    found |= failed(await results(InThisProcess(mutant), doubtful, jobs=1))
    # Starting an interpreter for each check takes long; in full only where time is no matter.
    with_process = [check for check in WITH_PROCESS if IS_SOAK or check.id == expected]
    return found | failed(await results(process_of(mutant.__name__, hardware), with_process, jobs=2))


@pytest.fixture(scope="module")
def all_findings() -> dict[str, dict[str, str]]:
    """Every mutant against every check, in several processes: most of a check is waiting."""
    names = [mutant.__name__ for mutant in MUTANTS]
    with ThreadPoolExecutor(PROCESSES) as pool:
        return {
            name: found
            for part in pool.map(_found_by_process, (names[i::PROCESSES] for i in range(PROCESSES)))
            for name, found in part.items()
        }


def _found_by_process(names: Sequence[str]) -> dict[str, dict[str, str]]:
    done = subprocess.run(
        [sys.executable, "-m", __name__, *names],
        stdout=subprocess.PIPE,
        check=True,
        env={**os.environ, "GRPC_VERBOSITY": "NONE"},
        timeout=1800,
    )
    found: dict[str, dict[str, str]] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_mutant_is_found_out_by_its_check_alone(
    mutant: type[SamplePlugin], all_findings: dict[str, dict[str, str]]
) -> None:
    name, expected = mutant.__name__, [MUTANTS[mutant]]
    found = all_findings[name]
    if list(found) != expected:
        # Some checks measure time, and all mutants at once keep a machine busy: alone it has to be so.
        found = _found_by_process([name])[name]
    assert list(found) == expected, found


def test_every_check_has_a_mutant() -> None:
    assert {check.id for check in CHECKS} == set(MUTANTS.values())
    assert len(MUTANTS) >= 30


async def _find_out(names: Sequence[str]) -> dict[str, dict[str, str]]:
    with TemporaryDirectory(prefix="fk-", dir="/tmp") as folder:
        fill(Path(folder) / "hardware")
        return {
            mutant.__name__: await findings(mutant, Path(folder) / "hardware")
            for mutant in MUTANTS
            if mutant.__name__ in names
        }


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_find_out(sys.argv[1:]))))  # noqa: T201 - for the test that runs this
