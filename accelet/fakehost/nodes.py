"""Nodes worth testing against, by name.

Where cards of i915 tell their memory, the driver is the one that Intel gives out apart from the kernel, as
data centres have it: `lmem_total_bytes` is in no mainline kernel.
"""

from dataclasses import replace

from accelet.fakehost.gpus import FALLEN_OFF, Gpu

GIB = 2**30

FLEX = (
    Gpu(0, "0000:03:00.0", device="0x56c0", lmem=16 * GIB, numa=0),
    Gpu(1, "0000:9a:00.0", device="0x56c0", lmem=16 * GIB, numa=1),
)
"""Two single-tile cards of Intel's own i915."""

MAX = (
    Gpu(0, "0000:29:00.0", device="0x0bd5", gts=2, lmem=64 * GIB, numa=0),
    Gpu(1, "0000:3a:00.0", device="0x0bd5", gts=2, lmem=64 * GIB, numa=0),
    Gpu(2, "0000:9a:00.0", device="0x0bd5", gts=2, lmem=64 * GIB, numa=1),
    Gpu(3, "0000:ca:00.0", device="0x0bd5", gts=2, lmem=64 * GIB, numa=1),
)
"""Four two-tile cards of Intel's own i915: mainline i915 shows no tiles."""

LAPTOP = (Gpu(0, "0000:00:02.0", device="0x7d55", gts=2),)
"""An integrated Meteor Lake of i915: gt1 is its media engine."""

ARC = (
    Gpu(0, "0000:00:02.0", driver="xe", device="0x64a0", tiles=1),
    Gpu(1, "0000:04:00.0", driver="xe", device="0xe20b", tiles=1, vram=12 * GIB),
)
"""An integrated and a discrete card of xe, Linux 6.14 or newer."""

ARC_OLD = (replace(ARC[1], vram=None),)
"""A discrete card of xe, Linux 6.8 to 6.13: its memory cannot be told."""

ARC_I915 = (Gpu(0, "0000:0b:00.0", device="0x56a5"),)
"""A discrete card of mainline i915: its memory cannot be told."""

MIXED = (
    Gpu(0, "0000:00:02.0", device="0x4680"),
    Gpu(1, "0000:29:00.0", device="0x0bd5", gts=2, lmem=64 * GIB, numa=0),
    Gpu(2, "0000:3a:00.0", driver="xe", device="0x0bda", tiles=2, vram=64 * GIB, numa=0),
    Gpu(3, "0000:9a:00.0", driver="xe", device="0xe20b", tiles=1, vram=12 * GIB, numa=1),
)
"""Everything on one node: integrated, both drivers (Intel's own i915), one and two tiles."""

SRIOV = (
    Gpu(0, "0000:03:00.0", numvfs=2, lmem=16 * GIB),
    Gpu(1, "0000:03:00.1", lmem=7 * GIB),
    Gpu(2, "0000:03:00.2", lmem=7 * GIB),
    Gpu(3, "0000:04:00.0", numvfs=0, lmem=16 * GIB),
)
"""A physical function with two virtual ones in use, and one without."""

VMD = (Gpu(0, "10000:03:00.0", lmem=16 * GIB), Gpu(1, "0000:fe:00.0", lmem=16 * GIB))
"""A PCI domain of more than four digits."""

GUESTS = (
    Gpu(0, "0000:03:00.0", driver="vfio-pci", has_drm=False),
    Gpu(1, "0000:04:00.0", driver=None, has_drm=False),
    Gpu(2, "0000:05:00.0", lmem=16 * GIB),
)
"""One card given to a guest, one without a driver, one to serve."""

SICK = (
    Gpu(0, "0000:03:00.0", lmem=16 * GIB, config=FALLEN_OFF),
    Gpu(1, "0000:04:00.0", lmem=16 * GIB),
)
"""One card no longer on the bus, one well."""

ALL_NODES = {
    "flex": FLEX,
    "max": MAX,
    "laptop": LAPTOP,
    "arc": ARC,
    "arc-old": ARC_OLD,
    "arc-i915": ARC_I915,
    "mixed": MIXED,
    "sriov": SRIOV,
    "vmd": VMD,
    "guests": GUESTS,
    "sick": SICK,
}
