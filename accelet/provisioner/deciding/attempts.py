"""Which attempt is next, for a slice and its set."""

from dataclasses import replace

from accelet.provisioner.deciding.retire import left
from accelet.provisioner.deciding.view import SliceRecord, SlicesView
from accelet.provisioner.pools.machines import Refusal
from accelet.provisioner.pools.plan import pool_name
from accelet.provisioner.pools.pool import Failure, Trouble
from accelet.provisioner.pools.tiers import Attempt

_FIRST_PAUSE_S = 5.0
_LONGEST_PAUSE_S = 60.0
_MOST_WHY = 1000


def next_attempt(view: SlicesView, record: SliceRecord) -> SliceRecord:
    """The record of the next attempt, or of a rest where all of this round were tried."""
    attempts = attempts_of(view)
    index = next_place(view, record)
    if index is not None:
        attempt = attempts[index]
        number = record.attempt + 1
        is_same_place = (record.tier, record.zone) == (str(attempt.tier), attempt.zone)
        return record.enter(
            "Creating",
            f"attempt {index + 1} of {len(attempts)}: {describe(attempt)}",
            view.now_s,
            attempt=number,
            tried=index + 1,
            pool=pool_name(view.name, view.uid, number),
            tier=str(attempt.tier),
            zone=attempt.zone,
            sent=False,
            sent_s=0.0,
            retry_s=0.0,
            refusals=0,
            refused_s=record.refused_s if is_same_place else 0.0,
            parked_s=0.0,
            asks_of="",
            mark="",
            no_room=False,
        )
    return rest(view, record)


def next_place(view: SlicesView, record: SliceRecord) -> int | None:
    """Which of this round's attempts is next; None if all were tried.

    Where others of the set are held, those of their tier come first: a set is of one tier.
    """
    attempts, dry = attempts_of(view), dry_tiers(view, record)
    held = view.rest.held_tiers
    places = [p for p in range(record.tried, len(attempts)) if str(attempts[p].tier) not in dry]
    return min(places, key=lambda place: (str(attempts[place].tier) not in held, place), default=None)


def rest(view: SlicesView, record: SliceRecord) -> SliceRecord:
    """The record of a slice that waits before it begins anew; a set rests together."""
    wait_s = min(view.times.rest_s * 2.0 ** min(record.rounds, 16), view.times.longest_rest_s)
    others_s = view.rest.resting_until_s or 0.0
    until_s = min(max(view.now_s + wait_s, others_s), view.now_s + view.times.longest_rest_s)
    return record.enter(
        "BackingOff",
        f"{record.why[:_MOST_WHY]}; all places were tried, and will be again",
        view.now_s,
        tried=0,
        rounds=record.rounds + 1,
        dry_tiers=(),
        retry_s=until_s,
        refused_s=0.0,
    )


def attempts_of(view: SlicesView) -> tuple[Attempt, ...]:
    """The attempts of one round. A set is of one tier, so that its tiers go before its zones."""
    if isinstance(view.order, Refusal):
        return ()
    attempts = view.order.attempts
    if view.set_size == 1:
        return attempts
    tiers = list(dict.fromkeys(attempt.tier for attempt in attempts))
    return tuple(sorted(attempts, key=lambda attempt: tiers.index(attempt.tier)))


def dry_tiers(view: SlicesView, record: SliceRecord) -> frozenset[str]:
    """Tiers in which some slice of the set found no room in this round."""
    return view.rest.dry_tiers.union(record.dry_tiers)


def must_move_on(view: SlicesView, record: SliceRecord) -> bool:
    """Whether the set found no room in this slice's tier and has another tier to go on to.

    Without another tier nothing is gained by taking down what the set has: the slice that found no room
    tries again, and the others are held for it.
    """
    dry = dry_tiers(view, record)
    left_over = attempts_of(view)[record.tried :]
    return record.tier in dry and any(str(attempt.tier) not in dry for attempt in left_over)


def give_way(view: SlicesView, record: SliceRecord, why: str) -> SliceRecord:
    """The record of a slice that has waited for its set long enough: it is given back, and rests.

    That says nothing of its tier or its zone.
    """
    return record.enter("Failing", why[:_MOST_WHY], view.now_s, tried=len(attempts_of(view)))


def fail(view: SlicesView, record: SliceRecord, why: str) -> SliceRecord:
    """The record of an attempt that failed; notes its tier as dry if that was its last place there."""
    left = attempts_of(view)[record.tried :]
    is_dry = record.tier and not any(str(attempt.tier) == record.tier for attempt in left)
    dry = tuple(dict.fromkeys((*record.dry_tiers, record.tier))) if is_dry else record.dry_tiers
    return record.enter("Failing", why[:_MOST_WHY], view.now_s, dry_tiers=dry)


def fail_to_make(view: SlicesView, record: SliceRecord, failure: Failure | None, why: str) -> SliceRecord:
    """The record of an attempt whose pool came to nothing; its place is next again if that may pass."""
    if failure is None or not failure.trouble.may_pass or _is_lasting(view, record):
        return fail(view, record, why)
    again = replace(record, tried=max(0, record.tried - 1), refused_s=record.refused_s or view.now_s)
    return fail(view, again, why)


def _is_lasting(view: SlicesView, record: SliceRecord) -> bool:
    """Whether the place has refused for long enough to be taken at its word."""
    return record.refused_s > 0.0 and left(view, record.refused_s, view.times.refused_s) <= 0.0


def after_create(view: SlicesView, record: SliceRecord, failure: Failure | None) -> SliceRecord:
    """The record after the provider was asked for the pool; None for accepted.

    No answer, and a name that exists, say nothing: the list will.
    """
    if failure is None or failure.trouble in (Trouble.UNKNOWN, Trouble.EXISTS):
        refused_s = 0.0 if failure is None else record.refused_s
        return replace(record, sent=True, sent_s=view.now_s, refused_s=refused_s)
    is_lasting = failure.trouble.may_pass and _is_lasting(view, record)
    if failure.trouble.passes or (failure.trouble.may_pass and not is_lasting):
        if failure.trouble.may_pass:
            record = replace(record, refused_s=record.refused_s or view.now_s)
        pause_s = min(_FIRST_PAUSE_S * 2.0 ** min(record.refusals, 8), _LONGEST_PAUSE_S)
        wait_s = min(max(failure.retry_after_s or 0.0, pause_s), view.times.longest_rest_s)
        why = failure.sentence[:_MOST_WHY]
        return replace(record, why=why, refusals=record.refusals + 1, retry_s=view.now_s + wait_s)
    return fail(view, record, failure.sentence)


def describe(attempt: Attempt) -> str:
    return f"{attempt.tier} in {attempt.zone}" if attempt.zone else str(attempt.tier)
