"""The claims a kubelet knows: who uses them, and what drivers answered to Prepare."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from random import Random

from accelet.fakekubelet.pods import Pod

ClaimKey = tuple[str, str]
"""Namespace and name: a kubelet looks claims up by it, not by their uid."""


class ClaimError(Exception):
    """A pod's claims cannot be prepared or unprepared now. The text is the kubelet's."""


@dataclass(frozen=True, slots=True)
class FoundClaim:
    """A ResourceClaim at the API server, as far as a kubelet looks at it.

    `drivers` are those of its allocation, None if it is not allocated; `reserved_for` are uids of pods,
    `reserved_for_groups` names of PodGroups. `controller` is the uid of the owner that controls it,
    `controller_group` that owner's name if it is a PodGroup.
    """

    namespace: str
    name: str
    uid: str
    drivers: tuple[str, ...] | None = None
    reserved_for: frozenset[str] = frozenset()
    controller: str | None = None
    reserved_for_groups: frozenset[str] = frozenset()
    controller_group: str = ""

    def problem(self, pod: Pod, *, must_own: bool) -> str | None:
        """Why a kubelet does not prepare it for `pod`, in its words; None if it does."""
        is_of_group = bool(pod.pod_group) and self.controller_group == pod.pod_group
        if must_own and self.controller != pod.uid and not is_of_group:
            return (
                f"ResourceClaim {self.namespace}/{self.name} was not created for Pod {pod} (Pod is not owner)"
            )
        if pod.uid not in self.reserved_for and pod.pod_group not in self.reserved_for_groups:
            return f"pod {pod.name} ({pod.uid}) is not allowed to use ResourceClaim {self.name} ({self.uid})"
        if self.drivers is None:
            return f"ResourceClaim {self.name}: not allocated"
        return None


@dataclass(frozen=True, slots=True)
class PreparedDevice:
    """One device of a driver's answer. Without `requests` it is for all of the claim's."""

    pool: str
    device: str
    requests: tuple[str, ...]
    cdi_ids: tuple[str, ...]
    share: str | None = None


@dataclass(slots=True)
class ClaimInfo:
    """What a kubelet knows of one claim. `is_prepared` is in its memory only, and ends with it."""

    namespace: str
    name: str
    uid: str
    devices: dict[str, tuple[PreparedDevice, ...]]
    pods: set[str] = field(default_factory=set)
    is_prepared: bool = False
    is_unpreparing: bool = False

    @property
    def key(self) -> ClaimKey:
        return self.namespace, self.name

    def take(self, driver: str, answered: Iterable[PreparedDevice], *, appending: bool) -> None:
        """Notes a driver's answer: in place of the last one, or after it."""
        before = self.devices.get(driver, ()) if appending else ()
        self.devices[driver] = (*before, *answered)

    def cdi_ids(self, request: str, rng: Random) -> Iterator[str]:
        """The CDI devices of one request, or of the whole claim; drivers come in random order."""
        drivers = sorted(self.devices)
        rng.shuffle(drivers)
        for driver in drivers:
            for device in self.devices[driver]:
                if not request or not device.requests or request in device.requests:
                    yield from device.cdi_ids


@dataclass(slots=True)
class ClaimCache:
    """All claims that this node's pods use or have used, until they are unprepared."""

    infos: dict[ClaimKey, ClaimInfo] = field(default_factory=dict)

    def join(self, found: FoundClaim, pod: Pod, *, guarding: bool) -> ClaimInfo:
        """The entry of a claim, to which `pod` is added.

        Raises:
            ClaimError: a claim of this name and another uid is still there, or this one is being unprepared.
        """
        info = self.infos.get((found.namespace, found.name))
        if info is None:
            devices: dict[str, tuple[PreparedDevice, ...]] = dict.fromkeys(found.drivers or (), ())
            info = ClaimInfo(found.namespace, found.name, found.uid, devices)
            self.infos[info.key] = info
        elif guarding and info.is_unpreparing:
            raise ClaimError(f"ResourceClaim {found.name} is being unprepared")
        elif info.uid != found.uid:
            raise ClaimError(
                f"old ResourceClaim with same name {found.name} and different UID {info.uid} still exists "
                "(previous pod force-deleted?!)"
            )
        info.pods.add(pod.uid)
        return info

    def of_pod(self, uid: str) -> list[ClaimInfo]:
        """The claims that are noted as used by a pod."""
        return [info for info in self.infos.values() if uid in info.pods]

    def leave(self, keys: Iterable[ClaimKey], pod: str, *, guarding: bool) -> list[ClaimInfo]:
        """Takes `pod` off these claims; those nobody else uses are to be unprepared and keep it until then.

        Without `guarding` a claim that another pod has just joined is unprepared too, up to 1.36.
        """
        last = []
        for key in keys:
            info = self.infos.get(key)
            if info is None or (guarding and pod not in info.pods):
                continue
            if len(info.pods) > 1:
                info.pods.discard(pod)
                continue
            info.is_unpreparing = True
            last.append(info)
        return last
