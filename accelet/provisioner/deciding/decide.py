"""The next step of one slice."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from accelet.control.walltime import left_s
from accelet.kinds.slicerequest import Phase
from accelet.provisioner.deciding.adopting import adopt
from accelet.provisioner.deciding.attempts import (
    fail,
    fail_to_make,
    give_way,
    must_move_on,
    next_attempt,
    rest,
)
from accelet.provisioner.deciding.findings import note_findings
from accelet.provisioner.deciding.losing import judge_pool, why_against
from accelet.provisioner.deciding.parking import find_parked, keep_parked, let_go, retire_or_park, reuse
from accelet.provisioner.deciding.retire import ending_left_s, is_ending, left, retire
from accelet.provisioner.deciding.unused import why_released
from accelet.provisioner.deciding.view import (
    Close,
    Create,
    Discard,
    Finish,
    Open,
    SliceRecord,
    SlicesView,
    Step,
)
from accelet.provisioner.pools.machines import Refusal
from accelet.provisioner.pools.tiers import FLEX_START

_POLL_S = 10.0
_WAIT_S = 60.0


def decide(view: SlicesView) -> Step:
    """What is done next, and why: a function of the view alone.

    A pool of a former attempt goes first: a request has one.
    """
    step = note_findings(view, _decide(view))
    # The first step on the way to it is to write it down; nothing is done that is not written.
    return step if step.record == view.record else Step(step.record, None, 0.0)


def _decide(view: SlicesView) -> Step:
    stray = next((p for p in view.pools if p.name != view.record.pool and p.state != "deleting"), None)
    if stray is not None:
        return retire(view, stray, view.record)
    if view.record.pool in view.given:
        return let_go(view)
    if view.unwanted is not None:
        return _release(view)
    if why := why_released(view):
        # Nobody is asked again whether the job wants it: it would have it made anew at once.
        return _release(replace(view, unwanted=why, record=replace(view.record, is_lapsed=True)))
    return _pursue(view)


def _release(view: SlicesView) -> Step:
    record, pool = view.record, view.pool
    if record.phase == "Pending" and not record.pool and not view.pools:
        return _end(view)
    if record.phase == "Parked":
        return keep_parked(view)
    if record.phase != "Releasing":
        return Step(record.enter("Releasing", view.unwanted or "", view.now_s))
    if pool is not None and pool.state != "deleting":
        has_waited = view.is_forced or record.parked_s > 0 or (view.is_ended and bool(view.askers))
        wait_s = 0.0 if has_waited else left(view, record.since_s, view.times.grace_s)
        return Step(record, None, wait_s) if wait_s > 0 else retire_or_park(view, pool, record)
    if view.pools or not _is_surely_absent(view):
        return Step(record, None, _absent_in(view))
    return _end(view)


def _end(view: SlicesView) -> Step:
    """Nothing is left of the slice."""
    if view.is_deleted:
        return Step(view.record, Finish())
    if view.is_ended:
        return Step(view.record, Discard())
    why = view.unwanted or ""
    if view.record.phase == "Pending" and view.record.why == why:
        return Step(view.record, None, _WAIT_S)
    lapsed = view.record.is_lapsed
    return Step(SliceRecord(why=why, since_s=view.now_s, attempt=view.record.attempt, is_lapsed=lapsed))


def _is_surely_absent(view: SlicesView) -> bool:
    """Whether the present attempt's pool is not there, nor on its way: a young list may lack it."""
    record = view.record
    if not record.pool or view.now_s < record.since_s:
        return True
    return view.pool is None and view.listed.asked_s - record.since_s >= view.times.lag_s


def _absent_in(view: SlicesView) -> float:
    """When to look again for the absence of a pool."""
    return min(max(left(view, view.record.since_s, view.times.lag_s), 1.0), _POLL_S)


def _pursue(view: SlicesView) -> Step:
    record = view.record
    if record.phase not in ("Refused", "Pending"):
        return _PHASES[record.phase](view)
    refusal = next((one for one in (view.machines, view.order) if isinstance(one, Refusal)), None)
    if refusal is None:
        # The settings may have been mended since it was refused, or accelet knows its machines by now.
        return _begin(view) if record.phase == "Pending" else Step(record.enter("Pending", "", view.now_s))
    if record.phase == "Refused":
        return Step(record.say(refusal.reason))
    return Step(record.enter("Refused", refusal.reason, view.now_s))


