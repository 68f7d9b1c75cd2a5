"""`make bench-scheduler`: milliseconds and distances of one gang's plan, beside the sliding-window rule's."""

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from statistics import median
from time import process_time

import numpy as np
from rich.console import Console
from rich.table import Table

from accelet.kube.pods import Container, Pod
from accelet.scheduler.cluster.cluster import Cluster
from accelet.scheduler.cluster.topology import Scheme
from accelet.scheduler.gangs.grouping import Gang
from accelet.scheduler.placement.plan import Plan, check_plan, plan_gang
from benches.scheduler.cards import measure as measure_cards
from benches.scheduler.clusters import (
    GPU,
    GPUS,
    Size,
    make_gang,
    make_nodes,
    occupy,
    refuse_faults,
    used_gpus,
)
from benches.scheduler.rounds import measure as measure_rounds
from benches.scheduler.window import slide
from benches.scheduler.worst import measure as measure_worst

_SIZES = (Size(10, 20, 50), Size(40, 50, 50))
_PODS = (8, 64, 512, 4096)
_RUNS = 5
_WINDOW_STEPS = 6_000_000
"""Nodes times pods up to which the window is run; beyond, it takes minutes."""


@dataclass(frozen=True, slots=True)
class Case:
    size: Size
    how: str
    occupancy: float
    gpus: int
    pods: int

    @property
    def aim_ms(self) -> float | None:
        """What the project promises of this case."""
        if self.size.nodes == 100_000:
            return 1000 if self.pods == 512 else None
        if self.pods == 4096:
            return 200
        if self.pods == 512:
            return 20 if self.gpus == GPUS else 80
        return None


@dataclass(frozen=True, slots=True)
class Result:
    """Times of several clusters of one kind; the last one's plan, and what the window made of it."""

    times_ms: list[float]
    plan: Plan
    window_ms: float | None = None
    window_distance: int | None = None


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benches.scheduler", description=__doc__)
    parser.add_argument("--cards", action="store_true", help="cards and tiles only")
    parser.add_argument("--quick", action="store_true", help="10,000 nodes only")
    parser.add_argument("--all-windows", action="store_true", help="run the window however long it takes")
    arguments = parser.parse_args()
    console = Console(width=190)
    for line in measure_cards():
        console.print(line)
    for line in (*measure_worst(), *measure_rounds()):
        console.print(line)
    if arguments.cards:
        return
    sizes = _SIZES[:1] if arguments.quick else _SIZES
    most_steps = sys.maxsize if arguments.all_windows else _WINDOW_STEPS
    table = _table()
    for case, result in _measure(sizes, most_steps):
        table.add_row(*_row(case, result))
    console.print(table)
    console.print(_usage_line())
    console.print(_unlike_line(_SIZES[0]))
    console.print(_check_line(_SIZES[0]))


def _measure(sizes: tuple[Size, ...], most_steps: int) -> Iterator[tuple[Case, Result]]:
    for size in sizes:
        nodes = make_nodes(size)
        cluster = Cluster(Scheme(), nodes)
        for how, occupancy in product(("gpus", "nodes", "sub-blocks"), (0.3, 0.6)):
            times: dict[tuple[int, int], list[float]] = {}
            for seed in range(_RUNS):
                occupy(cluster, nodes, used_gpus(size, how, occupancy, seed))
                for gpus, pods in product((1, 8), _PODS):
                    plan, took_ms = _timed(partial(_plan, cluster, make_gang(pods, gpus)))
                    times.setdefault((gpus, pods), []).append(took_ms)
                    if seed < _RUNS - 1:
                        continue
                    window: tuple[float | None, int | None] = (None, None)
                    if plan.nodes is not None and size.nodes * pods <= most_steps:
                        window = _window(cluster, plan.gang)
                    yield Case(size, how, occupancy, gpus, pods), Result(times[gpus, pods], plan, *window)


def _plan(cluster: Cluster, gang: Gang) -> Plan:
    plan = plan_gang(gang, cluster.layout, cluster.room())
    refuse_faults((plan,))
    return plan


def _timed(work: Callable[[], Plan]) -> tuple[Plan, float]:
    start = process_time()
    result = work()
    return result, (process_time() - start) * 1000


