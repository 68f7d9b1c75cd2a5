"""`python -m benches.choosing`: how long the choice of the closest devices takes, by the size of the node."""

import random
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from time import perf_counter

import msgspec

from accelet.accelerators import BACKENDS
from accelet.accelerators.inventory import Inventory
from accelet.fakehost.amd import MI300X_CPX, write_amd
from accelet.fakehost.nvidia import DGX_A100, HGX_H100, uuid_of, write_nvidia
from resourcemanager.giving.preference import prefer

ROUNDS = 20
"""Sets of free devices for each number of devices that a container asks for."""


def main() -> None:
    for name, scan in _nodes():
        with tempfile.TemporaryDirectory() as folder:
            took = sorted(_measure(scan(Path(folder)), random.Random(1)))  # noqa: S311  repeatable figures
        figures = f"median {statistics.median(took):.2f} ms, most {took[-1]:.2f} ms"
        sys.stdout.write(f"{name}: {figures} of {len(took)} choices\n")


def _nodes() -> Iterator[tuple[str, Callable[[Path], Inventory]]]:
    a100 = [replace(card, instances=()) for card in DGX_A100 if card.minor is not None]
    second = [
        replace(card, pci=f"1{card.pci[1:]}", minor=number, uuid=uuid_of(number))
        for number, card in enumerate(a100, 8)
    ]
    full = [
        replace(card, minors=tuple(range(8 * number, 8 * number + 8)))
        for number, card in enumerate(MI300X_CPX)
    ]
    yield "8 GPUs", lambda root: _scan("nvidia-gpu", write_nvidia(root, HGX_H100))
    yield "16 GPUs behind 8 switches", lambda root: _scan("nvidia-gpu", write_nvidia(root, [*a100, *second]))
    yield "64 partitions of 8 GPUs", lambda root: _scan("amd-gpu", write_amd(root, full))


def _scan(backend: str, root: Path) -> Inventory:
    return msgspec.convert({}, BACKENDS[backend]).backend().scan(root)


def _measure(found: Inventory, dice: random.Random) -> Iterator[float]:
    """Milliseconds of each choice; of every third device the kubelet says that it must be among them."""
    ids = [device.id for device in found.devices]
    for size in range(1, len(ids)):
        for _ in range(ROUNDS):
            free = dice.sample(ids, dice.randint(size, len(ids)))
            begun = perf_counter()
            chosen = prefer(found.devices, free, free[: size // 3], size, policy="none")
            yield (perf_counter() - begun) * 1000
            assert len(chosen) == size


if __name__ == "__main__":
    main()
