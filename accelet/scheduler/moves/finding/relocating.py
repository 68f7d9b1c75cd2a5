"""Drain and Person: another place for a task that somebody wants elsewhere."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from accelet.kube.nodes import Node
from accelet.scheduler.cards.account import CardAccount
from accelet.scheduler.cluster.cardroom import CardRoom
from accelet.scheduler.cluster.layout import Mask
from accelet.scheduler.cluster.supposing import Supposition
from accelet.scheduler.gangs.grouping import Gang
from accelet.scheduler.moves.movable import MovableTask, Relocation
from accelet.scheduler.placement.plan import find_places, take_places
from accelet.scheduler.placement.unlike import USUAL_EFFORT, Effort

DRAIN: Final = "accelet.dev/drain"
"""On a Node, `true`: tasks that may be moved go elsewhere; `cards`: those on cards out of service."""

_DRAINED = "to be drained"
_UNWANTED = "not where it is to be moved"


_SAID = ("true", "cards")


@dataclass(frozen=True, slots=True)
class Relocated:
    """Where a task is to be; or `move` is None and `reason` says why, for people."""

    move: Relocation | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Drained:
    """What tasks are to leave: all of `nodes`, and of `cards_of` the cards and tiles that are out of service.

    Those are cards that are ill or that a label closes, or that somebody else was given too.
    """

    nodes: frozenset[str] = frozenset()
    cards_of: frozenset[str] = frozenset()

    @classmethod
    def as_said(cls, nodes: Iterable[Node]) -> "Drained":
        """What people say on these nodes."""
        said = {node.name: node.annotations.get(DRAIN) for node in nodes}
        whole, cards = (frozenset(name for name, text in said.items() if text == one) for one in _SAID)
        return cls(whole, cards)

    def ranks_of(self, task: MovableTask, account: CardAccount) -> list[int]:
        """The ranks of a task that are to leave their places, by their order in it."""
        places = enumerate(zip(task.pods, task.nodes, strict=True))
        return [
            rank
            for rank, (pod, node) in places
            if node in self.nodes or (node in self.cards_of and not account.still_fits(pod))
        ]


def drain(
    task: MovableTask, drained: Drained, supposed: Supposition, effort: Effort = USUAL_EFFORT
) -> Relocated:
    """Other places for those ranks of a task that are to leave theirs; its other ranks keep them.

    They are free now, beside the old ones. All ranks begin anew all the same: they are one program.
    """
    moving = drained.ranks_of(task, supposed.account)
    if not moving:
        return Relocated(reason="none of its ranks is there")
    room = supposed.room().without(nodes_mask(supposed, drained.nodes), _DRAINED)
    return relocate(task, moving, supposed, room, effort)


def move_by_wish(
    task: MovableTask, to: str | None, supposed: Supposition, effort: Effort = USUAL_EFFORT
) -> Relocated:
    """Other places for all ranks of a task: on the node `to`, or on none of those where it is now."""
    if to is not None and to not in supposed.layout.leaf_of:
        return Relocated(reason=f"there is no node {to}")
    if to is not None and set(task.nodes) == {to}:
        return Relocated(reason=f"it is on {to} already")
    closed = nodes_mask(supposed, task.nodes) if to is None else ~nodes_mask(supposed, [to])
    room = supposed.room().without(closed, _UNWANTED)
    return relocate(task, range(len(task.nodes)), supposed, room, effort)


def nodes_mask(supposed: Supposition, nodes: Collection[str]) -> Mask:
    """The leaves of these nodes, as far as they are in the layout: shape (leaves,)."""
    leaf_of = supposed.layout.leaf_of
    mask = np.zeros(len(supposed.layout.nodes), dtype=bool)
    mask[[leaf_of[name] for name in nodes if name in leaf_of]] = True
    return mask


def relocate(
    task: MovableTask,
    moving: Collection[int],
    supposed: Supposition,
    room: CardRoom,
    effort: Effort,
) -> Relocated:
    """New places in `room`, which is taken from, for the ranks that are `moving`, near those that stay."""
    plan = find_places(_part(task, moving), supposed.layout, room, effort)
    plan = take_places(plan, supposed.layout, room)
    if plan.nodes is None:
        return Relocated(reason=plan.reason or "")
    by_rank = dict(zip(sorted(moving), zip(plan.nodes, plan.assignments, strict=True), strict=True))
    ranks = range(len(task.nodes))
    return Relocated(
        Relocation(
            task,
            tuple(by_rank[rank][0] if rank in by_rank else task.nodes[rank] for rank in ranks),
            tuple(by_rank[rank][1] if rank in by_rank else None for rank in ranks),
            frozenset(ranks) - frozenset(moving),
        )
    )


def _part(task: MovableTask, moving: Collection[int]) -> Gang:
    """The gang of which some ranks are to be placed, near those that stay."""
    gang, chosen = task.gang, sorted(moving)
    members = tuple(
        pod if rank in moving else replace(pod, node_name=task.nodes[rank], gates=())
        for rank, pod in enumerate(gang.pods)
    )
    return replace(
        gang,
        pods=tuple(gang.pods[rank] for rank in chosen),
        shapes=tuple(gang.shapes[rank] for rank in chosen),
        members=members,
    )