def _window(cluster: Cluster, gang: Gang) -> tuple[float, int | None]:
    """What the window makes of the same free nodes, sorted, its filtering left out of the time."""
    layout = cluster.layout
    feasible = np.flatnonzero(cluster.room().slots(gang.shapes[0]))
    paths = [layout.tree.paths[leaf] or () for leaf in feasible.tolist()]
    start = process_time()
    found = slide(paths, len(gang.pods), lambda _pod, _node: True, layout.tree.scheme.weights)
    return (process_time() - start) * 1000, found and found[0]


def _table() -> Table:
    table = Table(title=f"One gang planned: processor time, median and most of {_RUNS} clusters")
    for name in ("nodes", "in use", "GPUs a pod", "pods", "ms", "most", "aim", "distance", "window ms"):
        table.add_column(name, justify="right")
    table.add_column("window's distance", justify="right")
    table.add_column("times faster", justify="right")
    table.add_column("times nearer", justify="right")
    return table


def _row(case: Case, result: Result) -> list[str]:
    middle, distance = median(result.times_ms), result.plan.distance
    aim = "" if case.aim_ms is None else f"{case.aim_ms:g} {'✓' if middle <= case.aim_ms else '✗'}"
    row = [
        f"{case.size.nodes:,}",
        f"{case.occupancy:.0%} of {case.how}",
        str(case.gpus),
        f"{case.pods:,}",
        f"{middle:.1f}",
        f"{max(result.times_ms):.1f}",
        aim,
        "no room" if distance is None else f"{distance:,}",
    ]
    if result.window_ms is None:
        return row
    row.append(f"{result.window_ms:,.1f}")
    if result.window_distance is None:
        return [*row, "refused", f"{result.window_ms / middle:,.0f}"]
    nearer = (
        f"{result.window_distance / distance:,.2f}" if distance else "∞" if result.window_distance else "1"
    )
    return [*row, f"{result.window_distance:,}", f"{result.window_ms / middle:,.0f}", nearer]


def _usage_line() -> str:
    """What one pod's event costs in a small and in a large cluster."""
    texts = []
    for size in (Size(1, 20, 50), _SIZES[1]):
        nodes = make_nodes(size)
        cluster = Cluster(Scheme(), nodes)
        pods = [
            Pod("x", f"p{i}", node_name=node.name, containers=(Container("c", {"cpu": 1, GPU: 1}),))
            for i, node in enumerate(nodes[:1000])
        ]
        start = process_time()
        for pod in pods:
            cluster.set_pod(pod)
        texts.append(f"{(process_time() - start) * 1e6 / len(pods):.1f} µs with {size.nodes:,} nodes")
    return f"One pod's event in the account of usage: {', '.join(texts)}."


def _unlike_line(size: Size) -> str:
    """A gang whose first pod is unlike the others."""
    nodes = make_nodes(size)
    cluster = Cluster(Scheme(), nodes)
    occupy(cluster, nodes, used_gpus(size, "gpus", 0.3, 0))
    texts = []
    for pods, gpus in product((64, 512), (1, 4)):
        plan, took_ms = _timed(partial(_plan, cluster, make_gang(pods, gpus, with_launcher=True)))
        gap = "optimal" if plan.is_optimal else f"at most {(plan.distance or 0) - plan.lower_bound:,} too far"
        texts.append(f"{pods} pods of {gpus} GPUs {took_ms:.0f} ms, distance {plan.distance:,} ({gap})")
    return f"A launcher and workers on {size.nodes:,} nodes, 30% of GPUs in use: {'; '.join(texts)}."


def _check_line(size: Size) -> str:
    """What it costs to check a finished plan, which is part of the times above."""
    nodes = make_nodes(size)
    cluster = Cluster(Scheme(), nodes)
    occupy(cluster, nodes, used_gpus(size, "gpus", 0.3, 0))
    texts = []
    for pods, gpus in ((512, 1), (512, 8), (4096, 1)):
        plan = _plan(cluster, make_gang(pods, gpus))
        times_ms = [
            _timed(partial(check_plan, plan, cluster.layout, cluster.residents()))[1] for _ in range(_RUNS)
        ]
        texts.append(f"{pods:,} pods of {gpus} GPUs {median(times_ms):.1f} ms")
    return f"The check of a finished plan on {size.nodes:,} nodes: {', '.join(texts)}."


if __name__ == "__main__":
    main()
