"""The GPUs of nodes as their ResourceSlices tell of them: what was published, read back."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from accelet.dra.names import ALL_MILLICORES, GPU_DRIVER
from accelet.dra.pool import MEMORY, MILLICORES
from accelet.dra.publishing.slices import RESOURCE_SLICES
from accelet.kube.errors import MalformedObjectError, QuantityError
from accelet.kube.objects import RawObject, Wire, WireObject, read_object
from accelet.kube.quantity import parse_quantity

_STANDARD: Final = "resource.kubernetes.io/"
_LARGEST: Final = 2**63 - 1
_MOST_TILES: Final = 256
"""Far more than a card has: who may write slices may write any number."""


@dataclass(frozen=True, slots=True)
class PublishedGpu:
    """A card or (`tile` given) a tile of it; `card` is the label that both have.

    `memory` in bytes and `default_millicores` (what a claim takes that asks for no amount) are of this
    device alone. `taints` are the keys of those that keep claims from it.
    """

    name: str
    card: str
    tile: int | None
    tiles: int
    model: str | None
    pci: str | None
    numa_node: int | None
    memory: int | None
    default_millicores: int
    taints: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PublishedSlice:
    """The GPUs of one slice of a node's pool."""

    node: str
    generation: int
    gpus: tuple[PublishedGpu, ...]


class _WirePolicy(Wire, frozen=True):
    default: str | int | None = None


class _WireCapacity(Wire, frozen=True):
    value: str | int
    request_policy: _WirePolicy | None = None


class _WireAttribute(Wire, frozen=True):
    string: str | None = None
    int_: int | None = msgspec.field(name="int", default=None)


class _WireTaint(Wire, frozen=True):
    key: str
    effect: str


class _WireDevice(Wire, frozen=True):
    name: str
    attributes: dict[str, _WireAttribute] | None = None
    capacity: dict[str, _WireCapacity] | None = None
    taints: list[_WireTaint] | None = None


class _WirePool(Wire, frozen=True):
    name: str
    generation: int


class _WireSpec(Wire, frozen=True):
    driver: str
    pool: _WirePool
    node_name: str | None = None
    devices: list[_WireDevice] | None = None


class _WireSlice(WireObject, frozen=True):
    spec: _WireSpec


def parse_published(raw: RawObject) -> PublishedSlice | None:
    """A slice's cards and tiles; None where it is another driver's, or of no node.

    Raises:
        MalformedObjectError: it is not what the API promises.
    """
    wire = read_object(raw, RESOURCE_SLICES.kind, _WireSlice)
    spec = wire.spec
    if spec.driver != GPU_DRIVER or spec.node_name is None or spec.pool.name != spec.node_name:
        return None
    try:
        gpus = tuple(gpu for device in spec.devices or () if (gpu := _read_gpu(device)))
    except QuantityError as error:
        raise MalformedObjectError(
            RESOURCE_SLICES.kind, "", wire.metadata.name, "spec.devices", str(error)
        ) from None
    return PublishedSlice(spec.node_name, spec.pool.generation, gpus)


def newest_gpus(slices: Iterable[PublishedSlice]) -> Mapping[str, tuple[PublishedGpu, ...]]:
    """By node, the devices of the newest generation of its pool."""
    generations: dict[str, int] = {}
    found: dict[str, list[PublishedGpu]] = {}
    for one in slices:
        if one.generation > generations.get(one.node, -1):
            generations[one.node], found[one.node] = one.generation, []
        if one.generation == generations[one.node]:
            found[one.node] += one.gpus
    return {node: tuple(gpus) for node, gpus in found.items()}


def _read_gpu(device: _WireDevice) -> PublishedGpu | None:
    attributes = device.attributes or {}
    kind, tile = _text(attributes, "type"), _number(attributes, "tile")
    if kind not in ("gpu", "tile") or (kind == "tile") != (tile is not None):
        return None
    millicores = (device.capacity or {}).get(MILLICORES)
    policy = millicores.request_policy if millicores else None
    default = policy.default if policy else None
    return PublishedGpu(
        name=device.name,
        card=_text(attributes, "card") or device.name,
        tile=tile,
        tiles=min(max(_number(attributes, "tiles") or 1, 1), _MOST_TILES),
        model=_text(attributes, "model") or _text(attributes, "pciDevice"),
        pci=_text(attributes, f"{_STANDARD}pciBusID"),
        numa_node=_number(attributes, f"{_STANDARD}numaNode"),
        memory=_memory((device.capacity or {}).get(MEMORY)),
        default_millicores=ALL_MILLICORES if default is None else max(1, _amount(default)),
        taints=tuple(sorted({one.key for one in device.taints or () if one.effect != "None"})),
    )


def _text(attributes: Mapping[str, _WireAttribute], name: str) -> str | None:
    return attributes[name].string if name in attributes else None


def _number(attributes: Mapping[str, _WireAttribute], name: str) -> int | None:
    return attributes[name].int_ if name in attributes else None


def _memory(capacity: _WireCapacity | None) -> int | None:
    return None if capacity is None else _amount(capacity.value)


def _amount(text: str | int) -> int:
    amount = parse_quantity(str(text))
    if not 0 <= amount <= _LARGEST:
        raise QuantityError(f"an impossible amount: {str(text)[:64]!r}")
    return int(amount)
