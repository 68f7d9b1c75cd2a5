"""Compares what the kubelet believes with what it was told; where they differ, a resource registers anew."""

import asyncio
from collections.abc import Callable, Mapping, Sequence, Set

from accelet.agent.resource import ServedResource
from accelet.kubelet.errors import PodResourcesError
from accelet.kubelet.paths import KubeletPaths
from accelet.kubelet.podresources import PodResources
from accelet.runtime.logs import Log

AUDIT_S = 30.0
SECOND_LOOK_S = 2.0
"""A difference counts only if it is there again: a list may be under way."""

_log = Log(__name__)


class Audit:
    """Asks the kubelet now and then; a node where podresources cannot be reached goes without."""

    def __init__(
        self,
        paths: KubeletPaths,
        served: Callable[[], Sequence[ServedResource]],
        *,
        period_s: float = AUDIT_S,
        second_look_s: float = SECOND_LOOK_S,
    ) -> None:
        self._socket = paths.pod_resources_socket
        self._served = served
        self._period_s = period_s
        self._second_look_s = second_look_s
        self._last_error: str | None = None

    async def run(self) -> None:
        """Audits for ever."""
        async with PodResources(self._socket) as pod_resources:
            while True:
                await asyncio.sleep(self._period_s)
                suspects = await self._differing(pod_resources)
                if not suspects:
                    continue
                await asyncio.sleep(self._second_look_s)
                for resource in suspects & await self._differing(pod_resources):
                    _log.warning("the kubelet's list differs from ours", resource=resource.config.name)
                    resource.plugin.distrust()

    async def _differing(self, pod_resources: PodResources) -> Set[ServedResource]:
        try:
            believed = await pod_resources.allocatable()
        except PodResourcesError as error:
            if str(error) != self._last_error:
                self._last_error = str(error)
                _log.info("cannot audit", reason=str(error))
            return set()
        self._last_error = None
        return {resource for resource in self._served() if differs(resource, believed)}


def differs(resource: ServedResource, believed: Mapping[str, Set[str]]) -> bool:
    """Whether a registered resource's healthy devices are not those the kubelet has."""
    state = resource.state
    if state is None or not state.is_registered:
        return False
    told = {
        str(device) for device, entry in resource.manager.listing.entries.items() if entry.health.is_healthy
    }
    return told != set(believed.get(resource.config.name, ()))
