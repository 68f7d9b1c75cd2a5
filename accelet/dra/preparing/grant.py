"""From what a claim holds to the files and the environment its containers get."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from accelet.accelerators.backend import Backend, Tiles
from accelet.accelerators.device import Device, UnitId
from accelet.accelerators.edits import ContainerEdits
from accelet.accelerators.errors import EditsError
from accelet.accelerators.inventory import Inventory
from accelet.dra.errors import ClaimError
from accelet.dra.preparing.hold import DeviceHold
from accelet.dra.preparing.views import Environment
from accelet.dra.publishing.served import ServedResource


@dataclass(frozen=True)
class Hardware:
    """All hardware of one driver as the last scan saw it.

    `backend` is None where the driver has no resource. `backends` are those of each unit's resource.
    """

    backend: Backend | None
    inventory: Inventory
    backends: Mapping[UnitId, Backend] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def units(self) -> frozenset[UnitId]:
        """All units, and the physical functions of virtual ones."""
        parents = (device.parent for device in self.inventory.devices if device.parent is not None)
        return frozenset(self.inventory.by_unit) | frozenset(parents)

    def edits(self, holds: Sequence[DeviceHold], environment: Environment) -> ContainerEdits:
        """What a container with these devices gets; `environment` is what is set for it beside.

        Raises:
            ClaimError: the devices cannot be used together, are not there any more, or are of resources whose
                settings would have a container told differently.
        """
        devices = [self._device(unit) for unit in sorted({unit for hold in holds for unit, _ in hold.atoms})]
        assert self.backend is not None, "what was found belongs to a resource"
        backends: list[Backend] = []
        for device in devices:
            if (backend := self.backends.get(device.unit, self.backend)) not in backends:
                backends.append(backend)
        tiles = self._tiles(holds)
        try:
            made = [
                backend.edits(self.inventory, devices, tiles, environment)
                for backend in backends or [self.backend]
            ]
        except EditsError as error:
            raise ClaimError(str(error)) from None
        if any(one.environment != made[0].environment for one in made):
            raise ClaimError(
                "one container's devices are of resources that are set up in different ways: set those "
                "resources up alike, or ask for devices of one of them"
            )
        return made[0]

    def _device(self, unit: UnitId) -> Device:
        found = self.inventory.by_unit.get(unit)
        if not found:
            raise ClaimError(f"{unit} is not there any more")
        return replace(found[0], tile=None, share=None)

    def _tiles(self, holds: Sequence[DeviceHold]) -> Tiles:
        """The tiles of each card that is not held whole."""
        held: dict[UnitId, set[int]] = {}
        for hold in holds:
            for unit, tile in hold.atoms:
                held.setdefault(unit, set()).add(tile)
        counts = {unit: self._device(unit).tile_count for unit in held}
        for unit, tiles in held.items():
            if gone := sorted(tile for tile in tiles if tile >= counts[unit]):
                raise ClaimError(f"{unit} has no tile {gone[0]} any more")
        return {unit: frozenset(tiles) for unit, tiles in held.items() if len(tiles) < counts[unit]}


def hardware_of(resources: Sequence[ServedResource]) -> Hardware:
    """The hardware of all resources of one driver."""
    if not resources:
        return Hardware(None, Inventory())
    first = resources[0].inventory
    devices = tuple(device for resource in resources for device in resource.inventory.devices)
    backends = {
        device.unit: resource.backend for resource in resources for device in resource.inventory.devices
    }
    return Hardware(resources[0].backend, replace(first, devices=devices), backends)


def describe_with(
    hardware: Hardware,
    holds: Sequence[DeviceHold],
    settings: Mapping[str, Environment],
    requests: frozenset[str],
) -> Environment:
    """The environment of a container that has the devices of `requests`.

    `settings` are what each request's parameters set. Monitors need none, but the device nodes that come
    with them are counted by what numbers a container's devices.

    Raises:
        ClaimError: the devices cannot be used together, or are set up in different ways.
    """
    used = [hold for hold in holds if hold.request in requests]
    chosen = [hold for hold in used if hold.is_exclusive]
    if not chosen:
        return {}
    ways = {tuple(sorted(settings.get(hold.request, {}).items())) for hold in chosen}
    if len(ways) > 1:
        raise ClaimError("one container's requests are configured in different ways: configure them alike")
    own = dict(ways.pop())
    environment = hardware.edits(chosen, own).environment
    if environment and not _units(used) <= _units(chosen):
        raise ClaimError(
            "a container that has parts of devices cannot be told rightly which they are beside a monitor of "
            "another device, or one for administrators: use that in a container of its own"
        )
    return {**environment, **own}


def _units(holds: Sequence[DeviceHold]) -> frozenset[UnitId]:
    return frozenset(unit for hold in holds for unit, _ in hold.atoms)
