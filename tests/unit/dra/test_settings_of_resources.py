"""Each device is described by the settings of its own resource."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from accelet.accelerators.intel.gpu import IntelGpu, IntelGpuSettings
from accelet.accelerators.intel.scan import CardScan
from accelet.dra.errors import ClaimError
from accelet.dra.preparing.grant import hardware_of
from accelet.dra.preparing.hold import DeviceHold
from accelet.dra.publishing.served import ServedResource
from tests.unit.dra.nodes import Node, an_offer
from tests.unit.dra.strategies import gpu, gpus

_ORDER = "ZE_ENABLE_PCI_ID_DEVICE_ORDER"
FIRST = gpus(gpu(3, tiles=2))
SECOND_TILE = "gpu-0000-04-00-0-tile-0"


def _second(**settings: Any) -> ServedResource:
    backend = IntelGpu(IntelGpuSettings(**settings), lambda _root: CardScan())
    return replace(gpus(gpu(4, tiles=2, kind="xe"), name="gpu.intel.com/xe"), backend=backend)


async def test_pci_order_of_a_second_resource_counts_for_its_own_cards(tmp_path: Path) -> None:
    second = _second(pci_order=False)
    node = Node(tmp_path, second)
    node.offer = an_offer(FIRST, second)
    assert isinstance((await node.prepare(SECOND_TILE))[SECOND_TILE], tuple)
    (file,) = node.files()
    assert "ZE_AFFINITY_MASK" in file.read_text()
    assert _ORDER not in file.read_text()


def _holds(*resources: ServedResource) -> list[DeviceHold]:
    units = [one.inventory.devices[0].unit for one in resources]
    return [DeviceHold("r", "n", str(unit), frozenset({(unit, 0)})) for unit in units]


def test_cards_of_resources_that_tell_a_container_different_things_are_not_mixed() -> None:
    alike, other = _second(), _second(pci_order=False)
    told = hardware_of([FIRST, alike]).edits(_holds(FIRST, alike), {}).environment
    assert told["ZE_AFFINITY_MASK"]
    with pytest.raises(ClaimError, match="are of resources that are set up in different ways"):
        hardware_of([FIRST, other]).edits(_holds(FIRST, other), {})
