"""Which of its pod's claims each container uses, read from the pod."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import msgspec

from accelet.dra.errors import ClaimError
from accelet.kube.errors import MalformedObjectError
from accelet.kube.objects import RawObject, Wire, WireObject, read_object

WHOLE = None
"""In place of a request's name: the container names the claim without any."""


@dataclass(frozen=True, slots=True)
class ClaimUse:
    """A container's use of a claim; `requests` has WHOLE where the claim is named without a request."""

    container: str
    claim: str
    requests: frozenset[str | None]


class _WireReference(Wire, frozen=True):
    name: str
    request: str | None = None


class _WireResources(Wire, frozen=True):
    claims: list[_WireReference] | None = None
    limits: dict[str, str | int] | None = None


class _WireContainer(Wire, frozen=True):
    name: str
    resources: _WireResources | None = None


class _WirePodClaim(Wire, frozen=True):
    name: str
    resource_claim_name: str | None = None


class _WireGroup(Wire, frozen=True):
    pod_group_name: str | None = None


class _WireSpec(Wire, frozen=True):
    containers: list[_WireContainer]
    scheduling_group: _WireGroup | None = None
    init_containers: list[_WireContainer] | None = None
    resource_claims: list[_WirePodClaim] | None = None


class _WireMapping(Wire, frozen=True):
    container_name: str
    request_name: str
    resource_name: str = ""


class _WireExtended(Wire, frozen=True):
    resource_claim_name: str
    request_mappings: list[_WireMapping] | None = None


class _WireStatus(Wire, frozen=True):
    resource_claim_statuses: list[_WirePodClaim] | None = None
    extended: _WireExtended | None = msgspec.field(name="extendedResourceClaimStatus", default=None)


class _WirePod(WireObject, frozen=True):
    spec: _WireSpec
    status: _WireStatus | None = None


@dataclass(frozen=True, slots=True)
class ConsumerPod:
    """A pod and what its containers use of which claims, by the claims' own names.

    `by_plugin` are, by container, the extended resources that no claim of the pod stands for. `group` is the
    PodGroup that it belongs to, empty for none.
    """

    name: str
    uid: str
    uses: tuple[ClaimUse, ...]
    by_plugin: Mapping[str, frozenset[str]] = field(default_factory=lambda: MappingProxyType({}))
    group: str = ""


def parse_consumer(raw: RawObject) -> ConsumerPod:
    """The pod's uses of claims.

    Raises:
        ClaimError: it is not what the API promises.
    """
    try:
        wire = read_object(raw, "Pod", _WirePod)
    except MalformedObjectError as error:
        raise ClaimError(str(error)[:500]) from None
    status = wire.status or _WireStatus()
    named = {one.name: one.resource_claim_name for one in status.resource_claim_statuses or ()}
    named |= {
        one.name: one.resource_claim_name
        for one in wire.spec.resource_claims or ()
        if one.resource_claim_name
    }
    containers = [*(wire.spec.init_containers or ()), *wire.spec.containers]
    found: dict[tuple[str, str], set[str | None]] = {}
    for container, claim, request in (*_references(containers, named), *_mapped(status.extended)):
        found.setdefault((container, claim), set()).add(request)
    uses = tuple(ClaimUse(container, claim, frozenset(asked)) for (container, claim), asked in found.items())
    by_plugin = _find_by_plugin(containers, status.extended)
    group = (wire.spec.scheduling_group or _WireGroup()).pod_group_name or ""
    return ConsumerPod(wire.metadata.name, wire.metadata.uid or "", uses, by_plugin, group)


def _find_by_plugin(
    containers: Sequence[_WireContainer], extended: _WireExtended | None
) -> Mapping[str, frozenset[str]]:
    mappings = (extended.request_mappings if extended is not None else None) or ()
    claimed = {mapping.resource_name for mapping in mappings}
    return {
        container.name: frozenset(
            name
            for name, amount in ((container.resources or _WireResources()).limits or {}).items()
            if "/" in name and str(amount) != "0" and name not in claimed
        )
        for container in containers
    }


def _references(
    containers: Sequence[_WireContainer], named: Mapping[str, str | None]
) -> Iterator[tuple[str, str, str | None]]:
    for container in containers:
        for reference in (container.resources or _WireResources()).claims or ():
            claim = named.get(reference.name)
            if claim is not None:
                yield container.name, claim, reference.request or WHOLE


def _mapped(extended: _WireExtended | None) -> Iterator[tuple[str, str, str | None]]:
    if extended is not None:
        for mapping in extended.request_mappings or ():
            yield mapping.container_name, extended.resource_claim_name, mapping.request_name
