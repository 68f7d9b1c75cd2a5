"""Which cards belong to a resource."""

from fnmatch import fnmatchcase
from typing import Annotated

import msgspec
from msgspec import Meta

from accelet.accelerators.intel.card import Card, Kind
from accelet.accelerators.settings import Glob, PciDeviceId, as_id, can_meet, either, globs_meet

SERVED_DRIVERS = ("i915", "xe")
"""The drivers whose cards are served without being named."""

Driver = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]+$", description="kernel driver, as i915")]


class CardMatch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All criteria that are given must hold; none given means every card of a served driver.

    `id` is a shell pattern over the card's PCI address, in either writing (`0000:03:00.0`,
    `0000-03-00.0`).
    """

    driver: Annotated[tuple[Driver, ...], Meta(min_length=1)] | None = None
    device_id: Annotated[tuple[PciDeviceId, ...], Meta(min_length=1)] | None = None
    kind: Kind | None = None
    id: Glob | None = None

    def refusal(self, card: Card) -> tuple[str, str] | None:
        """Why `card` is not one of these: a code and a sentence; None if it is one."""
        driver = card.counted_driver
        if driver not in SERVED_DRIVERS and driver not in (self.driver or ()):
            served = " and ".join(SERVED_DRIVERS)
            return "driver-not-served", (
                f"is bound to {driver}; only cards of {served} are served, unless match.driver names another"
            )
        reason = self._mismatch(card, driver)
        return None if reason is None else ("not-selected", f"this resource leaves it out: {reason}")

    def _mismatch(self, card: Card, driver: str) -> str | None:
        if self.driver is not None and driver not in self.driver:
            return f"its driver is {driver}, not {either(self.driver)}"
        wanted = self.device_ids()
        if wanted is not None and card.pci_device not in wanted:
            return f"its PCI device id is {card.pci_device or 'unknown'}, not {either(sorted(wanted))}"
        if self.kind is not None and card.kind != self.kind:
            return f"it is {card.kind or 'of unknown kind'}, not {self.kind}"
        if self.id is not None and not fnmatchcase(card.unit, as_id(self.id)):
            return f"its id {card.unit} does not match {self.id}"
        return None

    def overlaps(self, other: "CardMatch") -> bool:
        """Whether one card can be matched by both, as far as the criteria alone can tell."""
        return (
            can_meet(self.driver or SERVED_DRIVERS, other.driver or SERVED_DRIVERS)
            and can_meet(self.device_ids(), other.device_ids())
            and (self.kind is None or other.kind is None or self.kind == other.kind)
            and (self.id is None or other.id is None or globs_meet(as_id(self.id), as_id(other.id)))
        )

    def device_ids(self) -> frozenset[str] | None:
        """The wanted device ids as sysfs writes them; None for any."""
        if self.device_id is None:
            return None
        return frozenset(map(str.lower, self.device_id))
