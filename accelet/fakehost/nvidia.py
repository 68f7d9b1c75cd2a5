"""NVIDIA's GPUs as the kernel's PCI bus and NVIDIA's driver show them, and a CDI specification of them.

The folder of a GPU in /proc/driver/nvidia is after what an H200 with the open kernel module 580.159.04 showed
in a virtual machine. MIG instances are after NVIDIA's MIG User Guide ("Device Nodes and Capabilities") and
the module's source (nv-caps.c), the specification after what nvidia-ctk 1.20 writes, less the libraries.
Hosts of several GPUs have not been compared with real ones.
"""

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

CONFIG = bytes.fromhex("de103523") + bytes(60)

CdiNames = Literal["uuid", "index", "all"]


@dataclass(frozen=True, slots=True)
class NvidiaCard:
    """One GPU. `minor` None: the driver says none. `uuid` None: nothing has opened the GPU yet.

    `instances` are its MIG instances, as numbers of the GPU instance and of the compute instance. `bridges`
    are the names of the PCI bridges above it.
    """

    pci: str
    minor: int | None
    uuid: str | None
    model: str = "NVIDIA H200"
    device: str = "0x2335"
    pci_class: str = "0x030200"
    driver: str | None = "nvidia"
    numa: int = -1
    config: bytes = CONFIG
    is_excluded: bool = False
    has_node: bool = True
    instances: tuple[tuple[int, int], ...] = ()
    numvfs: int | None = None
    bridges: tuple[str, ...] = ("pci0000:00",)

    @property
    def node(self) -> str:
        return f"/dev/nvidia{self.minor}"


def uuid_of(number: int) -> str:
    """A UUID as the driver writes one, for the GPU of that number."""
    return f"GPU-{number:08x}-4a81-6034-0b36-{number:012x}"


def mig_uuid_of(card: NvidiaCard, gpu_instance: int) -> str:
    """A UUID as NVML gives one, for the MIG instance of that number."""
    return f"MIG-{gpu_instance:08x}{(card.uuid or '')[12:]}"


def capability_of(minor: int, gpu_instance: int, compute_instance: int | None = None) -> int:
    """The number of an instance's device node, by the rule of /proc/driver/nvidia-caps/mig-minors."""
    own = 3 + (minor * _GPU_INSTANCES + gpu_instance) * (1 + _COMPUTE_INSTANCES)
    return own if compute_instance is None else own + 1 + compute_instance


_GPU_INSTANCES, _COMPUTE_INSTANCES = 15, 8
"""That there can be, of one GPU and of one GPU instance (nv-caps.c)."""


def write_nvidia(
    root: Path, cards: Sequence[NvidiaCard], cdi: Iterable[CdiNames] | None = ("index", "uuid", "all")
) -> Path:
    """Makes the tree anew, so that the same folder can show a node at two moments.

    `cdi` are the kinds of names in the specification; None: there is no specification.
    """
    for name in ("sys", "dev", "proc", "etc/cdi", "var/run/cdi"):
        shutil.rmtree(root / name, ignore_errors=True)
    for folder in ("sys/bus/pci/devices", "dev", "etc/cdi", "var/run/cdi"):
        (root / folder).mkdir(parents=True)
    for card in cards:
        _write_function(root, card)
    served = [card for card in cards if card.driver == "nvidia"]
    if served:
        _write_driver(root, served)
    if cdi is not None:
        write_cdi(root, served, cdi)
    return root


def write_cdi(root: Path, cards: Sequence[NvidiaCard], names: Iterable[CdiNames]) -> Path:
    """The specification /var/run/cdi/nvidia.yaml, as the toolkit's service makes it at start."""
    devices: list[tuple[str, list[str]]] = []
    for kind in names:
        if kind == "all":
            devices.append(("all", [card.node for card in cards]))
        else:
            named = [(index, card) for index, card in enumerate(cards) if kind == "index" or card.uuid]
            devices += (
                (str(index) if kind == "index" else card.uuid or "", [card.node]) for index, card in named
            )
            devices += (
                (f"{index}:{part}" if kind == "index" else mig_uuid_of(card, one[0]), _nodes_of(card, *one))
                for index, card in named
                for part, one in enumerate(card.instances)
            )
    path = root / "var/run/cdi/nvidia.yaml"
    path.write_text(_specification(devices))
    return path


def _nodes_of(card: NvidiaCard, gpu_instance: int, compute_instance: int) -> list[str]:
    numbers = (capability_of(card.minor or 0, gpu_instance, one) for one in (None, compute_instance))
    return [card.node, *(f"/dev/nvidia-caps/nvidia-cap{number}" for number in numbers)]


