"""A ResourceClaim, as far as its allocation concerns one driver; read strictly: tenants write it."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import msgspec

from accelet.dra.errors import ClaimError
from accelet.kube.apiresources import ApiResource
from accelet.kube.errors import MalformedObjectError, QuantityError
from accelet.kube.objects import RawObject, Wire, WireMetadata, WireObject, read_object
from accelet.kube.quantity import parse_quantity

RESOURCE_CLAIMS = ApiResource("ResourceClaim", "resourceclaims", "resource.k8s.io", "v1")

POD_GROUPS = ("scheduling.k8s.io", "podgroups")
"""API group and resource of a consumer that stands for all pods of a PodGroup (KEP-5729)."""

MOST_RESULTS = 32
MOST_CONSUMERS = 256
LARGEST_AMOUNT = 2**63 - 1

_EXTENDED = "resource.kubernetes.io/extended-resource-claim"


@dataclass(frozen=True, slots=True)
class Result:
    """One device that was allocated. `amounts` are what is consumed of it.

    `request` is the name before a `/`, `alternative` what comes after it: which of `firstAvailable` it is.
    """

    request: str
    pool: str
    device: str
    share: str | None = None
    amounts: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    is_admin: bool = False
    alternative: str = ""

    @property
    def names(self) -> frozenset[str]:
        """What a configuration may call it: all alternatives of its request, or this one."""
        return frozenset({self.request, f"{self.request}/{self.alternative}"})


@dataclass(frozen=True, slots=True)
class OpaqueConfig:
    """Parameters for this driver, raw JSON, not yet judged.

    They are for `requests`, each a request or one of its alternatives (`request/alternative`); for all where
    none is named.
    """

    requests: tuple[str, ...]
    parameters: bytes
    is_from_class: bool


@dataclass(frozen=True, slots=True)
class Consumer:
    """A pod the claim is reserved for."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class AllocatedClaim:
    """A claim with what this driver has to give for it, in the order of the allocation.

    `digest` tells one allocation of a claim from another. `owner` is the UID of the pod that the claim was
    made for and lives with; None for claims that any pod may use, or any pod of a PodGroup. `requests` are
    all of the allocation, other drivers' included. `groups` are the PodGroups, by name, that it is reserved
    for.
    """

    namespace: str
    name: str
    uid: str
    results: tuple[Result, ...]
    configs: tuple[OpaqueConfig, ...]
    consumers: tuple[Consumer, ...]
    owner: str | None
    is_extended: bool
    digest: str
    groups: tuple[str, ...] = ()


class _WireResult(Wire, frozen=True):
    request: str
    driver: str
    pool: str
    device: str
    share_id: str | None = msgspec.field(name="shareID", default=None)
    consumed_capacity: dict[str, str | int] | None = None
    admin_access: bool | None = None


class _WireOpaque(Wire, frozen=True):
    driver: str
    parameters: msgspec.Raw


class _WireConfig(Wire, frozen=True):
    source: str | None = None
    requests: list[str] | None = None
    opaque: _WireOpaque | None = None


class _WireDevices(Wire, frozen=True):
    results: list[_WireResult] | None = None
    config: list[_WireConfig] | None = None


class _WireAllocation(Wire, frozen=True):
    devices: _WireDevices | None = None


class _WireConsumer(Wire, frozen=True):
    resource: str
    name: str
    uid: str
    api_group: str | None = None


class _WireStatus(Wire, frozen=True):
    allocation: _WireAllocation | None = None
    reserved_for: list[_WireConsumer] | None = None


class _WireClaim(WireObject, frozen=True):
    status: _WireStatus | None = None


def parse_claim(raw: RawObject, driver: str) -> AllocatedClaim:
    """The claim with its allocation for `driver`.

    Raises:
        ClaimError: it is not allocated, or not what the API promises.
    """
    try:
        wire = read_object(raw, RESOURCE_CLAIMS.kind, _WireClaim)
    except MalformedObjectError as error:
        raise ClaimError(str(error)[:500]) from None
    status, metadata = wire.status or _WireStatus(), wire.metadata
    if status.allocation is None:
        raise ClaimError("the claim is not allocated")
    devices = status.allocation.devices or _WireDevices()
    reserved_for = status.reserved_for or ()
    consumers = [one for one in reserved_for if one.resource == "pods"]
    groups = [one.name for one in reserved_for if (one.api_group, one.resource) == POD_GROUPS]
    if len(devices.results or ()) > MOST_RESULTS or len(reserved_for) > MOST_CONSUMERS:
        raise ClaimError("the claim has more devices or consumers than Kubernetes allows")
    results = tuple(_read_result(one, driver) for one in devices.results or () if one.driver == driver)
    owners = [one.uid for one in metadata.owner_references or () if one.kind == "Pod" and one.controller]
    return AllocatedClaim(
        namespace=metadata.namespace or "",
        name=metadata.name,
        uid=metadata.uid or "",
        results=results,
        configs=tuple(_read_configs(devices.config or (), driver)),
        consumers=tuple(Consumer(one.name, one.uid) for one in consumers),
        owner=owners[0] if owners else None,
        is_extended=_is_extended(metadata),
        digest=_digest(results),
        groups=tuple(groups),
    )


def parse_held(raw: RawObject, driver: str) -> AllocatedClaim | None:
    """The same of a claim among many; None where nothing of `driver` is allocated to it.

    Raises:
        MalformedObjectError: it is not what the API promises.
    """
    wire = read_object(raw, RESOURCE_CLAIMS.kind, _WireClaim)
    allocation = wire.status.allocation if wire.status else None
    results = allocation.devices.results if allocation and allocation.devices else None
    if not any(result.driver == driver for result in results or ()):
        return None
    try:
        return parse_claim(raw, driver)
    except ClaimError as error:
        namespace, name = wire.metadata.namespace or "", wire.metadata.name
        raise MalformedObjectError(RESOURCE_CLAIMS.kind, namespace, name, "status", str(error)) from None


def _is_extended(metadata: WireMetadata) -> bool:
    return (metadata.annotations or {}).get(_EXTENDED) == "true"


def _read_result(wire: _WireResult, driver: str) -> Result:
    amounts = {
        name.removeprefix(f"{driver}/"): _read_amount(name, text)
        for name, text in (wire.consumed_capacity or {}).items()
    }
    request, _, alternative = wire.request.partition("/")
    is_admin = bool(wire.admin_access)
    return Result(request, wire.pool, wire.device, wire.share_id, amounts, is_admin, alternative)


def _read_amount(name: str, text: str | int) -> int:
    try:
        amount = parse_quantity(str(text))
    except QuantityError:
        raise ClaimError(f"the claim's allocation has an amount of {name[:64]!r} that is none") from None
    if amount != int(amount) or not 0 <= amount <= LARGEST_AMOUNT:
        raise ClaimError(f"the claim's allocation has an impossible amount of {name[:64]!r}")
    return int(amount)


def _read_configs(configs: Sequence[_WireConfig], driver: str) -> list[OpaqueConfig]:
    return [
        OpaqueConfig(
            tuple(one.requests or ()),
            bytes(one.opaque.parameters),
            one.source == "FromClass",
        )
        for one in configs
        if one.opaque is not None and one.opaque.driver == driver
    ]


def _digest(results: Sequence[Result]) -> str:
    told = [(r.request, r.pool, r.device, r.share, sorted(r.amounts.items()), r.is_admin) for r in results]
    return hashlib.sha256(msgspec.json.encode(told)).hexdigest()[:16]
