"""What one container has of a resource, why, and whether everybody who speaks of it agrees."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from accelet.accelerators.device import Device, DeviceId, UnitId
from accelet.accelerators.errors import EditsError
from accelet.accelerators.intel.edits import MASK, read_tiles
from accelet.accelerators.inventory import Inventory
from accelet.assignments.annotations import read_assignment
from accelet.assignments.assignment import AssignmentError
from accelet.kube.pods import Pod
from resourcemanager.holdings.evidence import CheckpointEntry
from resourcemanager.holdings.ledger import PROOF_ANNOTATION
from resourcemanager.target import Target, explain_misfit, find_target

NOTHING_ASSIGNED = "nothing is assigned to it"


@dataclass(frozen=True, slots=True)
class Explanation:
    """`cards` are by DRM name, or the stable one where there is none; `tiles` those seen, by card."""

    name: str
    resource: str
    devices: tuple[str, ...]
    cards: tuple[str, ...]
    tiles: Mapping[str, tuple[int, ...]]
    mask: str | None
    proof: str | None
    agrees: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Sources:
    """What is said of one container and resource; None where a source is silent.

    `entry`: the kubelet's checkpoint. `shown`: the devices podresources shows, None also where it never
    shows the container. `pod`: what the API server has, its annotations among it.
    """

    container: str
    resource: str
    entry: CheckpointEntry | None
    shown: frozenset[str] | None
    pod: Pod | None


def explain_container(sources: Sources, inventory: Inventory, *, is_followed: bool) -> Explanation:
    """`is_followed`: the resource follows assignments."""
    entry, shown = sources.entry, sources.shown
    ids = sorted((entry.device_ids if entry is not None else None) or shown or ())
    devices = [inventory.by_id[DeviceId(one)] for one in ids if one in inventory.by_id]
    given = _environment(entry)
    environment = {**given, **_own_environment(sources)}
    tiles, problems = _seen(devices, environment)
    if entry is not None and shown is not None and entry.device_ids != shown:
        problems.append(
            f"the kubelet's checkpoint gives it {_some(entry.device_ids)}, podresources shows {_some(shown)}"
        )
    if not ids:
        problems.append("the kubelet has given it no device")
    if missing := [one for one in ids if one not in inventory.by_id]:
        problems.append(f"{_some(missing)} is not on this node any more")
    if environment.get(MASK) != given.get(MASK):
        problems.append(f"the container sets {MASK} itself, which wins over what it was given")
    reason = "the devices are the kubelet's choice"
    if is_followed and ids:
        reason, misfits = _compare(sources, inventory, [DeviceId(one) for one in ids], tiles)
        problems += misfits
    names = {device.unit: device.card or device.unit for device in devices}
    return Explanation(
        name=sources.container,
        resource=sources.resource,
        devices=tuple(ids),
        cards=tuple(dict.fromkeys(names.values())),
        tiles={names[unit]: tuple(sorted(some)) for unit, some in tiles.items()},
        mask=environment.get(MASK),
        proof=(entry.annotations.get(PROOF_ANNOTATION) if entry is not None else None) or None,
        agrees=not problems,
        reason="; ".join(problems) or reason,
    )


def _environment(entry: CheckpointEntry | None) -> Mapping[str, str]:
    return {} if entry is None else entry.environment


def _own_environment(sources: Sources) -> Mapping[str, str]:
    containers = () if sources.pod is None else sources.pod.all_containers
    return next((one.environment for one in containers if one.name == sources.container), {})


def _seen(
    devices: Sequence[Device], environment: Mapping[str, str]
) -> tuple[Mapping[UnitId, frozenset[int]], list[str]]:
    try:
        return read_tiles(devices, environment), []
    except EditsError as error:
        return {}, [str(error)]


def _compare(
    sources: Sources,
    inventory: Inventory,
    ids: Sequence[DeviceId],
    seen: Mapping[UnitId, frozenset[int]],
) -> tuple[str, list[str]]:
    """Why it has what it has by its annotation, and what contradicts that."""
    if sources.pod is None:
        return "the API server does not say what is assigned to it", []
    try:
        assignment = read_assignment(sources.pod)
        pieces = assignment and assignment.pieces(sources.container, sources.resource)
        if not pieces:
            return NOTHING_ASSIGNED, []
        target = find_target(pieces, inventory, len(ids), sources.resource)
    except AssignmentError as error:
        return "", [str(error)]
    if misfit := explain_misfit(target, ids):
        return "", [misfit]
    return f"assigned {target.text}", _compare_tiles(target, inventory, ids, seen)


def _compare_tiles(
    target: Target,
    inventory: Inventory,
    ids: Sequence[DeviceId],
    seen: Mapping[UnitId, frozenset[int]],
) -> list[str]:
    problems = []
    for unit, tiles in seen.items():
        devices = [inventory.by_id[one] for one in ids if inventory.by_id[one].unit == unit]
        whole = frozenset(range(devices[0].tile_count))
        own = frozenset(device.tile for device in devices if device.tile is not None)
        wanted = own or target.tiles.get(unit, whole)
        if tiles != wanted:
            problems.append(
                f"assigned is {target.text}, but its environment shows it tiles {sorted(tiles)} of {unit}"
            )
    return problems


def _some(ids: frozenset[str] | Sequence[str]) -> str:
    ordered = sorted(ids)
    return (", ".join(ordered[:4]) or "nothing") + (" and more" if len(ordered) > 4 else "")
