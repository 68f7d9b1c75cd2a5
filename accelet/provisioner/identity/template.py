"""What a pod, or a template of pods, says of TPUs and of its workers' identity."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from accelet.kube.errors import QuantityError
from accelet.kube.objects import Wire, no_labels
from accelet.kube.quantity import parse_quantity
from accelet.kube.selection import NodeTerm, Requirement
from accelet.provisioner.demand.selectors import ACCELERATOR, TOPOLOGY, plain
from accelet.provisioner.identity.hosts import host_table
from accelet.provisioner.identity.names import (
    APP,
    HOSTNAMES,
    KUBERAY,
    LEADER_WORKER_SET,
    OFF,
    TPU,
    TPU_ENV,
    UNSET,
    WORKER_ID,
)

_MOST_DIGITS: Final = 3


@dataclass(frozen=True, slots=True)
class EnvEntry:
    """One entry of a container's `env`; `value` is None where it comes from elsewhere (`valueFrom`)."""

    name: str
    value: str | None


@dataclass(frozen=True, slots=True)
class TpuContainer:
    """A container that asks for chips. `place` is its path in the pod's spec, `amount` as it was written."""

    place: str
    amount: str
    env: tuple[EnvEntry, ...] = ()

    def names(self) -> frozenset[str]:
        return frozenset(one.name for one in self.env)

    def sets_hostnames(self, *, alone: bool = False) -> bool:
        """Whether the author's TPU_WORKER_HOSTNAMES stands; `alone`: there is no other worker to name."""
        given = [one.value for one in self.env if one.name == HOSTNAMES]
        return any(alone or value is None or value not in UNSET for value in given)

    def sets_id(self, *, alone: bool = False) -> bool:
        """Whether the author's TPU_WORKER_ID stands. Beside names that do not, `0` does not either."""
        replaced = HOSTNAMES in self.names() and not self.sets_hostnames(alone=alone)
        unset = ("", "0") if replaced else ("",)
        given = [one.value for one in self.env if one.name == WORKER_ID]
        return any(alone or value is None or value not in unset for value in given)


@dataclass(frozen=True, slots=True)
class TpuTemplate:
    """The labels, annotations and TPU containers of a pod or of a template; texts are empty where unset.

    Containers that run beside the others count, init containers that end do not.
    """

    accelerator: str = ""
    topology: str = ""
    containers: tuple[TpuContainer, ...] = ()
    hostname: str = ""
    subdomain: str = ""
    labels: Mapping[str, str] = field(default_factory=no_labels)
    annotations: Mapping[str, str] = field(default_factory=no_labels)

    @property
    def is_left_alone(self) -> bool:
        """Whether nobody here has a say: it wants no TPUs, does not want ours, or others see to it."""
        return (
            not self.containers
            or LEADER_WORKER_SET in self.labels
            or self.labels.get(APP) == KUBERAY
            or self.annotations.get(TPU_ENV) == OFF
        )

    @property
    def is_known(self) -> bool:
        """Whether it says which slice it is for."""
        return bool(self.accelerator and self.topology)

    @property
    def is_own(self) -> bool:
        """Whether its author has given every worker an identity."""
        return all(one.sets_id() and one.sets_hostnames() for one in self.containers)

    @property
    def chips(self) -> str:
        """The chips of a pod: their sum, `?` where that is no number."""
        amounts = [one.amount for one in self.containers]
        if len(amounts) == 1:
            return amounts[0]
        return str(sum(map(int, amounts))) if all(map(_is_number, amounts)) else "?"

    @property
    def hosts(self) -> int:
        """The hosts of its slice, 0 where no slice is like that."""
        return host_table().hosts.get(f"{self.accelerator} {self.topology} {self.chips}", 0)


class _WireEnv(Wire, frozen=True):
    name: str
    value: str | None = None
    value_from: object = None


class _WireAmounts(Wire, frozen=True):
    limits: dict[str, str | int] | None = None
    requests: dict[str, str | int] | None = None


class _WireContainer(Wire, frozen=True):
    resources: _WireAmounts | None = None
    env: list[_WireEnv] | None = None
    restart_policy: str | None = None


class _WireExpression(Wire, frozen=True):
    key: str
    operator: str
    values: list[str] | None = None


class _WireTerm(Wire, frozen=True):
    match_expressions: list[_WireExpression] | None = None


class _WireRequired(Wire, frozen=True):
    node_selector_terms: list[_WireTerm] | None = None


class _WireNodeAffinity(Wire, frozen=True):
    required: _WireRequired | None = msgspec.field(
        name="requiredDuringSchedulingIgnoredDuringExecution", default=None
    )


class _WireAffinity(Wire, frozen=True):
    node_affinity: _WireNodeAffinity | None = None


class WirePodSpec(Wire, frozen=True):
    """The parts of a pod's spec that matter here."""

    containers: list[_WireContainer]
    init_containers: list[_WireContainer] | None = None
    node_selector: dict[str, str] | None = None
    affinity: _WireAffinity | None = None
    hostname: str | None = None
    subdomain: str | None = None


class WireMarks(Wire, frozen=True):
    """The metadata of a template."""

    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class WirePodTemplate(Wire, frozen=True):
    """A template of pods."""

    spec: WirePodSpec
    metadata: WireMarks | None = None


def read_template(
    spec: WirePodSpec, labels: Mapping[str, str] | None, annotations: Mapping[str, str] | None
) -> TpuTemplate:
    """The template as a value."""
    selector = {**plain(_required_terms(spec)), **(spec.node_selector or {})}
    beside = [
        (f"initContainers/{index}", one)
        for index, one in enumerate(spec.init_containers or ())
        if one.restart_policy == "Always"
    ]
    placed = [(f"containers/{index}", one) for index, one in enumerate(spec.containers)] + beside
    return TpuTemplate(
        accelerator=selector.get(ACCELERATOR, ""),
        topology=selector.get(TOPOLOGY, ""),
        containers=tuple(_read_container(place, one) for place, one in placed if _amount(one) != "0"),
        hostname=spec.hostname or "",
        subdomain=spec.subdomain or "",
        labels=labels or {},
        annotations=annotations or {},
    )


def _required_terms(spec: WirePodSpec) -> list[NodeTerm]:
    affinity = (spec.affinity or _WireAffinity()).node_affinity or _WireNodeAffinity()
    return [
        NodeTerm(
            tuple(
                Requirement(one.key, one.operator, tuple(one.values or ()))
                for one in term.match_expressions or ()
            )
        )
        for term in (affinity.required or _WireRequired()).node_selector_terms or ()
    ]


def _read_container(place: str, wire: _WireContainer) -> TpuContainer:
    env = (
        EnvEntry(one.name, None if one.value_from is not None else one.value or "") for one in wire.env or ()
    )
    return TpuContainer(place, _amount(wire), tuple(env))


def _amount(wire: _WireContainer) -> str:
    """What the container asks for, as the API server writes it: `4` for `4000m` too."""
    amounts = wire.resources or _WireAmounts()
    asked = (amounts.limits or {}).get(TPU)
    written = (amounts.requests or {}).get(TPU, 0) if asked is None else asked
    try:
        number = parse_quantity(str(written))
    except QuantityError:
        return str(written)
    return str(number) if number == int(number) else str(written)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS
