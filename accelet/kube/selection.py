"""What pods say about nodes and nodes about pods: selectors, taints, tolerations."""

from dataclasses import dataclass

from accelet.kube.objects import Wire


@dataclass(frozen=True, slots=True)
class Requirement:
    """`key operator values`: In, NotIn, Exists, DoesNotExist, Gt or Lt."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeTerm:
    """A nodeSelectorTerm: all of it must hold. Without any requirement it matches no node.

    `fields` knows one key, `metadata.name`.
    """

    expressions: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()


@dataclass(frozen=True, slots=True)
class PreferredTerm:
    """A term that is liked with a weight of 1 to 100."""

    weight: int
    term: NodeTerm


@dataclass(frozen=True, slots=True)
class Toleration:
    """An empty `key` with Exists tolerates every taint, an empty `effect` every effect.

    `operator` is Exists, Equal, or (where the cluster has them) Lt or Gt.
    """

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


@dataclass(frozen=True, slots=True)
class Taint:
    """`effect` is NoSchedule, PreferNoSchedule or NoExecute."""

    key: str
    effect: str
    value: str = ""


class WireRequirement(Wire, frozen=True):
    key: str
    operator: str
    values: list[str] | None = None


class WireTerm(Wire, frozen=True):
    match_expressions: list[WireRequirement] | None = None
    match_fields: list[WireRequirement] | None = None


class WirePreferred(Wire, frozen=True):
    weight: int
    preference: WireTerm


class WireSelector(Wire, frozen=True):
    node_selector_terms: list[WireTerm] | None = None


class WireNodeAffinity(
    Wire,
    frozen=True,
    rename={
        "required": "requiredDuringSchedulingIgnoredDuringExecution",
        "preferred": "preferredDuringSchedulingIgnoredDuringExecution",
    },
):
    required: WireSelector | None = None
    preferred: list[WirePreferred] | None = None


class WireToleration(Wire, frozen=True):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


class WireTaint(Wire, frozen=True):
    key: str
    effect: str
    value: str | None = None


def read_term(wire: WireTerm) -> NodeTerm:
    return NodeTerm(_read_requirements(wire.match_expressions), _read_requirements(wire.match_fields))


def read_tolerations(wire: list[WireToleration] | None) -> tuple[Toleration, ...]:
    return tuple(
        Toleration(t.key or "", t.operator or "Equal", t.value or "", t.effect or "") for t in wire or ()
    )


def read_taints(wire: list[WireTaint] | None) -> tuple[Taint, ...]:
    return tuple(Taint(t.key, t.effect, t.value or "") for t in wire or ())


def _read_requirements(wire: list[WireRequirement] | None) -> tuple[Requirement, ...]:
    return tuple(Requirement(r.key, r.operator, tuple(r.values or ())) for r in wire or ())
