"""The Moves and tasks that there are, and the places that are held for them in the scheduler's account."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from accelet.kinds.move import HOLDS, Move
from accelet.kube.objects import ObjectKey
from accelet.kube.pods import Container, Pod
from accelet.kube.quantity import Quantity
from accelet.kube.watching.store import precedes
from accelet.scheduler.cluster.shape import PodShape
from accelet.scheduler.gangs.grouping import Gang, GangKey
from accelet.scheduler.moves.budgets import FormerMove
from accelet.scheduler.moves.holding import GAIN_LOST, HeldPlace, held_places, new_places
from accelet.scheduler.moves.movable import gang_of_task, rank_of_task, unpinned_ask
from accelet.scheduler.moves.tasks import TaskTerms
from accelet.scheduler.record import Awaited
from accelet.scheduler.state import SchedulerState

CONTAINER = "main"
"""The one container of a task's pod, as its controller names it."""


class MoveBook:
    """Kept up with events; no I/O and no clock.

    A held place is charged like a pod of a name that none can have, as long as none of the task's own has it.
    `intended` Moves are held though they do not say so yet, `given_up` ones are not though they do. Most of
    the Moves that there are have ended long ago: those that have not are kept apart.
    """

    def __init__(self, state: SchedulerState) -> None:
        self._state = state
        self.moves: dict[ObjectKey, Move] = {}
        self.tasks: dict[ObjectKey, TaskTerms] = {}
        self._live: dict[ObjectKey, Move] = {}
        self._former: dict[ObjectKey, FormerMove] = {}
        self._gone: dict[str, FormerMove] = {}
        self._held_of: dict[GangKey, list[Move]] = {}
        self._intended: set[str] = set()
        self._given_up: set[str] = set()
        self._charged: dict[str, dict[ObjectKey, HeldPlace]] = {}

    def set_task(self, task: TaskTerms) -> None:
        self.tasks[task.key] = task

    def remove_task(self, key: ObjectKey) -> None:
        self.tasks.pop(key, None)

    def set_move(self, move: Move) -> None:
        """Takes a Move over, unless a newer version is known: watches lag behind our own writes."""
        known = self.moves.get(move.key)
        if known is not None and known.uid != move.uid:
            self.remove_move(move.key)
        elif known is not None and precedes(move.resource_version, known.resource_version):
            return
        self.moves[move.key] = move
        self._former[move.key] = _former(move)
        if not move.has_ended:
            self._live[move.key] = move
            self.settle()
        elif move.key in self._live:
            self._end(move)

    def renew_move(self, move: Move) -> None:
        """A Move as an answer to a request has it, which may come after the watch's news of its end."""
        known = self.moves.get(move.key)
        if known is not None and known.uid == move.uid:
            self.set_move(move)

    def remove_move(self, key: ObjectKey) -> None:
        known = self.moves.pop(key, None)
        former = self._former.pop(key, None)
        if known is not None and former is not None and former.kind == "Person" and former.was_held:
            self._gone[known.uid] = _of_gone(former, known.namespace)
        if known is not None and key in self._live:
            self._end(known)

    def _end(self, move: Move) -> None:
        del self._live[move.key]
        self._intended.discard(move.uid)
        self._given_up.discard(move.uid)
        self.settle()

    @property
    def live(self) -> list[Move]:
        """Those that have not ended."""
        return list(self._live.values())

    def are_done(self, awaited: Sequence[Awaited]) -> bool | None:
        """Whether all of these Moves are; None where one comes to nothing, or was not held in the end."""
        moves = [self.moves.get((one.namespace, one.name)) for one in awaited]
        for one, move in zip(awaited, moves, strict=True):
            if move is None or move.uid != one.uid:
                return None
            if move.phase != "Done" and not (move.phase in HOLDS or move.uid in self._intended):
                return None
        return all(move is not None and move.phase == "Done" for move in moves)

    def history(self, now_s: float) -> list[FormerMove]:
        """The Moves that there are or were, as far as they have not been deleted; and of these for a while
        those that a person wished: who deletes a task and makes another one has them counted all the same.

        Those that were given up, which may never end, keep no node from others. `now_s` is since the epoch.
        """
        self.note_gone(now_s)
        lost = {move.key for move in self.live if self.is_given_up(move)}
        kept = (replace(self._former[key], left=frozenset(), nodes=frozenset()) for key in lost)
        return [*(one for key, one in self._former.items() if key not in lost), *kept, *self._gone.values()]

    def note_gone(self, now_s: float) -> None:
        """Those that were deleted since the last time have ended by now, in seconds since the epoch."""
        gone = {uid: replace(one, ended_s=one.ended_s or now_s) for uid, one in self._gone.items()}
        self._gone = {uid: one for uid, one in gone.items() if one.rests_until_s > now_s}

    def is_held(self, move: Move) -> bool:
        return (move.phase in HOLDS or move.uid in self._intended) and not self.is_given_up(move)

    def is_given_up(self, move: Move) -> bool:
        return move.uid in self._given_up

    def intend(self, move: Move) -> bool:
        """Holds the places of a Move from now on; False, and nothing is held, where they are not free."""
        self._intended.add(move.uid)
        self.settle()
        shapes, charged = self._shapes(move), self._charged.get(move.uid, {})
        new = {key: place for key, place in charged.items() if place.is_new}
        is_free = len(shapes) == len(move.spec.places) and all(
            self._state.cluster.still_takes(shapes[place.rank], place.node, key) for key, place in new.items()
        )
        if not is_free:
            self.let_go(move)
        return is_free

    def let_go(self, move: Move) -> None:
        """Holds nothing for a Move that does not say that it is held."""
        self._intended.discard(move.uid)
        self.settle()

    def give_up(self, move: Move) -> None:
        """Holds nothing more for a Move whose new places are lost: its pods are placed as any."""
        self._given_up.add(move.uid)
        self.settle()

    def is_open(self, move: Move) -> bool:
        """Whether the new nodes of a Move that has not begun would take its ranks, whoever is there."""
        shapes = self._shapes(move)
        return all(
            self._state.cluster.allows(shapes[place.rank], place.to_node)
            for place in move.spec.places
            if place.rank in shapes
        )

    def leaving(self, move: Move) -> list[ObjectKey]:
        """The pods of a Move that are still where they were."""
        return [pod.key for pod in self._pods(move) if pod.uid in move.pod_uids]

    def ending_s(self, move: Move) -> float:
        """How long its program has to save, and then to end, as far as that is known."""
        task = self.tasks.get((move.namespace, move.spec.task.name))
        ending = [pod.ending_s for pod in self._pods(move) if pod.uid in move.pod_uids]
        return max(ending, default=0) + (task.moves.save_seconds if task is not None else 0)

    def arriving(self, gang: Gang) -> Move | None:
        """The held Move that the gated pods of this gang are the successors for."""
        held = self._held_of.get(gang.key, ())
        uids = {pod.uid for pod in gang.pods} if held else frozenset[str]()
        return next((move for move in held if not move.pod_uids & uids), None)

    def exact_places(self, move: Move, gang: Gang) -> tuple[HeldPlace, ...] | None:
        """Where each of a gang's pods is to go, if that is still free; None where the planner decides.

        It does of pods that ask for more than is held, as tenants can make them.

        The old places are held no longer then: the old pods have ended.
        """
        ranks = {pod.uid: rank_of_task(pod) for pod in gang.pods}
        places = new_places(move, ranks)
        if places is None:
            return None
        self._charge(move, {rank for rank in ranks.values() if rank is not None})
        keys = {place: key for key, place in self._charged.get(move.uid, {}).items()}
        takes = self._state.cluster.still_takes
        is_free = all(
            places[pod.uid] in keys
            and places[pod.uid].node not in gang.excluded
            and _asks_no_more(shape, move.spec.takes)
            and takes(shape, places[pod.uid].node, keys[places[pod.uid]])
            for pod, shape in zip(gang.pods, gang.shapes, strict=True)
        )
        return tuple(places[pod.uid] for pod in gang.pods) if is_free else None

    def stand_ins(self, move: Move) -> Collection[ObjectKey]:
        """What stands for the pods of a Move where places are held for them, by its keys."""
        return self._charged.get(move.uid, {}).keys()

    def settle(self) -> None:
        """Charges what is held now, and nothing else."""
        live = {move.uid: move for move in self.live}
        for uid in self._charged.keys() - live.keys():
            self._drop(uid, ())
        for move in live.values():
            self._charge(move)
        held = [move for move in live.values() if self.is_held(move)]
        held_of = defaultdict[GangKey, list[Move]](list)
        for move in held:
            held_of[_gang_key(move)].append(move)
        self._held_of = dict(held_of)
        self._state.moving = frozenset(uid for move in held for uid in move.pod_uids)

    def _charge(self, move: Move, without_old: Collection[int] = ()) -> None:
        wanted = dict(self._held(move, without_old)) if self.is_held(move) else {}
        self._drop(move.uid, wanted)
        charged = self._charged.setdefault(move.uid, {})
        for key, place in wanted.items():
            if key not in charged:
                stand_in = _stand_in(key, move.spec.takes)
                self._state.cluster.hold(stand_in, place.node, place.cards)
                charged[key] = place
        if not charged:
            del self._charged[move.uid]

    def _drop(self, uid: str, but: Collection[ObjectKey]) -> None:
        charged = self._charged.get(uid, {})
        for key in [key for key in charged if key not in but]:
            self._state.cluster.remove_pod(key)
            del charged[key]
        if not charged:
            self._charged.pop(uid, None)

    def _held(self, move: Move, without_old: Collection[int]) -> Iterator[tuple[ObjectKey, HeldPlace]]:
        """What is held and not charged for a pod of the task, by the keys of what stands for it."""
        pods = self._pods(move)
        arrived, staying = set[int](), set[int]()
        for pod in pods:
            rank = rank_of_task(pod)
            has_node = pod.node_name is not None or self._state.planned_node(pod) is not None
            if rank is not None and has_node:
                (staying if pod.uid in move.pod_uids else arrived).add(rank)
        for place in held_places(move, arrived, is_intended=move.uid in self._intended):
            key = move.namespace, f"{move.uid}/{place.rank}/{'new' if place.is_new else 'old'}"
            is_had = place.is_old and place.rank in staying
            if not is_had and (place.is_new or place.rank not in without_old):
                yield key, place

    def _pods(self, move: Move) -> list[Pod]:
        """The task's pods that live, old ones and successors."""
        members = self._state.members(_gang_key(move))
        return [pod for pod in members if not pod.is_terminal]

    def _shapes(self, move: Move) -> Mapping[int, PodShape]:
        """What the pods ask of another node that are to move, by their ranks, while they are there."""
        ranks = {place.pod_uid: place.rank for place in move.spec.places}
        there = [pod for pod in self._pods(move) if pod.uid in ranks]
        return {ranks[pod.uid]: unpinned_ask(pod, self._state.asked_by(pod)).shape for pod in there}


