"""Keeps up with what Kueue has, where the settings say so, and tells the keeper of whoever leads."""

import time
from functools import partial

import msgspec

from accelet.control.process import Surface, refreshed
from accelet.control.watches import OptionalWatches, WatchedKind, WatchFaults
from accelet.kube.errors import KubeError
from accelet.kube.watching.source import Scope
from accelet.kube.watching.store import Change
from accelet.runtime.backoff import Backoff
from accelet.runtime.clock import SYSTEM_CLOCK, within
from accelet.runtime.failing import Failing
from accelet.runtime.logs import Log
from accelet.runtime.waiting import until_it_works
from accelet.scheduler.admission.book import AdmissionBook
from accelet.scheduler.admission.keeping import AdmissionKeeper
from accelet.scheduler.admission.kueue import (
    ADMISSION_CHECKS,
    RESOURCE_FLAVORS,
    WORKLOADS,
    AdmissionCheck,
    KueueWorkload,
    ResourceFlavor,
    parse_admission_check,
    parse_flavor,
    parse_kueue_workload,
)
from accelet.scheduler.admission.telling import AdmissionWriter
from accelet.scheduler.admission.topologies import TOPOLOGIES, parse_topology
from accelet.scheduler.cluster.topology import Scheme
from accelet.scheduler.metrics import SchedulerMetrics
from accelet.scheduler.settings import AdmissionSettings
from accelet.scheduler.state import SchedulerState
from accelet.scheduler.writer import PlanWriter

_log = Log(__name__)
READ_WITHIN_S = 10.0
"""A new leader that cannot read what Kueue has for so long begins without it."""

_UNSEEN = "no Workload is planned before it is admitted"


class Admission:
    """Kueue's part of the process: a book that is kept up always, and a keeper for each leadership."""

    def __init__(
        self,
        surface: Surface,
        settings: AdmissionSettings,
        metrics: SchedulerMetrics,
        *,
        read_within_s: float = READ_WITHIN_S,
    ) -> None:
        self._surface, self._settings, self._metrics = surface, settings, metrics
        self._read_within_s = read_within_s
        self._book = AdmissionBook()
        self._keeper: AdmissionKeeper | None = None
        self._faults = WatchFaults.counted(metrics.faults)
        self._watches = OptionalWatches(
            surface.client,
            (
                WatchedKind(Scope(RESOURCE_FLAVORS, page_size=100), parse_flavor, self._see_flavor),
                WatchedKind(Scope(ADMISSION_CHECKS, page_size=100), parse_admission_check, self._see_check),
                WatchedKind(Scope(WORKLOADS, page_size=100), parse_kueue_workload, self._see_workload),
            ),
            self._faults,
            unseen=_UNSEEN,
        )

    async def read_levels(self, state: SchedulerState) -> None:
        """Takes the levels from Kueue's Topology that the settings name; waits until it is there.

        Kueue lets nobody change the levels of one, so that they are read once.
        """
        name = self._settings.topology
        if not name:
            return

        async def read() -> Scheme:
            return parse_topology(msgspec.Raw(await self._surface.client.get(TOPOLOGIES, None, name)))

        failing = Failing(_log.bind(topology=name), "cannot read the levels", "read the levels")

        def note(error: KubeError, _: float) -> None:
            failing.failed(error)
            self._faults.failed(error)

        scheme = await until_it_works(read, KubeError, note, backoff=Backoff(first_s=0.5, most_s=30.0))
        failing.worked()
        state.cluster.set_scheme(scheme)

    async def watch(self) -> None:
        """Watches until it is cancelled; Kueue may be installed later."""
        await self._watches.run()

    async def begin(self, state: SchedulerState, plans: PlanWriter) -> AdmissionKeeper | None:
        """The keeper of a new leadership, with the room that is promised taken; None where it is off.

        If Kueue's objects cannot be read in time (its conversion webhook is down, say), it takes that room
        later, and until then keeps the nodes closed on which there is any.
        """
        if not self._settings.kueue:
            return None
        writer = AdmissionWriter(self._surface.writer, self._book)
        keeper = AdmissionKeeper(
            self._book, state, writer, plans, self._settings, clock=SYSTEM_CLOCK, wall_s=time.time
        )
        self._keeper = keeper  # from now on `end` gives back what it has taken, however far it came
        try:
            await within(SYSTEM_CLOCK, self._read_within_s, self._catch_up(keeper))
        except TimeoutError:
            _log.warning("cannot read what Kueue has; going on without it", within_s=self._read_within_s)
            self._metrics.kueue_unread.set(1)
            keeper.wait_for(partial(self._catch_up_late, keeper))
        return keeper

    async def _catch_up(self, keeper: AdmissionKeeper) -> None:
        """Knows what Kueue has as of now, and takes the room that is promised."""
        await self._watches.looked_for()
        await refreshed(self._watches.refresh)
        await refreshed(keeper.restore)

    async def _catch_up_late(self, keeper: AdmissionKeeper) -> None:
        await self._catch_up(keeper)
        _log.info("has read what Kueue has")
        self._metrics.kueue_unread.set(0)

    def end(self) -> None:
        """Another one leads; what was kept here is the next leader's."""
        if self._keeper is not None:
            self._keeper.forget()
        self._keeper = None
        self._metrics.kueue_unread.set(0)

    def _see_workload(self, change: Change[KueueWorkload]) -> None:
        if change.after is not None:
            self._book.put(change.after)
        else:
            self._book.remove(change.key)
        if self._keeper is not None:
            self._keeper.see_workload(change.key)

    def _see_check(self, change: Change[AdmissionCheck]) -> None:
        name = change.key[1]
        if change.after is not None:
            self._book.checks[name] = change.after
        else:
            self._book.checks.pop(name, None)
        if self._keeper is not None:
            self._keeper.see_check(name)

    def _see_flavor(self, change: Change[ResourceFlavor]) -> None:
        name = change.key[1]
        if change.after is not None:
            self._book.flavors[name] = change.after
        else:
            self._book.flavors.pop(name, None)
        if self._keeper is not None:
            self._keeper.see_flavor()
