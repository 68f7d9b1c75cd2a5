"""What Kueue says of a task's Job that it holds: values in, one sentence out."""

from collections.abc import Iterable, Sequence
from typing import Final

from accelet.kube.errors import ApiError, MalformedObjectError
from accelet.kube.objects import RawObject, Wire, WireObject, read_object
from accelet.scheduler.admission.kueue import MOST_POD_SETS

JOB_UID: Final = "kueue.x-k8s.io/job-uid"
"""The label by which Kueue says on a Workload for which Job it is."""

UNSEEN: Final = "Kueue has made no Workload of its Job yet: does Kueue run, and is there such a queue?"
UNSERVED: Final = "the cluster serves no Workloads of kueue.x-k8s.io/v1beta2: does Kueue run?"
UNREADABLE: Final = "what Kueue says of it cannot be read: you may not list Workloads"

_LONGEST: Final = 900


class _WireCondition(Wire, frozen=True):
    type: str
    status: str
    message: str | None = None


class _WireCheck(Wire, frozen=True):
    name: str
    state: str
    message: str | None = None


class _WireSpec(Wire, frozen=True):
    active: bool | None = None


class _WireStatus(Wire, frozen=True):
    conditions: list[_WireCondition] | None = None
    admission_checks: list[_WireCheck] | None = None


class _WireWorkload(WireObject, frozen=True):
    spec: _WireSpec | None = None
    status: _WireStatus | None = None


def say_queued(raws: Iterable[RawObject]) -> str:
    """Why Kueue holds a Job, by its Workload: without quota, or with quota and a check that is not ready.

    Kueue's own words, cut to a bounded length. Empty where the Workload is admitted.
    """
    for raw in raws:
        try:
            workload = read_object(raw, "Workload", _WireWorkload)
        except MalformedObjectError:
            continue
        if workload.metadata.deletion_timestamp is None:
            return " ".join(_say(workload).split())[:_LONGEST]
    return UNSEEN


def say_unanswered(error: ApiError) -> str:
    """Why there is nothing that Kueue says, where the API server cannot list its Workloads."""
    said = error.message or error.reason
    return " ".join(f"what Kueue says of it cannot be read: {said}".split())[:_LONGEST]


def _say(workload: _WireWorkload) -> str:
    status = workload.status or _WireStatus()
    held = {one.type: one for one in status.conditions or ()}
    true = {kind for kind, one in held.items() if one.status == "True"}
    if workload.spec is not None and workload.spec.active is False:
        why = held["Evicted"].message if "Evicted" in true else ""
        return f"its Workload is not active{f': {why}' if why else ''}"
    if "QuotaReserved" not in true:
        said = held.get("QuotaReserved") or held.get("Admitted")
        return f"it has no quota: {said.message}" if said is not None and said.message else "it has no quota"
    if "Admitted" in true:
        return ""
    waits = [_say_check(one) for one in status.admission_checks or () if one.state != "Ready"]
    return f"it has quota, and waits for {_few(waits)}" if waits else "it has quota, and is not admitted yet"


def _say_check(check: _WireCheck) -> str:
    said = f"the check {check.name}, which is {check.state}"
    return f"{said}: {check.message}" if check.message else said


def _few(said: Sequence[str]) -> str:
    return "; ".join(said[:MOST_POD_SETS])
