"""The task controller's process: it watches always and carries tasks out while it leads."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from accelet.control.lease import Terms
from accelet.control.process import ControllerOptions, Surface, refreshed, run_controller
from accelet.gputask.clusterdomain import read_cluster_domain
from accelet.gputask.controller import Controller
from accelet.gputask.events import TaskEvents
from accelet.gputask.metrics import TaskMetrics
from accelet.gputask.originals import Originals
from accelet.gputask.settings import TaskSettings
from accelet.gputask.state import TaskState
from accelet.gputask.watching import Watching
from accelet.gputask.writer import TaskWriter
from accelet.kube.objects import ObjectKey
from accelet.runtime.clock import SYSTEM_CLOCK
from accelet.runtime.probes import Check, make_registry
from accelet.runtime.tasks import task_group

_TERMS: Final = Terms(duration_s=6, renew_within_s=4.0, retry_s=1.0)
"""Everything is written down, so that a change of leader costs nothing but this wait."""


@dataclass(frozen=True, slots=True)
class TaskOptions:
    """`kubeconfig` None stands for the pod's own service account, `http` None for no HTTP port."""

    kubeconfig: Path | None = None
    namespace: str = "kube-system"
    http: tuple[str, int] | None = None
    terms: Terms = _TERMS


async def run_task_controller(options: TaskOptions, settings: TaskSettings) -> None:
    """Runs one replica until it is cancelled; raises what `run_controller` raises."""
    registry = make_registry()
    metrics = TaskMetrics(registry)
    process = ControllerOptions(
        "task-controller", options.kubeconfig, options.namespace, options.http, terms=options.terms
    )
    await run_controller(process, registry, lambda surface: TaskWork(surface, settings, metrics))


class TaskWork:
    """The task controller's part of its process."""

    def __init__(self, surface: Surface, settings: TaskSettings, metrics: TaskMetrics) -> None:
        self._surface, self._settings, self._metrics = surface, settings, metrics
        self._state = TaskState(settings.times)
        self._watching = Watching(surface.client, self._state, metrics, self._see)
        self._controller: Controller | None = None
        self._originals = Originals(surface.client, self._state, metrics) if settings.serve_original else None

    def readiness(self) -> Sequence[Check]:
        silence = self._watching.silence_at(SYSTEM_CLOCK.now_s())
        said = silence or "tasks, Jobs and pods have been seen, and are heard of"
        return [Check("watches", self._watching.is_synced and not silence, said)]

    async def watch(self) -> None:
        async with task_group() as group:
            group.create_task(self._watching.run())
            if self._originals is not None:
                group.create_task(self._originals.watch())

    async def may_stand(self) -> None:
        """At once."""

    async def lead(self) -> None:
        """Carries tasks out while this replica leads, from a state that has the former leader's last act."""
        await self._watching.synced()
        await refreshed(self._watching.refresh)
        surface, settings = self._surface, self._settings
        domain = settings.cluster_domain
        if domain is None:
            domain = await asyncio.to_thread(read_cluster_domain)
        writer = TaskWriter(surface.client, surface.writer, self._state, settings.gate_prefix, domain)
        events = TaskEvents(surface.events.record)
        self._controller = Controller(self._state, writer, self._metrics, events)
        self._metrics.is_leading.set(1)
        try:
            async with task_group() as group:
                group.create_task(self._controller.run())
                if self._originals is not None:
                    group.create_task(self._originals.lead(surface.writer))
        finally:
            self._controller = None
            self._metrics.is_leading.set(0)

    def _see(self, key: ObjectKey) -> None:
        if self._controller is not None:
            self._controller.see(key)
        if self._originals is not None:
            self._originals.see(key)
