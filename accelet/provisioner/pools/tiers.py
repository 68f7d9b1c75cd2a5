"""In which order a slice is tried: tiers of price and capacity, times zones."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from accelet.kube.selection import Toleration

SPOT_TAINT: Final = "cloud.google.com/gke-spot"
FLEX_START_LABEL: Final = "cloud.google.com/gke-flex-start"
_WORD: Final = r"[a-z0-9]([-a-z0-9:.]*[a-z0-9])?"
_RESERVATION: Final = re.compile(
    rf"reservation:((projects/{_WORD}/reservations/)?{_WORD}(/[A-Za-z]+/{_WORD}){{0,2}})"
)
_LONGEST: Final = 256


class TierError(ValueError):
    """A text that is no tier, as a sentence."""


@dataclass(frozen=True, slots=True, order=True)
class Tier:
    """How capacity is bought.

    `reservation` is a name, or a path (`projects/P/reservations/R`, with blocks below it), of a
    reservation, and empty for the other kinds. Machines of flex-start are waited for, and end by themselves.
    """

    kind: Literal["on-demand", "reservation", "spot", "flex-start"]
    reservation: str = ""

    @classmethod
    def parse(cls, text: str) -> "Tier":
        """Reads `on-demand`, `spot`, `flex-start` or `reservation:NAME`.

        Raises:
            TierError: it is something else.
        """
        if text == "on-demand":
            return cls("on-demand")
        if text == "spot":
            return cls("spot")
        if text == "flex-start":
            return FLEX_START
        found = _RESERVATION.fullmatch(text[:_LONGEST])
        if found is None or len(text) > _LONGEST:
            raise TierError(
                f"{text[:_LONGEST]!r} is no tier: on-demand, spot, flex-start or reservation:NAME"
            )
        return cls("reservation", found[1])

    def __str__(self) -> str:
        return f"reservation:{self.reservation}" if self.kind == "reservation" else self.kind


FLEX_START: Final = Tier("flex-start")


@dataclass(frozen=True, slots=True)
class Attempt:
    """One place to try. An empty `zone` leaves it to the provider."""

    tier: Tier
    zone: str


@dataclass(frozen=True, slots=True)
class Wishes:
    """What a job's pods insist on, empty where they do not care, and whether they tolerate spot machines."""

    tier: Tier | None = None
    zone: str = ""
    tolerates_spot: bool = False


@dataclass(frozen=True, slots=True)
class Order:
    """The attempts of one round, and a sentence for each tier that was left out."""

    attempts: tuple[Attempt, ...]
    skipped: tuple[str, ...] = ()


def order_attempts(
    tiers: Sequence[Tier], zones: Sequence[str], wishes: Wishes, *, zone_first: bool = False
) -> Order:
    """The product of tiers and zones as far as the wishes allow it.

    Wishes are requirements. Without tiers, or zones, the choice is the pods'; those that are offered limit
    it, because what an administrator did not offer may not be bought.
    """
    tiers = tiers or (wishes.tier or Tier("on-demand"),)
    skipped: list[str] = []
    kept: list[Tier] = []
    for tier in tiers:
        objection = _object(tier, wishes)
        if objection is None:
            kept.append(tier)
        else:
            skipped.append(objection)
    if wishes.tier is not None and wishes.tier not in tiers:
        skipped.append(f"the pods insist on {wishes.tier}, which the settings do not offer")
    places = [zone for zone in zones or ("",) if wishes.zone in ("", zone)]
    if not zones and wishes.zone:
        places = [wishes.zone]
    elif not places:
        skipped.append(f"the pods insist on zone {wishes.zone}, which the settings do not offer")
    if zone_first:
        attempts = tuple(Attempt(tier, zone) for zone in places for tier in kept)
    else:
        attempts = tuple(Attempt(tier, zone) for tier in kept for zone in places)
    return Order(attempts, tuple(skipped))


def tolerates_spot(tolerations: Sequence[Toleration]) -> bool:
    """Whether pods with these tolerations may run on spot machines, which carry a taint."""
    return any(
        one.effect in ("", "NoSchedule")
        and (
            (one.operator == "Exists" and one.key in ("", SPOT_TAINT))
            or (one.operator == "Equal" and one.key == SPOT_TAINT and one.value == "true")
        )
        for one in tolerations
    )


def _object(tier: Tier, wishes: Wishes) -> str | None:
    if wishes.tier is not None and tier != wishes.tier:
        return f"{tier} is left out: the pods insist on {wishes.tier}"
    if tier.kind == "spot" and wishes.tier is None and not wishes.tolerates_spot:
        return f"spot is left out: the pods do not tolerate the taint {SPOT_TAINT}"
    if tier == FLEX_START and wishes.tier is None:
        return (
            "flex-start is left out: its machines end by themselves, and the pods do not select "
            f"{FLEX_START_LABEL}"
        )
    return None
