"""PyTorch/XLA's and JAX's own launchers, run in the environment that containers get; no chips are needed.

They see the host's /sys, as containers do, and with it chips that are not theirs.
"""

import json
import math
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from accelet.accelerators.settings import NodeFacts
from accelet.accelerators.tpu.backend import TpuBackend
from accelet.accelerators.tpu.settings import TpuSettings
from accelet.fakehost.tpu import HOSTS
from tests.launchers.fetch import HERE, PACKAGES

PARTS = [
    ("v5e-8", [5]),
    ("v5e-8", [2, 3]),
    ("v5e-8", [4, 5, 6, 7]),
    ("v6e-8", [0, 1, 2, 3]),
    ("v6e-4", [2, 3]),
    ("v5p", [0]),
    ("v4", [2, 3]),
    ("v4-lite", [0, 1]),
    ("tpu7x-4", [1]),
    ("tpu7x-4", [2, 3]),
]
WHOLE = ["v2", "v3", "v4", "v4-lite", "v5e-1", "v5e-4", "v5e-8", "v5p", "v6e-1", "v6e-4", "v6e-8"]
MEGASCALE = {f"MEGASCALE_{name}": "" for name in ("COORDINATOR_ADDRESS", "NUM_SLICES", "SLICE_ID")}
"""JAX asks the metadata server for what is not even empty; docs/tpu.md says to set these."""


@pytest.fixture(scope="module", autouse=True)
def packages() -> None:
    if not (PACKAGES / "torch_xla/_internal/tpu.py").exists():
        pytest.fail("the launchers' code is not here: run `make launchers`, which fetches it from PyPI")


def given(root: Path, name: str, chips: Sequence[int] | None = None, **settings: Any) -> Mapping[str, str]:
    """The environment of a container with these chips of a host by position, all where none are named."""
    chosen = TpuSettings(mode="whole-host" if chips is None else "sub-host", **settings)
    backend = TpuBackend(chosen, NodeFacts(ip="127.0.0.1"))
    inventory = backend.scan(HOSTS[name].write(root))
    devices = [inventory.devices[index] for index in chips or range(len(inventory.devices))]
    return backend.edits(inventory, devices, {}, {}).environment


