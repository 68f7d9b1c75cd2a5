"""How many hosts a slice has, by product, topology and chips a pod: the accelerators' table, flat."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from accelet.accelerators.tpu.generation import Generation, Product
from accelet.accelerators.tpu.table import GENERATIONS
from accelet.provisioner.pools.machines import Asked, Machines, choose_machines

_SIZES: Final = (1, 4, 8)
"""Chips of any machine there is."""


@dataclass(frozen=True, slots=True)
class HostTable:
    """What is sold.

    `hosts` by `ACCELERATOR TOPOLOGY CHIPS`, where a pod has all chips of its host; `sizes` by
    `ACCELERATOR TOPOLOGY`, as `4 or 8 chips`; `topologies` by accelerator, in words. `spread` are the
    accelerators whose workers need TPU_PROCESS_ADDRESSES.
    """

    hosts: Mapping[str, int]
    sizes: Mapping[str, str]
    topologies: Mapping[str, str]
    spread: tuple[str, ...]

    @property
    def most_hosts(self) -> int:
        return max(self.hosts.values())


@cache
def host_table() -> HostTable:
    """The table of everything that is sold."""
    hosts: dict[str, int] = {}
    sizes: dict[str, str] = {}
    topologies: dict[str, str] = {}
    spread: list[str] = []
    for generation in GENERATIONS:
        for product in generation.products:
            topologies[product.label] = _describe(generation, product)
            spread += [product.label] if generation.is_spread else []
            for shape in product.topologies():
                topology = shape.text(generation.dimensions)
                found = _hosts(product.label, topology)
                hosts |= {f"{product.label} {topology} {chips}": count for chips, count in found.items()}
                words = " or ".join(str(chips) for chips in found)
                sizes[f"{product.label} {topology}"] = words + (" chip" if words == "1" else " chips")
    return HostTable(hosts, sizes, topologies, tuple(spread))


def _hosts(accelerator: str, topology: str) -> Mapping[int, int]:
    chosen = {chips: choose_machines(Asked(accelerator, topology, chips, None)) for chips in _SIZES}
    return {
        chips: machines.hosts
        for chips, machines in chosen.items()
        if isinstance(machines, Machines) and machines.chips_per_host == chips
    }


def _describe(generation: Generation, product: Product) -> str:
    named = sorted({*product.single_host, *product.multi_host}, key=lambda shape: (shape.chips, shape.dims))
    texts = [shape.text(generation.dimensions) for shape in named]
    if product.cubes_up_to is not None:
        largest = product.cubes_up_to.text(generation.dimensions)
        return f"{', '.join(texts)}, and ascending multiples of 4 up to {largest}"
    return " and ".join([", ".join(texts[:-1])] * bool(texts[1:]) + texts[-1:])
