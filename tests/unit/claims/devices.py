"""Devices as ResourceSlices have them, for tests of selectors."""

from typing import Any

from accelet.claims.cel.selector import SeenDevice
from accelet.claims.slices import parse_slice


def seen(
    driver: str, attributes: dict[str, Any], capacity: dict[str, Any], *, is_shared: bool = False
) -> SeenDevice:
    """The device as selectors see it."""
    device = {
        "name": "d",
        "attributes": attributes,
        "capacity": capacity,
        "allowMultipleAllocations": is_shared,
    }
    spec = {"driver": driver, "pool": {"name": "p"}, "nodeName": "n", "devices": [device]}
    found = parse_slice({"metadata": {"name": "s"}, "spec": spec}).devices[0].seen()
    assert found is not None
    return found
