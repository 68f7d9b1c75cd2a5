"""One driver on one node: what it offers, its sockets, its slices and its record, kept in line."""

import asyncio
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from accelet.accelerators.device import UnitId
from accelet.accelerators.inventory import Inventory
from accelet.accelerators.steadyhealth import HealthByUnit, follow_units, steady_inventory
from accelet.dra.errors import DraError, NotYetError, StateError
from accelet.dra.lateapi import Connect, LateApi
from accelet.dra.metrics import DraMetrics
from accelet.dra.pool import Atom, DevicePool
from accelet.dra.preparing.decide import DriverOffer
from accelet.dra.preparing.entry import Entry
from accelet.dra.preparing.grant import hardware_of
from accelet.dra.preparing.hold import held_devices
from accelet.dra.preparing.notices import sick_parts
from accelet.dra.publishing.build import build_pool
from accelet.dra.publishing.keeping import newest_only
from accelet.dra.publishing.served import ServedResource
from accelet.dra.publishing.taints import close_pool, taints_of
from accelet.dra.running.changes import RecordChanges
from accelet.dra.running.claimreader import ClaimReader
from accelet.dra.running.claims import Claims, HeldUnits
from accelet.dra.running.heldhardware import HeldHardware
from accelet.dra.running.messages import health_of
from accelet.dra.running.places import Places
from accelet.dra.running.publisher import Publisher
from accelet.dra.running.reconciler import ClaimReconciler, ShownPods, show_nothing
from accelet.dra.running.records import ClaimRecords
from accelet.dra.running.sockets import Sockets
from accelet.dra.telling.claimconditions import ClaimConditions
from accelet.dra.telling.claimevents import ClaimEvents
from accelet.kubelet.paths import KubeletPaths
from accelet.node.callsunderway import CallsUnderWay
from accelet.runtime.clock import SYSTEM_CLOCK, Clock
from accelet.runtime.logs import Log

HELD_LOOK_S = 5.0

MENDED_LOOK_S = 1.0
"""How often it is looked whether a record that could not be read has gone or can be."""

GATHER_S = 0.1
"""How long further news is waited for before holders are looked at."""

REGISTRATION_S = 10.0
"""How long the first slices wait for the kubelet, which looks for new drivers each second."""

SETTLE_S = 2.0
"""How long an agent that ends waits for the record to be settled."""

_log = Log(__name__)


@dataclass(frozen=True, slots=True)
class DriverOptions:
    """Where one driver works. `boot` is the kernel's boot id, `root` where the host's files are seen."""

    driver: str
    node: str
    root: Path
    kubelet: KubeletPaths
    cdi: Path
    boot: str


