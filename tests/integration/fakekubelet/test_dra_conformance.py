"""The checks of `accelet conformance --dra` find out what is wrong with a driver, and nothing else."""

import asyncio
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from accelet.fakeapi.fakecluster import FakeCluster
from accelet.fakekubelet.conformance import Check, CommandLauncher, Plugin, Result, Status
from accelet.fakekubelet.conformance.dra import DRA_CHECKS, DraBench, run_dra_checks
from accelet.fakekubelet.conformance.launch import NODE
from accelet.fakekubelet.sample_driver import DriverPlaces, SampleDriver
from accelet.kube.client import Client
from tests.integration.fakekubelet.dramutants import MUTANTS, CountsWell
from tests.integration.fakekubelet.test_conformance import IS_SOAK
from tests.integration.fakekubelet.test_conformance import _Task as RunningTask

# Drivers have ten seconds for what has to come: that is for a machine that does nothing else.
pytestmark = [pytest.mark.thorough, pytest.mark.timeout(900)]

QUICK = [check.id for check in DRA_CHECKS if check.id != "D17"]
AGENT = """\
version: v1
resources:
  - name: gpu.intel.com/i915
    backend: simulated
    serve: dra
    cards:
      - {pci: "0000:03:00.0", tiles: 2, nodes: [{path: /dev/null, mount_path: /dev/dri/card0}]}
      - {pci: "0000:04:00.0", tiles: 2, nodes: [{path: /dev/null, mount_path: /dev/dri/card1}]}
"""


class _Driver(RunningTask):
    """A driver as a task of this process; it may want to know whether its end is a crash."""

    driver: SampleDriver

    async def terminate(self) -> None:
        vars(self.driver)["is_terminated"] = True
        await super().terminate()


@dataclass(frozen=True)
class InThisProcess:
    """Saves starting an interpreter for each check."""

    driver: type[SampleDriver]

    async def launch(self, root: Path) -> Plugin:
        devices = root / "hardware"
        fill(devices)
        client = await Client.connect(root / "kubeconfig")
        driver = self.driver(DriverPlaces(root, devices, root / "cdi", NODE), client)
        running = _Driver(asyncio.create_task(driver.run()))
        running.driver = driver
        running.task.add_done_callback(lambda _task: client.close())
        return running


def fill(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for number in range(3):
        (folder / f"dev-{number}").touch()


async def outcomes(driver: type[SampleDriver], checks: list[Check[DraBench]]) -> dict[str, Result]:
    done = await run_dra_checks(checks, InThisProcess(driver), FakeCluster, jobs=16)
    return {result.id: result for result in done}


def failed(found: dict[str, Result]) -> dict[str, str]:
    return {name: result.detail for name, result in found.items() if result.status is Status.FAIL}


@pytest.mark.parametrize("driver", [SampleDriver, CountsWell], ids=lambda driver: driver.__name__)
async def test_a_correct_driver_passes_all(driver: type[SampleDriver]) -> None:
    found = await outcomes(driver, list(DRA_CHECKS))
    assert {name: result.detail for name, result in found.items() if result.status is not Status.PASS} == {}


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
async def test_a_mutant_is_found_out_by_its_check_alone(mutant: type[SampleDriver]) -> None:
    # One check only waits, for half a minute.
    checks = [check for check in DRA_CHECKS if IS_SOAK or check.id in (MUTANTS[mutant], *QUICK)]
    found = failed(await outcomes(mutant, checks))
    if list(found) != [MUTANTS[mutant]]:
        # Some checks wait for a time, and many run at once: alone it has to be so.
        doubtful = {MUTANTS[mutant], *found}
        again = [check for check in DRA_CHECKS if check.id in doubtful]
        found = failed({check.id: (await outcomes(mutant, [check]))[check.id] for check in again})
    assert list(found) == [MUTANTS[mutant]], found


async def test_every_check_has_a_mutant_that_it_finds_out() -> None:
    assert {check.id for check in DRA_CHECKS} == set(MUTANTS.values())
    places = asyncio.Semaphore(8)

    async def judged(mutant: type[SampleDriver], check: str) -> dict[str, Result]:
        async with places:
            return await outcomes(mutant, [each for each in DRA_CHECKS if each.id == check])

    async with asyncio.TaskGroup() as group:
        alone = {mutant: group.create_task(judged(mutant, name)) for mutant, name in MUTANTS.items()}
    assert {MUTANTS[mutant]: list(failed(task.result())) for mutant, task in alone.items()} == {
        name: [name] for name in MUTANTS.values()
    }


async def test_the_agents_driver_conforms(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(AGENT)
    words = f"--config {config} --kubelet-dir {{root}} --cdi-dir {{cdi}} --kubeconfig {{kubeconfig}}"
    launcher = CommandLauncher(f"{sys.executable} -m accelet agent {words} --node-name {{node}} --http ''")
    found = await run_dra_checks(DRA_CHECKS, launcher, FakeCluster, jobs=2)
    # Some checks measure time and two run at once: what did not pass has to fail alone too.
    again = {result.id for result in found if result.status is not Status.PASS}
    alone = [check for check in DRA_CHECKS if check.id in again]
    found = await run_dra_checks(alone, launcher, FakeCluster, jobs=1)
    wrong = {result.id: result.detail for result in found if result.status is not Status.PASS}
    assert wrong == {"P9": "its first device may be shared"}


def test_the_command_checks_drivers(tmp_path: Path) -> None:
    fill(tmp_path / "hardware")
    words = "--root {root} --cdi {cdi} --kubeconfig {kubeconfig} --node {node} --devices"
    command = f"{sys.executable} -m accelet.fakekubelet.sample_driver {words} {tmp_path / 'hardware'}"
    run = [sys.executable, "-m", "accelet", "conformance", "--dra", "--plugin-command", command]
    done = subprocess.run(
        [*run, "--only", "d1,P1", "--json"], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    checks = json.loads(done.stdout)["checks"]
    assert [(check["id"], check["status"]) for check in checks] == [("D1", "pass"), ("P1", "pass")]
