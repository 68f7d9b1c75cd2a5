"""Conditions in the status of our own kinds, as metav1.Condition has them."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from accelet.kube.objects import Wire

_LONGEST_MESSAGE = 32768
_REASON = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]{0,1022}[A-Za-z0-9_])?")

Truth = Literal["True", "False", "Unknown"]


@dataclass(frozen=True, slots=True)
class StatusCondition:
    """One condition that we write. `reason` is a word in UpperCamelCase, `message` a sentence.

    `changed` is when `status` became what it is, RFC 3339; `generation` the one of the spec it speaks of.
    """

    type: str
    status: Truth
    reason: str
    message: str = ""
    generation: int = 0
    changed: str = ""

    def __post_init__(self) -> None:
        """
        Raises:
            ValueError: the API server would refuse this reason.
        """
        if not _REASON.fullmatch(self.reason):
            raise ValueError(f"{self.reason[:64]!r} is no reason; it is a word such as QuotaExceeded")

    def to_body(self) -> dict[str, object]:
        return {
            "type": self.type,
            "status": self.status,
            "reason": self.reason,
            "message": self.message[:_LONGEST_MESSAGE],
            "observedGeneration": self.generation,
            "lastTransitionTime": self.changed,
        }


def set_conditions(
    before: Sequence[StatusCondition], wanted: Iterable[StatusCondition], now: str
) -> tuple[StatusCondition, ...]:
    """The conditions after `wanted` ones came to hold at time `now`; those of other types stay.

    Of one whose status is the same as before, the time of change stays. Of two of a type the last counts.
    """
    held = {condition.type: condition for condition in before}
    coming = {condition.type: condition for condition in wanted}
    for kind, condition in coming.items():
        old = held.get(kind)
        changed = old.changed if old is not None and old.status == condition.status else now
        held[kind] = replace(condition, changed=changed)
    return tuple(held.values())


class WireStatusCondition(Wire, frozen=True):
    type: str
    status: Truth
    reason: str | None = None
    message: str | None = None
    observed_generation: int | None = None
    last_transition_time: str | None = None


def read_status_conditions(wire: Iterable[WireStatusCondition] | None) -> tuple[StatusCondition, ...]:
    """Those that are written as ours are; a reason that could not be ours becomes `Unknown`."""
    return tuple(
        StatusCondition(
            one.type,
            one.status,
            one.reason if one.reason and _REASON.fullmatch(one.reason) else "Unknown",
            one.message or "",
            one.observed_generation or 0,
            one.last_transition_time or "",
        )
        for one in wire or ()
    )
