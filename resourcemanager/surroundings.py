"""What a call is answered against, beside the call itself."""

from collections.abc import Mapping
from dataclasses import dataclass

from accelet.accelerators.inventory import Inventory
from accelet.kube.pods import Pod
from accelet.kube.poduid import PodUid
from resourcemanager.holdings.assigned import Assignments
from resourcemanager.holdings.ledger import Ledger


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What else is known when a call is answered. `pods` are those of this node."""

    resource: str
    inventory: Inventory
    ledger: Ledger
    pods: Mapping[PodUid, Pod]
    assignments: Assignments
