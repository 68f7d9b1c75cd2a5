"""How long cards and tiles take: for one pod on one node, and for many pods over many nodes."""

from collections.abc import Iterator
from random import Random
from statistics import median, quantiles
from time import perf_counter, process_time

from accelet.accelerators.device import UnitId
from accelet.assignments.nodecards import (
    NODE_CARDS_ANNOTATION,
    NodeCard,
    extended_capacity,
    render_node_cards,
)
from accelet.assignments.ownform import ASSIGNMENT_ANNOTATION, render_own
from accelet.kube.nodes import Node
from accelet.kube.pods import Container, Pod
from accelet.scheduler.cards.choice import assignment_of, fit_pods
from accelet.scheduler.cards.needs import read_needs
from accelet.scheduler.cluster.cluster import Cluster
from accelet.scheduler.cluster.topology import Scheme
from accelet.scheduler.gangs.grouping import CARDS_GATE, GATE_PREFIX, find_gangs
from accelet.scheduler.placement.backlog import plan_backlog
from accelet.scheduler.placement.reservation import Patience
from benches.scheduler.clusters import refuse_faults

I915 = "gpu.intel.com/i915"
CARDS, TILES, SHARES = 8, 2, 300
HOLDERS = 100
NODES, PODS = 500, 1000
UNLIKE_NODES, UNLIKE_PODS = 100, 60
_FITS = 2000


def measure() -> Iterator[str]:
    """One line a figure."""
    random = Random(1)  # noqa: S311  no secret
    yield _one_pod(random)
    yield _many_pods(random)
    yield _unlike_gang(random)


def card_node(name: str) -> Node:
    """A node of 8 cards of 2 tiles and 64 GiB."""
    cards = [
        NodeCard(
            UnitId(f"0000-{index:02x}-00.0"),
            I915,
            card=f"card{index}",
            tiles=TILES,
            memory_bytes=64 * 2**30,
            numa_node=index * 2 // CARDS,
            shares=SHARES,
        )
        for index in range(CARDS)
    ]
    return Node(
        name,
        annotations={NODE_CARDS_ANNOTATION: render_node_cards(cards)},
        allocatable={
            "cpu": 64,
            "memory": 2**38,
            "pods": 250,
            I915: CARDS * SHARES,
            **extended_capacity(cards),
        },
    )


def card_pod(name: str, random: Random, *, is_small: bool = False) -> Pod:
    """A gated pod that asks for tiles, or for millicores and memory."""
    kind = "small" if is_small else random.choice(("tile", "tile", "tiles", "part", "part", "small"))
    parts = {
        "tile": {"tiles": 1},
        "tiles": {"tiles": 2},
        "part": {"millicores": random.choice((250, 500)), "memory.max": random.choice((8, 16)) * 2**30},
        "small": {"millicores": random.choice((20, 40)), "memory.max": 2**29},
    }[kind]
    asked = {I915: 1, **{f"gpu.intel.com/{part}": amount for part, amount in parts.items()}}
    return Pod("ml", name, uid=name, gates=(CARDS_GATE,), containers=(Container("main", asked, asked),))


def occupied(name: str, random: Random, holders: int = HOLDERS) -> tuple[Node, list[Pod]]:
    """A node with so many holders: most of them small, on shared cards, and a few tiles."""
    node, cluster = card_node(name), Cluster(Scheme())
    cluster.set_node(node)
    pods = []
    for number in range(holders):
        asking = card_pod(f"{name}-h{number}", random, is_small=number >= 4)
        states = cluster.cards.states(name)
        needs = read_needs(asking)
        assert states is not None
        assert needs is not None
        fit = fit_pods(states, [needs], "balanced" if number >= 4 else "packed")
        if fit.holds is None:
            continue
        held = Pod(
            "ml",
            asking.name,
            uid=asking.name,
            node_name=name,
            phase="Running",
            annotations={ASSIGNMENT_ANNOTATION: render_own(assignment_of(states, needs, fit.holds[0]))},
            containers=asking.containers,
        )
        cluster.set_pod(held)
        pods.append(held)
    return node, pods


def _one_pod(random: Random) -> str:
    node, pods = occupied("n", random)
    cluster = Cluster(Scheme(), [node], pods)
    times_ms = []
    for number in range(_FITS):
        asking = card_pod(f"p{number}", random)
        # The account changes with every pod, so that the node's cards are counted anew each time.
        cluster.set_pod(pods[number % len(pods)])
        start = perf_counter()
        needs = read_needs(asking)
        states = cluster.cards.states("n")
        assert states is not None
        assert needs is not None
        fit_pods(states, [needs])
        times_ms.append((perf_counter() - start) * 1000)
    p99 = quantiles(times_ms, n=100)[98]
    return (
        f"Cards for one pod on a node of {CARDS} cards of {TILES} tiles with {len(pods)} holders: "
        f"p50 {median(times_ms):.2f} ms (aim 1), p99 {p99:.2f} ms (aim 50)."
    )


def _many_pods(random: Random) -> str:
    nodes: list[Node] = []
    pods: list[Pod] = []
    for number in range(NODES):
        node, held = occupied(f"n{number}", random)
        nodes.append(node)
        pods += held
    asking = [card_pod(f"p{number}", random) for number in range(PODS)]
    cluster = Cluster(Scheme(), nodes, (*pods, *asking))
    start = process_time()
    gangs = find_gangs(asking)
    found = plan_backlog(gangs, cluster.snapshot(), Patience(now_s=0.0, starving_after_s=600.0))
    took_s = process_time() - start
    refuse_faults(found.plans)
    placed = sum(plan.nodes is not None for plan in found.plans)
    return (
        f"{PODS:,} such pods over {NODES} nodes, {len(pods):,} holders on them: "
        f"{took_s:.2f} s of processor time (aim 5), {placed:,} placed."
    )


def _unlike_gang(random: Random) -> str:
    """The worst for the planner: hardly two pods alike, on nodes of which no two are."""
    occupants = [occupied(f"n{number}", random) for number in range(UNLIKE_NODES)]
    cluster = Cluster(
        Scheme(), [node for node, _ in occupants], [pod for _, held in occupants for pod in held]
    )
    asking = []
    for number in range(UNLIKE_PODS):
        parts = {"millicores": random.randrange(20, 320, 20), "memory.max": random.randrange(1, 9) * 2**30}
        asked = {I915: 1, **{f"gpu.intel.com/{part}": amount for part, amount in parts.items()}}
        name, container = f"u{number}", Container("main", asked, asked)
        gates, labels = (f"{GATE_PREFIX}g", CARDS_GATE), {"job-name": "unlike"}
        asking.append(Pod("ml", name, uid=name, gates=gates, labels=labels, containers=(container,)))
    start = process_time()
    found = plan_backlog(find_gangs(asking), cluster.snapshot(), Patience(now_s=0.0, starving_after_s=600.0))
    took_s = process_time() - start
    refuse_faults(found.plans)
    (plan,) = found.plans
    outcome = "placed" if plan.nodes is not None else "not placed"
    kinds = len(set(plan.gang.shapes))
    return (
        f"A gang of {UNLIKE_PODS} pods of {kinds} kinds on {UNLIKE_NODES} nodes, no two alike: "
        f"{took_s:.1f} s of processor time, {outcome}."
    )
