"""What is to be done for one Workload, and what its checks are to say: pure."""

from dataclasses import dataclass, replace
from typing import Literal

from accelet.scheduler.admission.kueue import KueueWorkload
from accelet.scheduler.record import Record

FIRST_RETRY_S, LAST_RETRY_S = 5, 60
"""For how long Kueue lets a check that says `Retry` rest: at first, and at most.

Kueue 0.16 and 0.17 keep the quota for that time, take it back then, and ask again as soon as there is quota
(pkg/controller/core/workload_controller.go, Reconcile): so it is short.
"""

_LONGEST_MESSAGE = 1_024
_MOST_DOUBLINGS = 10


@dataclass(frozen=True, slots=True)
class Told:
    """What our checks of a Workload are to say; with Retry, after how long Kueue asks again."""

    state: Literal["Ready", "Retry"]
    message: str
    requeue_after_s: int | None = None


@dataclass(frozen=True, slots=True)
class Prospects:
    """What is known of a Workload that one of our checks is about.

    `promise` is its plan, with room kept for it, if there is one; it `is_lost` where a node no longer takes
    what it is to. `has_pods`: its own pods are placed, or were seen to be others than were planned.
    `refusal` is why there is no plan, once one was looked for.
    """

    workload: KueueWorkload
    checks: frozenset[str]
    promise: Record | None = None
    is_lost: bool = False
    has_pods: bool = False
    refusal: str | None = None


@dataclass(frozen=True, slots=True)
class Ruling:
    """Whether room is wanted for a Workload (else what is kept is given back), and what is to be told.

    `again_s` is when to look again, in seconds since the epoch, if nothing happens before. It `is_late` where
    nothing is known against a plan but that none was made in time.
    """

    wants_room: bool
    told: Told | None = None
    again_s: float | None = None
    is_late: bool = False


NOTHING = Ruling(wants_room=False)


def decide(prospects: Prospects, now_s: float, within_s: float) -> Ruling:
    """The next step. `within_s` is how long room is kept, and how long a plan is waited for."""
    workload = prospects.workload
    states = _states(prospects)
    if workload.reserved_s is None or not states or states & {"Retry", "Rejected"}:
        return NOTHING  # what was told before takes effect, or somebody else has decided
    promise = None if prospects.is_lost else prospects.promise
    if workload.is_admitted or prospects.has_pods:
        is_kept = promise is not None and not prospects.has_pods and now_s < promise.until_s
        decision = Ruling(wants_room=True, again_s=promise.until_s) if promise and is_kept else NOTHING
        return _unless_told(states, "its pods are let run already", decision)
    if promise is not None:
        if promise.until_s <= now_s:
            return _retry(prospects, f"it was not admitted within {within_s:.0f} s of its plan")
        return _unless_told(states, describe(promise), Ruling(wants_room=True, again_s=promise.until_s))
    return _decide_unplanned(prospects, workload.reserved_s + within_s, now_s)


def _decide_unplanned(prospects: Prospects, give_up_s: float, now_s: float) -> Ruling:
    if prospects.refusal is not None:
        return _retry(prospects, prospects.refusal)
    if give_up_s <= now_s:
        late = _retry(prospects, "no plan was made for it in time; its Events may say why")
        return replace(late, is_late=True)
    return Ruling(wants_room=True, again_s=give_up_s)


def _states(prospects: Prospects) -> set[str]:
    return {check.state for check in prospects.workload.of(prospects.checks)}


def describe(promise: Record) -> str:
    """What is promised, for people."""
    nodes = len({placement.node for placement in promise.placements})
    return (
        f"there is a place for {len(promise.placements)} pods on {nodes} nodes, distance {promise.distance:,}"
    )


def tell_ready(prospects: Prospects, reason: str) -> Ruling:
    """Nothing is planned for it before its pods are there."""
    return _unless_told(_states(prospects), f"not planned before: {reason}", NOTHING)


def _unless_told(states: set[str], message: str, decision: Ruling) -> Ruling:
    if states == {"Ready"}:
        return decision
    told = Told("Ready", message[:_LONGEST_MESSAGE])
    return Ruling(decision.wants_room, told, decision.again_s)


def _retry(prospects: Prospects, reason: str) -> Ruling:
    """Gives the quota back; after a while, the longer the oftener that has been in vain."""
    retries = max((check.retries for check in prospects.workload.of(prospects.checks)), default=0)
    after_s = min(LAST_RETRY_S, FIRST_RETRY_S * 2 ** min(retries, _MOST_DOUBLINGS))
    return Ruling(wants_room=False, told=Told("Retry", reason[:_LONGEST_MESSAGE], after_s))


def check_patch(
    workload: KueueWorkload, checks: frozenset[str], told: Told, now: str
) -> list[dict[str, object]]:
    """The JSON patch (RFC 6902) of the status that has these checks say it; empty where they do.

    It holds for this version of the Workload alone. Whatever else a check says, how often it was retried
    among it, stays Kueue's.
    """
    patch: list[dict[str, object]] = []
    for number, check in enumerate(workload.checks):
        if check.name not in checks or check.state == told.state:
            continue
        place = f"/status/admissionChecks/{number}"
        said: dict[str, object] = {
            "state": told.state,
            "message": told.message,
            "lastTransitionTime": now,
        }
        if told.requeue_after_s is not None:
            said["requeueAfterSeconds"] = told.requeue_after_s
        patch.append({"op": "test", "path": f"{place}/name", "value": check.name})
        patch += [{"op": "add", "path": f"{place}/{name}", "value": value} for name, value in said.items()]
    if patch:
        version: dict[str, object] = {
            "op": "add",
            "path": "/metadata/resourceVersion",
            "value": workload.resource_version,
        }
        patch.insert(0, version)
    return patch
