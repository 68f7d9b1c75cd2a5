"""What the ranks of the tasks run, which write down when they did, and how a task of each sort ends."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.e2e.cluster.images import BUSYBOX_IMAGE

RECORD = "runs"
"""The file on the claim, to which each rank appends `HOST ID EVENT UPTIME` lines: start, told, end:CODE."""

EVICTED = "evicted"
"""With a task's name behind it, the file that says that one of its ranks has been evicted."""

CLAIM = "record"
_BEGIN = """
read id < /proc/sys/kernel/random/uuid
task=${HOSTNAME%-*-*}
rank=${HOSTNAME##*-}
say() { read up rest < /proc/uptime; echo "$HOSTNAME $id $1 $up" >> /data/runs; }
end() { say "end:$1"; exit "$1"; }
trap 'say told; end TOLD' TERM
say start
nap() { sleep "$1" & wait "$!"; }
"""
_HEALS = '[ "$rank" = 0 ] && mkdir "/data/once-$task" 2>/dev/null && end 3'
_SAVES = '[ -e "/data/evicted-$task" ] || nap 3600'


@dataclass(frozen=True)
class Sort:
    """A program, its exit code when it is told to end, and how a task of it ends, with which exit codes.

    `retries` is what a task of it may, `incidents` how many it has, if every rank is let in and left alone.
    """

    script: str
    phase: str
    reason: str
    incidents: int = 0
    told: int = 143
    retries: int = 0
    fatal: tuple[int, ...] = ()
    is_evicted: bool = False
    codes: frozenset[int] = field(default_factory=lambda: frozenset({0}))


SORTS: Mapping[str, Sort] = {
    "works": Sort("nap 2", "Completed", "Succeeded"),
    "heals": Sort(_HEALS, "Completed", "Succeeded", 1, retries=2, codes=frozenset({0, 3})),
    "fails": Sort("nap 1; end 3", "Failed", "RetriesUsed", 2, retries=1, codes=frozenset({3})),
    "fatal": Sort("end 42", "Failed", "FatalExit", 1, retries=5, fatal=(42,), codes=frozenset({42})),
    "saves": Sort(_SAVES, "Completed", "Succeeded", told=0, is_evicted=True),
}
_COUNTS: Mapping[str, int] = {"works": 12, "heals": 5, "fails": 5, "fatal": 3, "saves": 5}
_RANKS = (1, 1, 2, 2, 2, 3, 3, 4, 5, 8)
"""From which the number of ranks is drawn: few are many, and somebody has the most."""


def draw_tasks(chance: Random, share: float = 1.0) -> dict[str, dict[str, Any]]:
    """The GPUTasks by name, in the order in which they are to come."""
    sorts = [name for name, count in _COUNTS.items() for _ in range(max(1, round(count * share)))]
    chance.shuffle(sorts)
    ranks = [8, 1, *chance.choices(_RANKS, k=len(sorts) - 2)]
    named = [(f"{sort}-{chr(ord('a') + number)}", sort) for number, sort in enumerate(sorts[:26])]
    named += [(f"{sort}-z{chr(ord('a') + number)}", sort) for number, sort in enumerate(sorts[26:])]
    return {
        name: task_of(name, SORTS[sort], count, chance.choice((1, 1, 2)))
        for (name, sort), count in zip(named, ranks, strict=True)
    }


def sort_of(task: str) -> Sort:
    return SORTS[task.partition("-")[0]]


def task_of(name: str, sort: Sort, ranks: int, tiles: int) -> dict[str, Any]:
    """A GPUTask of that sort."""
    script = f"{_BEGIN.replace('TOLD', str(sort.told))}\n{sort.script}\nend 0"
    volumes: Sequence[dict[str, Any]] = [{"mountPath": "/data", "claim": CLAIM}]
    container = {"image": BUSYBOX_IMAGE, "command": ["sh", "-c", script], "volumes": volumes}
    failure = {"restart": "All", "retries": sort.retries, "fatalExitCodes": list(sort.fatal)}
    return {
        "apiVersion": "accelet.dev/v1alpha1",
        "kind": "GPUTask",
        "metadata": {"name": name},
        "spec": {
            "container": {**container, "cpu": "10m", "memory": "16Mi"},
            "replicas": ranks,
            "cards": {"cards": 1, "tiles": tiles},
            "onFailure": failure,
        },
    }