def _former(move: Move) -> FormerMove:
    was_held = move.phase in HOLDS or any(said.type == "Held" for said in move.status.conditions)
    return FormerMove(
        task_uid=move.spec.task.uid,
        kind=move.spec.gain.kind,
        phase=move.phase,
        begun_s=move.created_s,
        lets_in=move.spec.gain.lets_in,
        left=frozenset(place.from_node for place in move.spec.places),
        nodes=frozenset(place.to_node for place in move.spec.places),
        was_held=was_held,
        was_in_vain=was_held and (move.phase, move.status.reason) == ("Withdrawn", GAIN_LOST),
        ended_s=move.status.ended_at.timestamp() if move.has_ended and move.status.ended_at else 0.0,
    )


def _of_gone(former: FormerMove, namespace: str) -> FormerMove:
    return replace(former, phase="Done", left=frozenset(), nodes=frozenset(), of_gone=namespace)


def _gang_key(move: Move) -> GangKey:
    of = move.spec.task
    return gang_of_task(TaskTerms(move.namespace, of.name, of.uid, of.attempt))


def _asks_no_more(shape: PodShape, takes: Mapping[str, int]) -> bool:
    return all(amount <= takes.get(resource, 0) for resource, amount in shape.units)


def _stand_in(key: ObjectKey, takes: Mapping[str, int]) -> Pod:
    """A pod that takes what a rank takes."""
    requests: dict[str, Quantity] = {
        name: Fraction(amount, 1000) if name == "cpu" else amount
        for name, amount in takes.items()
        if name != "pods"
    }
    return Pod(*key, restart_policy="Never", containers=(Container(CONTAINER, requests=requests),))
