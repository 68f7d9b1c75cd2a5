"""One resource's present state behind plain methods."""

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING

from accelet.accelerators.backend import Backend, Tiles
from accelet.accelerators.device import DeviceId, Health
from accelet.accelerators.hardwarename import unit_named_by
from accelet.accelerators.inventory import Inventory, list_health
from accelet.assignments.nodecards import NodeCard, list_node_cards
from resourcemanager.allocation import NOTHING_KNOWN, WHOLE, Allocation, Refusal, allocate
from resourcemanager.giving.policies import Policies
from resourcemanager.giving.preference import Policy, prefer
from resourcemanager.holdings.ledger import ALLOCATION_ANNOTATION, PROOF_ANNOTATION, InFlight, Ledger
from resourcemanager.holdings.reconcile import reconcile
from resourcemanager.holdings.strangers import find_strangers, keep_off_strangers
from resourcemanager.listing import Listing, next_listing

if TYPE_CHECKING:  # what follows assignments is imported where some are followed: few nodes do
    from accelet.kube.pods import Pod
    from accelet.kube.poduid import PodUid
    from resourcemanager.giving.steering import Steering
    from resourcemanager.holdings.assigned import Assignments
    from resourcemanager.holdings.reconcile import Reconciled, View
    from resourcemanager.matching.inquiry import Match, NoProof
    from resourcemanager.surroundings import Surroundings


@dataclass(frozen=True, slots=True)
class ResourceRules:
    """How a resource, by its full name, is given out; `is_distinct`: never two shares of one device.

    `following` are the policies where assignments are followed, None where no identity is sought.
    """

    resource: str
    policy: Policy = "none"
    is_distinct: bool = False
    following: Policies | None = None


