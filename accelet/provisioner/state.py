"""What there is, as the watches tell it, and the view of it that one decision takes."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from accelet.kinds.slicerequest import Phase, SliceOwner
from accelet.kube.nodes import Node
from accelet.kube.pods import Pod
from accelet.kube.watching.store import precedes
from accelet.provisioner.bookings.book import BookingBook
from accelet.provisioner.books.grouped import Grouped
from accelet.provisioner.books.jobs import JobBook
from accelet.provisioner.books.parked import ParkedBook
from accelet.provisioner.books.sets import ALONE, SetBook
from accelet.provisioner.books.sums import Asking
from accelet.provisioner.deciding.offers import ParkedSlice, Party, given_of, is_in_the_way, offers_for
from accelet.provisioner.deciding.parking import OFFERED_S
from accelet.provisioner.deciding.places import Counted
from accelet.provisioner.deciding.room import BEGINNING, Limits, RoomBook, Turns
from accelet.provisioner.deciding.view import (
    NO_REST,
    ParkedPool,
    RestOfSet,
    SliceNode,
    SliceRecord,
    SlicesView,
    Times,
)
from accelet.provisioner.demand.kept import GroupSlice, keep_slices
from accelet.provisioner.demand.owners import JobOwner
from accelet.provisioner.demand.slices import why_not_asked
from accelet.provisioner.nodes import binding_labels, is_stuck, is_work, see_node
from accelet.provisioner.planning import fingerprint_of, machines_of, order_for
from accelet.provisioner.pools.machines import Machines, Refusal
from accelet.provisioner.pools.pool import NodePool, PoolList
from accelet.provisioner.record import SliceRequest
from accelet.provisioner.settings import ProvisionerSettings

Key = tuple[str, str]
OwnerKey = tuple[str, str, str]

_NOTHING: Mapping[str, str] = {}
_NO_POOLS: frozenset[str] = frozenset()
_SHOWN = 80


@dataclass(frozen=True, slots=True)
class Wish:
    """Whether somebody still wants a slice. `unwanted` is why nobody does; `is_ended`: nobody ever will."""

    unwanted: str | None = None
    is_ended: bool = False


class ProvisionerState:
    """Requests, owners, nodes and pods by their keys, and the newest list of pools; plain and synchronous."""

    def __init__(self, settings: ProvisionerSettings, pool_label: str) -> None:
        self.settings, self.pool_label = settings, pool_label
        self.requests: dict[Key, SliceRequest] = {}
        self.owners: dict[OwnerKey, JobOwner] = {}
        self.known_kinds: set[str] = set()
        self.nodes: dict[str, Node] = {}
        self.listed: PoolList | None = None
        self.services: set[Key] = set()
        self.knows_services = False
        self.bookings = BookingBook()
        self.parked = ParkedBook()
        self._keys: dict[str, Key] = {}
        self._sets = SetBook(is_use_watched=settings.release_unused_s is not None)
        self._jobs = JobBook()
        self._in_phase: Grouped[Phase] = Grouped()
        self._room, self._chips = RoomBook(), dict[str, int]()
        self._counted_list: PoolList | None = None
        self._pools_of: dict[str, frozenset[str]] = {}
        self._pods: dict[Key, str] = {}
        self._used: dict[str, dict[Key, float | None]] = defaultdict(dict)
        """By node the pods that count as work, with the time by which each is to be gone."""

        self._of_pool: dict[str, set[str]] = defaultdict(set)
        self._times = Times(
            join_s=settings.join_s,
            flex_start_s=settings.flex_start_s,
            hold_s=settings.hold_s,
            repair_s=settings.repair_s,
            grace_s=settings.grace_s,
            settle_s=settings.settle_s,
            park_s=settings.park_s,
            lag_s=settings.lag_s,
            rest_s=settings.rest_s,
            evict_s=settings.evict_s,
            refused_s=settings.refused_s,
            slow_s=settings.slow_s,
            unused_s=settings.unused_s,
            release_unused_s=settings.release_unused_s,
        )
        self._limits = Limits(settings.limits.slices, settings.limits.chips)
        each = settings.limits.per_namespace
        self._turns = Turns(Limits(each.slices, each.chips), settings.limits.reserve_s)
        self._has_limits = Limits() != self._limits or Limits() != self._turns.each

    def set_request(self, request: SliceRequest) -> None:
        """Takes a request over, unless a newer version is known: watches lag behind our own writes."""
        known = self.requests.get(request.key)
        is_same = known is not None and known.uid == request.uid
        if known is not None and is_same and precedes(request.resource_version, known.resource_version):
            return
        if known is not None and known.uid != request.uid:
            self.remove_request(known.key, known.uid)
        elif known is not None:
            self._forget(known)
        self.requests[request.key] = request
        self._keys[request.uid] = request.key
        self._sets.add(request)
        self._jobs.add(request)
        self._in_phase.put(request.status.phase, request)
        self.parked.set(request)
        self._count(request)
        for mark in {request.status.mark, known.status.mark if known is not None else ""} - {""}:
            self._count_holders(mark)

    def renew_request(self, request: SliceRequest) -> None:
        """A request as an answer has it, which may come after the watch's news of its end."""
        known = self.requests.get(request.key)
        if known is not None and known.uid == request.uid:
            self.set_request(request)

    def remove_request(self, key: Key, uid: str) -> None:
        if (known := self.requests.get(key)) is not None and known.uid == uid:
            del self.requests[key]
            self._forget(known)
            self._chips.pop(uid, None)
            self._keys.pop(uid, None)
            self.parked.remove(uid)
            self._room.remove(uid)
            if known.status.mark:
                self._count_holders(known.status.mark)

    def _forget(self, known: SliceRequest) -> None:
        """Takes a request out of the books that have it as it was."""
        self._sets.remove(known)
        self._jobs.remove(known)
        self._in_phase.drop(known.status.phase, known)

    def set_node(self, node: Node) -> str | None:
        """Takes a Node over; returns the pool it is of."""
        self.remove_node(node.name)
        self.nodes[node.name] = node
        pool = node.labels.get(self.pool_label)
        if pool is not None:
            self._of_pool[pool].add(node.name)
            self._sets.note_nodes(pool)
        return pool

    def renew_node(self, node: Node) -> None:
        """As `renew_request`; nor does it take back what the watch has told meanwhile."""
        known = self.nodes.get(node.name)
        is_known = known is not None and known.uid == node.uid
        if known is not None and is_known and not precedes(node.resource_version, known.resource_version):
            self.set_node(node)

    def remove_node(self, name: str) -> str | None:
        """Forgets a Node; returns the pool it was of."""
        known = self.nodes.pop(name, None)
        pool = known.labels.get(self.pool_label) if known is not None else None
        if pool is not None:
            self._of_pool[pool].discard(name)
            self._sets.note_nodes(pool)
            if not self._of_pool[pool]:
                del self._of_pool[pool]
        return pool

    def set_pod(self, key: Key, pod: Pod | None) -> set[str]:
        """Notes on which node a pod is that counts as work; None for one that is gone.

        Returns the pools for which that makes a difference.
        """
        node = pod.node_name if pod is not None and is_work(pod) else None
        former = self._pods.pop(key, None)
        end_s = None
        if former is not None:
            end_s = self._used[former].pop(key, None)
            if not self._used[former]:
                del self._used[former]
        if node is not None and pod is not None:
            self._pods[key] = node
            self._used[node][key] = pod.deleted_s
        is_news = former != node or (pod is not None and pod.deleted_s != end_s)
        changed = {name for name in (former, node) if name is not None} if is_news else set()
        found = (self.nodes[name].labels.get(self.pool_label) for name in changed if name in self.nodes)
        return {pool for pool in found if pool is not None}

    def with_pool(self, pool: str) -> list[SliceRequest]:
        """The requests that a pool is of, or was: one that is parked may be given to another."""
        return self._sets.with_pool(pool)

    def in_phases(self, *phases: Phase) -> list[SliceRequest]:
        return self._in_phase.of_all(phases)

    def count_phases(self) -> Mapping[Phase, int]:
        """How many requests there are in each phase."""
        return self._in_phase.sizes()

    def request_with(self, uid: str) -> SliceRequest | None:
        key = self._keys.get(uid)
        return None if key is None else self.requests[key]

    def with_marks(self, marks: Iterable[str]) -> list[SliceRequest]:
        """The requests that have pools with these marks: their own, or those they took over."""
        own = [one for mark in marks if (one := self.request_with(mark)) is not None]
        return own + [one for mark in marks for one in self.parked.holders_of(mark)]

    def holds(self, mark: str) -> bool:
        """Whether some request answers for pools with this mark: its own, or one that took them over."""
        return mark in self._keys or bool(self.parked.holders_of(mark))

    def touched_by(self, request: SliceRequest) -> list[Key]:
        """The requests that a change of this one concerns for the sake of parked slices."""
        status = request.status
        found = [self._keys[uid] for uid in (status.asks_of, status.taker, status.mark) if uid in self._keys]
        if status.mark:
            found += [one.key for one in self.parked.holders_of(status.mark)]
        if status.phase == "Pending":  # it may ask for one, or need the room of one
            found += [one.key for one in self.parked.parked()]
        elif status.phase in ("Parked", "Releasing"):
            waiting = self.in_phases("Pending", "BackingOff")
            found += [one.key for one in waiting if one.namespace == request.namespace]
        return found

    def of_owner(self, uid: str) -> list[SliceRequest]:
        return self._jobs.of_owner(uid)

    def wish_for(self, request: SliceRequest) -> Wish:
        """Whether the slice is wanted still, as far as its owner can be seen."""
        if request.is_deleted:
            return Wish("its SliceRequest is deleted", is_ended=True)
        return self._wish_of(request.namespace, request.spec.owner)

    def _wish_of(self, namespace: str, owner: SliceOwner | None) -> Wish:
        """Whether the slices of an owner are wanted."""
        if owner is None or owner.kind not in self.known_kinds:
            return Wish()
        found = self.owners.get((owner.kind, namespace, owner.name))
        if found is None or found.uid != owner.uid:
            return Wish(f"the {owner.kind} {owner.name} is gone", is_ended=True)
        is_booked = self.bookings.may_be_for(found.namespace, found.uid)
        why = why_not_asked(found, self.settings.demand, is_booked=is_booked)
        surplus = self._why_surplus(found, owner)
        is_ended = found.is_finished or found.is_deleted or surplus is not None
        return Wish(why or surplus, is_ended=is_ended)

    def _why_surplus(self, found: JobOwner, owner: SliceOwner) -> str | None:
        """Why this slice is one too many for an owner whose slices serve alone; None if it is needed."""
        if not found.is_of_groups:
            return None
        of_group = (one for one in found.templates if one.replicated_job == owner.replicated_job)
        groups = max(0, sum(template.replicas for template in of_group))
        mine = self.live_of(found, owner.replicated_job)
        if len(mine) <= groups:
            return None
        slices = [
            GroupSlice(of.job, of.index, one.status.phase, self._has_pods(one))
            for one in mine
            if (of := one.spec.owner) is not None
        ]
        if owner.job in keep_slices(slices, groups):
            return None
        if owner.replicated_job is None:
            return f"the {owner.kind} has {groups} {'group' if groups == 1 else 'groups'} now"
        word = "replica" if groups == 1 else "replicas"
        return f"the group {owner.replicated_job} of the {owner.kind} has {groups} {word} now"

    def crowded_owner(self, request: SliceRequest) -> OwnerKey | None:
        """Its owner, if that has more slices than groups: pods on any of them decide which ones are kept."""
        owner = request.spec.owner
        key = (owner.kind, request.namespace, owner.name) if owner is not None else None
        found = self.owners.get(key) if key is not None else None
        if owner is None or found is None or found.uid != owner.uid or not found.is_of_groups:
            return None
        groups = sum(template.replicas for template in found.templates)
        return key if self._jobs.count_of_owner(owner.uid) > groups else None

    def live_of(self, owner: JobOwner, replicated_job: str | None) -> list[SliceRequest]:
        """The requests for one template of an owner that nobody has deleted."""
        return [
            one
            for one in self.of_owner(owner.uid)
            if one.namespace == owner.namespace
            and not one.is_deleted
            and one.spec.owner is not None
            and one.spec.owner.replicated_job == replicated_job
        ]

    def _has_pods(self, request: SliceRequest) -> bool:
        return any(self._used.get(node) for node in self._of_pool.get(request.status.pool, ()))

    def set_service(self, key: Key, *, is_there: bool) -> list[Key]:
        """Notes a headless Service; returns the requests for which that may make a difference."""
        (self.services.add if is_there else self.services.discard)(key)
        return [one.key for one in self.requests.values() if one.namespace == key[0]]

    def view(self, request: SliceRequest, listed: PoolList, now_s: float) -> SlicesView:
        """Everything that the next decision about `request` depends on."""
        wish = self.wish_for(request)
        view = SlicesView(
            name=request.name,
            uid=request.uid,
            record=request.record,
            machines=machines_of(request.spec),
            order=order_for(request.spec, request.namespace, self.settings),
            listed=listed,
            now_s=now_s,
            rest=self._rest(request, listed, now_s),
            set_size=request.spec.slice_set.size,
            unwanted=wish.unwanted,
            is_ended=wish.is_ended,
            is_deleted=request.is_deleted,
            is_forced=request.is_forced,
            no_room=self._why_no_room(request, listed, now_s),
            fingerprint=fingerprint_of(request.spec, self.settings),
            no_service=self._why_unnamed(request),
            given=self._given(request),
            times=self._times,
        )
        if request.status.phase == "BackingOff" and wish.unwanted is None:
            view = replace(view, parked=self._offers(request, listed, now_s))
        if request.status.phase == "Pending" and wish.unwanted is None:
            view = replace(
                view,
                parked=self._offers(request, listed, now_s),
                original=self._original_of(request, listed),
                rival=self._rival_of(request),
            )
        if request.status.phase in ("Parked", "Releasing"):
            askers = (one.uid for one in self.parked.askers_of(request) if self._is_wanted(one))
            way = request.status.phase == "Parked" and self._is_in_the_way(request, listed)
            view = replace(view, askers=tuple(sorted(askers)), is_in_the_way=way)
        return replace(view, nodes=self._seen(view, binding_labels(request)))

    def orphan_view(self, uid: str, listed: PoolList, now_s: float) -> SlicesView:
        """The view of a pool whose SliceRequest is gone: nothing is recorded and nobody wants it."""
        nobody = Refusal("its SliceRequest is gone")
        view = SlicesView("", uid, SliceRecord(), nobody, nobody, listed, now_s, times=self._times)
        return replace(view, nodes=self._seen(view, _NOTHING))

    def _rest(self, request: SliceRequest, listed: PoolList, now_s: float) -> RestOfSet:
        """The others of its set, where decisions in its phase look at them."""
        if (
            request.status.phase in ALONE
            and self._times.release_unused_s is None
            and not request.record.is_lapsed  # the setting may be gone since it was given back
        ):
            return NO_REST
        self._sets.see_list(listed)
        return self._sets.rest_of(request, self._ask(listed, now_s))

    def _ask(self, listed: PoolList | None, now_s: float) -> Asking:
        return Asking(
            lambda namespace, owner: self._wish_of(namespace, owner).unwanted is None,
            lambda one: listed is not None and self._look_if_whole(one, listed, now_s),
            now_s,
            self._times.hold_s,
        )

    def _look_if_whole(self, one: SliceRequest, listed: PoolList, now_s: float) -> bool:
        view = SlicesView(one.name, one.uid, one.record, machines_of(one.spec), Refusal(""), listed, now_s)
        view = replace(view, nodes=self._seen(view, _NOTHING))
        return view.is_whole and view.is_sound

    def _is_wanted(self, one: SliceRequest) -> bool:
        return self.wish_for(one).unwanted is None

    def _given(self, request: SliceRequest) -> frozenset[str]:
        """The pools that were its own and are another's now."""
        holding = self.parked.holding_like(request)
        return given_of(Party(request.uid, request.record), holding) if holding else _NO_POOLS

    def _offers(self, request: SliceRequest, listed: PoolList, now_s: float) -> tuple[ParkedPool, ...]:
        """The parked slices of its namespace: their machines have run its tenants' programs before."""
        offered = self.parked.parked_in(request.namespace)
        parked = [one for one in offered if one.status.phase == "Parked" or self._is_going(one, now_s)]
        if not parked or self.settings.paused:
            return ()
        self._see_pools(listed)
        pools = {pool.name: pool for pool in listed.pools}
        slices = [
            ParkedSlice(self._counted(one), pools[one.status.pool])
            for one in parked
            if one.status.pool in pools and pools[one.status.pool].state == "running"
        ]
        members = [self._counted(one) for one in self.set_of(request)]
        return tuple(offers_for(self._counted(request), members, slices, self._room, self._limits))

    def _is_going(self, one: SliceRequest, now_s: float) -> bool:
        """Whether a slice is given back since its job is over, and may be taken over until then.

        Who deletes the SliceRequest of a job that lives wants other machines.
        """
        owner = one.spec.owner
        known = self.owners.get((owner.kind, one.namespace, owner.name)) if owner is not None else None
        is_over = owner is not None and (known is None or known.uid != owner.uid or known.is_deleted)
        since_s = one.record.since_s
        return (is_over or not one.is_deleted) and since_s <= now_s < since_s + OFFERED_S

    def _original_of(self, request: SliceRequest, listed: PoolList) -> NodePool | None:
        """The original's pool for the request's Job, unless another request has adopted it already."""
        owner = request.spec.owner
        if owner is None or not self.settings.gke.adopt:
            return None
        made = listed.originals_by_job.get((request.namespace, owner.job), ())
        return next((pool for pool in made if not self.parked.holders_of(pool.mark)), None)

    def _rival_of(self, request: SliceRequest) -> str:
        """Who else makes a Job of a name of its set, and goes first; empty if nobody does.

        JobSets of different names may: `a` with its `b-c`, and `a-b` with its `c`. There can be one such Job,
        and both slices would have its labels. Who has begun goes first, then the one of the lesser UID.
        """
        owner = request.spec.owner
        if owner is None:
            return ""
        for other in self._jobs.of_jobs(self._contested(request)):
            rival = other.spec.owner
            if rival is None or rival.uid == owner.uid or other.status.phase == "Refused":
                continue
            if self._is_wanted(other) and (other.status.phase != "Pending" or rival.uid < owner.uid):
                whose = f"the {rival.kind} {rival.name[:_SHOWN]}"
                return f"{whose} makes the Job {rival.job[:_SHOWN]} too: one of both needs another name"
        return ""

    def _contested(self, request: SliceRequest) -> Collection[Key]:
        """The Jobs of its set that others may make too; all of them where its set has several owners."""
        if not self._sets.is_mixed(request.set_key):
            return self._jobs.contested(request.set_key)
        owners = (one.spec.owner for one in self.set_of(request))
        return {(request.namespace, owner.job) for owner in owners if owner is not None}

    def _is_in_the_way(self, request: SliceRequest, listed: PoolList) -> bool:
        """Whether others wait for the room of this parked slice: those that cannot take it over."""
        if self._limits == Limits() or self.settings.paused:
            return False
        self._see_pools(listed)
        waiting = (
            self._counted(one)
            for one in self.in_phases("Pending")
            if one.status.no_room and self._is_wanted(one)
        )
        every = map(self._counted, self.requests.values())
        return is_in_the_way(request.uid, waiting, every, self._room, self._limits)

    def _seen(self, view: SlicesView, labels: Mapping[str, str]) -> tuple[SliceNode, ...]:
        return tuple(
            see_node(self.nodes[name], pool, labels, self._work_on(name, view.now_s))
            for pool in dict.fromkeys((*(pool.name for pool in view.pools), view.record.pool))
            for name in sorted(self._of_pool.get(pool, ()))
        )

    def _work_on(self, name: str, now_s: float) -> list[str]:
        """The pods that keep a node, as NAMESPACE/NAME."""
        node, used = self.nodes[name], self._used.get(name)
        if not used:
            return []
        return ["/".join(key) for key, end_s in used.items() if not is_stuck(end_s, node, now_s)]

    def _why_unnamed(self, request: SliceRequest) -> str:
        """What the workers' names lack in DNS, empty if nothing or if nobody knows."""
        owner = request.spec.owner
        found = self.owners.get((owner.kind, request.namespace, owner.name)) if owner is not None else None
        if owner is None or found is None or not self.knows_services:
            return ""
        templates = (one for one in found.templates if one.replicated_job == owner.replicated_job)
        template = next(templates, None)
        if template is None or template.service is None or template.parallelism < 2:
            return ""
        if (request.namespace, template.service) in self.services:
            return ""
        return (
            f"the workers find each other by the headless Service {template.service[:63]}, and there is "
            f"none in the namespace {request.namespace[:63]}: make it, with clusterIP: None"
        )

    def set_of(self, request: SliceRequest) -> list[SliceRequest]:
        """All requests of its set that are known, itself among them."""
        return self._sets.set_of(request.set_key)

    def touched_in_set(self, before: SliceRequest | None, after: SliceRequest | None) -> list[Key]:
        """The others of a set that a change of this one may have waited for."""
        return self._sets.touched(before, after, self._ask(None, 0.0))

    def _why_no_room(self, request: SliceRequest, listed: PoolList, now_s: float) -> str | None:
        if request.status.phase not in BEGINNING:  # counting all slices is not for each look at each of them
            return None
        if self.settings.paused:
            return "the provisioner is paused: its settings say so"
        if not self._has_limits:
            return None
        self._see_pools(listed)
        turns = replace(self._turns, now_s=now_s)
        return self._room.judge(self._counted(request), self._limits, turns=turns)

    def _see_pools(self, listed: PoolList) -> None:
        """Counts anew what the list has changed."""
        if listed is self._counted_list:
            return
        self._counted_list = listed
        pools: dict[str, set[str]] = defaultdict(set)
        for pool in (*listed.pools, *listed.originals):
            pools[pool.mark].add(pool.name)
        before, self._pools_of = self._pools_of, {uid: frozenset(names) for uid, names in pools.items()}
        for uid in before.keys() | self._pools_of.keys():
            if before.get(uid) != self._pools_of.get(uid):
                self._count_holders(uid)

    def _count_holders(self, mark: str) -> None:
        """Counts those anew that have pools with a mark."""
        own = self.request_with(mark)
        for request in (*([own] if own is not None else []), *self.parked.holders_of(mark)):
            self._count(request)

    def _count(self, request: SliceRequest) -> None:
        """Counts a request anew, where there are limits to count for."""
        if self._has_limits:
            self._room.set(self._counted(request))

    def _counted(self, one: SliceRequest) -> Counted:
        if one.uid not in self._chips:
            machines = machines_of(one.spec)
            self._chips[one.uid] = machines.chips if isinstance(machines, Machines) else 0
        pools = self._pools_of.get(one.uid, frozenset())
        if one.status.mark:
            pools |= self._pools_of.get(one.status.mark, frozenset()) & {one.status.pool}
        pools -= self._given(one)
        return Counted(one.uid, one.set_key, one.spec.slice_set.size, self._chips[one.uid], one.record, pools)


def marks_of(listed: PoolList | None) -> Iterable[str]:
    """The requests that pools exist for."""
    return () if listed is None else dict.fromkeys(pool.mark for pool in listed.pools)
