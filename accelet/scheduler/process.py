"""The scheduler's process: watches always, places gangs while it leads."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from accelet.control.lease import Terms
from accelet.control.process import ControllerOptions, Surface, refreshed, run_controller
from accelet.control.watches import WatchApi
from accelet.kinds.move import Move
from accelet.kube.watching.reliance import Reliance
from accelet.runtime.blocking import brief_collections, measure_blocking
from accelet.runtime.clock import SYSTEM_CLOCK
from accelet.runtime.logs import Log
from accelet.runtime.probes import Check, make_registry
from accelet.runtime.supervise import supervise
from accelet.runtime.tasks import task_group
from accelet.scheduler.admission.watching import READ_WITHIN_S, Admission
from accelet.scheduler.cards.lingering import PAGE, render_lingering
from accelet.scheduler.controller import Controller, MoveShare
from accelet.scheduler.gangs.grouping import GATE_PREFIX
from accelet.scheduler.metrics import SchedulerMetrics
from accelet.scheduler.moves.book import MoveBook
from accelet.scheduler.moves.watching import MoveWatching
from accelet.scheduler.moves.writer import MoveWriter
from accelet.scheduler.settings import DEFAULT_SETTINGS, SchedulerSettings
from accelet.scheduler.state import SchedulerState
from accelet.scheduler.volumes.watching import VolumeWatching
from accelet.scheduler.watching import Watching
from accelet.scheduler.writer import PlanWriter

_log = Log(__name__)

_TERMS = Terms(duration_s=6, renew_within_s=4.0, retry_s=1.0)
"""Shorter than usual: everything is written down, so that a change of leader costs nothing but this wait."""

GUARDS = ("accelet-assignments", "accelet-plans")
"""The policies without which anybody writes assignments and plans."""


@dataclass(frozen=True, slots=True)
class SchedulerOptions:
    """`kubeconfig` None stands for the pod's own service account, `http` None for no HTTP port."""

    kubeconfig: Path | None = None
    namespace: str = "kube-system"
    gate_prefix: str = GATE_PREFIX
    http: tuple[str, int] | None = None
    terms: Terms = _TERMS
    kueue_within_s: float = READ_WITHIN_S
    """How long a new leader waits to read what Kueue has before it goes on without it."""


class Scheduler:
    """One replica."""

    def __init__(self, options: SchedulerOptions, settings: SchedulerSettings = DEFAULT_SETTINGS) -> None:
        self._options, self._settings = options, settings

    async def run(self) -> None:
        """Runs until it is cancelled; raises what `run_controller` raises."""
        options, registry = self._options, make_registry()
        metrics = SchedulerMetrics(registry)
        settings = self._settings
        state = SchedulerState(
            settings.scheme(),
            options.gate_prefix,
            card_resources=settings.cards.resources,
            card_policy=settings.cards.policy,
        )
        process = ControllerOptions(
            "scheduler",
            options.kubeconfig,
            options.namespace,
            options.http,
            pages={PAGE: lambda: tell_lingering(state, SYSTEM_CLOCK.now_s())},
            terms=options.terms,
        )
        await run_controller(
            process,
            registry,
            lambda surface: SchedulerWork(
                surface, state, settings, metrics, kueue_within_s=options.kueue_within_s
            ),
        )


def tell_lingering(state: SchedulerState, now_s: float) -> bytes:
    """Who was deleted by force and still counts as a holder. A replica that does not lead knows it too."""
    state.let_go(now_s)
    return render_lingering(state.lingering())


def _share_of(surface: Surface, state: SchedulerState) -> MoveShare:
    book = MoveBook(state)
    return MoveShare(book, MoveWriter(surface.writer, book))