class ResourceManager:
    """Holds the last scan, the list made of it, and the ledger; every answer is a plain call on them.

    Not safe for use by several threads: it belongs to the event loop.
    """

    def __init__(self, rules: ResourceRules, backend: Backend) -> None:
        self.rules = rules
        self.backend = backend
        self._inventory = Inventory()
        self._listing = Listing()
        self._ledger = Ledger(rules.resource)
        self._others: Mapping[str, Ledger] = {}
        self._known_assignments: Assignments | None = None
        if rules.following is not None:
            for name in ("following", "steering"):  # the first call is not to wait for them
                import_module(f"resourcemanager.giving.{name}")

    @property
    def inventory(self) -> Inventory:
        return self._inventory

    @property
    def listing(self) -> Listing:
        return self._listing

    @property
    def ledger(self) -> Ledger:
        return self._ledger

    @property
    def ledgers(self) -> tuple[Ledger, ...]:
        """Its own ledger, and those of other resources as which containers hold its hardware."""
        strangers = find_strangers(self._ledger, self._others.values(), self._inventory)
        names = {stranger.resource for stranger in strangers}
        return self._ledger, *(other for name, other in self._others.items() if name in names)

    @property
    def has_strangers(self) -> bool:
        """Whether containers hold its hardware by other names than it is served by now."""
        return bool(find_strangers(self._ledger, self._others.values(), self._inventory))

    def update(self, inventory: Inventory) -> Listing:
        """Takes over a scan; returns the list before it."""
        before = self._listing
        held = self._ledger.must_stay_listed if self._ledger.has_read_checkpoint else None
        self._inventory = keep_off_strangers(inventory, self._ledger, self._others.values())
        self._listing = next_listing(before, self._inventory, held)
        return before

    @property
    def _told(self) -> Mapping[DeviceId, Health]:
        return {device: entry.health for device, entry in self._listing.entries.items()}

    def reconcile_ledger(self, view: "View") -> "Reconciled":
        """Brings the ledger in line with what can be seen; returns what changed."""
        reconciled = reconcile(self._ledger, view)
        self._ledger = reconciled.ledger
        return reconciled

    def reconcile_others(self, view: "View") -> None:
        """As `reconcile_ledger` with who holds devices of other resources, which may be this hardware."""
        names = self._others.keys() | {entry.resource for entry in view.checkpoint or ()}
        ledgers = (
            reconcile(self._others.get(name, Ledger(name)), view).ledger
            for name in sorted(names - {self.rules.resource})
        )
        self._others = {ledger.resource: ledger for ledger in ledgers if ledger.holdings}

    def meet_kubelet(self, known: "Set[PodUid]") -> None:
        """Another life of the kubelet has begun."""
        self._ledger = self._ledger.of_new_kubelet(known)

    def list_health(self) -> Mapping[str, str | None]:
        """Why each unit is ill that the kubelet is told of, by PCI address or id; None for a well one."""
        found = list_health(self._inventory, self._told)
        for device, entry in self._listing.entries.items():
            if device not in self._inventory.by_id:
                found.setdefault(unit_named_by(device), entry.health.reason)
        return found

    def list_cards(self, pods: "Mapping[PodUid, Pod]") -> tuple[NodeCard, ...]:
        """The cards as schedulers are told them: as well as the kubelet is told that they are.

        `pods` are those of this node; whoever holds a device and is none of them counts as unassigned.
        """
        from resourcemanager.holdings.assigned import count_unassigned  # noqa: PLC0415  see above

        unassigned = count_unassigned(self._ledger, self._inventory, pods, self._assignments())
        return tuple(list_node_cards(self.rules.resource, self._inventory, unassigned, self._told))

    def steer(self, found: "Match | NoProof", size: int, pods: "Mapping[PodUid, Pod]") -> "Steering":
        """Where the container that was found is to be steered."""
        from resourcemanager.giving.steering import steer  # noqa: PLC0415  see above

        return steer(found, size, self._surroundings(pods))

    def prefer(
        self,
        available: Collection[DeviceId],
        must_include: Collection[DeviceId],
        size: int,
        steering: "Steering | None" = None,
    ) -> tuple[DeviceId, ...]:
        """Which of the available devices the next container had best get; empty: no opinion."""
        valid_sets = self.backend.valid_sets(self._inventory, size, available)
        must: Sequence[DeviceId] = sorted(must_include)
        if steering is not None and steering.target is not None and valid_sets is None:
            from resourcemanager.target import choose  # noqa: PLC0415  see above

            must = choose(steering.target, available, must, size)
        return prefer(
            self._inventory.devices,
            available,
            must,
            size,
            policy=self.rules.policy,
            valid_sets=valid_sets,
            avoid=frozenset() if steering is None else steering.avoid,
        )

    def allocate(self, requested: Sequence[DeviceId]) -> Allocation | Refusal:
        """What a container must be given for the devices the kubelet chose for it."""
        return self._give(requested, WHOLE, NOTHING_KNOWN)

    def allocate_for(
        self,
        requested: Sequence[DeviceId],
        found: "Match | NoProof",
        pods: "Mapping[PodUid, Pod]",
        token: str,
    ) -> Allocation | Refusal:
        """As `allocate`, for the container that was found (or the reason why none was), by its assignment.

        What is given stands in the ledger from then on, under the fresh name `token`.
        """
        from resourcemanager.giving.following import Request, follow  # noqa: PLC0415  see above

        assert self.rules.following is not None
        answer = follow(
            Request(requested, found),
            lambda tiles, environment: self._give(requested, tiles, environment),
            self.rules.following,
            self._surroundings(pods),
        )
        if isinstance(answer, Refusal):
            return answer
        entry = _entry(token, answer, found)
        self._ledger = self._ledger.with_answer(entry)
        annotations = {ALLOCATION_ANNOTATION: token, PROOF_ANNOTATION: entry.proof or ""}
        return replace(answer, annotations=MappingProxyType(annotations))

    def _surroundings(self, pods: "Mapping[PodUid, Pod]") -> "Surroundings":
        from resourcemanager.surroundings import Surroundings  # noqa: PLC0415  see above

        return Surroundings(self.rules.resource, self._inventory, self._ledger, pods, self._assignments())

    def _assignments(self) -> "Assignments":
        """Remembers what it has read."""
        from resourcemanager.holdings.assigned import Assignments  # noqa: PLC0415  see above

        if self._known_assignments is None:
            self._known_assignments = Assignments()
        return self._known_assignments

    def _give(
        self, requested: Sequence[DeviceId], tiles: Tiles, environment: Mapping[str, str]
    ) -> Allocation | Refusal:
        return allocate(
            requested,
            resource=self.rules.resource,
            backend=self.backend,
            inventory=self._inventory,
            listing=self._listing,
            is_distinct=self.rules.is_distinct,
            tiles=tiles,
            environment=environment,
        )


def _entry(token: str, answer: Allocation, found: "Match | NoProof") -> InFlight:
    ids = frozenset(answer.devices)
    from resourcemanager.matching.inquiry import NoProof  # noqa: PLC0415  see above

    if isinstance(found, NoProof) or not found.proof.is_exact:
        return InFlight(token, ids, proof="none")
    return InFlight(token, ids, found.owner, found.pod.key, found.proof.value)
