"""What is noted of a slice, and changes nothing about it."""

from dataclasses import replace
from typing import Final

from accelet.provisioner.deciding.losing import doubt_of
from accelet.provisioner.deciding.retire import left
from accelet.provisioner.deciding.unused import note_use, use_left_s
from accelet.provisioner.deciding.view import LEAVING, SliceRecord, SlicesView, Step

_ASKING: Final = frozenset(("Creating", "Joining", "Failing", "Releasing"))
"""Phases that end by what the provider tells."""

_NAMED: Final = 3


def note_findings(view: SlicesView, step: Step) -> Step:
    """The step with what is found noted in its record.

    Service and drift are judged of a slice that its Job holds; a Service may come a little after the Job
    whose workers it names. That the provider is silent concerns those that wait for it.
    """
    doubt = doubt_of(view, step.record) if step.record.pool == view.record.pool else ""
    silent, staying = _silence(view, step.record), _staying(view, step.record)
    record, slow = step.record, _slowness(view, step.record)
    if (record.silent, record.doubt, record.staying, record.slow) != (silent, doubt, staying, slow):
        record = replace(record, silent=silent, doubt=doubt, staying=staying, slow=slow)
    record = note_use(view, record)
    if record.undeletable and (record.phase not in LEAVING or not view.has_pool):
        record = replace(record, undeletable="")
    left_s, again_s = left(view, record.since_s, view.times.lag_s), step.again_s
    soon_s = min(left_s, left_s if again_s is None else again_s) if left_s > 0 else again_s
    if record.phase in LEAVING:
        again_s = soon_s
    if record.phase != "Ready":
        is_held = record.phase == "Repairing"
        return Step(record if is_held else _with_service(record, "", ""), step.action, again_s)
    no_service = view.no_service
    if no_service and not record.no_service and left_s > 0:
        no_service, again_s = "", soon_s
    waits_s = [wait_s for wait_s in (again_s, use_left_s(view, record)) if wait_s is not None]
    again_s = min(waits_s, default=None)
    return Step(_with_service(record, no_service, _drift(view)), step.action, again_s)


def _with_service(record: SliceRecord, no_service: str, drift: str) -> SliceRecord:
    if (record.no_service, record.drift) == (no_service, drift):
        return record
    return replace(record, no_service=no_service, drift=drift)


def _slowness(view: SlicesView, record: SliceRecord) -> str:
    """That the provider takes very long to make or to delete the pool; else empty."""
    pool, minutes = view.pool, view.times.slow_s / 60
    if record.pool != view.record.pool or left(view, record.since_s, view.times.slow_s) > 0:
        return ""
    if record.phase == "Creating":
        has_begun = pool is not None and pool.state in ("creating", "busy")
        done = "made" if has_begun else "taken up"
        return f"the provider has not {done} the pool {record.pool} within {minutes:.0f} min"
    if record.phase in LEAVING and pool is not None and pool.state == "deleting":
        return f"the provider has not deleted the pool {record.pool} within {minutes:.0f} min"
    return ""


def _staying(view: SlicesView, record: SliceRecord) -> str:
    """The pods that a pool on its way out still waits for, once it has waited for a while."""
    if record.phase not in LEAVING or left(view, record.since_s, view.times.lag_s) > 0:
        return ""
    pods = sorted(pod for node in view.nodes_of(record.pool) for pod in node.pods)
    if not pods:
        return ""
    more = f" and {len(pods) - _NAMED} more" if len(pods) > _NAMED else ""
    return f"waits for pods to end: {', '.join(pods[:_NAMED])}{more}"


def _silence(view: SlicesView, record: SliceRecord) -> str:
    """Its first words are kept: they are written down for each slice, and may differ each time."""
    if not view.silent or record.phase not in _ASKING:
        return ""
    return record.silent or view.silent


def _drift(view: SlicesView) -> str:
    """How the pool differs from what would be made today, empty if it does not or nobody knows."""
    made = view.pool.fingerprint if view.pool is not None else ""
    if not made or not view.fingerprint or made == view.fingerprint:
        return ""
    return (
        f"the pool was made as {made[:20]} and would be made as {view.fingerprint} now: its labels or the "
        "settings have changed. It stays as it is until it is given back"
    )