class SchedulerWork:
    """The scheduler's part of its process."""

    def __init__(
        self,
        surface: Surface,
        state: SchedulerState,
        settings: SchedulerSettings,
        metrics: SchedulerMetrics,
        *,
        kueue_within_s: float = READ_WITHIN_S,
    ) -> None:
        self._settings, self._metrics, self._say = settings, metrics, surface.events.record
        self._state = state
        self._watching = Watching(surface.client, self._state, metrics, listener=lambda: self._controller)
        self._volumes = VolumeWatching(surface.client, self._state, metrics, changed=self._see_volumes)
        self._api = surface.client
        self._writer = PlanWriter(surface.writer, self._state, metrics)
        self._moves = _share_of(surface, state) if settings.moves.propose else None
        self._move_watching = self._watch_moves(surface.client)
        self._controller: Controller | None = None
        self._admission = Admission(surface, settings.admission, metrics, read_within_s=kueue_within_s)
        self._policies = Reliance(GUARDS, lambda is_in_force: metrics.policies_missing.set(not is_in_force))

    def _see_volumes(self) -> None:
        if self._controller is not None:
            self._controller.see_volumes()

    def _watch_moves(self, api: WatchApi) -> MoveWatching | None:
        if self._moves is None:
            return None

        def changed(move: Move | None) -> None:
            if self._controller is not None:
                self._controller.see_move(move)

        return MoveWatching(api, self._moves.book, metrics=self._metrics, changed=changed)

    def readiness(self) -> Sequence[Check]:
        awaited, silence = self._watching.awaited_owners, self._watching.silence_at(SYSTEM_CLOCK.now_s())
        doubt = self._policies.doubt if self._settings.require_policies else ""
        policies = f"{doubt}; it stands for no election before" if doubt else "in force, or not required"
        owners = f"waits for an answer about the kind {awaited}" if awaited else "every kind was looked for"
        return [
            Check(
                "watches",
                self._watching.is_synced and not silence,
                silence or "pods, nodes and plans have been seen, and are heard of",
            ),
            Check("owners", awaited is None, owners),
            Check("policies", not doubt, policies),
        ]

    async def watch(self) -> None:
        with brief_collections():
            await self._admission.read_levels(self._state)
            async with task_group() as group:
                group.create_task(self._watching.run(), name="watching")
                group.create_task(self._volumes.run(), name="watching volumes")
                if self._settings.admission.kueue:
                    group.create_task(self._admission.watch(), name="watching Kueue")
                if self._move_watching is not None:
                    group.create_task(self._move_watching.run(), name="watching moves")
                if self._settings.require_policies:
                    run = supervise("policies", lambda: self._policies.run(self._api), self._count_fault)
                    group.create_task(run, name="policies")
                group.create_task(measure_blocking(self._metrics.blocked.observe), name="measure blocking")

    def _count_fault(self) -> None:
        self._metrics.faults.labels("Fault").inc()

    async def may_stand(self) -> None:
        """What is written on pods and in plans is believed of nobody before only schedulers can write it."""
        if self._settings.require_policies:
            await self._policies.in_force()

    async def lead(self) -> None:
        """Places gangs while this replica leads, from a state that has the former leader's last act."""
        elected_s = SYSTEM_CLOCK.now_s()
        await self._watching.synced()
        await refreshed(self._watching.refresh)
        try:
            await self._volumes.synced()
            admission = await self._admission.begin(self._state, self._writer)
            if self._move_watching is not None:
                await self._move_watching.synced()
                await refreshed(self._move_watching.refresh)
            self._controller = Controller(
                self._state,
                self._writer,
                self._settings,
                self._metrics,
                self._say,
                api=self._api,
                admission=admission,
                moves=self._moves,
            )
            self._metrics.is_leading.set(1)
            took_s = round(SYSTEM_CLOCK.now_s() - elected_s, 2)
            pods, plans = len(self._state.pods), len(self._state.records)
            _log.info("begins to place gangs", pods=pods, plans=plans, took_s=took_s)
            await self._controller.run()
        finally:
            self._controller = None
            self._admission.end()
            self._metrics.is_leading.set(0)
