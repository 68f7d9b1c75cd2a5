"""What a round costs with many gangs that wait, and an event that is no concern of theirs."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from statistics import median
from time import process_time

from accelet.kube.objects import Owner
from accelet.kube.pods import Container, Pod
from accelet.scheduler.cluster.topology import Scheme
from accelet.scheduler.gangs.grouping import GATE_PREFIX
from accelet.scheduler.placement.backlog import Backlog
from accelet.scheduler.placement.plan import Plan
from accelet.scheduler.placement.refusals import Refusals
from accelet.scheduler.placement.reservation import Patience
from accelet.scheduler.state import SchedulerState
from benches.scheduler.clusters import GPU, GPUS, Size, make_nodes, refuse_faults

_SIZES = (Size(1, 20, 50), Size(10, 20, 50), Size(40, 50, 50))
_GANGS = (10, 1000)
_RANKS = 64
_EVENTS = 200


class Rounds:
    """A full cluster in which so many gangs of 64 wait, as a scheduler sees it that has refused them once."""

    def __init__(self, size: Size, gangs: int) -> None:
        self.nodes = make_nodes(size)
        self.state = SchedulerState(Scheme(), GATE_PREFIX)
        for node in self.nodes:
            self.state.set_node(node)
            self.state.set_pod(_pod("busy", node.name, on=node.name, gpus=GPUS))
        for gang, rank in product(range(gangs), range(_RANKS)):
            self.state.set_pod(_pod(f"g{gang}", f"g{gang}-{rank}", gpus=GPUS))
        self._refusals = Refusals()
        self.plan()

    def plan(self) -> list[Plan]:
        """One round, as a planner makes it."""
        gangs = self.state.gangs()
        patience = Patience(now_s=0.0, starving_after_s=600.0)
        backlog = Backlog(
            gangs, self.state.cluster.snapshot(self.state.cluster.layout), patience, self._refusals
        )
        plans = list(backlog.plans())
        refuse_faults(plans)
        return plans

    def unrelated_event(self, number: int) -> None:
        """A pod without a gate comes, and goes: no node has more room than before for that."""
        one = _pod("other", f"other-{number}", on=self.nodes[number % len(self.nodes)].name, gpus=0)
        self.state.set_pod(one)
        self.state.set_pod(replace(one, resource_version="2"))


def measure() -> Iterator[str]:
    """A line for each cluster and number of gangs."""
    for size, gangs in product(_SIZES, _GANGS):
        rounds = Rounds(size, gangs)
        times_ms = [_timed_ms(rounds.plan) for _ in range(5)]
        start = process_time()
        for number in range(_EVENTS):
            rounds.unrelated_event(number)
        event_ms = (process_time() - start) * 1000 / _EVENTS / 2
        yield (
            f"{gangs:,} waiting gangs of {_RANKS} on {size.nodes:,} nodes: a round when nothing has changed "
            f"{median(times_ms):.1f} ms, an unrelated pod's event {event_ms:.3f} ms"
        )


def _timed_ms(work: object) -> float:
    assert callable(work)
    start = process_time()
    work()
    return (process_time() - start) * 1000


def _pod(job: str, name: str, *, gpus: int, on: str | None = None) -> Pod:
    asked = {"cpu": 1, **({GPU: gpus} if gpus else {})}
    return Pod(
        "ml",
        name,
        uid=f"uid-{name}",
        resource_version="1",
        labels={"job-name": job} if not on else {},
        owners=(Owner("Job", job, job, is_controller=True),) if not on else (),
        node_name=on,
        phase="Running" if on else "Pending",
        gates=() if on else (f"{GATE_PREFIX}{job}",),
        containers=(Container("main", asked),),
    )


if __name__ == "__main__":
    for line in measure():
        print(line, flush=True)  # noqa: T201 - what the command is for
