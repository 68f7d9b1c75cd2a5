"""Which claims a pod uses, in its order: the order in which kube-scheduler gives them devices."""

from dataclasses import dataclass
from typing import Final

from accelet.kube.errors import MalformedObjectError
from accelet.kube.objects import ObjectKey, RawObject, Wire, WireObject, read_object

MOST_CLAIMS: Final = 256
"""Of a pod; nobody uses more than a few."""


@dataclass(frozen=True, slots=True)
class PodClaim:
    """One entry: `claim` is the ResourceClaim, None while there is none; `template` is what it is made of."""

    name: str
    claim: str | None = None
    template: str | None = None


@dataclass(frozen=True, slots=True)
class ClaimingPod:
    """A pod and the claims it uses; `node` once it is bound."""

    namespace: str
    name: str
    uid: str = ""
    node: str | None = None
    claims: tuple[PodClaim, ...] = ()
    has_ended: bool = False

    @property
    def key(self) -> ObjectKey:
        return self.namespace, self.name


class _WireUsed(Wire, frozen=True):
    name: str
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class _WireSpec(Wire, frozen=True):
    node_name: str | None = None
    resource_claims: list[_WireUsed] | None = None


class _WireStatus(Wire, frozen=True):
    phase: str | None = None
    resource_claim_statuses: list[_WireUsed] | None = None


class _WirePod(WireObject, frozen=True):
    spec: _WireSpec
    status: _WireStatus | None = None


def parse_claiming_pod(raw: RawObject) -> ClaimingPod:
    """The pod that `raw` describes, as far as its claims go.

    Raises:
        MalformedObjectError: a field is not what the API promises, or there are more than MOST_CLAIMS.
    """
    wire = read_object(raw, "Pod", _WirePod)
    metadata, status = wire.metadata, wire.status or _WireStatus()
    used = wire.spec.resource_claims or []
    if len(used) > MOST_CLAIMS:
        raise MalformedObjectError(
            "Pod", metadata.namespace or "", metadata.name, "spec.resourceClaims", f"there are {len(used)}"
        )
    made = {one.name: one.resource_claim_name for one in (status.resource_claim_statuses or ())[:MOST_CLAIMS]}
    return ClaimingPod(
        metadata.namespace or "default",
        metadata.name,
        metadata.uid or "",
        wire.spec.node_name or None,
        tuple(
            PodClaim(
                one.name, one.resource_claim_name or made.get(one.name), one.resource_claim_template_name
            )
            for one in used
        ),
        status.phase in {"Succeeded", "Failed"},
    )