def _specification(devices: Iterable[tuple[str, list[str]]]) -> str:
    lines = ["---", "cdiVersion: 0.5.0", "kind: nvidia.com/gpu", "devices:"]
    for name, nodes in devices:
        lines += [f'- name: "{name}"', "  containerEdits:", "    deviceNodes:"]
        lines += [f"    - path: {node}" for node in nodes]
    lines += ["containerEdits:", "  env:", "  - NVIDIA_VISIBLE_DEVICES=void", "  deviceNodes:"]
    lines += [f"  - path: {node}" for node in _COMMON]
    return "\n".join(lines) + "\n"


_COMMON = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools")


def _write_function(root: Path, card: NvidiaCard) -> None:
    place = "/".join(("devices", *card.bridges, card.pci))
    device = root / "sys" / place
    device.mkdir(parents=True)
    (root / "sys/bus/pci/devices" / card.pci).symlink_to(f"../../../{place}")
    for name, text in (
        ("class", card.pci_class),
        ("vendor", "0x10de"),
        ("device", card.device),
        ("numa_node", str(card.numa)),
    ):
        (device / name).write_text(f"{text}\n")
    (device / "config").write_bytes(card.config)
    if card.driver is not None:
        (device / "driver").symlink_to(f"../../../bus/pci/drivers/{card.driver}")
    if card.numvfs is not None:
        (device / "sriov_numvfs").write_text(f"{card.numvfs}\n")


def _write_driver(root: Path, cards: Sequence[NvidiaCard]) -> None:
    folder = root / "proc/driver/nvidia"
    (folder / "capabilities/mig").mkdir(parents=True)
    (folder / "version").write_text(
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build\n"
    )
    for node in _COMMON:
        (root / node[1:]).touch()
    if any(card.instances for card in cards):
        _write_capability_numbers(root)
    for card in cards:
        own = folder / "gpus" / card.pci
        own.mkdir(parents=True)
        (own / "information").write_text(_information(card))
        if card.minor is None:
            continue
        if card.has_node:
            (root / card.node[1:]).touch()
        (folder / f"capabilities/gpu{card.minor}/mig").mkdir(parents=True, exist_ok=True)
        for gpu_instance, compute_instance in card.instances:
            write_instance(root, card.minor, gpu_instance, compute_instance)


def write_instance(root: Path, minor: int, gpu_instance: int, compute_instance: int | None) -> None:
    """A MIG instance as the driver shows it, and its device nodes; None: it has no compute instance."""
    folder = root / f"proc/driver/nvidia/capabilities/gpu{minor}/mig/gi{gpu_instance}"
    places = (
        {None: folder}
        if compute_instance is None
        else {None: folder, compute_instance: folder / f"ci{compute_instance}"}
    )
    for compute, place in places.items():
        place.mkdir(parents=True, exist_ok=True)
        number = capability_of(minor, gpu_instance, compute)
        (place / "access").write_text(
            f"DeviceFileMinor: {number}\nDeviceFileMode: 292\nDeviceFileModify: 1\n"
        )
        (root / "dev/nvidia-caps").mkdir(exist_ok=True)
        (root / f"dev/nvidia-caps/nvidia-cap{number}").touch()


def _write_capability_numbers(root: Path) -> None:
    """Of all instances that 32 GPUs could have, whether or not they are there."""
    lines = ["config 1", "monitor 2"]
    for minor in range(32):
        for one in range(_GPU_INSTANCES):
            lines.append(f"gpu{minor}/gi{one}/access {capability_of(minor, one)}")
            lines += (
                f"gpu{minor}/gi{one}/ci{part}/access {capability_of(minor, one, part)}"
                for part in range(_COMPUTE_INSTANCES)
            )
    folder = root / "proc/driver/nvidia-caps"
    folder.mkdir(parents=True)
    (folder / "mig-minors").write_text("\n".join(lines) + "\n")


def _information(card: NvidiaCard) -> str:
    said = [
        ("Model", "\t\t", card.model),
        ("IRQ", "  \t\t", "41"),
        ("GPU UUID", "\t", card.uuid),
        ("Video BIOS", "\t", "96.00.a5.00.1a"),
        ("Bus Type", "\t", "PCIe"),
        ("DMA Size", "\t", "52 bits"),
        ("DMA Mask", "\t", "0xfffffffffffff"),
        ("Bus Location", "\t", card.pci),
        ("Device Minor", "\t", None if card.minor is None else str(card.minor)),
        ("GPU Firmware", "\t", "580.159.04"),
        ("GPU Excluded", "\t", "Yes" if card.is_excluded else "No"),
    ]
    return "".join(f"{name}: {gap} {text}\n" for name, gap, text in said if text is not None)


