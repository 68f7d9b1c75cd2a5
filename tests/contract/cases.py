"""The back-ends that the contract suite runs over; a new one adds its cases here."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from accelet.accelerators import BACKENDS
from accelet.accelerators.settings import Settings
from accelet.fakehost.amd import ALL_AMD, AmdCard, write_amd
from accelet.fakehost.gpus import Gpu, write_gpus
from accelet.fakehost.nodes import ALL_NODES
from accelet.fakehost.nvidia import ALL_NVIDIA, NvidiaCard, write_nvidia
from accelet.fakehost.tpu import HOSTS, renumber, rewrite


@dataclass(frozen=True, slots=True)
class Case:
    """A back-end on a node.

    `write` makes the node's tree below a folder; `rewrite` makes the same hardware as after a reboot
    that numbered it differently (card numbers, group numbers). `size` devices at least are found, and
    `size` of them can be used by one container.
    """

    name: str
    backend: str
    settings: dict[str, object]
    write: Callable[[Path], object]
    rewrite: Callable[[Path], object]
    size: int = 1

    def read_settings(self) -> Settings:
        return msgspec.convert(self.settings, BACKENDS[self.backend])


def _gpu_case(node: str, size: int, **settings: object) -> Case:
    gpus = ALL_NODES[node]
    words = [f"{key}-{value}" for key, value in settings.items()]
    return Case(
        name="-".join(["intel-gpu", node, *words]),
        backend="intel-gpu",
        settings=settings,
        write=lambda root: write_gpus(root, gpus),
        rewrite=lambda root: write_gpus(root, _renumber(gpus)),
        size=size,
    )


def _renumber(gpus: tuple[Gpu, ...]) -> list[Gpu]:
    numbers = [gpu.card for gpu in gpus]
    return [replace(gpu, card=n) for gpu, n in zip(gpus, reversed(numbers), strict=True)]


def _nvidia_case(node: str, size: int, **settings: object) -> Case:
    cards = ALL_NVIDIA[node]
    words = [f"{key}-{value}" for key, value in settings.items()]
    return Case(
        name="-".join([node, *words]),
        backend="nvidia-gpu",
        settings=settings,
        write=lambda root: write_nvidia(root, cards),
        rewrite=lambda root: write_nvidia(root, _turn_minors(cards)),
        size=size,
    )


def _turn_minors(cards: tuple[NvidiaCard, ...]) -> list[NvidiaCard]:
    minors = [card.minor for card in cards if card.minor is not None]
    return [card if card.minor is None else replace(card, minor=minors.pop()) for card in cards]


def _amd_case(node: str, size: int, **settings: object) -> Case:
    cards = ALL_AMD[node]
    words = [f"{key}-{value}" for key, value in settings.items()]
    return Case(
        name="-".join([node, *words]),
        backend="amd-gpu",
        settings=settings,
        write=lambda root: write_amd(root, cards),
        rewrite=lambda root: write_amd(root, _turn_render_nodes(cards)),
        size=size,
    )


def _turn_render_nodes(cards: tuple[AmdCard, ...]) -> list[AmdCard]:
    """The last GPU's nodes get the first numbers."""
    turned = {}
    taken = 0
    for card in reversed(cards):
        turned[card.pci] = replace(card, minors=tuple(range(taken, taken + len(card.minors))))
        taken += len(card.minors)
    return [turned[card.pci] for card in cards]


def _write_files(root: Path) -> None:
    for name in ("fuse", "video0", "video1", "video10", "vhost-net", "snd/controlC0"):
        (root / "dev" / name).parent.mkdir(parents=True, exist_ok=True)
        (root / "dev" / name).touch()
    usb = root / "sys/bus/usb/devices/1-1.4"
    usb.mkdir(parents=True, exist_ok=True)
    for name, text in (("idVendor", "1050"), ("idProduct", "0407"), ("busnum", "1"), ("devnum", "4")):
        (usb / name).write_text(f"{text}\n")
    (root / "dev/bus/usb/001").mkdir(parents=True, exist_ok=True)
    (root / "dev/bus/usb/001/004").touch()


