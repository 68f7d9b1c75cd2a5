"""What is noted of a slice, and changes nothing about it."""

from dataclasses import replace
from typing import Final

from accelet.provisioner.deciding.losing import doubt_of
from accelet.provisioner.deciding.retire import left
from accelet.provisioner.deciding.view import SliceRecord, SlicesView, Step

_ASKING: Final = frozenset(("Creating", "Joining", "Failing", "Releasing"))
"""Phases that end by what the provider tells."""


def note_findings(view: SlicesView, step: Step) -> Step:
    """The step with what is found noted in its record.

    Service and drift are judged of a slice that its Job holds; a Service may come a little after the Job
    whose workers it names. That the provider is silent concerns those that wait for it.
    """
    doubt = doubt_of(view, step.record) if step.record.pool == view.record.pool else ""
    record = replace(step.record, silent=_silence(view, step.record), doubt=doubt)
    if record.phase != "Ready":
        is_held = record.phase == "Repairing"
        kept = record if is_held else replace(record, no_service="", drift="")
        return replace(step, record=kept)
    no_service, again_s = view.no_service, step.again_s
    left_s = left(view, record.since_s, view.times.lag_s)
    if no_service and not record.no_service and left_s > 0:
        no_service, again_s = "", min(left_s, left_s if again_s is None else again_s)
    return Step(replace(record, no_service=no_service, drift=_drift(view)), step.action, again_s)


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
