"""What a container sees of the hardware, from what a runtime gives it; shares no code with the product."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Tile = tuple[int, int]
"""A card's bus number and a tile of it."""


def cdi_devices(documents: Iterable[str]) -> dict[str, Mapping[str, Any]]:
    """The edits of each device of some CDI files, by its full name."""
    found: dict[str, Mapping[str, Any]] = {}
    for text in documents:
        document = json.loads(text)
        for device in document["devices"]:
            name = f"{document['kind']}={device['name']}"
            assert name not in found, f"{name} twice: a runtime would refuse both"
            assert device["containerEdits"], f"{name} has no edits: a runtime would refuse the file"
            found[name] = device["containerEdits"]
    return found


def inject(edits: Sequence[Mapping[str, Any]]) -> tuple[frozenset[str], dict[str, str]]:
    """Nodes and environment of a container: in order, the last value of a variable wins."""
    nodes = {node["path"] for one in edits for node in one.get("deviceNodes", ())}
    environment = dict(line.split("=", 1) for one in edits for line in one.get("env", ()))
    return frozenset(nodes), environment


def visible_tiles(
    nodes: Iterable[str], environment: Mapping[str, str], tile_counts: Mapping[int, int]
) -> frozenset[Tile]:
    """The tiles that Level Zero shows: those of the cards whose render nodes are there, masked.

    `tile_counts` by bus number; card n has /dev/dri/card<n>. Only FLAT masks in PCI order are read.
    """
    cards = sorted(bus for bus in tile_counts if f"/dev/dri/card{bus}" in set(nodes))
    flat = [(bus, tile) for bus in cards for tile in range(tile_counts[bus])]
    mask = environment.get("ZE_AFFINITY_MASK")
    if mask is None:
        return frozenset(flat)
    assert environment["ZE_FLAT_DEVICE_HIERARCHY"] == "FLAT"
    assert environment["ZE_ENABLE_PCI_ID_DEVICE_ORDER"] == "1"
    return frozenset(flat[int(number)] for number in mask.split(","))
