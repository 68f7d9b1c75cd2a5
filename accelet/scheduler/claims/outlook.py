"""What becomes of claims: who holds what, and where those that wait would get devices, node by node."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import msgspec

from accelet.claims.cel.work import Work
from accelet.claims.podclaims import ClaimingPod, PodClaim
from accelet.claims.requests import Claim, DeviceClass, Held
from accelet.claims.slices import ResourceSlice
from accelet.kube.nodes import Node
from accelet.kube.objects import ObjectKey
from accelet.scheduler.claims.firstfit import MOST_WORK as MOST_WORK_OF_ONE
from accelet.scheduler.claims.firstfit import NotServed, Served, Supply, Why, first_fit
from accelet.scheduler.claims.holdings import count_holdings
from accelet.scheduler.claims.pools import SliceIndex, TriedNode
from accelet.scheduler.cluster.eligibility import matches

MOST_REASONS: Final = 6
"""Different sentences of nodes that are told of one pod; nodes with others are counted together."""

MOST_WORK: Final = 200_000_000
"""Units of work for all pods and nodes together: some minutes."""

_TOO_MUCH: Final = "so many pods and nodes are not tried at once: name a namespace or a node"


@dataclass(frozen=True, slots=True)
class Objects:
    """All objects of a cluster that decide on claims. `templates` are claims under the templates' names."""

    nodes: Sequence[Node]
    slices: Sequence[ResourceSlice]
    classes: Sequence[DeviceClass]
    claims: Sequence[Claim]
    templates: Sequence[Claim] = ()
    pods: Sequence[ClaimingPod] = ()
    notes: Sequence[str] = ()


class GivenDevice(msgspec.Struct, frozen=True):
    """`consumed`: what the claim takes of a shared device, exact amounts by name."""

    request: str
    driver: str
    pool: str
    device: str
    admin: bool = False
    consumed: dict[str, str] = {}


class ClaimLine(msgspec.Struct, frozen=True):
    """`devices` are those that the claim holds, or would be given on the `first` node."""

    claim: str
    devices: list[GivenDevice]


class NodeReason(msgspec.Struct, frozen=True):
    """Why so many nodes would give nothing; `fails`: kube-scheduler ends with an error there."""

    nodes: int
    reason: str
    fails: bool = False


class Outlook(msgspec.Struct, frozen=True):
    """The claims of one pod, or one claim that no pod uses.

    `state` is `held`; or of claims that wait `fits`, `waits`, `fails` (kube-scheduler reports an error) or
    `unknown`. `fitting` counts the nodes whose devices serve them now by first fit; `first` is one of these.
    """

    namespace: str
    pod: str | None
    claims: list[ClaimLine]
    state: str
    fitting: int = 0
    first: str | None = None
    reasons: list[NodeReason] = []


class ClaimsView(msgspec.Struct, frozen=True):
    outlooks: list[Outlook]


def foresee(
    objects: Objects,
    namespace: str | None = None,
    *,
    work: int = MOST_WORK,
    progress: Callable[[int, int], None] = lambda done, every: None,
) -> ClaimsView:
    """The outlook of the claims of a namespace or of all, by namespace and pod.

    `work` is what all of it may take, in units; what is then not judged is `unknown`. `progress` is told how
    many pods of how many are judged.
    """
    cluster = _Cluster(objects, work)
    shown = (one for one in cluster.groups() if namespace in (None, one.namespace))
    groups = sorted(shown, key=lambda one: (one.namespace, one.pod or "", [of.name for of in one.claims]))
    found = []
    for done, group in enumerate(groups):
        progress(done, len(groups))
        found.append(cluster.judge(group))
    return ClaimsView(found)


@dataclass(frozen=True, slots=True)
class _Group:
    """Claims that get their devices together: those of a pod, in its order, or one that stands alone."""

    namespace: str
    pod: str | None
    claims: tuple[Claim, ...]
    missing: tuple[str, ...] = ()


