"""Draws plans as trees of the network with the pods where they sit."""

from collections import defaultdict
from itertools import groupby

from rich.console import Console
from rich.markup import escape
from rich.tree import Tree as Drawing

from accelet.scheduler.layout import Layout
from accelet.scheduler.plan import Plan
from accelet.scheduler.topology import Scheme

_MOST_PODS_NAMED = 6


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
    by_node: defaultdict[str, list[tuple[int, str]]] = defaultdict(list)
    for rank, (pod, node) in enumerate(plan.placements):
        by_node[node].append((rank, pod.name))
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


def _lines(pods: list[tuple[int, str]]) -> list[str]:
    """One line a pod, or one a run of ranks where there are many."""
    if len(pods) <= _MOST_PODS_NAMED:
        return [f"rank {rank}  {escape(name)}" for rank, name in pods]
    runs = groupby(enumerate(pods), key=lambda item: item[1][0] - item[0])
    lines = []
    for _, run in runs:
        members = [pod for _, pod in run]
        (first, name), (last, other) = members[0], members[-1]
        span = f"rank {first}" if first == last else f"ranks {first}-{last}"
        lines.append(f"{span}  {escape(name)}" + (f" … {escape(other)}" if first != last else ""))
    return lines


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'s' * (count != 1)}"
