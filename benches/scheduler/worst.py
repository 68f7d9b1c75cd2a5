"""Gangs that once kept all others waiting: what each costs now, in processor time."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from random import Random
from time import process_time

from accelet.kube.pods import Container, Pod
from accelet.scheduler.cluster.cluster import Cluster
from accelet.scheduler.cluster.topology import Scheme
from accelet.scheduler.gangs.grouping import CARDS_GATE, GATE_PREFIX, Gang, find_gangs
from accelet.scheduler.gangs.levels import REQUIRED_LEVEL
from accelet.scheduler.placement.plan import Plan, plan_gang
from benches.scheduler.cards import HOLDERS, I915, occupied
from benches.scheduler.clusters import GPU, Size, make_nodes, occupy, refuse_faults, used_gpus

Case = Callable[[], tuple[Cluster, list[Gang]]]


def measure() -> Iterator[str]:
    """One line a case."""
    for name, case in CASES.items():
        cluster, gangs = case()
        layout, room = cluster.layout, cluster.room()
        times_s: list[float] = []
        plans: list[Plan] = []
        for gang in gangs:
            start = process_time()
            plans.append(plan_gang(gang, layout, room))
            times_s.append(process_time() - start)
            refuse_faults(plans[-1:])
        placed = sum(plan.nodes is not None for plan in plans)
        yield (
            f"{name}: {max(times_s):.2f} s for the slowest gang, {sum(times_s):.2f} s in all, "
            f"{placed} of {len(plans)} placed."
        )


def many_kinds() -> tuple[Cluster, list[Gang]]:
    """2,000 pods of which each asks for 1 mCPU more than the one before, on 1,000 nodes."""
    cluster = Cluster(Scheme(), make_nodes(Size(5, 10, 20)))
    gang = _gang("g", [{"cpu": Fraction(1000 + rank, 1000)} for rank in range(2000)])
    return cluster, [gang]


def unlike_in_a_block() -> tuple[Cluster, list[Gang]]:
    """400 unlike pods that have to be in one block, on 10,000 nodes."""
    size = Size(10, 20, 50)
    nodes = make_nodes(size)
    cluster = Cluster(Scheme(), nodes)
    # With half of all GPUs in use no block has 50 nodes for the 50 pods of 7 GPUs.
    occupy(cluster, nodes, used_gpus(size, "gpus", 0.4, 0))
    random = Random(1)  # noqa: S311  no secret
    wants: list[dict[str, Fraction | int]] = [
        {"cpu": Fraction(random.randrange(100, 20_000), 1000), GPU: rank % 8} for rank in range(400)
    ]
    return cluster, [_gang("g", wants, {REQUIRED_LEVEL: "block"})]


def two_containers(holders: int = HOLDERS) -> tuple[Cluster, list[Gang]]:
    """16 like pods, whose two containers take parts of cards, on 400 nodes of 8 cards, no two alike."""
    random = Random(1)  # noqa: S311  no secret
    cluster = Cluster(Scheme())
    for number in range(400):
        node, held = occupied(f"n{number}", random, holders)
        cluster.set_node(node)
        for pod in held:
            cluster.set_pod(pod)
    wants = [(230, 3 * 2**30), (170, 2 * 2**30)]
    containers = tuple(
        Container(f"c{number}", asked, asked)
        for number, (millicores, memory) in enumerate(wants)
        for asked in [{I915: 1, "gpu.intel.com/millicores": millicores, "gpu.intel.com/memory.max": memory}]
    )
    gates, labels = (f"{GATE_PREFIX}g", CARDS_GATE), {"job-name": "g"}
    pods = [
        Pod("ml", f"g-{n}", uid=f"u{n}", gates=gates, labels=labels, containers=containers) for n in range(16)
    ]
    return cluster, find_gangs(pods)


def waiting() -> tuple[Cluster, list[Gang]]:
    """30 gangs of 6 pods of 5 GPUs and 10 of 4, which find no room in one block of 1,000 nodes."""
    size = Size(5, 10, 20)
    nodes = make_nodes(size)
    cluster = Cluster(Scheme(), nodes)
    occupy(cluster, nodes, used_gpus(size, "gpus", 0.6, 0))
    wants = [{GPU: 5, "cpu": 1}] * 6 + [{GPU: 4, "cpu": 1}] * 10
    return cluster, [_gang(f"g{n}", wants, {REQUIRED_LEVEL: "subblock"}) for n in range(30)]


def _gang(
    name: str, wants: Sequence[Mapping[str, Fraction | int]], annotations: Mapping[str, str] | None = None
) -> Gang:
    (gang,) = find_gangs(
        Pod(
            "ml",
            f"{name}-{rank}",
            labels={"job-name": name, "batch.kubernetes.io/job-completion-index": str(rank)},
            annotations=annotations or {},
            gates=(f"{GATE_PREFIX}{name}",),
            containers=(Container("main", {key: amount for key, amount in asked.items() if amount}),),
        )
        for rank, asked in enumerate(wants)
    )
    return gang


TWO_CONTAINERS = "16 pods of two containers on 400 nodes of 8 cards, no two alike"
CASES: Mapping[str, Case] = {
    "2,000 pods of as many kinds on 1,000 nodes": many_kinds,
    "400 unlike pods, required block, 10,000 nodes": unlike_in_a_block,
    TWO_CONTAINERS: two_containers,
    "30 waiting gangs of 6 x 5 and 10 x 4 GPUs on 1,000 nodes": waiting,
}
