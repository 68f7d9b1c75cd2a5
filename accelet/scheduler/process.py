"""The scheduler's process: watches always, places gangs while it leads."""

import asyncio
import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from prometheus_client import CollectorRegistry

from accelet.control.lease import Election, Terms
from accelet.kube.client import Client
from accelet.kube.errors import KubeError
from accelet.kube.pods import Pod
from accelet.kube.recording.events import EventRecorder
from accelet.kube.watching.store import Change
from accelet.runtime.backoff import Backoff
from accelet.runtime.logs import Log
from accelet.runtime.probes import Check, ProbeServer
from accelet.scheduler.controller import Controller
from accelet.scheduler.gangs.grouping import GATE_PREFIX
from accelet.scheduler.metrics import SchedulerMetrics
from accelet.scheduler.settings import DEFAULT_SETTINGS, SchedulerSettings
from accelet.scheduler.state import SchedulerState
from accelet.scheduler.watching import Watching
from accelet.scheduler.writer import PlanWriter

_log = Log(__name__)

LEASE = "accelet-scheduler"
_THREADS = 8
_TERMS = Terms(duration_s=6, renew_within_s=4.0, retry_s=1.0)
"""Shorter than usual: everything is written down, so that a change of leader costs nothing but this wait."""


@dataclass(frozen=True, slots=True)
class SchedulerOptions:
    """`kubeconfig` None stands for the pod's own service account, `http` None for no HTTP port."""

    kubeconfig: Path | None = None
    namespace: str = "kube-system"
    gate_prefix: str = GATE_PREFIX
    http: tuple[str, int] | None = None
    terms: Terms = _TERMS


class Scheduler:
    """One replica."""

    def __init__(self, options: SchedulerOptions, settings: SchedulerSettings = DEFAULT_SETTINGS) -> None:
        self._options, self._settings = options, settings
        self._state = SchedulerState(
            settings.scheme(),
            options.gate_prefix,
            card_resources=settings.cards.resources,
            card_policy=settings.cards.policy,
        )
        self._registry = CollectorRegistry()
        self._metrics = SchedulerMetrics(self._registry)
        self._controller: Controller | None = None

    async def run(self) -> None:
        """Runs until it is cancelled.

        Raises:
            KubeError: there is no usable way to the API server.
            AddressError: the HTTP port cannot be opened.
        """
        options = self._options
        client = await Client.connect(options.kubeconfig, threads=_THREADS)
        # A renewal of the lease must not wait behind a gang's patches.
        electoral = await Client.connect(options.kubeconfig)
        me = f"{os.environ.get('HOSTNAME', 'scheduler')}-{secrets.token_hex(4)}"
        watching = Watching(
            client, self._state, self._metrics, pod_changed=self._see_pod, changed=self._see_change
        )
        events = EventRecorder(client, "accelet.dev/scheduler", me)
        election = Election(electoral, options.namespace, LEASE, me, terms=options.terms)
        server = self._serve(options, watching)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(watching.run())
                group.create_task(events.run())
                group.create_task(election.run(lambda: self._lead(client, watching, events, election)))
        finally:
            client.close()
            electoral.close()
            if server is not None:
                server.close()

    async def _lead(
        self, client: Client, watching: Watching, events: EventRecorder, election: Election
    ) -> None:
        """Places gangs while this replica leads, from a state that has the former leader's last act."""
        await watching.synced()
        await _insist(watching)
        writer = PlanWriter(client, self._state, self._metrics, lambda: election.is_leader)
        self._controller = Controller(self._state, writer, self._settings, self._metrics, events.record)
        self._metrics.is_leading.set(1)
        try:
            await self._controller.run()
        finally:
            self._controller = None
            self._metrics.is_leading.set(0)

    def _serve(self, options: SchedulerOptions, watching: Watching) -> ProbeServer | None:
        def ready() -> Sequence[Check]:
            return [Check("watches", watching.is_synced, "pods, nodes and plans have been seen once")]

        return ProbeServer(options.http, self._registry, ready) if options.http else None

    def _see_pod(self, change: Change[Pod]) -> None:
        if self._controller is not None:
            self._controller.see_pod(change)

    def _see_change(self) -> None:
        if self._controller is not None:
            self._controller.see_change()


async def _insist(watching: Watching) -> None:
    """Refreshes until it works: to begin with a stale state would be to plan against the last leader."""
    backoff = Backoff(first_s=0.1, most_s=5.0)
    while True:
        try:
            await watching.refresh()
        except KubeError as error:
            _log.warning("cannot read the cluster", error=str(error), next_s=backoff.wait_s)
            await asyncio.sleep(backoff.wait_s)
            backoff = backoff.failed()
        else:
            return
