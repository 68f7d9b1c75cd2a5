"""Why a gang has to wait, as a sentence for people: which constraint, and how short."""

from collections import Counter

import numpy as np

from accelet.scheduler.cluster.topology import ROOT
from accelet.scheduler.gangs.grouping import Gang
from accelet.scheduler.gangs.withheld import withholding
from accelet.scheduler.placement.identical import Shortfall
from accelet.scheduler.placement.knapsack import parent_room
from accelet.scheduler.placement.problem import PlacementProblem

_SPOKEN = {"subblock": "sub-block"}
_MOST_REASONS = 4


def explain_shortfall(
    problem: PlacementProblem, kind: int, short: Shortfall, *, is_settled: bool = True
) -> str:
    """`needs 8 nodes in one sub-block, best has 6 (b1/s3); of 40 nodes: 30 short of nvidia.com/gpu`."""
    if never := problem.room.impossibility(problem.kinds[kind]):
        return never
    tree, slots = problem.tree, problem.slots[kind]
    demand = problem.demand.counts[kind]
    is_by_node = int(slots.max(initial=0)) <= 1
    what = f"{demand} node{'s' * (demand > 1)}" if is_by_node else f"room for {demand} pods"
    for number, layer in enumerate(problem.slices.layers if problem.slices else ()):
        beside = "and" if number else "in"
        what += f" {beside} slices of {layer.size} in one {_spoken(problem, layer.level)} each"
    if short.level == ROOT:
        sentence = f"needs {what}, the cluster has {short.room}"
    else:
        sentence = f"needs {what} in one {level_name(problem)}, best has {short.room}"
        if short.room:
            sentence += f" ({tree.domain_name(short.level, short.best)})"
    sentence += _refusals(problem.room.refusals(problem.kinds[kind]), len(slots))
    return sentence if is_settled else f"{sentence}; how many more their cards would take is undecided"


def explain_unlike(problem: PlacementProblem, *, is_settled: bool) -> str:
    """The kind of pod or the amount of which there is least, where one alone is short."""
    tree, demand = problem.tree, problem.demand_at_most
    for kind, (slots, count) in enumerate(zip(demand.slots, demand.counts, strict=True)):
        rooms = parent_room(tree, slots, problem.within)
        room = int(rooms.max(initial=0))
        if room < count:
            best = int(np.argmax(rooms)) if len(rooms) else 0
            first = demand.kinds.tolist().index(kind)
            shortfall = explain_shortfall(problem, kind, Shortfall(problem.within, best, room))
            return f"for pods like that of rank {first}, {shortfall}"
    pods = len(problem.shapes)
    where = "the cluster" if problem.within == ROOT else f"any {level_name(problem)}"
    if is_settled:
        apart = ", where pod anti-affinity keeps some of them apart" if problem.sides else ""
        return f"each of its {pods} unlike pods fits alone, but not all together in {where}{apart}"
    return f"no place was found for its {pods} unlike pods together in {where}; that is not proven impossible"


def level_name(problem: PlacementProblem) -> str:
    """What people call the level within which the pods must stay."""
    return _spoken(problem, problem.within)


def list_refusals(problem: PlacementProblem, kind: int) -> str:
    """Why nodes do not take pods of this kind, behind another sentence; empty where none says."""
    return _refusals(problem.room.refusals(problem.kinds[kind]), len(problem.slots[kind]))


def explain_lacking(gang: Gang) -> str:
    """How many pods of a gang are still to be created, and why they may never be, for people."""
    text = f"waits for {gang.lacking} of its {gang.size} pods to be created"
    annotation = None if gang.own_domains else withholding(gang.pods)
    if annotation is None:
        return text
    return (
        f"{text}; by the annotation {annotation} they are created only once the first has a node, and it "
        "gets none without them, as it is not known of which JobSet or LeaderWorkerSet they are"
    )


def _spoken(problem: PlacementProblem, number: int) -> str:
    level = problem.tree.scheme.levels[number]
    return _SPOKEN.get(level, level)


def _refusals(reasons: Counter[str], nodes: int) -> str:
    if not reasons:
        return ""
    shown = [f"{count} {reason}" for reason, count in reasons.most_common(_MOST_REASONS)]
    return f"; of {nodes} nodes: {', '.join(shown)}"