def _begin(view: SlicesView) -> Step:
    record = view.record
    if record.no_room or record.is_lapsed:  # another of its set is used after all
        record = replace(record, no_room=False, is_lapsed=False)
    if view.rival:
        return Step(record.say(view.rival), None, _WAIT_S)
    missing = view.set_size - 1 - view.rest.known
    if missing > 0:
        return Step(
            record.say(f"{missing} of the set's {view.set_size} slices are not asked for yet"), None, _WAIT_S
        )
    if view.rest.resting_until_s is not None:
        again_s = min(max(view.rest.resting_until_s - view.now_s, 1.0), _WAIT_S)
        return Step(record.say("waits for the rest of its set"), None, again_s)
    if (step := adopt(view) or reuse(view)) is not None:
        return step
    if view.no_room is not None:
        since_s = record.since_s or view.now_s  # the turn of a set is by that
        waiting = replace(record, asks_of="", no_room=True, why=view.no_room, since_s=since_s)
        return Step(waiting, None, _WAIT_S)
    return Step(next_attempt(view, record))


def _create(view: SlicesView) -> Step:
    record, pool = view.record, view.pool
    if must_move_on(view, record):
        return Step(fail(view, record, _moved_on(record)))
    if pool is None:
        return _ask(view)
    match pool.state:
        case "failed" | "deleting" if not view.nodes_of(pool.name):  # nothing came that could be lost
            return Step(fail_to_make(view, record, pool.failure, why_against(view)))
        case "running" | "failed" | "deleting":
            return Step(record.enter("Joining", _coming(record), view.now_s, sent=True))
        case "creating" | "busy":
            return Step(record, None, _POLL_S)


def _ask(view: SlicesView) -> Step:
    """The list has no pool of this attempt: asks for it, or waits until it would be there."""
    record = view.record
    if record.pool in view.listed.foreign:
        return Step(fail(view, record, f"the pool's name {record.pool} is taken by another"))
    if record.sent:
        is_late = view.listed.asked_s - record.sent_s >= view.times.lag_s or view.now_s < record.sent_s
        return Step(replace(record, sent=False) if is_late else record, None, _POLL_S)
    wait_s = left_s(record.retry_s, view.now_s, view.times.longest_rest_s)
    return Step(record, None, wait_s) if wait_s > 0 else Step(record, Create(), _POLL_S)


def _join(view: SlicesView) -> Step:
    now_s, (record, lost) = view.now_s, judge_pool(view)
    if lost:
        return Step(fail(view, record, lost))
    if must_move_on(view, record):
        return Step(fail(view, record, _moved_on(record)))
    if view.is_whole and view.is_sound:
        held_s = record.held_s or now_s
        return Step(record.enter("Joined", "all its machines offer their chips", now_s, held_s=held_s))
    record = _count_machines(view, record)
    join_s = view.times.flex_start_s if _is_queued(record) else view.times.join_s
    wait_s = left(view, max(record.since_s, record.progress_s), join_s)
    if wait_s > 0:
        return Step(record, None, min(wait_s, _again_s(record)))
    minutes = join_s / 60
    return Step(fail(view, record, f"{view.hosts} machines came, and no other within {minutes:.0f} min"))


def _coming(record: SliceRecord) -> str:
    if record.tier != str(FLEX_START):
        return "its machines are coming"
    return (
        "waits for flex-start machines: GKE makes them once its autoscaler sees the job's pods unschedulable"
    )


def _is_queued(record: SliceRecord) -> bool:
    """Whether machines are waited for that may take hours, and cost nothing until they come, all at once."""
    return record.tier == str(FLEX_START) and not record.came


def _again_s(record: SliceRecord) -> float:
    """When to look again where nothing else happens: soon, where the next list may be believed."""
    return _POLL_S if record.doubted_s else _WAIT_S


def _count_machines(view: SlicesView, record: SliceRecord) -> SliceRecord:
    """The record with the machines that came since the phase began: each may come once, so that it ends."""
    count = view.whole_hosts
    return replace(record, came=count, progress_s=view.now_s) if count > record.came else record


def _wait_for_set(view: SlicesView) -> Step:
    now_s, (record, lost) = view.now_s, judge_pool(view)
    if lost:
        return Step(fail(view, record, lost))
    if not view.is_whole:
        return Step(record.enter("Joining", f"only {view.hosts} of its machines are there", now_s))
    if view.is_sound and view.rest.wanted >= view.set_size - 1 and view.rest.is_whole:
        return _open(view) or Step(record.enter("Ready", "", now_s, tried=0, rounds=0, dry_tiers=()))
    if must_move_on(view, record):
        return Step(fail(view, record, _moved_on(record)))
    wait_s = _hold_left(view)
    if wait_s > 0:
        why = "is whole and waits for the rest of its set"
        return Step(record.say(why), _end_start(view), min(wait_s, _again_s(record)))
    minutes = view.times.hold_s / 60
    return Step(give_way(view, record, f"its set came no nearer to being whole for {minutes:.0f} min"))


