"""Watches everything the provisioner looks at, and keeps the state up with it."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final

from accelet.control.watches import WatchApi, WatchedKind, Watches, WatchFaults
from accelet.kinds.slicerequest import SLICE_REQUESTS
from accelet.kube.apiresources import JOBS, NODES, PODS, SERVICES, ApiResource
from accelet.kube.errors import ForbiddenError, KubeError, NotFoundError
from accelet.kube.nodes import Node, parse_node
from accelet.kube.objects import RawObject, WireObject, read_object
from accelet.kube.podparser import parse_pod
from accelet.kube.pods import Pod
from accelet.kube.watching.source import Scope
from accelet.kube.watching.store import Change
from accelet.provisioner.bookings.book import is_booking
from accelet.provisioner.bookings.booking import PROVISIONING_REQUESTS, Booking, parse_booking
from accelet.provisioner.demand.owners import JobOwner, salvage_owner
from accelet.provisioner.demand.parsers import PARSERS
from accelet.provisioner.metrics import ProvisionerMetrics
from accelet.provisioner.record import SliceRequest, parse_request
from accelet.provisioner.state import Key, OwnerKey, ProvisionerState
from accelet.runtime.logs import Log
from accelet.runtime.tasks import task_group

_log = Log(__name__)

JOB_SETS: Final = ApiResource("JobSet", "jobsets", "jobset.x-k8s.io", "v1alpha2")
LEADER_WORKER_SETS: Final = ApiResource(
    "LeaderWorkerSet", "leaderworkersets", "leaderworkerset.x-k8s.io", "v1"
)
RAY_CLUSTERS: Final = ApiResource("RayCluster", "rayclusters", "ray.io", "v1")
_OWNERS: Final = (JOBS, JOB_SETS, LEADER_WORKER_SETS, RAY_CLUSTERS)
_HEADLESS: Final = Scope(SERVICES, field_selector="spec.clusterIP=None", page_size=500)
_LOOK_AGAIN_S: Final = 30.0


class Watching:
    """The tables of kinds. `see_request` and `see_owner` are told of what must be looked at."""

    def __init__(
        self,
        api: WatchApi,
        state: ProvisionerState,
        metrics: ProvisionerMetrics,
        *,
        see_request: Callable[[Key], None],
        see_owner: Callable[[OwnerKey], None],
        see_pool: Callable[[str], None],
        see_booking: Callable[[Key], None],
    ) -> None:
        self._api, self._state = api, state
        self._faults = WatchFaults.counted(metrics.faults)
        self._tell_request, self._tell_owner, self._tell_pool = see_request, see_owner, see_pool
        self._tell_booking = see_booking
        parse = partial(parse_pod, keeps_environment=False)
        self._watches = self._table(
            WatchedKind(Scope(SLICE_REQUESTS), parse_request, self._see_request, "slice requests"),
            WatchedKind(Scope(NODES, page_size=1000), parse_node, self._see_node),
            WatchedKind(Scope(PODS, page_size=100), parse, self._see_pod),
        )
        self._owners: dict[str, Watches] = {}
        booking = Scope(PROVISIONING_REQUESTS)
        self._bookings = self._table(WatchedKind(booking, parse_booking, self._see_booking, "bookings"))

    @property
    def is_synced(self) -> bool:
        return self._watches.is_synced

    def silence_at(self, now_s: float) -> str:
        """Of what the API server has said nothing for too long, as a sentence; empty where it speaks."""
        return self._watches.silence_at(now_s)

    async def run(self) -> None:
        """Watches until it is cancelled."""
        async with task_group() as group:
            group.create_task(self._watches.run())
            group.create_task(self._watch_services())
            group.create_task(self._watch_bookings())
            for resource in _OWNERS:
                group.create_task(self._watch_owners(resource, PARSERS[resource.kind]))

    async def synced(self) -> None:
        """Waits until requests, nodes and pods have been seen once. Owners are not waited for: what is not
        seen yet is taken neither for gone nor for there.
        """
        await self._watches.synced()

    async def refresh(self) -> None:
        """Brings the state up to date; what a former leader wrote last is in it then.

        Raises:
            KubeError: the API server did not answer.
        """
        await self._watches.refresh()
        # After the requests: of a request that is known, an owner that is not known is gone.
        for kind, table in list(self._owners.items()):
            try:
                await table.refresh()
            except NotFoundError:  # the kind is not served any more, or not just now
                self._state.known_kinds.discard(kind)
            else:
                self._state.known_kinds.add(kind)
        if self._state.bookings.is_known and self._bookings.is_synced:
            with suppress(NotFoundError, ForbiddenError):
                await self._bookings.refresh()

    def _table(self, *kinds: WatchedKind[Any]) -> Watches:
        return Watches(self._api, kinds, self._faults)

    async def _keep_up(self, table: Watches, known: Callable[[], None]) -> None:
        """Watches; once all has been seen, `known` is told, and every request is looked at."""
        async with task_group() as group:
            group.create_task(table.run())
            await table.synced()
            known()
            for key in list(self._state.requests):
                self._tell_request(key)

    async def _watch_owners(self, resource: ApiResource, parse: Callable[[RawObject], JobOwner]) -> None:
        """Watches a kind of owners once the cluster knows it."""
        while True:
            if await self._is_served(resource):
                break
            await asyncio.sleep(_LOOK_AGAIN_S)
        changed = partial(self._see_owner, resource.kind)
        salvage = partial(salvage_owner, resource.kind)
        table = self._table(WatchedKind(Scope(resource), parse, changed, salvage=salvage))
        self._owners[resource.kind] = table
        await self._keep_up(table, lambda: self._state.known_kinds.add(resource.kind))

    async def _watch_services(self) -> None:
        """Watches headless Services. None is missed before they have been seen once."""

        def known() -> None:
            self._state.knows_services = True

        await self._keep_up(self._table(WatchedKind(_HEADLESS, _parse_name, self._see_service)), known)

    async def _watch_bookings(self) -> None:
        """Watches ProvisioningRequests once they can be read; till then nobody has booked."""
        bookings = self._state.bookings
        while True:
            is_readable = await self._are_bookings_readable()
            if is_readable:
                break
            bookings.is_known = is_readable is False
            await asyncio.sleep(_LOOK_AGAIN_S)
        bookings.is_known = False

        def known() -> None:
            bookings.is_known = True

        await self._keep_up(self._bookings, known)

    async def _are_bookings_readable(self) -> bool | None:
        """Whether there are ProvisioningRequests that we may read; None where the cluster did not answer.

        A ClusterRole of before there were bookings forbids it: slices are to be given back there too.
        """
        try:
            await self._ask_for(PROVISIONING_REQUESTS)
        except NotFoundError:
            return False
        except ForbiddenError as error:
            _log.warning("bookings cannot be read; nobody is taken to have booked", error=str(error))
            return False
        except KubeError as error:
            _log.warning("bookings are not seen; anybody may have booked", error=str(error))
            return None
        return True

    async def _is_served(self, resource: ApiResource) -> bool:
        """Whether owners of a kind can be watched by now."""
        try:
            await self._ask_for(resource)
        except NotFoundError:
            return False
        except KubeError as error:
            _log.warning("owners of this kind are not seen", kind=resource.kind, error=str(error))
            return False
        return True

    async def _ask_for(self, resource: ApiResource) -> None:
        """Raises KubeError where a kind cannot be read, and counts it unless there is no such kind."""
        try:
            await self._api.list_page(resource, None, {"limit": "1"})
        except NotFoundError:
            raise
        except KubeError as error:
            self._faults.failed(error)
            raise

    def _see_request(self, change: Change[SliceRequest]) -> None:
        if change.after is not None:
            self._state.set_request(change.after)
        elif change.before is not None:
            self._state.remove_request(change.key, change.before.uid)
        self._tell_request(change.key)
        known = change.after or change.before
        if known is None:
            return
        for key in self._state.touched_in_set(change.before, change.after):
            self._tell_request(key)
        for one in (change.before, change.after):
            for key in self._state.touched_by(one) if one is not None else ():
                self._tell_request(key)
        if known.spec.owner is not None:
            self._tell_booking_of(known.namespace, known.spec.owner.uid)
        if change.after is None:
            self._see_end(known)

    def _see_end(self, gone: SliceRequest) -> None:
        """Others may have its room; its owner may want another."""
        for other in self._state.in_phases("Pending"):
            self._tell_request(other.key)
        if gone.spec.owner is not None:
            self._tell_owner((gone.spec.owner.kind, gone.namespace, gone.spec.owner.name))

    def _see_node(self, change: Change[Node]) -> None:
        before = self._state.remove_node(change.key[1])
        after = self._state.set_node(change.after) if change.after is not None else None
        for pool in dict.fromkeys((before, after)):
            if pool is not None:
                self._tell_pool(pool)

    def _see_pod(self, change: Change[Pod]) -> None:
        for pool in self._state.set_pod(change.key, change.after):
            self._tell_pool(pool)

    def _see_service(self, change: Change[str]) -> None:
        for request in self._state.set_service(change.key, is_there=change.after is not None):
            self._tell_request(request)

    def _see_owner(self, kind: str, change: Change[JobOwner]) -> None:
        key = (kind, *change.key)
        if change.after is not None:
            self._state.owners[key] = change.after
        else:
            self._state.owners.pop(key, None)
        if (
            change.before == change.after
        ):  # its status says how each of its Jobs fares: that is not for all slices
            return
        self._tell_owner(key)
        owner = change.after or change.before
        if owner is None:
            return
        self._tell_booking_of(owner.namespace, owner.uid)
        for request in self._state.of_owner(owner.uid):
            self._tell_request(request.key)

    def _see_booking(self, change: Change[Booking]) -> None:
        bookings = self._state.bookings
        # Our own write of its end is in the book before the watch brings it: `before` tells of that one.
        had = bookings[change.key] is not None or (change.before is not None and is_booking(change.before))
        if change.after is not None:
            bookings.set(change.after)
        else:
            bookings.remove(change.key)
        self._tell_booking(change.key)
        if had and bookings[change.key] is None:  # its slices are wanted no more, if they were
            for key in [key for key in self._state.requests if key[0] == change.key[0]]:
                self._tell_request(key)

    def _tell_booking_of(self, namespace: str, owner: str) -> None:
        booking = self._state.bookings.of_owner(namespace, owner)
        if booking is not None:
            self._tell_booking(booking.key)


def _parse_name(raw: RawObject) -> str:
    return read_object(raw, "Service", WireObject).metadata.name