class _Cluster:
    def __init__(self, objects: Objects, work: int) -> None:
        self._objects = objects
        self._index = SliceIndex(objects.slices)
        self._holdings = count_holdings(objects.claims)
        self._classes = {one.name: one for one in objects.classes}
        self._claims = {one.key: one for one in objects.claims}
        self._made = {
            (one.owner.uid, one.pod_claim): one
            for one in objects.claims
            if one.owner is not None and one.pod_claim is not None
        }
        self._templates = {one.key: one for one in objects.templates}
        self._work = Work(work)

    @cached_property
    def _supplies(self) -> Sequence[Supply]:
        """What each node can give; looked at only where something waits."""
        return [self._supply(node) for node in self._objects.nodes]

    def _supply(self, node: Node) -> Supply:
        place = TriedNode(node.name, node.labels)
        return Supply(place, self._index.pools(place), self._holdings, self._classes)

    def groups(self) -> Iterator[_Group]:
        used: set[ObjectKey] = set()
        for pod in self._objects.pods:
            if pod.has_ended or not pod.claims:
                continue
            claims, missing = [], []
            for entry in pod.claims:
                found = self._claim_of(pod, entry)
                if found is None:
                    missing.append(entry.claim or entry.template or entry.name)
                else:
                    claims.append(found)
                    used.add(found.key)
            yield _Group(pod.namespace, pod.name, tuple(claims), tuple(missing))
        for claim in self._objects.claims:
            if claim.key not in used:
                owner = claim.owner.name if claim.owner is not None and claim.owner.kind == "Pod" else None
                yield _Group(claim.namespace, owner, (claim,))

    def _claim_of(self, pod: ClaimingPod, entry: PodClaim) -> Claim | None:
        if entry.claim is not None:
            return self._claims.get((pod.namespace, entry.claim))
        if pod.uid and (pod.uid, entry.name) in self._made:
            return self._made[pod.uid, entry.name]
        template = self._templates.get((pod.namespace, entry.template or ""))
        return template and replace(template, name=f"{pod.name}-{entry.name}")

    def judge(self, group: _Group) -> Outlook:
        waiting = [claim for claim in group.claims if claim.held is None]
        if not waiting and not group.missing:
            return _outlook(group, {}, "held")
        if group.missing:
            reason = NodeReason(
                len(self._supplies), f"there is no claim or template {', '.join(group.missing)}"
            )
            return _outlook(group, {}, "waits", reasons=[reason])
        if not self._supplies:
            return _outlook(group, {}, "waits", reasons=[NodeReason(0, "there is no node")])
        return self._place(group, waiting)

    def _try(self, waiting: Sequence[Claim], supply: Supply) -> Served | NotServed:
        """First fit on one node, with what is left of the work for all."""
        if self._work.left <= 0:
            return NotServed(Why.UNKNOWN, _TOO_MUCH)
        given = min(MOST_WORK_OF_ONE, self._work.left)
        own = Work(given)
        found = first_fit(waiting, supply, own)
        self._work.left -= given - max(0, own.left)
        return found

    def _place(self, group: _Group, waiting: Sequence[Claim]) -> Outlook:
        reasons: Counter[tuple[str, bool]] = Counter()
        whys: set[Why] = set()
        fits: list[tuple[str, Served]] = []
        for supply in self._supplies:
            bound = _bound_elsewhere(group.claims, supply.place)
            found = NotServed(Why.NO_ROOM, bound) if bound else self._try(waiting, supply)
            if isinstance(found, Served):
                fits.append((supply.place.name, found))
                continue
            whys.add(found.why)
            reasons[found.reason, found.why is Why.POD_FAILS] += 1
        state = "fits" if fits else _STATES[max(whys, key=list(_STATES).index)]
        given = {}
        if fits:
            given = dict(zip((claim.key for claim in waiting), fits[0][1].given, strict=True))
        return _outlook(
            group, given, state, fitting=len(fits), first=fits[0][0] if fits else None, reasons=_told(reasons)
        )


_STATES: Final[Mapping[Why, str]] = {
    Why.NO_ROOM: "waits",
    Why.NODE_FAILS: "waits",
    Why.UNKNOWN: "unknown",
    Why.POD_FAILS: "fails",
}
"""In rising order: what is told where nodes differ."""


def _bound_elsewhere(claims: Sequence[Claim], place: TriedNode) -> str | None:
    """Why a pod with these claims cannot go to this node, whatever it has."""
    for claim in claims:
        if claim.held is None or claim.reach is None:
            continue
        if not any(matches(term, place.labels, place.name) for term in claim.reach):
            return f"claim {claim.name} is allocated, and bound to other nodes"
    return None


def _told(reasons: Mapping[tuple[str, bool], int]) -> list[NodeReason]:
    ordered = sorted(reasons.items(), key=lambda one: (-one[1], one[0]))
    found = [NodeReason(count, reason, fails) for (reason, fails), count in ordered[:MOST_REASONS]]
    rest = sum(count for _, count in ordered[MOST_REASONS:])
    return [*found, NodeReason(rest, "for other reasons")] if rest else found


def _outlook(
    group: _Group,
    given: Mapping[ObjectKey, Sequence[Held]],
    state: str,
    *,
    fitting: int = 0,
    first: str | None = None,
    reasons: Sequence[NodeReason] = (),
) -> Outlook:
    lines = [
        ClaimLine(claim.name, [_device(one) for one in claim.held or given.get(claim.key, ())])
        for claim in group.claims
    ]
    lines += [ClaimLine(name, []) for name in group.missing]
    return Outlook(group.namespace, group.pod, lines, state, fitting, first, list(reasons))


def _device(held: Held) -> GivenDevice:
    consumed = {name: str(amount) for name, amount in (held.consumed or {}).items()}
    device = held.device
    return GivenDevice(held.request, device.driver, device.pool, device.name, held.is_admin, consumed)
