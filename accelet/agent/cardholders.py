"""Which containers have which cards, told to whoever may know it.

Imported only where that is switched on: it needs the way to the API server.
"""

from collections.abc import Awaitable, Callable, Iterator

from accelet.agent.cardmetrics import CardMetrics, HeldCard, PodMemory
from accelet.agent.cardsensors import CardSensors
from accelet.agent.metricsaccess import MetricsAccess
from accelet.agent.services import ResourceServices
from accelet.kube.client import Client
from accelet.node.pods.view import PodView
from accelet.runtime.probes import Refusal

MOST_HELD = 4096
"""Series for containers: 110 pods of a node have fewer."""


class CardHolders:
    """Implements `accelet.runtime.probes.MetricsGuard`: holders are looked up when somebody may read them.

    Names are those that the API server has for the UIDs in the kubelet's records; who is not known there is
    not told.
    """

    def __init__(
        self,
        connect: Callable[[], Awaitable[Client]],
        pods: PodView,
        services: ResourceServices,
        sensors: CardSensors,
        metrics: CardMetrics,
    ) -> None:
        self._pods, self._services, self._sensors, self._metrics = pods, services, sensors, metrics
        self._access = MetricsAccess(connect)
        self._is_over = False

    def close(self) -> None:
        """Nobody guards the metrics any more: from here on they name no pods."""
        self._is_over = True
        self._metrics.show_holders((), ())

    async def admit(self, token: str | None) -> Refusal | None:
        refusal = await self._access.admit(token)
        if refusal is None and not self._is_over:
            self._metrics.show_holders(tuple(self._held())[:MOST_HELD], self._memory())
        return refusal

    def _held(self) -> Iterator[HeldCard]:
        pods = self._pods.pods()
        found = {
            HeldCard(held.pci, service.name, pod.namespace, pod.name, held.owner.container)
            for service in self._services
            for held in service.held_units()
            if (pod := pods.get(held.owner.pod_uid)) is not None
        }
        yield from sorted(found)

    def _memory(self) -> Iterator[PodMemory]:
        pods = {str(uid): pod for uid, pod in self._pods.pods().items()}
        for uid, regions in self._sensors.memory.used.items():
            pod = pods.get(uid)
            if pod is not None:
                for (pci, region), used in regions.items():
                    yield PodMemory(str(pci), region, pod.namespace, pod.name, used)
