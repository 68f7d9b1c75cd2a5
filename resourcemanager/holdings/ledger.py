"""Who holds which devices of one resource, as far as the kubelet's own records and our answers tell."""

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType

from accelet.accelerators.device import DeviceId
from accelet.kube.objects import ObjectKey
from accelet.kube.poduid import PodUid
from resourcemanager.holdings.evidence import ContainerKey

ALLOCATION_ANNOTATION = "accelet.dev/allocation"
"""In an AllocateResponse: a fresh name of this one answer, by which the checkpoint tells whose it was."""

PROOF_ANNOTATION = "accelet.dev/proof"
"""In an AllocateResponse: how the container was found (`resourcemanager.matching.caller.Proof`)."""


DENIALS_TO_RELEASE = 2

_NOTHING: Mapping[str, frozenset[DeviceId]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Holding:
    """What one container holds. `pod` is its name where known, `token` and `proof` those of our answer.

    A holder that podresources alone has shown, while nothing tells its UID, has its name for a UID.
    `is_recorded` is False once a record of the kubelet is seen that lacks it: the kubelet would allocate for
    the container again. `denials` counts how often in a row everything that can be asked denied it; a
    released holding stays in the ledger, without holding anything, while the checkpoint still lists it.
    """

    owner: ContainerKey
    device_ids: frozenset[DeviceId]
    pod: ObjectKey | None = None
    token: str | None = None
    proof: str | None = None
    is_recorded: bool = True
    denials: int = 0

    @property
    def is_released(self) -> bool:
        return self.denials >= DENIALS_TO_RELEASE


@dataclass(frozen=True, slots=True)
class InFlight:
    """An answer of ours that no record of the kubelet shows yet.

    `owner` is the container it was for as far as matching could tell, None where no identity was needed or
    proven. `misses` counts how many checkpoints lacked it that did hold a later answer.
    """

    token: str
    device_ids: frozenset[DeviceId]
    owner: ContainerKey | None = None
    pod: ObjectKey | None = None
    proof: str | None = None
    denials: int = 0
    misses: int = 0


@dataclass(frozen=True)
class Ledger:
    """Who holds what of one resource, a value. `in_flight` is in the order of our answers.

    A device can have several holders: a pod's init container and its next containers, the holders of one
    share each, and whoever the kubelet gave an id twice.
    """

    resource: str
    holdings: Mapping[ContainerKey, Holding] = field(default_factory=lambda: MappingProxyType({}))
    in_flight: tuple[InFlight, ...] = ()
    checkpointed: frozenset[DeviceId] = frozenset()
    """Every id in the last checkpoint, also of pods that are gone: the kubelet frees lazily."""

    has_read_checkpoint: bool = False
    checkpointed_pods: Mapping[PodUid, frozenset[str]] = field(default_factory=lambda: MappingProxyType({}))
    """The pods in the last checkpoint that this life of the kubelet wrote, and their containers there."""

    freed: Mapping[PodUid, frozenset[str]] = field(default_factory=lambda: MappingProxyType({}))
    """The pods it had in its checkpoint and has no longer: for the kubelet they have ended. With their
    containers that had devices."""

    inherited: Mapping[PodUid, frozenset[str]] = field(default_factory=lambda: MappingProxyType({}))
    """The containers that had devices from the kubelet's life before this one."""

    inherited_tokens: frozenset[str] = frozenset()
    """The names of our answers that it had recorded."""

    has_inherited: bool = False
    """Whether this life of the kubelet is known to have taken over what that one recorded."""

    @cached_property
    def held(self) -> frozenset[DeviceId]:
        """The ids that somebody holds, or was just given."""
        return frozenset(self._holders)

    @cached_property
    def must_stay_listed(self) -> frozenset[DeviceId]:
        """The ids the kubelet may still look up: dropping one from ListAndWatch can crash it (since 1.34)."""
        return self.held | self.checkpointed

    @cached_property
    def of_this_kubelet(self) -> "Ledger":
        """The ledger without the records of another life of the kubelet, which this one may have rejected."""
        holdings = {
            key: one if key.pod_uid in self.checkpointed_pods else replace(one, is_recorded=False)
            for key, one in self.holdings.items()
        }
        return replace(self, holdings=MappingProxyType(holdings))

    @cached_property
    def released(self) -> frozenset[PodUid]:
        """The pods that hold nothing any more of what the checkpoint still lists as theirs."""
        return frozenset(key.pod_uid for key, one in self.holdings.items() if one.is_released)

    @property
    def knows_init_containers(self) -> bool:
        """Whether it is known what plain init containers have: only the checkpoint and our answers tell."""
        return self.has_read_checkpoint and all(answer.owner is not None for answer in self.in_flight)

    def holders(self, device: DeviceId) -> tuple[ContainerKey | None, ...]:
        """Who holds `device`; None stands for an answer whose container is not known."""
        return self._holders.get(device, ())

    def containers_of(self, pod_uid: PodUid) -> Mapping[str, frozenset[DeviceId]]:
        """The devices of the pod's containers by container name, with what was just given to them."""
        held = {
            key.container: one.device_ids
            for key, one in self.holdings.items()
            if key.pod_uid == pod_uid and not one.is_released
        }
        return self._with_answers(pod_uid, held)

    def allocated(self, pod_uid: PodUid) -> Mapping[str, frozenset[DeviceId]]:
        """As `containers_of`, without what the kubelet has forgotten and would allocate again."""
        return self._with_answers(pod_uid, self.recorded(pod_uid))

    def recorded(self, pod_uid: PodUid) -> Mapping[str, frozenset[DeviceId]]:
        """As `allocated`, by the kubelet's own records alone: without what was just given."""
        return self._recorded.get(pod_uid, _NOTHING)

    def with_answer(self, answer: InFlight) -> "Ledger":
        """The ledger after an Allocate was answered. An earlier answer for the same container is replaced."""
        others = tuple(one for one in self.in_flight if answer.owner is None or one.owner != answer.owner)
        return replace(self, in_flight=(*others, answer))

    def of_new_kubelet(self, known: Set[PodUid]) -> "Ledger":
        """As another life of the kubelet begins, which may have lost its records.

        It admits pods anew that the API server has; `known` are those. What was freed of others stays so.
        """
        freed = {uid: containers for uid, containers in self.freed.items() if uid not in known}
        tokens = frozenset(one.token for one in self.holdings.values() if one.token and one.is_recorded)
        return replace(
            self,
            checkpointed_pods=MappingProxyType({}),
            freed=MappingProxyType(freed),
            inherited=MappingProxyType({**self.inherited, **self.freed, **self.checkpointed_pods}),
            inherited_tokens=tokens,
            has_inherited=False,
        )

    def served(self, pod_uid: PodUid) -> frozenset[str]:
        """The containers of the pod, if it has ended, that had devices and that no kubelet has forgotten."""
        inherited = self.inherited.get(pod_uid, frozenset()) if self.has_inherited else frozenset()
        return self.freed.get(pod_uid, frozenset()) | inherited

    @cached_property
    def _recorded(self) -> Mapping[PodUid, Mapping[str, frozenset[DeviceId]]]:
        found: dict[PodUid, dict[str, frozenset[DeviceId]]] = {}
        for key, one in self.holdings.items():
            if one.is_recorded and not one.is_released:
                found.setdefault(key.pod_uid, {})[key.container] = one.device_ids
        return found

    def _with_answers(
        self, pod_uid: PodUid, found: Mapping[str, frozenset[DeviceId]]
    ) -> Mapping[str, frozenset[DeviceId]]:
        added = dict(found)
        for answer in self.in_flight:
            if answer.owner is not None and answer.owner.pod_uid == pod_uid:
                earlier = added.get(answer.owner.container, frozenset())
                added[answer.owner.container] = earlier | answer.device_ids
        return added

    @cached_property
    def _holders(self) -> Mapping[DeviceId, tuple[ContainerKey | None, ...]]:
        found: dict[DeviceId, tuple[ContainerKey | None, ...]] = {}
        claims: Iterable[tuple[ContainerKey | None, frozenset[DeviceId]]] = (
            *((one.owner, one.device_ids) for one in self.holdings.values() if not one.is_released),
            *((one.owner, one.device_ids) for one in self.in_flight),
        )
        for owner, ids in claims:
            for device in ids:
                if owner is None or owner not in found.get(device, ()):
                    found[device] = (*found.get(device, ()), owner)
        return found
