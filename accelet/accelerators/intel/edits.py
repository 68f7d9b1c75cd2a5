"""What a container must be given to use exactly its GPUs and tiles."""

from collections.abc import Mapping, Sequence

from accelet.accelerators.backend import Tiles
from accelet.accelerators.device import Device, UnitId
from accelet.accelerators.edits import ContainerEdits
from accelet.accelerators.errors import EditsError, MaskError
from accelet.accelerators.gathering import gather_edits
from accelet.accelerators.intel.masks import Hierarchy, VisibleCard, read_hierarchy, read_mask, write_mask
from accelet.accelerators.pci import PciAddress

MASK = "ZE_AFFINITY_MASK"
HIERARCHY = "ZE_FLAT_DEVICE_HIERARCHY"
PCI_ORDER = "ZE_ENABLE_PCI_ID_DEVICE_ORDER"


def gpu_edits(
    devices: Sequence[Device], tiles: Tiles, environment: Mapping[str, str], *, emit_pci_order: bool
) -> ContainerEdits:
    """Nodes, mounts and, where the container may not use every tile of its cards, a mask.

    With a mask come the hierarchy it is written in and the order its numbers count in, each unless the
    container's own `environment` sets it: the container's own value wins in the kubelet anyhow, so the
    mask is written to fit it. `emit_pci_order` False leaves the order to the driver's default.

    Raises:
        EditsError: tiles that a card does not have, or a hierarchy no mask can be written in.
    """
    cards = _cards_of(devices)
    emits_order = emit_pci_order and PCI_ORDER not in environment
    in_pci_order = emits_order or _is_on(environment.get(PCI_ORDER, ""))
    ordered = sorted(cards.values(), key=lambda card: _enumeration_order(card, in_pci_order=in_pci_order))
    visible = [VisibleCard(card.tile_count, _tiles_of(card, devices, tiles)) for card in ordered]
    if all(card.is_whole for card in visible):
        return gather_edits(devices)
    try:
        hierarchy = read_hierarchy(environment.get(HIERARCHY, Hierarchy.FLAT))
        mask = write_mask(visible, hierarchy)
    except MaskError as error:
        raise EditsError(str(error)) from error
    variables = {MASK: mask or ""}
    if HIERARCHY not in environment:
        variables[HIERARCHY] = str(hierarchy)
    if emits_order:
        variables[PCI_ORDER] = "1"
    return gather_edits(devices, variables)


def read_tiles(devices: Sequence[Device], environment: Mapping[str, str]) -> Mapping[UnitId, frozenset[int]]:
    """The tiles of each of its units that a container with this environment sees: what a mask says.

    Raises:
        EditsError: the mask or the hierarchy is none that Level Zero reads.
    """
    cards = _cards_of(devices)
    in_pci_order = _is_on(environment.get(PCI_ORDER, ""))
    ordered = sorted(cards.values(), key=lambda card: _enumeration_order(card, in_pci_order=in_pci_order))
    try:
        hierarchy = read_hierarchy(environment.get(HIERARCHY, Hierarchy.FLAT))
        shown = read_mask(environment.get(MASK, ""), [card.tile_count for card in ordered], hierarchy)
    except MaskError as error:
        raise EditsError(str(error)) from error
    return {card.unit: tiles for card, tiles in zip(ordered, shown, strict=True)}


def _cards_of(devices: Sequence[Device]) -> dict[UnitId, Device]:
    """One device for each card, whichever: they agree on everything that concerns the whole card."""
    return {device.unit: device for device in devices}


def _enumeration_order(card: Device, *, in_pci_order: bool) -> tuple[bool, bool, PciAddress, str]:
    """Level Zero's order: by PCI address; without ZE_ENABLE_PCI_ID_DEVICE_ORDER, integrated ones last.

    Source: intel/compute-runtime, `ExecutionEnvironment::comparePciIdBusNumber`.
    """
    address = PciAddress.parse(card.pci or "")
    comes_last = not in_pci_order and card.kind == "integrated"
    return comes_last, address is None, address or PciAddress(0, 0, 0, 0), card.unit


def _tiles_of(card: Device, devices: Sequence[Device], tiles: Tiles) -> frozenset[int]:
    """The card's tiles that the container may use, by its tile devices and by the whole card."""
    chosen = {device.tile for device in devices if device.unit == card.unit and device.tile is not None}
    if any(device.unit == card.unit and device.tile is None for device in devices):
        chosen |= tiles.get(card.unit, frozenset(range(card.tile_count)))
    beyond = sorted(tile for tile in chosen if not 0 <= tile < card.tile_count)
    if beyond:
        named = ", ".join(map(str, beyond))
        raise EditsError(f"{_name(card)} has {card.tile_count} tiles, counted from 0, and no tile {named}")
    if not chosen:
        raise EditsError(f"no tile of {_name(card)} would be left to the container")
    return frozenset(chosen)


def _name(card: Device) -> str:
    return f"{card.card} ({card.unit})" if card.card and card.card != card.unit else card.unit


def _is_on(value: str) -> bool:
    return value.strip() not in ("", "0")
