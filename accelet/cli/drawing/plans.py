"""Draws plans as trees of the network with the pods where they sit."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import NamedTuple

from rich.console import Console
from rich.markup import escape
from rich.tree import Tree as Drawing

from accelet.assignments.assignment import Assignment
from accelet.scheduler.cluster.layout import Layout
from accelet.scheduler.cluster.topology import Scheme
from accelet.scheduler.placement.plan import Plan
from resourcemanager.target import describe

_MOST_PODS_NAMED = 6


class _Seat(NamedTuple):
    """One pod on a node, and what of its cards it gets."""

    rank: int
    pod: str
    assignment: Assignment | None


def draw_plans(console: Console, layout: Layout, plans: list[Plan]) -> None:
    """Prints each gang with its verdict and, where it is placed, the part of the network it uses."""
    if not plans:
        console.print("No gated pods: there is nothing to plan.")
    scheme = layout.tree.scheme
    paths = {node.name: scheme.path(node.labels) for node in layout.nodes}
    for plan in plans:
        drawing = Drawing(_verdict(plan))
        if plan.nodes is not None:
            _draw_places(drawing, plan, paths, scheme)
        console.print(drawing)


def describe_assignment(assignment: Assignment) -> Mapping[str, str]:
    """The cards and tiles of each container in words: `0000-03-00.0 tiles 0 and 1`."""
    return {
        container: ", ".join(describe(pieces) for pieces in resources.values())
        for container, resources in sorted(assignment.containers.items())
    }


def _verdict(plan: Plan) -> str:
    name, pods = escape(str(plan.gang.key)), _plural(len(plan.gang.pods), "pod")
    if plan.nodes is None:
        return f"[bold]{name}[/] {pods} [yellow]waiting[/]: {escape(plan.reason or '')}"
    nodes = _plural(len(set(plan.nodes)), "node")
    if plan.is_optimal:
        proof = "[green]optimal[/]"
    else:
        gap = (plan.distance or 0) - plan.lower_bound
        proof = f"[yellow]at most {gap:,} more than the least possible[/]"
    return f"[bold]{name}[/] {pods} on {nodes}, distance {plan.distance:,}, {proof}"


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
            branch = drawing.add(f"{escape(node)} [dim](without topology labels)[/]")
        else:
            for depth in range(1, len(path) + 1):
                if path[:depth] not in branches:
                    label = f"[dim]{scheme.levels[depth - 1]}[/] {escape(path[depth - 1])}"
                    branches[path[:depth]] = branches[path[: depth - 1]].add(label)
            branch = branches[path].add(f"[cyan]{escape(node)}[/]")
        for line in _lines(pods):
            branch.add(line)


def _lines(seats: list[_Seat]) -> Iterator[str]:
    """One line a pod, with its cards below, or one a run of ranks where there are many without cards."""
    for has_cards, some in groupby(seats, key=lambda seat: seat.assignment is not None):
        pods = list(some)
        if has_cards or len(seats) <= _MOST_PODS_NAMED:
            yield from map(_line, pods)
        else:
            yield from _runs(pods)


def _line(seat: _Seat) -> str:
    cards = describe_assignment(seat.assignment) if seat.assignment else {}
    given = (f"\n  {escape(container)}: [cyan]{escape(text)}[/]" for container, text in cards.items())
    return f"rank {seat.rank}  {escape(seat.pod)}{''.join(given)}"


def _runs(seats: list[_Seat]) -> Iterator[str]:
    for _, run in groupby(enumerate(seats), key=lambda item: item[1].rank - item[0]):
        members = [seat for _, seat in run]
        first, last = members[0], members[-1]
        if first is last:
            yield _line(first)
        else:
            pods = f"{escape(first.pod)} … {escape(last.pod)}"
            yield f"ranks {first.rank}-{last.rank}  {pods}"


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'s' * (count != 1)}"
