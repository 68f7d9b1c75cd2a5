"""PersistentVolumes, their claims and classes, as far as they say on which nodes pods can be."""

from dataclasses import dataclass
from functools import lru_cache

from accelet.kube.objects import ObjectKey, RawObject, Wire, read_object, share_text
from accelet.kube.selection import (
    NodeTerm,
    Requirement,
    WireSelector,
    WireTerm,
    count_requirements,
    read_term,
)

MOST_REQUIREMENTS = 1000
"""Requirements and their values of one volume's node affinity; a larger one is not read."""

LONGEST_NAME = 253
"""Of any object. What claims name is text of their own, of any length."""

_ZONE_DELIMITER = "__"
_FIELD_OPERATORS = ("In", "NotIn")


@dataclass(frozen=True, slots=True)
class VolumeClaim:
    """A PersistentVolumeClaim. `volume` is the only volume that it can have; empty where that is open.

    `is_bound` says, as kube-scheduler reads it, that it has that volume. `is_lost` says that the volume is
    gone, `is_going` that the claim is being deleted. `volume_class` is the name of its StorageClass.
    """

    volume: str = ""
    is_bound: bool = False
    is_lost: bool = False
    is_going: bool = False
    volume_class: str = ""


@dataclass(frozen=True, slots=True)
class Volume:
    """A PersistentVolume, and the namespace and name of the claim whose it is.

    `affinity` are the alternatives of its required node affinity, None where it leaves every node, or is not
    read. `zones` are the zones and regions that its labels name, each as `key In values`.
    """

    claim: ObjectKey | None = None
    affinity: tuple[NodeTerm, ...] | None = None
    zones: tuple[Requirement, ...] = ()


@dataclass(frozen=True, slots=True)
class VolumeClass:
    """A StorageClass. With `waits_for_pod` its claims are bound once kube-scheduler knows a pod's node."""

    waits_for_pod: bool = False


class _WireClaimAnnotations(
    Wire,
    frozen=True,
    rename={
        "bind_completed": "pv.kubernetes.io/bind-completed",
        "storage_class": "volume.beta.kubernetes.io/storage-class",
    },
):
    bind_completed: str | None = None
    storage_class: str | None = None


class _WireClaimMetadata(Wire, frozen=True):
    deletion_timestamp: str | None = None
    annotations: _WireClaimAnnotations | None = None


class _WireClaimSpec(Wire, frozen=True):
    volume_name: str | None = None
    storage_class_name: str | None = None


class _WirePhase(Wire, frozen=True):
    phase: str | None = None


class _WireClaim(Wire, frozen=True):
    metadata: _WireClaimMetadata
    spec: _WireClaimSpec | None = None
    status: _WirePhase | None = None


class _WireZones(
    Wire,
    frozen=True,
    rename={
        "beta_zone": "failure-domain.beta.kubernetes.io/zone",
        "beta_region": "failure-domain.beta.kubernetes.io/region",
        "zone": "topology.kubernetes.io/zone",
        "region": "topology.kubernetes.io/region",
    },
):
    beta_zone: str | None = None
    beta_region: str | None = None
    zone: str | None = None
    region: str | None = None


class _WireVolumeMetadata(Wire, frozen=True):
    labels: _WireZones | None = None


class _WireClaimReference(Wire, frozen=True):
    namespace: str | None = None
    name: str | None = None


class _WireVolumeAffinity(Wire, frozen=True):
    required: WireSelector | None = None


class _WireSource(Wire, frozen=True):
    """Where a volume is from, of which nothing is read."""


class _WireVolumeSpec(Wire, frozen=True):
    claim_ref: _WireClaimReference | None = None
    node_affinity: _WireVolumeAffinity | None = None
    aws_elastic_block_store: _WireSource | None = None
    azure_disk: _WireSource | None = None
    azure_file: _WireSource | None = None
    cinder: _WireSource | None = None
    gce_persistent_disk: _WireSource | None = None
    portworx_volume: _WireSource | None = None
    vsphere_volume: _WireSource | None = None

    @property
    def is_migrated(self) -> bool:
        """Whether a CSI driver serves it where a node has one, by other labels than its affinity names."""
        sources = (
            *(self.aws_elastic_block_store, self.azure_disk, self.azure_file, self.cinder),
            *(self.gce_persistent_disk, self.portworx_volume, self.vsphere_volume),
        )
        return any(source is not None for source in sources)