def _replug_usb(root: Path) -> None:
    _write_files(root)
    (root / "sys/bus/usb/devices/1-1.4/devnum").write_text("7\n")
    (root / "dev/bus/usb/001/004").rename(root / "dev/bus/usb/001/007")


def _files_case(name: str, size: int, **settings: object) -> Case:
    return Case(f"files-{name}", "files", settings, _write_files, _replug_usb, size)


def _simulated_cards(cards: int, tiles: int) -> list[dict[str, object]]:
    return [
        {
            "pci": f"0000-{16 * index + 3:02x}-00.0",
            "driver": "xe",
            "device_id": "0x0bd5",
            "tiles": tiles,
            "numa_node": index % 2,
            "nodes": [{"path": "/dev/null", "mount_path": f"/dev/dri/renderD{128 + index}"}],
        }
        for index in range(cards)
    ]


def _simulated_case(size: int, **settings: object) -> Case:
    words = [f"{key}-{value}" for key, value in settings.items()]
    cards = _simulated_cards(4, 2)
    return Case(
        name="-".join(["simulated", *words]),
        backend="simulated",
        settings={"cards": cards, **settings},
        write=lambda root: root,
        rewrite=lambda root: root,
        size=size,
    )


def _tpu_case(host: str, size: int, **settings: object) -> Case:
    """A TPU host: its chips and the number that one container can use."""
    words = [f"{key}-{value}" for key, value in settings.items()]
    return Case(
        name="-".join(["tpu", host, *words]),
        backend="tpu",
        settings=settings,
        write=HOSTS[host].write,
        rewrite=lambda root: rewrite(renumber(HOSTS[host]), root),
        size=size,
    )


GROUP = {"paths": [{"path": "/dev/video*"}, {"path": "/dev/fuse", "limit": 10}], "count": 2}

CASES = [
    *(_gpu_case(node, 1) for node in ALL_NODES),
    _gpu_case("max", 8, unit="tile"),
    _gpu_case("max", 16, unit="tile", shares=2),
    _gpu_case("mixed", 2, shares=300, match={"driver": ["xe"]}),
    _gpu_case("flex", 2, by_path="all"),
    Case(
        "intel-gpu-monitoring",
        "intel-gpu-monitoring",
        {},
        lambda root: write_gpus(root, ALL_NODES["mixed"]),
        lambda root: write_gpus(root, _renumber(ALL_NODES["mixed"])),
    ),
    _files_case("paths", 4, paths=["/dev/fuse", "/dev/video*"]),
    _files_case("shares", 50, paths=["/dev/vhost-net"], shares=50),
    _files_case("groups", 6, groups=[GROUP]),
    _files_case("usb", 1, groups=[{"usb": [{"vendor": "1050", "product": "0407"}]}]),
    _simulated_case(4),
    _simulated_case(16, unit="tile", shares=2),
    *(_amd_case(node, 1) for node in ALL_AMD),
    _amd_case("amd-mi300x-cpx", 63, match={"mode": ["cpx_*"]}),
    _amd_case("amd-mi210", 16, shares=3),
    *(_nvidia_case(node, 1) for node in ALL_NVIDIA),
    _nvidia_case("nvidia-hgx-h100", 8, inject="envvar"),
    _nvidia_case("nvidia-t4", 16, shares=4),
    _nvidia_case("nvidia-dgx-a100", 4, unit="mig"),
    _nvidia_case("nvidia-dgx-a100", 6, unit="mig", shares=2, match={"instance": ["gi1-*", "gi5-ci0"]}),
    *(_tpu_case(host, int(host.partition("-")[2] or 4)) for host in HOSTS if host != "v4-lite"),
    _tpu_case("v4-lite", 4),
    _tpu_case("v5e-8", 4, mode="sub-host"),
    _tpu_case("v5p", 2, mode="sub-host", visible_chips="ordinal"),
]
