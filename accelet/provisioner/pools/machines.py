"""Which machines a slice takes: the rules of the accelerators' table, as decisions with a reason."""

import difflib
import re
from dataclasses import dataclass
from enum import Enum
from typing import Final

from accelet.accelerators.tpu.generation import Generation, Machine, Product
from accelet.accelerators.tpu.shape import Shape, ShapeError
from accelet.accelerators.tpu.table import GENERATIONS

_MULTI_HOST_CHIPS: Final = 4
_SHOWN: Final = 80
_GENERATION: Final = re.compile(r"(?:tpu-?v?|\bv)([0-9]+)([a-z]?)")


class PlacementPolicy(Enum):
    """What brings the machines of a slice together."""

    NONE = "none"
    """A single machine needs nothing."""
    COMPACT = "compact"
    """A compact placement with the slice's topology."""
    WORKLOAD_POLICY = "workload-policy"
    """A workload policy of the same topology, made beforehand."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why something is not made, as a sentence for its author."""

    reason: str


@dataclass(frozen=True, slots=True)
class Asked:
    """What a job asks for, as its author wrote it.

    `pods` run at a time, each asks for `chips_per_pod`; None for as many as it takes. `asker` is who asks.
    """

    accelerator: str
    topology: str
    chips_per_pod: int
    pods: int | None
    machine_type: str | None = None
    ici_resiliency: str | None = None
    asker: str = "the Job"


@dataclass(frozen=True, slots=True)
class Machines:
    """The machines of one slice: `hosts` of `machine_type` with `chips_per_host` each.

    `hosts` times `chips_per_host` is the product of the topology.
    """

    accelerator: str
    topology: str
    hosts: int
    chips_per_host: int
    machine_type: str
    placement: PlacementPolicy

    @property
    def chips(self) -> int:
        return self.hosts * self.chips_per_host


def choose_machines(asked: Asked) -> Machines | Refusal:
    """The machines that `asked` takes, or why there are none.

    The rules are those of Google's "Plan TPUs in GKE": a topology is one machine if one has exactly its
    chips and every pod takes what a machine has; else machines of four chips. Only where chips may be
    spread (tpu7x) may a pod take fewer than its machine has.
    """
    found = _find_product(asked.accelerator)
    if found is None:
        return Refusal(_unknown_accelerator(asked.accelerator))
    generation, product = found
    try:
        shape = Shape.parse(asked.topology)
    except ShapeError:
        return Refusal(_unknown_topology(generation, product, None, asked.topology))
    if shape not in product.topologies() or asked.topology != shape.text(generation.dimensions):
        return Refusal(_unknown_topology(generation, product, shape, asked.topology))
    machines = _fit(generation, product, shape, asked)
    if isinstance(machines, Refusal):
        return machines
    objection = _count_pods(machines, asked) or _judge_resiliency(generation, shape, asked)
    return objection or machines


def labels_sold() -> tuple[str, ...]:
    """Every value of the label `cloud.google.com/gke-tpu-accelerator`, in the order of the generations."""
    return tuple(product.label for known in GENERATIONS for product in known.products)


def _find_product(label: str) -> tuple[Generation, Product] | None:
    for generation in GENERATIONS:
        for product in generation.products:
            if product.label == label:
                return generation, product
    return None


def _fit(generation: Generation, product: Product, shape: Shape, asked: Asked) -> Machines | Refusal:
    chips, text = asked.chips_per_pod, asked.topology
    sizes = _sizes(product, shape)
    fitting = [size for size in sizes if chips == size or (generation.is_spread and 0 < chips < size)]
    fitting = [size for size in fitting if size % chips == 0]
    if not fitting:
        offered = " or ".join(f"{size}" for size in sizes)
        whose = f"{product.label} {text} has machines of {offered} {_plural('chip', sizes[-1])}"
        return Refusal(f"{whose}; a pod must ask for all of a machine's google.com/tpu, not for {chips}")
    size = fitting[0]
    machine = _choose_type(product, size, asked.machine_type)
    if machine is None:
        known = ", ".join(machine.name for machine in product.machines if machine.chips == size)
        return Refusal(
            f"{product.label} {text} with {_count(size, 'chip')} a machine is made of {known}, "
            f"not of {_shown(asked.machine_type or '')}"
        )
    hosts = shape.chips // size
    return Machines(product.label, text, hosts, size, machine.name, _placement(generation, hosts))