def run(script: str, root: Path, environment: Mapping[str, str]) -> Any:
    (library := root / "libtpu.so").touch()
    told = subprocess.run(
        [sys.executable, str(HERE / script), str(PACKAGES), str(root)],
        env={"PATH": os.environ["PATH"], "TPU_LIBRARY_PATH": str(library), **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert told.returncode == 0, told.stderr
    return json.loads(told.stdout)


def numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def find_disagreement(processes: Sequence[Mapping[str, str]], chips: int) -> str | None:
    """Why processes of one container with so many chips would not make one mesh of them, if so."""
    visible = [numbers(process["TPU_VISIBLE_CHIPS"]) for process in processes]
    if sorted(chain.from_iterable(visible)) != list(range(chips)):
        return f"they see the chips {visible}"
    for process, seen in zip(processes, visible, strict=True):
        if math.prod(numbers(process["TPU_CHIPS_PER_PROCESS_BOUNDS"])) != len(seen):
            return f"one sees {seen} of {process['TPU_CHIPS_PER_PROCESS_BOUNDS']}"
        if math.prod(numbers(process["TPU_PROCESS_BOUNDS"])) != len(processes):
            return f"{len(processes)} processes, of {process['TPU_PROCESS_BOUNDS']}"
    addresses = [process["TPU_PROCESS_ADDRESSES"].split(",") for process in processes]
    mine = [
        of_all[int(process["CLOUD_TPU_TASK_ID"])]
        for process, of_all in zip(processes, addresses, strict=True)
    ]
    if len(addresses[0]) != len(processes) or len(set(mine)) != len(processes):
        return f"their addresses are {addresses}"
    ports = [address.rpartition(":")[2] for address in mine]
    return (
        None
        if ports == [process["TPU_PROCESS_PORT"] for process in processes]
        else f"their ports are {ports}"
    )


@pytest.mark.parametrize(("name", "chips"), PARTS)
def test_default_launch_of_pytorch_xla_uses_all_chips_of_a_part(
    tmp_path: Path, name: str, chips: list[int]
) -> None:
    told = run("run_pytorch_xla.py", tmp_path, given(tmp_path, name, chips))

    assert len(told["spawned"]) == 1
    assert find_disagreement(told["spawned"], len(chips)) is None
    assert find_disagreement([{**told["spawned"][0], **told["single"]}], len(chips)) is None


@pytest.mark.parametrize(("name", "chips"), [part for part in PARTS if not part[0].startswith("tpu7x")])
def test_process_a_chip_is_what_pytorch_xla_starts_where_that_is_set(
    tmp_path: Path, name: str, chips: list[int]
) -> None:
    told = run("run_pytorch_xla.py", tmp_path, given(tmp_path, name, chips, processes="per-chip"))

    assert len(told["spawned"]) == len(chips)
    assert find_disagreement(told["spawned"], len(chips)) is None


@pytest.mark.parametrize("name", WHOLE)
def test_default_launch_of_pytorch_xla_uses_a_whole_host(tmp_path: Path, name: str) -> None:
    told = run("run_pytorch_xla.py", tmp_path, given(tmp_path, name))

    chips = len(HOSTS[name].functions) - 2  # its disk and network card
    assert len(told["spawned"]) == chips
    assert find_disagreement(told["spawned"], chips) is None


@pytest.mark.parametrize("name", ["tpu7x-1", "tpu7x-4"])
def test_pytorch_xla_knows_a_whole_tpu7x_host_as_its_only_worker(tmp_path: Path, name: str) -> None:
    """How many processes it starts there is its own affair: it counts PCI functions, two a chip."""
    told = run("run_pytorch_xla.py", tmp_path, given(tmp_path, name))

    assert told["worker"] == [7, 0, ["localhost"]]


def test_whole_host_by_parts_is_launched_as_a_whole(tmp_path: Path) -> None:
    told = run("run_pytorch_xla.py", tmp_path, given(tmp_path, "v5e-8", list(range(8))))

    assert len(told["spawned"]) == 8
    assert find_disagreement(told["spawned"], 8) is None


@pytest.mark.parametrize(
    ("name", "chips"), [*PARTS, *((name, None) for name in (*WHOLE, "tpu7x-1", "tpu7x-4"))]
)
def test_jax_finds_one_process_with_all_chips(tmp_path: Path, name: str, chips: list[int] | None) -> None:
    environment = given(tmp_path, name, chips)

    told = run("run_jax.py", tmp_path, {**environment, **MEGASCALE})

    assert (told["is_found"], told["is_gce"]) == (True, False)
    assert (told["processes"], told["process"], told["coordinator"]) == (1, 0, "localhost:8482")
    # What libtpu reads is what it was given: JAX sets none of it itself.
    assert {each: told["environment"][each] for each in environment} == environment
    if chips is not None:
        size = math.prod(numbers(environment["TPU_CHIPS_PER_PROCESS_BOUNDS"]))
        assert (size, environment["TPU_PROCESS_BOUNDS"]) == (len(chips), "1,1,1")


def test_two_parts_in_one_pod_have_no_port_in_common(tmp_path: Path) -> None:
    told = [
        run(
            "run_pytorch_xla.py",
            tmp_path / str(first),
            given(tmp_path / str(first), "v5e-8", [first, first + 1]),
        )
        for first in (0, 2)
    ]

    ports = [
        {process["TPU_PROCESS_PORT"], *process["TPU_RUNTIME_METRICS_PORTS"].split(",")}
        for part in told
        for process in part["spawned"]
    ]
    assert ports[0].isdisjoint(ports[1])


def test_without_a_bound_pair_and_visible_chips_pytorch_xla_starts_wrong_processes(tmp_path: Path) -> None:
    """What this folder is there to find: the checks above fail on what was given before."""
    environment = dict(given(tmp_path, "v5e-8", [2, 3]))
    del environment["TPU_VISIBLE_CHIPS"]

    told = run("run_pytorch_xla.py", tmp_path, environment)

    assert find_disagreement(told["spawned"], 2) == "they see the chips [[0]]"
