"""What is known of every TPU generation, as data.

Sources: PCI ids from JAX (jax/_src/hardware_utils.py), tpu-info (device.py) and gVisor (pkg/abi/tpu); cores,
memory and host shapes from Google's TPU system architecture pages and tpu-info; labels, machine types and
topologies from Google's "Plan TPUs in GKE" and Kubernetes' cluster autoscaler; accelerator types and wrap
rules from GKE's demonstration plugin (ai-on-gke/tpu-device-plugin, pkg/tpu/util), v4 lite's type and the
control service from dra-driver-google-tpu (util.go). Where they are silent a
field is empty, and nothing is guessed.
"""

from typing import Final

from accelet.accelerators.tpu.generation import DeviceFiles, Generation, Machine, PciId, Product, WrapRule
from accelet.accelerators.tpu.shape import Shape

GOOGLE_VENDOR: Final = "0x1ae0"

GIB: Final = 1024**3


def _shapes(texts: str) -> tuple[Shape, ...]:
    return tuple(Shape.parse(text) for text in texts.split())


def _machines(family: str, *chips: int) -> tuple[Machine, ...]:
    return tuple(Machine(f"{family}-{count}t", count) for count in chips)


_SMALL_3D: Final = _shapes("2x2x2 2x2x4 2x4x4")
_LITE_PODS: Final = _shapes("2x4 4x4 4x8 8x8 8x16 16x16")

V2: Final = Generation(
    name="v2",
    pci=PciId("0x0027", "0x004e"),
    files=DeviceFiles.ACCEL,
    cores_per_chip=2,
    chips_per_host=(4,),
    dimensions=2,
    wrap=WrapRule.CUBE,
    memory_bytes=16 * GIB,
    type_prefix="v2",
)
V3: Final = Generation(
    name="v3",
    pci=PciId("0x0027", "0x004f"),
    files=DeviceFiles.ACCEL,
    cores_per_chip=2,
    chips_per_host=(4,),
    dimensions=2,
    wrap=WrapRule.CUBE,
    memory_bytes=32 * GIB,
    type_prefix="v3",
    products=(
        Product("tpu-v3-device", _machines("ct3-hightpu", 4), single_host=_shapes("2x2")),
        Product(
            "tpu-v3-slice",
            _machines("ct3p-hightpu", 4),
            multi_host=_shapes("4x4 4x8 8x8 8x16 16x16 16x32 32x32 32x64"),
        ),
    ),
)
V4: Final = Generation(
    name="v4",
    pci=PciId("0x005e"),
    files=DeviceFiles.ACCEL,
    cores_per_chip=2,
    chips_per_host=(4,),
    dimensions=3,
    wrap=WrapRule.CUBE,
    memory_bytes=32 * GIB,
    type_prefix="v4",
    ici_resilient=True,
    products=(
        Product(
            "tpu-v4-podslice",
            _machines("ct4p-hightpu", 4),
            single_host=_shapes("2x2x1"),
            multi_host=_SMALL_3D,
            cubes_up_to=Shape(12, 16, 16),
        ),
    ),
)
V4_LITE: Final = Generation(
    name="v4-lite",
    pci=PciId("0x0056"),
    files=DeviceFiles.ACCEL,
    cores_per_chip=1,
    chips_per_host=(4,),
    dimensions=2,
    wrap=WrapRule.CUBE,
    type_prefix="v4lite",
    type_counts_cores=False,
    products=(Product("tpu-v4-lite-device", _machines("ct4l-hightpu", 4), single_host=_shapes("2x2")),),
)
V5E: Final = Generation(
    name="v5e",
    pci=PciId("0x0063"),
    files=DeviceFiles.VFIO,
    cores_per_chip=1,
    chips_per_host=(1, 4, 8),
    dimensions=2,
    wrap=WrapRule.SIXTEEN,
    memory_bytes=16 * GIB,
    type_prefix="v5litepod",
    type_counts_cores=False,
    products=(
        Product("tpu-v5-lite-device", _machines("ct5l-hightpu", 1, 4, 8), single_host=_shapes("1x1 2x2 2x4")),
        Product(
            "tpu-v5-lite-podslice",
            _machines("ct5lp-hightpu", 1, 4, 8),
            single_host=_shapes("1x1 2x2 2x4"),
            multi_host=_LITE_PODS,
        ),
    ),
)
V5P: Final = Generation(
    name="v5p",
    pci=PciId("0x0062"),
    files=DeviceFiles.VFIO,
    cores_per_chip=2,
    chips_per_host=(4,),
    dimensions=3,
    wrap=WrapRule.CUBE,
    memory_bytes=95 * GIB,
    type_prefix="v5p",
    ici_resilient=True,
    products=(
        Product(
            "tpu-v5p-slice",
            _machines("ct5p-hightpu", 4),
            single_host=_shapes("2x2x1"),
            multi_host=_SMALL_3D,
            cubes_up_to=Shape(16, 16, 24),
        ),
    ),
)
V6E: Final = Generation(
    name="v6e",
    pci=PciId("0x006f"),
    files=DeviceFiles.VFIO,
    cores_per_chip=1,
    chips_per_host=(1, 4, 8),
    dimensions=2,
    wrap=WrapRule.SIXTEEN,
    memory_bytes=32 * GIB,
    type_prefix="v6e",
    type_counts_cores=False,
    needs_control_service=True,
    products=(
        Product(
            "tpu-v6e-slice",
            _machines("ct6e-standard", 1, 4, 8),
            single_host=_shapes("1x1 2x2 2x4"),
            multi_host=_LITE_PODS,
        ),
    ),
)
TPU7X: Final = Generation(
    name="tpu7x",
    pci=PciId("0x0076"),
    files=DeviceFiles.VFIO,
    cores_per_chip=2,
    chips_per_host=(1, 4),
    dimensions=3,
    wrap=WrapRule.CUBE,
    functions_per_chip=2,
    memory_bytes=192 * GIB,
    type_prefix="tpu7x",
    ici_resilient=True,
    is_spread=True,
    needs_control_service=True,
    products=(
        Product(
            "tpu7x",
            (*_machines("tpu7x-standard", 1, 4), *_machines("tpu7x-ultranet", 4)),
            single_host=_shapes("1x1x1 2x2x1"),
            multi_host=_SMALL_3D,
            cubes_up_to=Shape(16, 24, 24),
        ),
    ),
)