def _alike(addresses: Iterable[str], model: str, device: str) -> tuple[NvidiaCard, ...]:
    found = tuple(addresses)
    return tuple(
        NvidiaCard(pci, number, uuid_of(number), model, device, numa=int(number >= len(found) // 2))
        for number, pci in enumerate(found)
    )


H200_VM = (NvidiaCard("0000:00:06.0", 0, uuid_of(0), numa=0),)
"""One H200 given to a virtual machine."""

HGX_H100 = _alike(
    (f"0000:{bus}:00.0" for bus in ("1b", "43", "52", "61", "9d", "c3", "d1", "df")),
    "NVIDIA H100 80GB HBM3",
    "0x2330",
)
"""Eight H100 in two sockets, as on DGX and HGX boards.

Names and addresses as nvidia-smi prints them on such machines in many public reports, the device id after
nvml-mock's profile of an H100 (NVIDIA/k8s-test-infra). That the first four are at one socket is assumed.
"""

T4 = _alike((f"0000:00:{slot}.0" for slot in ("1b", "1c", "1d", "1e")), "Tesla T4", "0x1eb8")
"""Four T4, by name and address as nvidia-smi prints them on g4dn.12xlarge of AWS in public reports."""

L40S = (
    NvidiaCard("0000:2a:00.0", 1, uuid_of(1), "NVIDIA L40S", "0x26b9", "0x030000", numa=0),
    NvidiaCard("0000:ab:00.0", 0, uuid_of(2), "NVIDIA L40S", "0x26b9", "0x030000", numa=1),
    NvidiaCard("0000:ab:00.1", None, None, "", "0x22ba", "0x040300", driver="snd_hda_intel"),
)
"""Two L40S whose minor numbers run against their addresses; the sound function of one.

The device ids are those of the PCI ID database; addresses and the order of the minor numbers are made up, to
have a machine on which they differ.
"""


def _behind_switches(cards: Sequence[NvidiaCard]) -> tuple[NvidiaCard, ...]:
    """Each two behind one PCIe switch: a root port, the switch's upper port, and a lower port for each."""
    return tuple(
        replace(card, bridges=_switch(number // 2, lower=number % 2)) for number, card in enumerate(cards)
    )


def _switch(number: int, *, lower: int) -> tuple[str, ...]:
    bus = 0x40 * number
    ports = (f"0000:{bus:02x}:01.1", f"0000:{bus + 1:02x}:00.0", f"0000:{bus + 2:02x}:{4 * lower:02x}.0")
    return (f"pci0000:{bus:02x}", *ports)


_A100 = _behind_switches(
    _alike(
        (f"0000:{bus}:00.0" for bus in ("07", "0f", "47", "4e", "87", "90", "b7", "bd")),
        "NVIDIA A100-SXM4-40GB",
        "0x20b0",
    )
)
DGX_A100 = (
    *_A100[:2],
    replace(_A100[2], instances=((1, 0), (5, 0), (13, 0))),
    *_A100[3:5],
    replace(_A100[5], instances=((1, 0),)),
    *_A100[6:],
    NvidiaCard("0000:c4:00.0", None, None, "", "0x1af1", "0x068000"),
)
"""Eight A100, two of them cut into MIG instances, and an NVSwitch.

One is cut into 4g.20gb, 2g.10gb and 1g.5gb, the other has one 4g.20gb, as GPUs 7 and 5 of the DGX A100 whose
`nvidia-smi -L` NVIDIA's MIG User Guide shows. The numbers of the instances are made up. Addresses after
nvml-mock's profile of a DGX A100 (NVIDIA/k8s-test-infra). That each two share a switch is assumed: no
recording of such a machine says it.
"""

GB200_TRAY = tuple(
    NvidiaCard(
        f"{domain}:01:00.0",
        number,
        uuid_of(number),
        "NVIDIA GB200",
        "0x2941",
        numa=number // 2,
        bridges=(f"pci{domain}:00", f"{domain}:00:00.0"),
    )
    for number, domain in enumerate(("0008", "0009", "0018", "0019"))
)
"""The four GPUs of a compute tray of GB200 NVL72, each in a PCI domain of its own.

Addresses as nvidia-smi prints them there in public reports, the device id by lspci in NVIDIA/mig-parted#227.
That each two GPUs are at one of the two processors is assumed. Its IMEX channels and the GPUs' memory as
NUMA nodes are left out.
"""

ALL_NVIDIA = {
    "nvidia-h200-vm": H200_VM,
    "nvidia-hgx-h100": HGX_H100,
    "nvidia-t4": T4,
    "nvidia-l40s": L40S,
    "nvidia-dgx-a100": DGX_A100,
    "nvidia-gb200-tray": GB200_TRAY,
}
