"""From which nodes the volumes of a pod can be reached, as kube-scheduler judges it.

The rules are those of Kubernetes 1.33 to 1.37: the scheduler's plugins VolumeBinding and VolumeZone. Of a
volume that is still to be found or made once the pod has a node nothing is judged.
"""

from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from itertools import product

from accelet.kube.objects import ObjectKey
from accelet.kube.pods import Pod, UsedClaim
from accelet.kube.selection import NodeTerm, Requirement
from accelet.runtime.excerpts import printable
from accelet.scheduler.cluster.shape import Reach
from accelet.scheduler.cluster.volumes import MOST_REQUIREMENTS, Volume, VolumeClaim, VolumeClass
from accelet.scheduler.errors import VolumeAwaitedError

_TODAY = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
"""What the labels of nodes are called that formerly had other names."""

_NOWHERE = NodeTerm(tuple(Requirement(key, "DoesNotExist") for pair in _TODAY.items() for key in pair))
"""A node that says nothing of its zone or region: every zone is taken to be its own."""

_LONGEST_SHOWN = 80


class Volumes:
    """The cluster's volumes, their claims and classes, kept up with events.

    Before `begin`, nothing is judged.
    """

    def __init__(self) -> None:
        self._is_known = False
        self._claims: dict[ObjectKey, VolumeClaim] = {}
        self._volumes: dict[str, Volume] = {}
        self._classes: dict[str, VolumeClass] = {}

    def begin(self) -> None:
        """All there is has been told."""
        self._is_known = True

    def forget(self) -> None:
        """Nobody keeps it up any more."""
        self._is_known = False
        for known in (self._claims, self._volumes, self._classes):
            known.clear()

    def set_claim(self, key: ObjectKey, claim: VolumeClaim | None) -> Collection[ObjectKey]:
        """A claim has come or changed, or (None) has gone.

        Returns the claims of which something else is to be said.
        """
        before = self._claims.pop(key, None)
        if claim is not None:
            self._claims[key] = claim
        return () if claim == before else (key,)

    def set_volume(self, name: str, volume: Volume | None) -> Collection[ObjectKey]:
        """As `set_claim`."""
        before = self._volumes.pop(name, None)
        if volume is not None:
            self._volumes[name] = volume
        if volume == before:
            return ()
        return {one.claim for one in (before, volume) if one is not None and one.claim is not None}

    def set_class(self, name: str, volume_class: VolumeClass | None) -> bool:
        """Whether something else is to be said of claims of this class."""
        before = self._classes.pop(name, None)
        if volume_class is not None:
            self._classes[name] = volume_class
        return volume_class != before

    def reaches(self, pod: Pod) -> frozenset[Reach]:
        """What the volumes of a pod require of its node, up to `MOST_REQUIREMENTS` of them all.

        Raises:
            VolumeAwaitedError: kube-scheduler binds the pod nowhere before something is done.
        """
        if not self._is_known:
            return frozenset()
        left, found = MOST_REQUIREMENTS, dict[Reach, None]()
        for used in pod.volume_claims:
            for reach in self._reaches_of(pod, used):
                left -= _size(reach.terms)
                if left >= 0:
                    found[reach] = None
        return frozenset(found)

    def _reaches_of(self, pod: Pod, used: UsedClaim) -> Iterator[Reach]:
        claim = self._claims.get((pod.namespace, used.name))
        which = f"its volume claim {printable(used.name, _LONGEST_SHOWN)}"
        if claim is None:
            raise VolumeAwaitedError(f"pod {pod.name} waits for {which}, which is not there")
        if claim.is_lost or claim.is_going:
            why = "has lost its volume" if claim.is_lost else "is being deleted"
            raise VolumeAwaitedError(f"pod {pod.name} waits: {which} {why}")
        if not claim.is_bound:
            volume_class = self._classes.get(claim.volume_class)
            if claim.volume or volume_class is None or not volume_class.waits_for_pod:
                raise VolumeAwaitedError(f"pod {pod.name} waits for {which} to be bound")
            return
        name = printable(claim.volume, _LONGEST_SHOWN)
        volume = self._volumes.get(claim.volume)
        if volume is None:
            raise VolumeAwaitedError(
                f"pod {pod.name} waits: {which} is bound to volume {name}, which is not there"
            )
        if volume.claim != (pod.namespace, used.name):
            return  # whoever makes a claim may name any volume in it
        what = f"volume {name} of claim {printable(used.name, _LONGEST_SHOWN)}"
        if volume.affinity is not None:
            yield Reach(volume.affinity, what)
        if volume.zones and not used.is_ephemeral:
            yield Reach(zone_terms(volume.zones), what)


@lru_cache(maxsize=1024)
def zone_terms(zones: Sequence[Requirement]) -> tuple[NodeTerm, ...]:
    """The alternatives by which a node is in zones and regions that a volume's labels name.

    A node has each by the label's own name, or else by its name of today.
    """
    alternatives = [[(zone,), *_today(zone)] for zone in zones]
    return (
        _NOWHERE,
        *(NodeTerm(tuple(one for part in parts for one in part)) for parts in product(*alternatives)),
    )


def _today(zone: Requirement) -> Iterator[tuple[Requirement, ...]]:
    today = _TODAY.get(zone.key)
    if today is not None:
        yield Requirement(zone.key, "DoesNotExist"), Requirement(today, "In", zone.values)


def _size(terms: Sequence[NodeTerm]) -> int:
    return sum(1 + len(one.values) for term in terms for one in term.expressions) + len(terms)
