"""What `accelet devices` prints with --json."""

import msgspec


class ShownDevice(msgspec.Struct, frozen=True):
    """One device id as `--json` shows it; `nodes` are host paths, `cdi` is its name in CDI.

    `memory_bytes` are those of the whole unit, null where they are not known.
    """

    id: str
    health: str
    reason: str | None
    numa_nodes: tuple[int, ...]
    nodes: tuple[str, ...]
    card: str | None
    tile: int | None
    pci: str | None
    cdi: str | None = None
    model: str | None = None
    memory_bytes: int | None = None


class ShownResource(msgspec.Struct, frozen=True):
    """`missing` devices the host should have besides; `warnings` say what else contradicts itself.

    `unknown_memory` names the discrete cards of which nothing says how much memory they have.
    """

    name: str
    devices: tuple[ShownDevice, ...]
    missing: int = 0
    warnings: tuple[str, ...] = ()
    unknown_memory: tuple[str, ...] = ()


class ShownSkipped(msgspec.Struct, frozen=True):
    path: str
    code: str
    reason: str


class Shown(msgspec.Struct, frozen=True):
    """The whole answer of `accelet devices --json`."""

    resources: tuple[ShownResource, ...]
    skipped: tuple[ShownSkipped, ...]