class NodeDriver:
    """Publishes and prepares what its resources found while `run` runs."""

    def __init__(
        self,
        options: DriverOptions,
        connect: Connect,
        held_units: HeldUnits,
        metrics: DraMetrics,
        *,
        served_units: Callable[[], Collection[UnitId]] = frozenset,
        shown_pods: ShownPods = show_nothing,
        clock: Clock = SYSTEM_CLOCK,
        calls: CallsUnderWay | None = None,
    ) -> None:
        """`served_units` are those that any resource of the agent serves, in whatever way. `shown_pods` are
        the pods that the kubelet shows: without it nothing is undone that was not unprepared.

        By `clock` goes how long hardware has been bad. `calls` counts those of all services.
        """
        self._served_units = served_units
        self._options = options
        self._clock = clock
        self._held_units = held_units
        self._metrics = metrics
        places = Places(options.kubelet.root, options.cdi, options.driver, "")
        self._records = ClaimRecords(places)
        self._expected: frozenset[str] = frozenset()
        self._served: Mapping[str, ServedResource] = {}
        self._health: Mapping[str, HealthByUnit] = {}
        self._by_plugin: frozenset[UnitId] = frozenset()
        self._looked_at: frozenset[str] = frozenset()
        self._unlooked = asyncio.Event()
        self._held = HeldHardware()
        self._still_held: frozenset[UnitId] = frozenset()
        self._record_problem: str | None = None
        self._offer: DriverOffer | None = None
        self._told_left_out: tuple[str, ...] = ()
        self._sick: Mapping[Atom, str] = {}
        self._events = ClaimEvents(connect, options.node)
        self._conditions = ClaimConditions(connect, options.driver)
        self.publisher = Publisher(connect, options.driver, options.node)
        api = LateApi(connect)
        changes = RecordChanges(self._records, lambda: self._offer, root=options.root, boot=options.boot)
        reader = ClaimReader(api, options.driver, options.node)
        claims = Claims(
            reader,
            changes,
            held_units=held_units,
            metrics=metrics,
            driver=options.driver,
            changed=self._unlooked.set,
        )
        self._reconciler = ClaimReconciler(options.driver, self._records, claims, api, shown_pods)
        self._sockets = Sockets(options.kubelet, options.cdi, options.driver, claims, calls)

    @property
    def problem(self) -> str | None:
        """Why it does not serve; None where it does."""
        return self._record_problem or self._sockets.problem or self.publisher.problem

    def expect(self, resources: Collection[str]) -> None:
        """Nothing is published before each of these has been looked at; others are no longer served."""
        self._expected = frozenset(resources)
        self._served = {name: one for name, one in self._served.items() if name in self._expected}
        self._health = {name: one for name, one in self._health.items() if name in self._expected}
        self._looked_at &= self._expected
        self._refresh()

    def take(self, served: ServedResource) -> Inventory:
        """What the last look at a resource's hardware found; returns it as healthy as all looks say."""
        now_s, before = self._clock.now_s(), self._health_of_units
        known = {**self._held.units, **self._health.get(served.name, {})}
        health = follow_units(known, served.inventory, now_s)
        steady = steady_inventory(served.inventory, health)
        self._health = {**self._health, served.name: health}
        others = {name: one for name, one in self._served.items() if name != served.name}
        self._served = {**others, served.name: replace(served, inventory=steady)}  # the last look comes last
        if self._has_looked:
            self._held.look(self._resources, self._served_units(), before, now_s)
        self._note_sick()
        self._refresh()
        return steady

    @property
    def _has_looked(self) -> bool:
        """Whether each resource was looked at: before that nothing is known to be missing."""
        return self._expected <= self._served.keys()

    @property
    def _resources(self) -> tuple[ServedResource, ...]:
        return newest_only(tuple(self._served.values()))

    @property
    def _health_of_units(self) -> HealthByUnit:
        return {unit: one for units in self._health.values() for unit, one in units.items()}

    def _note_sick(self) -> None:
        sick = sick_parts(self._resources, self._held.health)
        if sick != self._sick:
            self._sick = sick
            self._unlooked.set()  # who holds it is told

    async def run(self) -> None:
        """Serves for ever. When it ends, the record is left as any version of accelet reads it."""
        await self._look_at_holders()
        try:
            async with asyncio.TaskGroup() as tasks:
                for name, run in {
                    "holders": self._follow_holders,
                    "slices": self._publish,
                    "sockets": self._sockets.run,
                    "prepared claims": self._reconciler.run,
                    "events": self._events.run,
                    "conditions": self._conditions.run,
                }.items():
                    tasks.create_task(run(), name=f"{name} of {self._options.driver}")
        finally:
            await self._settle_record()

    async def _settle_record(self) -> None:
        """An older accelet that is installed next reads a record that was settled; any other it refuses."""
        try:
            async with asyncio.timeout(SETTLE_S):
                await self._records.do(self._records.settle)
        except (DraError, TimeoutError) as error:
            _log.warning("record not settled", driver=self._options.driver, reason=str(error) or "no time")

    async def _publish(self) -> None:
        """Publishes for ever, from when the kubelet knows the driver, or does not seem to ask for it.

        A pod that is sent here before that fails, and is tried again only after a minute or more.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(REGISTRATION_S):
                await self._sockets.registered.wait()
        await self.publisher.run()

    def _refresh(self) -> None:
        """Makes anew what is offered of what is known.

        What containers may hold by the device plugin is not offered before it was looked at.
        """
        if not self._has_looked:
            return
        if self._served.keys() - self._looked_at:
            self._unlooked.set()
            return
        options = self._options
        resources = tuple(sorted(self._resources, key=lambda one: one.name))
        steady = self._health_of_units
        taints = taints_of(
            resources,
            failed={unit for unit, one in steady.items() if one.has_failed},
            held_by_device_plugin=self._by_plugin,
            still_held=self._still_held,
            held=self._held.exclusive,
        )
        pool = self._held.keep_in(build_pool(options.driver, options.node, resources), taints)
        if self._record_problem is not None:
            pool = close_pool(pool)
        self._offer = DriverOffer(pool, hardware_of(resources), self._held.elsewhere, self._held.missing)
        self._report_left_out(pool)
        self.publisher.publish(pool)
        healths = {unit: one.health for unit, one in steady.items()}
        self._sockets.tell_health(tuple(health_of(pool, healths)))

    async def _follow_holders(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(HELD_LOOK_S if self._record_problem is None else MENDED_LOOK_S):
                    await self._unlooked.wait()
                    await asyncio.sleep(GATHER_S)  # claims come together
            self._unlooked.clear()
            await self._look_at_holders()

    async def _look_at_holders(self) -> None:
        """Who holds what: claims by our own record, containers by the kubelet's."""
        try:
            entries = await self._records.do(self._records.read)
        except StateError as error:
            self._note_record(str(error))
        except DraError as error:
            _log.error("cannot look after prepared claims", driver=self._options.driver, reason=str(error))
            return
        else:
            self._note_record(None)
            self._take_prepared(entries.values())
        served = self._served
        try:
            self._by_plugin = await self._held_units(hardware_of(tuple(served.values())).units)
        except NotYetError as error:
            _log.warning("cannot look at holders", driver=self._options.driver, reason=str(error))
            return
        self._looked_at = frozenset(served) & self._expected
        self._refresh()

    def _take_prepared(self, entries: Collection[Entry]) -> None:
        """What claims hold, by the record."""
        self._metrics.prepared.labels(self._options.driver).set(len(entries))
        self._still_held = self._reconciler.outdated(entries)
        if self._has_looked:
            held = held_devices(hold for entry in entries for hold in entry.holds)
            self._held.hold(held, self._resources, self._served_units(), self._clock.now_s())
            self._note_sick()
        self._events.tell(entries, self._sick)
        self._tell_conditions(entries)

    def _note_record(self, problem: str | None) -> None:
        """Why the record of prepared claims cannot be read, None where it can.

        Without it nobody knows what is held: nothing is prepared, and no new claim is to come here.
        """
        if problem is not None:
            record = Places(
                self._options.kubelet.root, self._options.cdi, self._options.driver, ""
            ).checkpoint
            problem = f"{problem}. Nothing is prepared until the node was drained and {record} removed"
        if problem != self._record_problem:
            if problem is None:
                _log.info("prepares claims again", driver=self._options.driver)
            else:
                _log.error("cannot prepare claims", driver=self._options.driver, reason=problem)
        self._record_problem = problem

    def _tell_conditions(self, entries: Collection[Entry]) -> None:
        """Not before all was looked at once: what was not looked at is neither ill nor well."""
        if self._has_looked:
            self._conditions.tell(entries, self._sick)

    def _report_left_out(self, pool: DevicePool) -> None:
        self._metrics.unpublished.labels(self._options.driver).set(len(pool.left_out))
        for sentence in pool.left_out:
            if sentence not in self._told_left_out:
                _log.warning("not published", driver=self._options.driver, reason=sentence)
        self._told_left_out = pool.left_out
