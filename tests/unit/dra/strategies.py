"""Nodes with all kinds of hardware."""

from hypothesis import strategies as st

from accelet.accelerators.device import HEALTHY, Device, DeviceId, Health, UnitId
from accelet.accelerators.edits import DeviceNode
from accelet.accelerators.files.backend import FilesSettings
from accelet.accelerators.intel.gpu import IntelGpu, IntelGpuSettings
from accelet.accelerators.intel.scan import CardScan
from accelet.accelerators.inventory import Inventory
from accelet.dra.publishing.served import ServedResource

GIB = 2**30


def gpu_backend() -> IntelGpu:
    """What computes masks; it never looks at hardware."""
    return IntelGpu(IntelGpuSettings(), lambda _root: CardScan())


def gpu(
    bus: int,
    *,
    tiles: int = 1,
    memory: int | None = None,
    shares: int = 1,
    health: Health = HEALTHY,
    numa: int | None = 0,
    kind: str = "i915",
) -> tuple[Device, ...]:
    """The devices that a scan makes of one card."""
    unit = UnitId(f"0000-{bus:02x}-00.0")
    return tuple(
        Device(
            id=DeviceId(unit if shares == 1 else f"{unit}-s{share}"),
            unit=unit,
            health=health,
            numa_nodes=() if numa is None else (numa,),
            nodes=(
                DeviceNode(f"/dev/dri/card{bus}", f"/dev/dri/card{bus}"),
                DeviceNode(f"/dev/dri/renderD{128 + bus}", f"/dev/dri/renderD{128 + bus}"),
            ),
            card=f"card{bus}",
            pci=f"0000:{bus:02x}:00.0",
            pci_device="0x0bd5",
            driver=kind,
            kind="discrete",
            tile_count=tiles,
            share=share if shares > 1 else None,
            memory_bytes=memory,
        )
        for share in range(shares)
    )


def gpus(*cards: tuple[Device, ...], name: str = "gpu.intel.com/i915") -> ServedResource:
    """A resource of these cards."""
    devices = tuple(device for card in cards for device in card)
    roots = {device.pci: "pci0000:00" for device in devices if device.pci is not None}
    return ServedResource(name, gpu_backend(), Inventory(devices), roots)


def files(*units: str, shares: int = 1, name: str = "squat.ai/file") -> ServedResource:
    devices = tuple(
        Device(
            id=DeviceId(f"{unit}-s{share}"),
            unit=UnitId(unit),
            nodes=(DeviceNode(f"/{unit}", f"/{unit}"),),
            share=share if shares > 1 else None,
        )
        for unit in units
        for share in range(shares)
    )
    return ServedResource(name, FilesSettings(paths=("/dev/x",)).backend(), Inventory(devices))


_healths = st.sampled_from([HEALTHY, Health("the driver says so")])

gpu_cards = st.builds(
    gpu,
    bus=st.integers(0, 255),
    tiles=st.integers(1, 64) | st.integers(1, 4),
    memory=st.none()
    | st.integers(1, 256 * GIB)
    | st.integers(1, 256).map(lambda gib: gib * GIB)
    | st.integers(2**63 - GIB, 2**66),
    shares=st.integers(1, 100),
    health=_healths,
    numa=st.none() | st.integers(0, 7),
    kind=st.sampled_from(["i915", "xe"]),
)


def _nodes(most_cards: int) -> st.SearchStrategy[ServedResource]:
    return st.lists(gpu_cards, max_size=most_cards, unique_by=lambda card: card[0].unit).map(
        lambda cards: gpus(*sorted(cards, key=lambda card: card[0].unit))
    )


gpu_nodes = _nodes(12)
small_gpu_nodes = _nodes(4)

unit_names = st.from_regex(r"[A-Za-z0-9._-]{1,63}", fullmatch=True)

file_nodes = st.builds(
    lambda units, shares, name: files(*units, shares=shares, name=name),
    st.lists(unit_names, max_size=30, unique=True),
    st.integers(1, 200),
    st.sampled_from(["squat.ai/fuse", "a-very-long-domain." * 5 + "example/serial"]),
)