class _WireVolume(Wire, frozen=True):
    metadata: _WireVolumeMetadata
    spec: _WireVolumeSpec | None = None


class _WireClass(Wire, frozen=True):
    volume_binding_mode: str | None = None


def parse_volume_claim(raw: RawObject) -> VolumeClaim:
    """
    Raises:
        MalformedObjectError: a field is not what the API promises.
    """
    wire = read_object(raw, "PersistentVolumeClaim", _WireClaim)
    said = wire.metadata.annotations or _WireClaimAnnotations()
    spec, status = wire.spec or _WireClaimSpec(), wire.status or _WirePhase()
    named = said.storage_class if said.storage_class is not None else spec.storage_class_name
    volume = _name(spec.volume_name)
    return VolumeClaim(
        volume=volume,
        is_bound=bool(volume) and said.bind_completed is not None,
        is_lost=status.phase == "Lost",
        is_going=wire.metadata.deletion_timestamp is not None,
        volume_class=share_text(_name(named)),
    )


def parse_volume(raw: RawObject) -> Volume:
    """The PersistentVolume that `raw` describes.

    Raises:
        MalformedObjectError: a field is not what the API promises.
    """
    wire = read_object(raw, "PersistentVolume", _WireVolume)
    spec, labels = wire.spec or _WireVolumeSpec(), wire.metadata.labels or _WireZones()
    whose = spec.claim_ref
    required = spec.node_affinity.required if spec.node_affinity else None
    zones = (
        ("failure-domain.beta.kubernetes.io/zone", labels.beta_zone),
        ("failure-domain.beta.kubernetes.io/region", labels.beta_region),
        ("topology.kubernetes.io/zone", labels.zone),
        ("topology.kubernetes.io/region", labels.region),
    )
    return Volume(
        claim=(share_text(whose.namespace or ""), _name(whose.name)) if whose else None,
        affinity=None if required is None or spec.is_migrated else _affinity(required),
        zones=tuple(Requirement(key, "In", values) for key, text in zones if (values := _zones(text))),
    )


def parse_volume_class(raw: RawObject) -> VolumeClass:
    """
    Raises:
        MalformedObjectError: a field is not what the API promises.
    """
    wire = read_object(raw, "StorageClass", _WireClass)
    return VolumeClass(wire.volume_binding_mode == "WaitForFirstConsumer")


def _name(text: str | None) -> str:
    """Longer than any name is the name of nothing, whatever comes after."""
    return (text or "")[: LONGEST_NAME + 1]


def _affinity(required: WireSelector) -> tuple[NodeTerm, ...] | None:
    """kube-scheduler knows none of a node's fields here, and leaves out what a volume requires of them."""
    wires = required.node_selector_terms or ()
    if sum(map(count_requirements, wires)) > MOST_REQUIREMENTS:
        return None
    terms = [read_term(wire) for wire in wires if _is_valid(wire)]
    if any(term.fields and not term.expressions for term in terms):
        return None
    return _share(tuple(NodeTerm(term.expressions) for term in terms if term.expressions))


@lru_cache(maxsize=1024)
def _share(terms: tuple[NodeTerm, ...]) -> tuple[NodeTerm, ...]:
    """The same object for all volumes of a zone."""
    return terms


def _is_valid(wire: WireTerm) -> bool:
    fields = wire.match_fields or ()
    return all(one.operator in _FIELD_OPERATORS and len(one.values or ()) == 1 for one in fields)


def _zones(text: str | None) -> tuple[str, ...]:
    """The zones that a label names; none where kube-scheduler cannot read it either."""
    zones = [zone.strip() for zone in (text or "").split(_ZONE_DELIMITER)]
    return tuple(sorted(set(zones))) if all(zones) else ()