def _sizes(product: Product, shape: Shape) -> list[int]:
    """How many chips a machine may have in a slice of this shape, smallest first."""
    sizes = {machine.chips for machine in product.machines}
    whole = {shape.chips} & sizes if shape in product.single_host else set()
    is_multi_host = shape not in product.single_host or shape in product.multi_host
    parts = {_MULTI_HOST_CHIPS} & sizes if is_multi_host else set()
    return sorted(whole | parts)


def _choose_type(product: Product, chips: int, wanted: str | None) -> Machine | None:
    """The first type of this size, or the wanted one."""
    fitting = (machine for machine in product.machines if machine.chips == chips)
    return next((machine for machine in fitting if wanted in (None, machine.name)), None)


def _placement(generation: Generation, hosts: int) -> PlacementPolicy:
    if hosts == 1:
        return PlacementPolicy.NONE
    return PlacementPolicy.WORKLOAD_POLICY if generation.is_spread else PlacementPolicy.COMPACT


def _count_pods(machines: Machines, asked: Asked) -> Refusal | None:
    needed = machines.chips // asked.chips_per_pod
    if asked.pods in (None, needed):
        return None
    return Refusal(
        f"{machines.topology} with {_count(asked.chips_per_pod, 'chip')} a pod "
        f"needs {_count(needed, 'pod')}, {asked.asker} has {asked.pods}"
    )


def _judge_resiliency(generation: Generation, shape: Shape, asked: Asked) -> Refusal | None:
    wanted = asked.ici_resiliency
    if wanted in (None, "false"):
        return None
    if wanted != "true":
        return Refusal(
            f"cloud.google.com/gke-tpu-ici-resiliency must be true or false, not {_shown(str(wanted))}"
        )
    if generation.ici_resilient and min(shape.dims) >= 4:
        return None
    return Refusal(
        f"ICI resiliency is for slices from 4x4x4 on of {_resilient()}, "
        f"not for {asked.accelerator} {asked.topology}: leave cloud.google.com/gke-tpu-ici-resiliency out"
    )


def _resilient() -> str:
    *first, last = (known.name for known in GENERATIONS if known.ici_resilient)
    return f"{', '.join(first)} and {last}"


def _unknown_accelerator(label: str) -> str:
    near = _nearest_label(label[:_SHOWN])
    hint = f"the nearest is {near}" if near else f"known are {', '.join(labels_sold())}"
    return f"{_shown(label)} is no TPU that is sold under cloud.google.com/gke-tpu-accelerator; {hint}"


def _nearest_label(label: str) -> str | None:
    """What an author may have meant: never another generation than the one whose number is in the label."""
    named, known = _GENERATION.search(label), labels_sold()
    if named is None:
        return next(iter(difflib.get_close_matches(label, known, 1, cutoff=0.5)), None)
    number, letter = named.groups()
    same = [one for one in known if (its := _GENERATION.search(one)) and its[1] == number]
    # What people call v5e is sold as v5-lite.
    is_lite = letter == "e" or "lite" in label
    words = (f"{number}e", "lite") if is_lite else (f"{number}{letter}",)
    meant = next((found for word in words if (found := [one for one in same if word in one])), same)
    return next(iter(difflib.get_close_matches(label, meant, 1, cutoff=0.0)), None)


def _unknown_topology(generation: Generation, product: Product, shape: Shape | None, text: str) -> str:
    sold = product.topologies()
    if shape is not None and (turned := Shape(*sorted(shape.dims))) in sold:
        near = [turned]
    elif shape is not None and (flat := _turned_flat(shape)) in sold:
        near = [flat]
    elif shape is not None:
        near = sorted(sold, key=lambda one: (abs(one.chips - shape.chips), one.chips))[:2]
    else:
        near = list(sold[:3])
    names = " and ".join(one.text(generation.dimensions) for one in near)
    return f"{product.label} has no topology {_shown(text)}; the nearest {_are(len(near))} {names}"


def _turned_flat(shape: Shape) -> Shape:
    """The same in ascending order with its ones last, as flat topologies are written: 2x2x1."""
    return Shape(*sorted(shape.dims, key=lambda dim: (dim == 1, dim)))


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _plural(word: str, count: int) -> str:
    return word if count == 1 else f"{word}s"


def _count(count: int, word: str) -> str:
    return f"{count} {_plural(word, count)}"


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "…")
