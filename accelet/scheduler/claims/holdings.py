"""Who holds which devices: counted, so that a device given twice is held until both have gone."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from accelet.claims.requests import Claim
from accelet.claims.slices import DeviceId
from accelet.kube.quantity import Quantity


@dataclass(frozen=True, slots=True)
class Holdings:
    """`whole`: how many claims hold a device for themselves. `shared`: what is taken of shared devices."""

    whole: Mapping[DeviceId, int] = field(default_factory=dict)
    shared: Mapping[DeviceId, Mapping[str, Quantity]] = field(default_factory=dict)

    def holds(self, device: DeviceId) -> bool:
        return device in self.whole or device in self.shared


def count_holdings(claims: Iterable[Claim]) -> Holdings:
    """What all claims hold together; devices of admin access are nobody's."""
    whole: Counter[DeviceId] = Counter()
    shared: dict[DeviceId, dict[str, Quantity]] = {}
    for claim in claims:
        for held in claim.held or ():
            if held.is_admin:
                continue
            if held.consumed is None:
                whole[held.device] += 1
                continue
            amounts = shared.setdefault(held.device, {})
            for name, amount in held.consumed.items():
                amounts[name] = amounts.get(name, 0) + amount
    return Holdings(dict(whole), shared)
