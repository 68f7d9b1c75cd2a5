"""SliceRequests as the API server has them, and the status that a decision's record becomes."""

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Final, Literal

import msgspec

from accelet.kinds.slicerequest import FINALIZER, SliceCondition, SliceRequestSpec, SliceRequestStatus
from accelet.kube.objects import RawObject, WireMetadata, WireObject, read_object
from accelet.provisioner.deciding.view import SliceRecord

FORCE: Final = "accelet.dev/force-delete"
"""The annotation by which a person lets a slice be deleted under its running pods: `"true"`."""

_READY: Final = "Ready"
_NO_SERVICE: Final = "ServiceMissing"
_DRIFT: Final = "Drifted"
_SILENT: Final = "ProviderSilent"
_DOUBT: Final = "PoolInDoubt"
_STAYING: Final = "PodsRemain"
_UNDELETABLE: Final = "DeleteRefused"
_SLOW: Final = "ProviderSlow"
_UNUSED: Final = "Unused"
_OURS: Final = frozenset(
    (_READY, _NO_SERVICE, _DRIFT, _SILENT, _DOUBT, _STAYING, _UNDELETABLE, _SLOW, _UNUSED)
)
_MOST_TEXT: Final = 1024


@dataclass(frozen=True)
class SliceRequest:
    """One SliceRequest. `status` is what the API server has of it, `record` the same for decisions."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    finalizers: tuple[str, ...]
    is_deleted: bool
    is_forced: bool
    spec: SliceRequestSpec
    status: SliceRequestStatus

    @property
    def key(self) -> tuple[str, str]:
        return self.namespace, self.name

    @property
    def set_key(self) -> tuple[str, str]:
        return self.namespace, self.spec.slice_set.name

    @cached_property
    def record(self) -> SliceRecord:
        status = self.status
        return SliceRecord(
            phase=status.phase,
            why=status.why,
            since_s=_seconds(status.since),
            attempt=status.attempt,
            tried=status.tried,
            rounds=status.rounds,
            pool=status.pool,
            tier=status.tier,
            zone=status.zone,
            sent=status.sent,
            sent_s=_seconds(status.sent_at),
            retry_s=_seconds(status.retry_at),
            refusals=status.refusals,
            dry_tiers=status.dry_tiers,
            parked_s=_seconds(status.parked_at),
            taker=status.taker,
            asks_of=status.asks_of,
            mark=status.mark,
            no_room=status.no_room,
            came=status.came,
            progress_s=_seconds(status.progress_at),
            held_s=_seconds(status.held_at),
            doubted_s=_seconds(status.doubted_at),
            doubt=self._found(_DOUBT),
            asked_end_s=_seconds(status.asked_end_at),
            staying=self._found(_STAYING),
            refused_s=_seconds(status.refused_at),
            was_ready=status.was_ready,
            undeletable=self._found(_UNDELETABLE),
            slow=self._found(_SLOW),
            idle_s=_seconds(status.idle_at),
            unused=self._found(_UNUSED),
            is_lapsed=status.is_lapsed,
            no_service=self._found(_NO_SERVICE),
            drift=self._found(_DRIFT),
            silent=self._found(_SILENT),
        )

    @property
    def problems(self) -> tuple[tuple[str, str], ...]:
        """What is found of it beside how far it is: types and messages of conditions that are True."""
        found = (one for one in self.status.conditions if one.type in _OURS and one.type != _READY)
        return tuple((one.type, one.message) for one in found if one.status == "True")

    def _found(self, condition: str) -> str:
        known = _condition(self.status, condition)
        return known.message if known is not None and known.status == "True" else ""


class _WireMetadata(WireMetadata, frozen=True):
    finalizers: list[str] | None = None


class _WireSliceRequest(WireObject, frozen=True):
    metadata: _WireMetadata
    spec: SliceRequestSpec
    status: SliceRequestStatus | None = None


def parse_request(raw: RawObject) -> SliceRequest:
    """The SliceRequest that `raw` describes.

    Raises:
        MalformedObjectError: a field is not what the kind promises.
    """
    wire = read_object(raw, "SliceRequest", _WireSliceRequest)
    metadata = wire.metadata
    return SliceRequest(
        namespace=metadata.namespace or "default",
        name=metadata.name,
        uid=metadata.uid or "",
        resource_version=metadata.resource_version or "",
        finalizers=tuple(metadata.finalizers or ()),
        is_deleted=metadata.deletion_timestamp is not None,
        is_forced=(metadata.annotations or {}).get(FORCE) == "true",
        spec=wire.spec,
        status=wire.status or SliceRequestStatus(),
    )


def status_of(record: SliceRecord, hosts: str, before: SliceRequestStatus) -> dict[str, Any]:
    """The status that says `record`, as JSON has it; times are kept to the microsecond."""
    ready = _condition(before, _READY)
    truth: Literal["True", "False"] = "True" if record.phase == "Ready" else "False"
    if ready is None or ready.status != truth:
        ready = SliceCondition(
            type=_READY, status=truth, last_transition_time=_time(record.since_s) or datetime.now(UTC)
        )
    ready = msgspec.structs.replace(ready, reason=record.phase, message=record.why[:_MOST_TEXT])
    status = SliceRequestStatus(
        phase=record.phase,
        why=record.why[:_MOST_TEXT],
        since=_time(record.since_s),
        attempt=record.attempt,
        tried=record.tried,
        rounds=record.rounds,
        pool=record.pool,
        tier=record.tier,
        zone=record.zone,
        sent=record.sent,
        sent_at=_time(record.sent_s),
        retry_at=_time(record.retry_s),
        refusals=record.refusals,
        dry_tiers=record.dry_tiers,
        parked_at=_time(record.parked_s),
        taker=record.taker,
        asks_of=record.asks_of,
        mark=record.mark,
        no_room=record.no_room,
        came=record.came,
        progress_at=_time(record.progress_s),
        held_at=_time(record.held_s),
        doubted_at=_time(record.doubted_s),
        asked_end_at=_time(record.asked_end_s),
        refused_at=_time(record.refused_s),
        was_ready=record.was_ready,
        idle_at=_time(record.idle_s),
        is_lapsed=record.is_lapsed,
        hosts=hosts,
        conditions=(
            ready,
            *_finding(before, _NO_SERVICE, record.no_service),
            *_finding(before, _DRIFT, record.drift),
            *_finding(before, _SILENT, record.silent),
            *_finding(before, _DOUBT, record.doubt),
            *_finding(before, _STAYING, record.staying),
            *_finding(before, _UNDELETABLE, record.undeletable),
            *_finding(before, _SLOW, record.slow),
            *_finding(before, _UNUSED, record.unused),
            *(one for one in before.conditions if one.type not in _OURS),
        ),
    )
    rendered: dict[str, Any] = msgspec.to_builtins(status)
    return rendered


def _condition(status: SliceRequestStatus, kind: str) -> SliceCondition | None:
    return next((one for one in status.conditions if one.type == kind), None)


def _finding(before: SliceRequestStatus, kind: str, message: str) -> tuple[SliceCondition, ...]:
    """The condition that says what is found; none where nothing ever was."""
    known = _condition(before, kind)
    if known is None and not message:
        return ()
    truth: Literal["True", "False"] = "True" if message else "False"
    since = datetime.now(UTC) if known is None or known.status != truth else known.last_transition_time
    reason = "Found" if message else "NotFound"
    return (
        SliceCondition(
            type=kind, status=truth, last_transition_time=since, reason=reason, message=message[:_MOST_TEXT]
        ),
    )


def finalizer_patch(request: SliceRequest) -> dict[str, Any] | None:
    """The merge patch that lets a SliceRequest go; None if nothing of ours holds it."""
    if FINALIZER not in request.finalizers:
        return None
    rest = [one for one in request.finalizers if one != FINALIZER]
    return {"metadata": {"resourceVersion": request.resource_version, "finalizers": rest}}


def _seconds(time: datetime | None) -> float:
    return 0.0 if time is None else time.timestamp()


def _time(seconds: float) -> datetime | None:
    return datetime.fromtimestamp(round(seconds, 6), UTC) if seconds else None
