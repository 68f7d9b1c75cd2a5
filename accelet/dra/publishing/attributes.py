"""Attributes that every kind of device has alike, under the names Kubernetes gives them."""

from collections.abc import Iterator, Mapping, Sequence

from accelet.accelerators.pci import PciAddress
from accelet.dra.pool import Attribute
from accelet.dra.publishing.served import ServedUnit

LONGEST_TEXT = 64
"""Bytes of an attribute that is a text."""

_PCI_BUS_ID = "resource.kubernetes.io/pciBusID"
_PCIE_ROOT = "resource.kubernetes.io/pcieRoot"
_NUMA_NODE = "resource.kubernetes.io/numaNode"


def standard_attributes(units: Sequence[ServedUnit]) -> Mapping[str, Attribute]:
    """What holds for all of `units`: their PCIe root and NUMA node, and the address of a single one."""
    return dict(_standard(units))


def _standard(units: Sequence[ServedUnit]) -> Iterator[tuple[str, Attribute]]:
    if len(units) == 1 and (address := PciAddress.parse(units[0].device.pci or "")) is not None:
        yield _PCI_BUS_ID, str(address)
    roots = {unit.pcie_root for unit in units}
    if len(roots) == 1 and (root := roots.pop()) is not None:
        yield _PCIE_ROOT, root
    nodes = {unit.device.numa_nodes for unit in units}
    if len(nodes) == 1 and len(known := nodes.pop()) == 1 and known[0] >= 0:
        yield _NUMA_NODE, known[0]


def text_attribute(name: str, text: str | None) -> Mapping[str, Attribute]:
    """The attribute, where there is such a text and it is not too long to be published."""
    return {name: text} if text and len(text.encode(errors="surrogatepass")) <= LONGEST_TEXT else {}
