"""`python -m benches.climb`: looks for the gang that takes the planner longest, from the worst so far."""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from random import Random
from time import monotonic, process_time

from accelet.kube.pods import Container, HostPort, Pod
from accelet.kube.selection import NodeTerm, PodTerm, Requirement, SpreadTerm
from accelet.scheduler.budget import Budget
from accelet.scheduler.cluster.cluster import Cluster
from accelet.scheduler.cluster.topology import Scheme
from accelet.scheduler.gangs.grouping import EXCLUSIVE, GANG_MIN, GATE_PREFIX, Gang, find_gangs
from accelet.scheduler.gangs.levels import PREFERRED_LEVEL, REQUIRED_LEVEL
from accelet.scheduler.placement.plan import plan_gang
from accelet.scheduler.placement.unlike import USUAL_EFFORT
from benches.scheduler.clusters import GPU, Size, make_nodes, occupy, refuse_faults, used_gpus

_FRESH = 0.2
"""The share of inputs that are drawn anew, so that the search does not end on its first hill."""

_CHOICES: Mapping[str, Sequence[int]] = {
    "pods": (16, 64, 384, 1024, 4096, 8000),
    "blocks": (1, 2, 5, 10),
    "subblocks": (1, 4, 10, 20),
    "hosts": (2, 10, 20, 50),
    "used_percent": (0, 30, 50, 60, 80),
    "kinds": (1, 2, 3, 16, 400, 8000),
    "gpus": (0, 1, 4, 8),
    "roles": (1, 2, 17),
    "apart_terms": (0, 1, 16),
    "requirements": (1, 4, 16),
    "node_terms": (0, 1, 50),
    "values": (1, 8, 64),
    "ports": (0, 1, 2, 50),
    "port_sets": (1, 2, 70),
    "spread": (0, 1, 4),
    "kept_percent": (0, 0, 10, 50),
    "exclusive": (0, 0, 1),
    "least": (0, 0, 2),
    "required": (0, 0, 1, 2),
    "preferred": (0, 0, 1, 2),
}
_LEVELS = ("", "block", "subblock")


@dataclass(frozen=True, slots=True)
class Input:
    """One gang and one cluster, by numbers: see `_CHOICES`."""

    pods: int
    blocks: int
    subblocks: int
    hosts: int
    used_percent: int
    kinds: int
    gpus: int
    roles: int
    apart_terms: int
    requirements: int
    node_terms: int
    values: int
    ports: int
    port_sets: int
    spread: int
    kept_percent: int
    exclusive: int
    least: int
    required: int
    preferred: int


@dataclass(frozen=True, slots=True)
class Cost:
    """What one input costs: seconds of processor time, and units of the gang's budget."""

    of: Input
    time_s: float
    units: int
    is_placed: bool


def draw(source: Random) -> Input:
    return Input(**{name: source.choice(choices) for name, choices in _CHOICES.items()})


def change(worst: Input, source: Random) -> Input:
    """The same but for one to three numbers."""
    names = source.sample([one.name for one in fields(Input)], source.randint(1, 3))
    return replace(worst, **{name: source.choice(_CHOICES[name]) for name in names})


def measure(asked: Input) -> Cost:
    """Plans the gang once. The cluster and the gang itself are made before, and not counted."""
    size = Size(asked.blocks, asked.subblocks, asked.hosts)
    nodes = make_nodes(size)
    cluster = Cluster(Scheme(), nodes)
    occupy(cluster, nodes, used_gpus(size, "gpus", asked.used_percent / 100, 0))
    gang = _gang(asked, [node.name for node in nodes])
    layout, room = cluster.layout, cluster.room()
    budget = Budget(USUAL_EFFORT.units)
    start = process_time()
    plan = plan_gang(gang, layout, room, budget=budget)
    time_s = process_time() - start
    refuse_faults([plan])
    return Cost(asked, time_s, budget.spent, plan.nodes is not None)


def climb(seconds: float, seed: int) -> Iterator[Cost]:
    """Each input that costs more than all before it, until the time is over."""
    source, end_s = Random(seed), monotonic() + seconds  # noqa: S311  no secret
    worst: Cost | None = None
    while monotonic() < end_s:
        is_fresh = worst is None or source.random() < _FRESH
        cost = measure(draw(source) if worst is None or is_fresh else change(worst.of, source))
        if worst is None or cost.time_s > worst.time_s:
            worst = cost
            yield cost


def _gang(asked: Input, names: Sequence[str]) -> Gang:
    job = Requirement("job-name", "In", ("g",))
    node_terms = tuple(
        NodeTerm((Requirement("none", "NotIn", tuple(f"t{term}-{n}" for n in range(asked.values))),))
        for term in range(asked.node_terms)
    )
    spread = frozenset({SpreadTerm(asked.spread, _pods((job,)))} if asked.spread else ())
    kept = asked.pods * asked.kept_percent // 100
    said = {EXCLUSIVE: "true"} if asked.exclusive else {}
    said |= {GANG_MIN: str(asked.least)} if asked.least and not kept else {}
    said |= {REQUIRED_LEVEL: _LEVELS[asked.required]} if asked.required else {}
    said |= {PREFERRED_LEVEL: _LEVELS[asked.preferred]} if asked.preferred else {}
    by_role = [_apart_terms(asked, role, job) for role in range(asked.roles)]
    pods = [
        Pod(
            "ml",
            f"g-{rank}",
            uid=f"u{rank}",
            labels={
                "job-name": "g",
                "batch.kubernetes.io/job-completion-index": str(rank),
                "role": str(role),
            },
            annotations=said,
            gates=() if rank < kept else (f"{GATE_PREFIX}g",),
            node_name=names[rank % len(names)] if rank < kept else None,
            containers=(Container("main", _amounts(asked, rank)),),
            required_terms=node_terms or None,
            host_ports=_ports(asked, rank),
            spread=spread,
            apart_from=by_role[role],
        )
        for rank in range(asked.pods)
        for role in (rank % asked.roles,)
    ]
    (gang,) = find_gangs(pods)
    return gang


def _amounts(asked: Input, rank: int) -> Mapping[str, Fraction | int]:
    amounts: dict[str, Fraction | int] = {"cpu": Fraction(100 + rank % asked.kinds, 1000)}
    if asked.gpus:
        amounts[GPU] = 1 + rank % asked.kinds % asked.gpus
    return amounts


def _ports(asked: Input, rank: int) -> frozenset[HostPort]:
    first = 1000 + 100 * (rank % asked.port_sets)
    return frozenset(("0.0.0.0", "TCP", first + number) for number in range(asked.ports))  # noqa: S104  no socket


def _apart_terms(asked: Input, role: int, job: Requirement) -> frozenset[PodTerm]:
    """Terms that select the next role, each in other words."""
    other = Requirement("role", "In", (str((role + 1) % asked.roles),))
    return frozenset(
        _pods(
            (
                job,
                other,
                *(Requirement(f"k{number}-{n}", "DoesNotExist") for n in range(asked.requirements - 1)),
            )
        )
        for number in range(asked.apart_terms)
    )


def _pods(requirements: Sequence[Requirement]) -> PodTerm:
    return PodTerm(frozenset(("ml",)), frozenset(requirements))


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - what the command is for


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benches.climb", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    for cost in climb(arguments.seconds, arguments.seed):
        placed = "placed" if cost.is_placed else "not placed"
        _say(f"{cost.time_s:.2f} s, {cost.units:,} units, {placed}: {cost.of}")


if __name__ == "__main__":
    main()
