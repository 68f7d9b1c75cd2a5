"""The tier that pods insist on by the labels with which GKE says how a node's machine is bought."""

from collections.abc import Mapping
from typing import Final

from accelet.provisioner.pools.machines import Refusal
from accelet.provisioner.pools.tiers import FLEX_START, FLEX_START_LABEL, SPOT_TAINT, Tier, TierError

_QUEUED: Final = "cloud.google.com/gke-queued"
_PROVISIONING: Final = "cloud.google.com/gke-provisioning"
_NAME: Final = "cloud.google.com/reservation-name"
_PROJECT: Final = "cloud.google.com/reservation-project"
_BLOCK: Final = "cloud.google.com/reservation-blocks"
_SUB_BLOCK: Final = "cloud.google.com/reservation-subblocks"
_AFFINITY: Final = "cloud.google.com/reservation-affinity"

CAPACITY_LABELS: Final = frozenset(
    (
        *(SPOT_TAINT, FLEX_START_LABEL, _QUEUED, _PROVISIONING),
        *(_NAME, _PROJECT, _BLOCK, _SUB_BLOCK, _AFFINITY),
    )
)
"""All labels that are read here (GKE's cluster autoscaler, labels of machines)."""

_SHOWN: Final = 80


def read_tier(selector: Mapping[str, str]) -> Tier | Refusal | None:
    """The tier that a node selector asks for, None if it leaves the choice; or why there is none."""
    if _QUEUED in selector:
        return Refusal(
            "the pods insist on queued provisioning, in which a ProvisioningRequest of the class "
            f"queued-provisioning.gke.io makes the machines: select {FLEX_START_LABEL} instead; or leave "
            'the job to GKE with the annotation accelet.dev/provision: "false"'
        )
    is_flex = _read_flex_start(selector)
    if isinstance(is_flex, Refusal):
        return is_flex
    is_spot = _read_spot(selector)
    if isinstance(is_spot, Refusal):
        return is_spot
    if is_flex:
        return _judge_flex_start(selector, is_spot=is_spot) or FLEX_START
    if _NAME in selector:
        return _read_reservation(selector, is_spot=bool(is_spot))
    return _read_without_reservation(selector, is_spot=is_spot)


def _read_flex_start(selector: Mapping[str, str]) -> bool | Refusal:
    """Whether the pods insist on flex-start machines."""
    flex = selector.get(FLEX_START_LABEL)
    if flex not in (None, "true"):
        return Refusal(f"{FLEX_START_LABEL} must be true or absent, not {flex[:_SHOWN]!r}")
    return flex is not None or selector.get(_PROVISIONING) == "flex-start"


def _judge_flex_start(selector: Mapping[str, str], *, is_spot: bool | None) -> Refusal | None:
    """What flex-start machines cannot be as well (GKE's cluster autoscaler, `FlexStartGenerator`)."""
    if is_spot:
        return Refusal("the pods insist on flex-start machines and on spot machines; choose one")
    if is_spot is False:
        return Refusal(f"the pods insist on {FLEX_START_LABEL} and on {_PROVISIONING}=standard; choose one")
    reserving = (key for key in (_NAME, _PROJECT, _BLOCK, _SUB_BLOCK) if key in selector)
    if (key := next(reserving, None)) is not None:
        return Refusal(
            f"flex-start machines come from no reservation: leave {key} out, or {FLEX_START_LABEL}"
        )
    affinity = selector.get(_AFFINITY, "none")
    if affinity != "none":
        return Refusal(
            f"{_AFFINITY} must be none or absent for flex-start machines, not {affinity[:_SHOWN]!r}"
        )
    return None


def _read_without_reservation(selector: Mapping[str, str], *, is_spot: bool | None) -> Tier | Refusal | None:
    for key in (_PROJECT, _BLOCK, _SUB_BLOCK):
        if key in selector:
            return Refusal(f"the pods insist on {key} and name no reservation: add {_NAME}")
    affinity = selector.get(_AFFINITY, "none")
    if affinity == "specific":
        return Refusal(f"{_AFFINITY}=specific needs a reservation: add {_NAME}")
    if affinity != "none":
        return Refusal(
            f"{_AFFINITY}={affinity[:_SHOWN]} is not served: name a reservation with {_NAME} and "
            f"{_AFFINITY}=specific, or select {_AFFINITY}=none"
        )
    if is_spot:
        return Tier("spot")
    return Tier("on-demand") if is_spot is False or _AFFINITY in selector else None


def _read_spot(selector: Mapping[str, str]) -> bool | Refusal | None:
    """Whether the pods insist on spot machines; None if they do not care."""
    spot, kind = selector.get(SPOT_TAINT), selector.get(_PROVISIONING)
    if spot not in (None, "true"):
        return Refusal(f"{SPOT_TAINT} must be true or absent, not {spot[:_SHOWN]!r}")
    if kind not in (None, "spot", "standard", "flex-start"):
        return Refusal(f"{_PROVISIONING} must be spot, standard or flex-start, not {kind[:_SHOWN]!r}")
    if spot and kind == "standard":
        return Refusal(f"the pods insist on {SPOT_TAINT} and on {_PROVISIONING}=standard; choose one")
    if spot or kind == "spot":
        return True
    return False if kind == "standard" else None


def _read_reservation(selector: Mapping[str, str], *, is_spot: bool) -> Tier | Refusal:
    """A reservation by its path, as GKE's reservationAffinity takes it, with the blocks below it."""
    name, affinity = selector[_NAME], selector.get(_AFFINITY, "specific")
    project, block, part = (selector.get(key) for key in (_PROJECT, _BLOCK, _SUB_BLOCK))
    if is_spot:
        return Refusal("the pods insist on a reservation and on spot machines; choose one")
    if affinity != "specific":
        return Refusal(f"{_AFFINITY} must be specific beside {_NAME}, not {affinity[:_SHOWN]!r}")
    if part is not None and block is None:
        return Refusal(f"the pods insist on {_SUB_BLOCK} and name no block: add {_BLOCK}")
    path = f"projects/{project}/reservations/{name}" if project else name
    path += f"/reservationBlocks/{block}" if block else ""
    path += f"/reservationSubBlocks/{part}" if part else ""
    try:
        return Tier.parse(f"reservation:{path}")
    except TierError:
        return Refusal(
            f"{path[:_SHOWN]!r} is no reservation's name: write it as Google Cloud shows it, in [a-z0-9-]"
        )
