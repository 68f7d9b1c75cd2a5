"""Draws plans as trees of the network with the pods where they sit."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import groupby
from types import MappingProxyType
from typing import NamedTuple

from rich.text import Text
from rich.tree import Tree as Drawing

from accelet.assignments.assignment import Assignment
from accelet.cli.drawing.output import Output
from accelet.cli.drawing.records import styled
from accelet.scheduler.cluster.layout import Layout
from accelet.scheduler.cluster.topology import Scheme
from accelet.scheduler.gangs.grouping import GangKey
from accelet.scheduler.placement.plan import Plan
from accelet.scheduler.preemption.search import Preemption
from resourcemanager.target import describe

_MOST_PODS_NAMED = 6


class _Seat(NamedTuple):
    """One pod on a node, and what of its cards it gets."""

    rank: int
    pod: str
    assignment: Assignment | None


def draw_plans(
    output: Output,
    layout: Layout,
    plans: list[Plan],
    preempted: Mapping[GangKey, Preemption] = MappingProxyType({}),
) -> None:
    """Prints each gang with its verdict and, where it is placed, the part of the network it uses.

    Below one that is in `preempted` stands who would be evicted for it, and where it would be then.
    """
    if not plans:
        output.line("No gated pods: there is nothing to plan.")
    scheme = layout.tree.scheme
    paths = {node.name: scheme.path(node.labels) for node in layout.nodes}
    for plan in plans:
        drawing = Drawing(_verdict(plan))
        if plan.nodes is not None:
            _draw_places(drawing, plan, paths, scheme)
        if (found := preempted.get(plan.gang.key)) is not None:
            _draw_preemption(drawing, found, paths, scheme)
        output.drawing(drawing)


def describe_assignment(assignment: Assignment) -> Mapping[str, str]:
    """The cards and tiles of each container in words: `0000-03-00.0 tiles 0 and 1`."""
    return {
        container: ", ".join(describe(pieces) for pieces in resources.values())
        for container, resources in sorted(assignment.containers.items())
    }


def _verdict(plan: Plan) -> Text:
    name, pods = styled(str(plan.gang.key), "bold"), _plural(len(plan.gang.pods), "pod")
    if plan.nodes is None:
        return name + styled(f" {pods} ") + styled("waiting", "yellow") + styled(f": {plan.reason or ''}")
    nodes = _plural(len(set(plan.nodes)), "node")
    if plan.is_optimal:
        proof = styled("optimal", "green")
    else:
        gap = (plan.distance or 0) - plan.lower_bound
        proof = styled(f"at most {gap:,} more than the least possible", "yellow")
    return name + styled(f" {pods} on {nodes}, distance {plan.distance:,}, ") + proof


def _draw_preemption(
    drawing: Drawing, found: Preemption, paths: dict[str, tuple[str, ...] | None], scheme: Scheme
) -> None:
    if found.plan is None:
        proof = "" if found.is_settled else "; that is not proven"
        drawing.add(styled(f"to evict gangs of lower priority would not let it in{proof}", "dim"))
        return
    evicted = drawing.add(styled("would be placed once these are evicted", "yellow"))
    for victim in found.victims:
        pods = _plural(len(victim.pods), "pod")
        evicted.add(styled(str(victim.key), "bold") + styled(f" {pods}, priority {victim.priority}"))
    _draw_places(drawing, found.plan, paths, scheme)


def _draw_places(
    drawing: Drawing, plan: Plan, paths: dict[str, tuple[str, ...] | None], scheme: Scheme
) -> None:
    by_node: defaultdict[str, list[_Seat]] = defaultdict(list)
    seats = zip(plan.placements, plan.assignments, strict=True)
    for rank, ((pod, node), assignment) in enumerate(seats):
        by_node[node].append(_Seat(rank, pod.name, assignment))
    branches: dict[tuple[str, ...], Drawing] = {(): drawing}
    for node, pods in by_node.items():
        path = paths.get(node)
        if path is None:
            branch = drawing.add(styled(node) + styled(" (without topology labels)", "dim"))
        else:
            for depth in range(1, len(path) + 1):
                if path[:depth] not in branches:
                    label = styled(scheme.levels[depth - 1], "dim") + styled(f" {path[depth - 1]}")
                    branches[path[:depth]] = branches[path[: depth - 1]].add(label)
            branch = branches[path].add(styled(node, "cyan"))
        for line in _lines(pods):
            branch.add(line)


def _lines(seats: list[_Seat]) -> Iterator[Text]:
    """One line a pod, with its cards below, or one a run of ranks where there are many without cards."""
    for has_cards, some in groupby(seats, key=lambda seat: seat.assignment is not None):
        pods = list(some)
        if has_cards or len(seats) <= _MOST_PODS_NAMED:
            yield from map(_line, pods)
        else:
            yield from _runs(pods)


def _line(seat: _Seat) -> Text:
    cards = describe_assignment(seat.assignment) if seat.assignment else {}
    given = (styled(f"  {container}: ") + styled(text, "cyan") for container, text in cards.items())
    return Text("\n").join([styled(f"rank {seat.rank}  {seat.pod}"), *given])


def _runs(seats: list[_Seat]) -> Iterator[Text]:
    for _, run in groupby(enumerate(seats), key=lambda item: item[1].rank - item[0]):
        members = [seat for _, seat in run]
        first, last = members[0], members[-1]
        if first is last:
            yield _line(first)
        else:
            yield styled(f"ranks {first.rank}-{last.rank}  {first.pod} … {last.pod}")


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'s' * (count != 1)}"