GENERATIONS: Final = (V2, V3, V4, V4_LITE, V5E, V5P, V6E, TPU7X)

FOREIGN_FUNCTIONS: Final = {"0x001f": "an NVMe disk", "0x0042": "a gVNIC network card", "0xabcd": "not a TPU"}
"""PCI device ids of Google's other functions, by dra-driver-google-tpu."""

UNDESCRIBED_CHIPS: Final = frozenset({"0x007c", "0x0083"})
"""PCI device ids of TPUs of which nothing else is public: neither generation nor cores nor hosts."""

KNOWN_CHIPS: Final = UNDESCRIBED_CHIPS | {generation.pci.device for generation in GENERATIONS}
"""PCI device ids of all TPUs."""


def generation_of(device: str, subsystem_device: str | None) -> Generation | None:
    """The generation of a PCI function of Google's, or None if the table has none."""
    for generation in GENERATIONS:
        wanted = generation.pci
        if wanted.device == device and wanted.subsystem_device in {None, subsystem_device}:
            return generation
    return None


def generation_named(name: str) -> Generation | None:
    """The generation of a label's value or of an accelerator type: `tpu-v6e-slice`, `v5litepod-16`."""
    for generation in GENERATIONS:
        if any(product.label == name for product in generation.products):
            return generation
        if generation.type_prefix is not None and name.lower().rpartition("-")[0] == generation.type_prefix:
            return generation
    return None


def machine_named(name: str) -> Machine | None:
    """The machine type of that name."""
    machines = (
        machine for known in GENERATIONS for product in known.products for machine in product.machines
    )
    return next((machine for machine in machines if machine.name == name), None)
