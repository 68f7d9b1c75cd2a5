"""Why a gang waits, as it is noted on its first pod: pure."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Literal

from accelet.kinds.waiting import (
    WAITING_ANNOTATION,
    WaitingReason,
    parse_waiting,
    render_waiting,
)
from accelet.kube.pods import Pod
from accelet.scheduler.gangs.grouping import Gang

Cause = Literal["Incomplete", "Refused", "NoRoom", "Undecided"]


def reason_of(gang: Gang, text: str, *, is_settled: bool) -> WaitingReason:
    """What is noted of a gang that waits, since its newest pod came."""
    since = datetime.fromtimestamp(max(0.0, min(gang.newest_s, 2.0**33)), UTC)
    return WaitingReason(since=since, text=text, cause=_cause(gang, is_settled), pods=max(1, len(gang.pods)))


def _cause(gang: Gang, is_settled: bool) -> Cause:
    if gang.objection:
        return "Refused"
    if gang.lacking:
        return "Incomplete"
    return "NoRoom" if is_settled else "Undecided"


def note_patch(pod: Pod, reason: WaitingReason | None) -> dict[str, object] | None:
    """The merge patch that has a pod say why its gang waits, or nothing; None where it says so already.

    It holds for this pod alone, of whatever version: it touches nothing that anybody else writes.
    """
    said = pod.annotations.get(WAITING_ANNOTATION)
    wanted = render_waiting(reason) if reason is not None else None
    if said == wanted or (said and wanted and parse_waiting(said) == parse_waiting(wanted)):
        return None
    return {"metadata": {"uid": pod.uid, "annotations": {WAITING_ANNOTATION: wanted}}}


def is_noted_only(before: Pod, after: Pod) -> bool:
    """Whether nothing of a pod has changed but what is noted there: no reason to look at anything anew."""
    if before.annotations.get(WAITING_ANNOTATION) == after.annotations.get(WAITING_ANNOTATION):
        return False
    as_before = replace(after, resource_version=before.resource_version, annotations=_without_note(after))
    return as_before == replace(before, annotations=_without_note(before))


def _without_note(pod: Pod) -> dict[str, str]:
    return {name: text for name, text in pod.annotations.items() if name != WAITING_ANNOTATION}
