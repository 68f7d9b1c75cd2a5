"""A Lease as a value, and what a candidate does about it."""

from dataclasses import dataclass, replace

from accelet.kube.apiresources import LEASES
from accelet.kube.objects import RawObject, Wire, WireObject, read_object


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """Who holds a Lease. `holder` is empty when it was given back; times are the API's texts."""

    holder: str
    duration_s: int
    acquired: str
    renewed: str
    transitions: int = 0
    resource_version: str = ""

    def to_body(self, namespace: str, name: str) -> dict[str, object]:
        """The object to write; the API server refuses it unless it is still of this version."""
        metadata = {"namespace": namespace, "name": name}
        if self.resource_version:
            metadata["resourceVersion"] = self.resource_version
        return {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": metadata,
            "spec": {
                "holderIdentity": self.holder,
                "leaseDurationSeconds": self.duration_s,
                "acquireTime": self.acquired,
                "renewTime": self.renewed,
                "leaseTransitions": self.transitions,
            },
        }


@dataclass(frozen=True, slots=True)
class Observation:
    """A record, and when this candidate first saw it so, on its own clock. Other clocks are not trusted."""

    record: LeaseRecord | None
    since_s: float


@dataclass(frozen=True, slots=True)
class Wait:
    """Somebody else leads."""


@dataclass(frozen=True, slots=True)
class Take:
    """Nobody leads any more: become the holder."""

    def next_record(self, record: LeaseRecord | None, me: str, duration_s: int, now: str) -> LeaseRecord:
        version = record.resource_version if record else ""
        transitions = record.transitions + 1 if record else 0
        return LeaseRecord(me, duration_s, now, now, transitions, version)


@dataclass(frozen=True, slots=True)
class Renew:
    """It is ours: say so again."""

    def next_record(self, record: LeaseRecord | None, me: str, duration_s: int, now: str) -> LeaseRecord:
        if record is None:
            return LeaseRecord(me, duration_s, now, now)
        return replace(record, duration_s=duration_s, renewed=now)


def observe(seen: Observation | None, record: LeaseRecord | None, now_s: float) -> Observation:
    """The observation after a look at the lease."""
    return seen if seen is not None and seen.record == record else Observation(record, now_s)


def decide(seen: Observation, me: str, now_s: float) -> Wait | Take | Renew:
    """What candidate `me` does. A lease is free when unchanged for its duration by our own clock."""
    record = seen.record
    if record is None or not record.holder:
        return Take()
    if record.holder == me:
        return Renew()
    return Take() if now_s >= seen.since_s + record.duration_s else Wait()


class _WireSpec(Wire, frozen=True):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class _WireLease(WireObject, frozen=True):
    spec: _WireSpec | None = None


def parse_lease(raw: RawObject) -> LeaseRecord:
    """
    Raises:
        MalformedObjectError: a field is not what the API promises.
    """
    wire = read_object(raw, "Lease", _WireLease)
    spec = wire.spec or _WireSpec()
    return LeaseRecord(
        holder=spec.holder_identity or "",
        duration_s=spec.lease_duration_seconds or 0,
        acquired=spec.acquire_time or "",
        renewed=spec.renew_time or "",
        transitions=spec.lease_transitions or 0,
        resource_version=wire.metadata.resource_version or "",
    )
