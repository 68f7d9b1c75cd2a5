"""A slice that nobody wants any more is put aside for a while, and given to one request at most.

One that is being given back is offered too, until the provider is asked to delete it. It is put aside once it
is empty, for the one that asks for it.

The one that wants it writes down whom it asks, the one that has it writes down to whom it is given, and only
then does the other one write down that it is its own: a kill or another leader between any two of these finds
it in one hand.
"""

import hashlib
from dataclasses import replace
from typing import Final

from accelet.provisioner.deciding.attempts import attempts_of, next_place
from accelet.provisioner.deciding.losing import judge_pool
from accelet.provisioner.deciding.retire import left, retire
from accelet.provisioner.deciding.view import Delete, ParkedPool, SliceRecord, SlicesView, Step
from accelet.provisioner.pools.pool import NodePool

_WAIT_S: Final = 60.0
_ANSWER_S: Final = 5.0
_TAKEN_WITHIN_S: Final = 60.0
"""So long a slice is kept for one that asks where none are kept for others."""

OFFERED_S: Final = 300.0
"""So long others wait for a slice that is being given back to be empty, before they have one made."""

_DOUBTED_AGAIN_S: Final = 10.0


def reuse(view: SlicesView) -> Step | None:
    """Asks for a parked slice, or takes the one that is given; None where there is none that fits."""
    record, found = view.record, find_parked(view)
    if found is None:
        return None
    if found.taker == view.uid:
        taken = record.enter(
            "Joining",
            f"took over the parked pool {found.pool}",
            view.now_s,
            pool=found.pool,
            mark=found.mark,
            tier=str(found.attempt.tier),
            zone=found.attempt.zone,
            asks_of="",
            no_room=False,
            sent=True,
            sent_s=0.0,
            retry_s=0.0,
            refusals=0,
        )
        return Step(taken)
    asking = replace(
        record, asks_of=found.holder, no_room=False, why=f"asks for the parked pool {found.pool}"
    )
    return Step(asking, None, _ANSWER_S)


def find_parked(view: SlicesView) -> ParkedPool | None:
    """The slice that is given to this request, else that it has asked for, else one that fits.

    Of several each request prefers another one, so that not all ask for the same. A set stays of one tier,
    that of its next attempt.
    """
    place = next_place(view, view.record)
    if place is None or not view.fingerprint:
        return None
    attempts = attempts_of(view)
    tier = attempts[place].tier
    fitting = [
        one
        for one in view.parked
        if one.fingerprint == view.fingerprint
        and one.taker in ("", view.uid)
        and one.attempt.tier == tier
        and one.attempt in attempts
        and one.no_room is None
    ]

    def preference(one: ParkedPool) -> tuple[bool, bool, str]:
        digest = hashlib.sha256(f"{view.uid}/{one.holder}".encode()).hexdigest()
        return one.taker != view.uid, one.holder != view.record.asks_of, digest

    return min(fitting, key=preference, default=None)


def retire_or_park(view: SlicesView, pool: NodePool, record: SliceRecord) -> Step:
    """The next step towards the end of `pool`, which is closed and emptied also where it is put aside."""
    step = retire(view, pool, record)
    may_be_kept = not (view.is_forced or record.parked_s or record.asked_end_s)
    is_kept = may_be_kept and (bool(view.askers) or (view.times.park_s > 0 and not view.is_deleted))
    if not isinstance(step.action, Delete) or not is_kept or _flaw(view, pool):
        return step
    minutes = view.times.park_s / 60
    why = (
        "is kept for a job that asks for it"
        if view.askers
        else f"is kept for another job for {minutes:.0f} min"
    )
    return Step(record.enter("Parked", why, view.now_s, parked_s=view.now_s, taker="", asks_of=""))


def keep_parked(view: SlicesView) -> Step:
    """What is done with a parked slice: it is given to one that asks, or to nobody and back."""
    record = view.record
    park_s = view.times.park_s
    left_s = left(view, record.parked_s, max(park_s, _TAKEN_WITHIN_S) if view.askers else park_s)
    record, lost = judge_pool(view)
    why = lost or (_flaw(view, view.pool) if view.is_sound else "")
    if view.is_forced or (view.is_deleted and not view.askers):
        why = view.unwanted or "nobody wants it"
    elif left_s <= 0:
        why = "no other job asked for it"
    if why:
        return Step(record.enter("Releasing", why, view.now_s, taker=""))
    if record.taker in view.askers or not view.is_sound:
        return Step(record, None, min(left_s, _WAIT_S if view.is_sound else _DOUBTED_AGAIN_S))
    if view.askers:
        return Step(replace(record, taker=view.askers[0], why="is given to another job"))
    if record.taker:
        return Step(replace(record, taker="", why="is kept for another job: the one it was given to is gone"))
    if view.is_in_the_way:
        return Step(record.enter("Releasing", "makes room for others", view.now_s))
    return Step(record, None, min(left_s, _WAIT_S))


def let_go(view: SlicesView) -> Step:
    """Another has written down that the pool is its own."""
    why = f"the pool {view.record.pool} was given to another job"
    return Step(
        SliceRecord(why=why, since_s=view.now_s, attempt=view.record.attempt, is_lapsed=view.record.is_lapsed)
    )


def _flaw(view: SlicesView, pool: NodePool | None) -> str:
    """Why a pool is of no use to another job, empty if it is."""
    if pool is None or pool.state != "running":
        return "its pool does not run any more"
    if not view.is_whole or any(node.has_pods for node in view.nodes_of(pool.name)):
        return "not all of its machines are free"
    if not pool.fingerprint or pool.fingerprint != view.fingerprint:
        return "it would be made otherwise now"
    return ""