def _end_start(view: SlicesView) -> Close | None:
    """Closes machines that wait and that an autoscaler still takes for starting ones.

    Where too many of a cluster start, it makes no more, and the set would never be whole (Cluster Autoscaler,
    FAQ, "startup taints").
    """
    starting = tuple(node.name for node in view.nodes_of(view.record.pool) if node.is_starting)
    return Close(starting) if starting else None


def _hold_left(view: SlicesView) -> float:
    """For how long a whole slice still waits for its set: `hold_s` after the set's last progress.

    A provider may make few pools at a time. In all it is `hold_s` for each slice of the set at most, so that
    machines that come and go hold nobody for ever.
    """
    record, hold_s = view.record, view.times.hold_s
    steps_s = (record.since_s, view.rest.progress_s)
    in_all_s = left(view, record.held_s or record.since_s, hold_s * view.set_size)
    return min(max(left(view, step_s, hold_s) for step_s in steps_s), in_all_s)


def _keep(view: SlicesView) -> Step:
    now_s, (record, lost) = view.now_s, judge_pool(view)
    if lost:
        return Step(fail(view, replace(record, tried=0), lost))
    if view.is_whole:
        if record == view.record and (step := _open(view)) is not None:
            return step
        kept = record if record.phase == "Ready" else record.enter("Ready", "", now_s)
        return Step(kept, None, _again_s(record))
    if record.phase == "Ready":
        why, came = f"{view.hosts} of its machines are there", view.whole_hosts
        return Step(record.enter("Repairing", why, now_s, came=came))
    record = _count_machines(view, record)
    wait_s = left(view, max(record.since_s, record.progress_s), view.times.repair_s)
    if wait_s > 0:
        return Step(record, None, min(wait_s, _again_s(record)))
    minutes = view.times.repair_s / 60
    return Step(
        fail(view, replace(record, tried=0), f"a lost machine did not come back in {minutes:.0f} min")
    )


def _open(view: SlicesView) -> Step | None:
    """Binds and opens what is not yet; None if all of it is."""
    nodes = tuple(n.name for n in view.nodes_of(view.record.pool) if not (n.is_open and n.is_bound))
    return Step(view.record, Open(nodes)) if nodes else None


def _take_back(view: SlicesView) -> Step:
    """Somebody wants it again while it is being given back."""
    record = replace(view.record, parked_s=0.0, taker="", is_lapsed=False)
    if view.is_sound and is_ending(view):
        # A clock that was set back must not make it wait for longer than that.
        record = replace(record, asked_end_s=min(record.asked_end_s, view.now_s))
        return Step(record, None, min(max(ending_left_s(view), 1.0), _POLL_S))
    if view.is_sound:
        phase: Phase = "Joining" if record.mark else "Creating"
        return Step(record.enter(phase, "is wanted again", view.now_s, sent=True, sent_s=view.now_s))
    return Step(record.enter("Failing", "was wanted again too late", view.now_s, tried=0))


def _has_healed(view: SlicesView) -> bool:
    """Whether a slice that was Ready and then lost works again: its pods may still run there.

    One that was never Ready is not taken back: it may have been given up for the sake of its set.
    """
    pool = view.pool
    is_running = pool is not None and pool.state == "running" and not is_ending(view)
    return view.record.was_ready and is_running and view.is_whole


def _give_up(view: SlicesView) -> Step:
    record, pool = view.record, view.pool
    if pool is not None and pool.state != "deleting":
        is_healed = _has_healed(view)
        return Step(record.enter("Ready", "", view.now_s)) if is_healed else retire(view, pool, record)
    if pool is None and not _is_surely_absent(view):
        return Step(record, None, _absent_in(view))
    if pool is not None and record.mark:  # only this record tells whose it is until it is gone
        return Step(record, None, _POLL_S)
    if view.no_room is not None:
        return Step(record, None, _WAIT_S)
    if view.rest.resting_until_s is not None:
        return Step(rest(view, record))
    return Step(next_attempt(view, record))


def _rest(view: SlicesView) -> Step:
    record = view.record
    wait_s = left_s(record.retry_s, view.now_s, view.times.longest_rest_s)
    if wait_s > 0 and find_parked(view) is None:
        return Step(record, None, wait_s)
    return Step(record.enter("Pending", "begins anew", view.now_s))


def _moved_on(record: SliceRecord) -> str:
    return f"its set found no {record.tier} capacity and goes on"


_PHASES: Final[Mapping[Phase, Callable[[SlicesView], Step]]] = {
    "Creating": _create,
    "Joining": _join,
    "Joined": _wait_for_set,
    "Ready": _keep,
    "Repairing": _keep,
    "Releasing": _take_back,
    "Parked": _take_back,
    "Failing": _give_up,
    "BackingOff": _rest,
}
