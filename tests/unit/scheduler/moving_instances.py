"""Small clusters with running tasks and one gang that waits, and what moves can do, found by trying all."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from random import Random

from accelet.kinds.gputask import TaskMoves
from accelet.kube.nodes import Node
from accelet.kube.pods import Pod
from accelet.scheduler.cluster.cluster import Cluster
from accelet.scheduler.cluster.supposing import Supposition
from accelet.scheduler.cluster.topology import Scheme
from accelet.scheduler.gangs.grouping import Gang, find_gangs
from accelet.scheduler.gangs.levels import REQUIRED_LEVEL
from accelet.scheduler.moves.movable import MovableTask, as_if_waiting, distance_of, movable_task
from accelet.scheduler.moves.tasks import TaskTerms
from tests.fakes.nodes import GPU, SUBBLOCK, node
from tests.unit.scheduler.values import pod


def as_task(pods: Sequence[Pod], *, since_s: float = 0.0, most_moves: int = 1) -> MovableTask:
    """The task of these pods, all on nodes, which are those of one Job."""
    (gang,) = find_gangs([as_if_waiting(one) for one in pods])
    name = pods[0].labels["job-name"]
    terms = TaskTerms("ml", name, f"uid-{name}", 1, TaskMoves(policy="WhenItHelps", max_moves=most_moves))
    task = movable_task(terms, pods, gang, since_s)
    assert task is not None
    return task


def running(name: str, on: Sequence[str], *, gpus: int = 1, priority: int = 0) -> list[Pod]:
    """The pods of a task, one on each of these nodes."""
    labels = {"job-name": name}
    return [
        pod(f"{name}-{rank}", gpus=gpus, on=where, labels=labels, annotations=_index(rank), priority=priority)
        for rank, where in enumerate(on)
    ]


def _index(rank: int) -> dict[str, str]:
    return {"batch.kubernetes.io/job-completion-index": str(rank)}


def waiting_gang(count: int, *, gpus: int = 1, priority: int = 0, level: str | None = None) -> Gang:
    said = {REQUIRED_LEVEL: level} if level else {}
    pods = [
        pod(f"w-{rank}", gpus=gpus, labels={"job-name": "w"}, annotations=said, priority=priority)
        for rank in range(count)
    ]
    (gang,) = find_gangs(pods)
    return gang


def suppose(nodes: Iterable[Node], pods: Sequence[Pod]) -> Supposition:
    cluster = Cluster(Scheme(), nodes, pods)
    return cluster.suppose(cluster.snapshot(), [one.key for one in pods])


@dataclass(frozen=True)
class MovingInstance:
    nodes: tuple[Node, ...]
    tasks: tuple[tuple[Pod, ...], ...]
    wanted: int
    gpus: int
    level: str | None

    @property
    def pods(self) -> list[Pod]:
        return [one for task in self.tasks for one in task]

    def free(self) -> Counter[str]:
        free = Counter({one.name: int(one.allocatable[GPU]) for one in self.nodes})
        for one in self.pods:
            free[one.node_name or ""] -= _gpus(one)
        return free

    def free_without(self, tasks: Iterable[Sequence[Pod]]) -> Counter[str]:
        free = self.free()
        for task in tasks:
            for one in task:
                free[one.node_name or ""] += _gpus(one)
        return free

    def gets_in(self, free: Counter[str]) -> bool:
        room: Counter[str] = Counter()
        for one in self.nodes:
            block = one.labels[SUBBLOCK] if self.level else ""
            room[block] += free[one.name] // self.gpus
        return max(room.values()) >= self.wanted

    def fewest_ranks(self, most: int, factor: float) -> int | None:
        """By trying every set of tasks and every way to place them beside where they are."""
        free = self.free()
        best: int | None = None
        for size in range(1, most + 1):
            for some in combinations(self.tasks, size):
                ranks = sum(len(task) for task in some)
                moved = sum(_gpus(one) for task in some for one in task)
                if self.wanted * self.gpus < factor * moved or (best is not None and ranks >= best):
                    continue
                if self._lets_in(some, free):
                    best = ranks
        return best

    def _lets_in(self, some: Sequence[Sequence[Pod]], free: Counter[str]) -> bool:
        pods = [one for task in some for one in task]
        names = [one.name for one in self.nodes]
        layout = Cluster(Scheme(), self.nodes).layout

        def distance(places: Iterable[str]) -> int:
            return distance_of(list(places), layout)

        for places in product(names, repeat=len(pods)):
            after = free.copy()
            for one, place in zip(pods, places, strict=True):
                after[place] -= _gpus(one)
            if min(after.values()) < 0:
                continue
            left = iter(places)
            if any(
                distance([next(left) for _ in task]) > distance(one.node_name or "" for one in task)
                for task in some
            ):
                continue
            for one in pods:
                after[one.node_name or ""] += _gpus(one)
            if self.gets_in(after):
                return True
        return False


def random_moving_instance(random: Random) -> MovingInstance:
    """Three to five nodes of 2 to 4 GPUs in two sub-blocks, up to four tasks of one or two ranks."""
    count = random.randint(3, 5)
    nodes = tuple(
        node(f"n{number}", f"b0/s{number % 2}/h{number}", gpus=random.randint(2, 4))
        for number in range(count)
    )
    free = {one.name: int(one.allocatable[GPU]) for one in nodes}
    tasks: list[tuple[Pod, ...]] = []
    for number in range(random.randint(2, 4)):
        gpus, places = random.choice((1, 1, 2)), []
        for _ in range(random.choice((1, 1, 2))):
            open_nodes = [name for name, room in free.items() if room >= gpus]
            if open_nodes:
                places.append(random.choice(open_nodes))
                free[places[-1]] -= gpus
        if places:
            tasks.append(tuple(running(f"t{number}", places, gpus=gpus)))
    level = random.choice((None, None, "subblock"))
    return MovingInstance(nodes, tuple(tasks), random.randint(1, 3), random.randint(1, 4), level)


def _gpus(one: Pod) -> int:
    return int(one.containers[0].requests.get(GPU, 0))
