"""The tests while all of their processes stand still again and again: `make test-stalls`, as root.

A virtual machine whose host is busy stands still so: no process notices it but by the clock. What a test of
accelet fails for then would fail on a node too, or the test took the machine for a faster one.

A cgroup of version 2 is frozen.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

from tests.e2e.cluster import cgroups

_MOST_S: Final = 1800.0
_SHORTEST_S, _LONGEST_S = 0.4, 2.0
_LEAST_REST_S, _MOST_REST_S = 0.5, 4.0


@dataclass(frozen=True, slots=True)
class Stall:
    """All stand still for `lasts_s` after they have run for `after_s`."""

    after_s: float
    lasts_s: float


def stalls(seed: int) -> Iterator[Stall]:
    """Without end; the same for the same seed."""
    random = Random(seed)
    while True:
        yield Stall(random.uniform(_LEAST_REST_S, _MOST_REST_S), random.uniform(_SHORTEST_S, _LONGEST_S))


def find_cgroup2(mounts: str) -> Path | None:
    """Where cgroups of version 2 are, by the text of /proc/mounts; None if they are nowhere."""
    fields = (line.split() for line in mounts.splitlines())
    return next((Path(field[1]) for field in fields if len(field) > 2 and field[2] == "cgroup2"), None)


def run(words: Sequence[str], seed: int, root: Path) -> tuple[int | None, list[Stall]]:
    """The exit code of a command that stood still so often; None where it was killed after half an hour."""
    name = f"accelet-stalls-{os.getpid()}"
    freeze = root / name / "cgroup.freeze"
    happened: list[Stall] = []
    ahead, ends_s = stalls(seed), time.monotonic() + _MOST_S
    cgroups.create(name)
    # The command waits for a line before it begins: all that it starts is in the cgroup then.
    begin = ("sh", "-c", 'read -r _ && exec "$@" </dev/null', "sh", *words)
    with subprocess.Popen(begin, stdin=subprocess.PIPE, text=True) as process:
        try:
            (root / name / "cgroup.procs").write_text(str(process.pid))
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.close()
            while time.monotonic() < ends_s:
                stall = next(ahead)
                with suppress(subprocess.TimeoutExpired):
                    return process.wait(stall.after_s), happened
                freeze.write_text("1")
                time.sleep(stall.lasts_s)  # what stands still tells nothing that could be awaited
                freeze.write_text("0")
                happened.append(stall)
            return None, happened
        finally:
            cgroups.remove(name)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        description="Runs the tests while they stand still again and again; further arguments are pytest's.",
        allow_abbrev=False,
    )
    parser.add_argument("--seed", type=int, default=0, help="draws when and for how long (0)")
    asked, further = parser.parse_known_args(arguments)
    root = find_cgroup2(Path("/proc/mounts").read_text())
    if root is None or not os.access(root, os.W_OK):
        parser.error("cgroups of version 2 and root are needed")
    code, happened = run((sys.executable, "-m", "pytest", *further), asked.seed, root)
    lasted_s = sum(one.lasts_s for one in happened)
    sys.stdout.write(f"{len(happened)} stalls of {lasted_s:.0f} s in all, seed {asked.seed}\n")
    if code is None:
        sys.stderr.write(f"The tests did not end within {_MOST_S:g} s.\n")
        return 1
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
