"""The resources that are served now: started, stopped and hinted as configuration and node change."""

import asyncio
from collections.abc import Callable, Iterator, Sequence

from accelet.agent.config import ResourceConfig
from accelet.agent.metrics import AgentMetrics
from accelet.agent.service import ResourceService
from accelet.node.audit import Audited
from accelet.runtime.logs import Log
from accelet.runtime.probes import Check
from accelet.runtime.supervise import supervise

_log = Log(__name__)

MakeService = Callable[[ResourceConfig], ResourceService]


class ResourceServices:
    """Runs one task a resource; a resource that fails by a fault starts again and harms no other."""

    def __init__(self, metrics: AgentMetrics) -> None:
        self._metrics = metrics
        self._running: dict[str, tuple[ResourceService, asyncio.Task[None]]] = {}

    def __iter__(self) -> Iterator[ResourceService]:
        return iter([service for service, _ in self._running.values()])

    async def apply(
        self, resources: Sequence[ResourceConfig], make: MakeService, tasks: asyncio.TaskGroup
    ) -> None:
        """Stops what went or cannot go on as it is configured now, then starts what is new or changed.

        The rest goes on, and what can takes over its other rules: while a resource is registered anew the
        kubelet refuses every pod that it admits.
        """
        wanted = {resource.name: resource for resource in resources}
        for name, (service, task) in list(self._running.items()):
            if wanted.get(name) == service.config:
                continue
            if name in wanted and service.adopt(wanted[name]):
                _log.info("goes on with other rules", resource=name)
            else:
                _log.info("no longer served as it was", resource=name)
                task.cancel()
                await asyncio.wait([task])
                del self._running[name]
                if name not in wanted:
                    service.forget_metrics()
        for resource in resources:
            if resource.name not in self._running:
                made = make(resource)
                run = supervise(made.name, made.run, self._metrics.node.of(made.name).count_fault)
                self._running[made.name] = (made, tasks.create_task(run, name=made.name))

    def check(self) -> Sequence[Check]:
        """One check a resource."""
        return [service.check() for service in sorted(self, key=lambda service: service.name)]

    def audited(self) -> Sequence[Audited]:
        return [audited for service in self if (audited := service.audited) is not None]

    def note_hardware_hint(self) -> None:
        for service in self:
            service.note_hardware_hint()

    def note_kubelet_hint(self) -> None:
        for service in self:
            service.note_kubelet_hint()

    def note_labels(self) -> None:
        for service in self:
            service.note_labels()
