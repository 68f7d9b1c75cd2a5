"""The places that are held for moves, and what the scheduler writes of a move: pure."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from accelet.kinds.move import HOLDS, Move, MovePhase, MovePlace

Room = Literal["free", "lost", "unknown"]
"""Whether the new places of a move are free for it. `unknown` is no reason for anything."""

SLACK_S: Final = 300.0
"""What a task is given to begin at its new place, beyond its time to save and to end."""

GAIN_LOST: Final = "GainLost"
"""The reason of a Move that would not help any more: whom it was for has gone."""

_REVOCABLE: Final[frozenset[MovePhase]] = frozenset(("Proposed", "Approved", "Held", "Saving"))


@dataclass(frozen=True, slots=True)
class HeldPlace:
    """A place that nobody but this rank of the task gets. `cards` is its assignment, empty without any.

    `is_new` of where it is to go, `is_old` of where it was: both of one that stays.
    """

    namespace: str
    task_uid: str
    rank: int
    node: str
    cards: str = ""
    is_new: bool = True
    is_old: bool = False


@dataclass(frozen=True, slots=True)
class MoveVerdict:
    """What the scheduler writes of a move: its next phase, the reason in a word, and for people."""

    phase: MovePhase
    reason: str
    why: str = ""


LOST: Final = MoveVerdict("Withdrawn", GAIN_LOST, "it would not help any more")


def held_places(
    move: Move, arrived: Collection[int] = (), *, is_intended: bool = False
) -> tuple[HeldPlace, ...]:
    """What is held for a move: its new places, and its old ones, but for ranks that have `arrived`.

    A rank has when a successor of its pod has a node, be it another one than was held for it.

    The old ones are the second choice, should a new one be lost before its rank arrives. They are held from
    the first moment on, and not only once the move is under way: the scheduler hears of that late, and the
    old pods may have ended by then. Who counts pods as well must not count a place twice: a pod that has it
    is the task's own. With `is_intended` it is so before the move says that it is held.
    """
    if move.phase not in HOLDS and not is_intended:
        return ()
    places = [place for place in move.spec.places if place.rank not in arrived]
    new = [_new_place(move, place) for place in places]
    old = [
        HeldPlace(
            move.namespace,
            move.spec.task.uid,
            place.rank,
            place.from_node,
            place.from_cards,
            is_new=False,
            is_old=True,
        )
        for place in places
        if not stays(place)
    ]
    return (*new, *old)


def new_places(move: Move, pods: Mapping[str, int | None]) -> Mapping[str, HeldPlace] | None:
    """Where the gated pods of the task, by UID with their ranks, are to go; None where the planner decides.

    They are successors: the pods that the move was proposed for are never placed anew. A rank that the move
    does not know (its task has grown meanwhile) has the planner place all of them.
    """
    if move.phase not in HOLDS or not pods or move.pod_uids & pods.keys():
        return None
    by_rank = {place.rank: place for place in move.spec.places}
    found: dict[str, HeldPlace] = {}
    for pod, rank in pods.items():
        if rank is None or (place := by_rank.get(rank)) is None:
            return None
        found[pod] = _new_place(move, place)
    return found


def _new_place(move: Move, place: MovePlace) -> HeldPlace:
    uid = move.spec.task.uid
    return HeldPlace(move.namespace, uid, place.rank, place.to_node, place.to_cards, is_old=stays(place))


def stays(place: MovePlace) -> bool:
    """Whether a rank keeps its place: it begins anew there with its peers."""
    return (place.to_node, place.to_cards) == (place.from_node, place.from_cards)


def judge_move(move: Move, room: Room, now_s: float, *, has_gain: bool = True) -> MoveVerdict | None:
    """What the scheduler writes of a move; None where that is nothing.

    It is written at the version of the move that was seen alone: a move that has begun meanwhile stays so.
    """
    if move.phase not in _REVOCABLE:
        return None
    if now_s >= move.valid_until_s:
        return MoveVerdict("Withdrawn", "Expired", "it was not approved and begun in time")
    if not has_gain:
        return LOST
    if room == "lost":
        return MoveVerdict("Withdrawn", "PlaceLost", "its new place is not free any more")
    if move.phase == "Approved" and room == "free":
        return MoveVerdict("Held", "Held")
    return None


def judge_group(
    group: Sequence[Move],
    now_s: float,
    *,
    is_open: Callable[[Move], bool],
    is_of_use: Callable[[Move], bool],
    is_awaited: bool,
    is_waiting: bool,
) -> Sequence[tuple[Move, MoveVerdict]]:
    """Which of some Moves that are good for something together alone are withdrawn.

    `is_awaited`: the plan of the gang that they let in waits for them; `is_waiting`: that gang has no place.
    Once one is held, it is for that plan. `is_of_use` is asked of each by itself.
    """
    is_held = any(move.phase in HOLDS for move in group)
    is_let_in = group[0].spec.gain.kind == "LetsIn"
    lets_in = not is_let_in or is_awaited or (is_waiting and not is_held)

    def judge(move: Move) -> MoveVerdict | None:
        room: Room = "unknown" if is_open(move) else "lost"
        return judge_move(move, room, now_s, has_gain=lets_in and is_of_use(move))

    judged = [(move, judge(move)) for move in group]
    return [(move, verdict) for move, verdict in judged if verdict is not None]


def held_until_s(move: Move, ending_s: float) -> float:
    """Until when places are held for a move that is under way; then its pods are placed as any.

    `ending_s` is how long its old pods are given to end.
    """
    begun = {one.type: one.last_transition_time.timestamp() for one in move.status.conditions}
    if move.phase == "Arriving" and "Arriving" in begun:
        return begun["Arriving"] + SLACK_S
    left = move.status.left_at
    return (left.timestamp() if left is not None else move.valid_until_s) + ending_s + SLACK_S


def first_come(moves: Iterable[Move]) -> list[Move]:
    """Moves in the order in which they are held: who holds already first, then the oldest."""
    return sorted(moves, key=lambda move: (move.phase not in HOLDS, move.created_s, move.key))
