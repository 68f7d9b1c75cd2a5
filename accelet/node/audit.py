"""Compares what the kubelet believes with what it was told; where they differ, a resource registers anew."""

import asyncio
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Protocol

from accelet.kubelet.errors import PodResourcesError
from accelet.kubelet.paths import KubeletPaths
from accelet.kubelet.podresources import PodResources
from accelet.runtime.failing import Failing
from accelet.runtime.logs import Log

AUDIT_S = 30.0
SECOND_LOOK_S = 2.0
"""A difference counts only if it is there again: a list may be under way."""

_log = Log(__name__)


class Audited(Protocol):
    """One resource whose list the kubelet was told."""

    @property
    def resource(self) -> str: ...

    def told_healthy(self) -> Set[str] | None:
        """The ids of the healthy devices that the kubelet was told of; None while it is told nothing."""
        ...

    def distrust(self) -> None:
        """The kubelet's own account differs from what it was told: register anew."""
        ...


class Audit:
    """Asks the kubelet now and then; a node where podresources cannot be reached goes without."""

    def __init__(
        self,
        paths: KubeletPaths,
        list_audited: Callable[[], Sequence[Audited]],
        *,
        period_s: float = AUDIT_S,
        second_look_s: float = SECOND_LOOK_S,
    ) -> None:
        self._socket = paths.pod_resources_socket
        self._list_audited = list_audited
        self._period_s = period_s
        self._second_look_s = second_look_s
        self._failing = Failing(_log, "cannot audit", level="info", tells_each=True, named="reason")

    async def run(self) -> None:
        """Audits for ever."""
        async with PodResources(self._socket) as pod_resources:
            while True:
                await asyncio.sleep(self._period_s)
                suspects = await self._differing(pod_resources)
                if not suspects:
                    continue
                await asyncio.sleep(self._second_look_s)
                for audited in suspects & await self._differing(pod_resources):
                    _log.warning("the kubelet's list differs from ours", resource=audited.resource)
                    audited.distrust()

    async def _differing(self, pod_resources: PodResources) -> Set[Audited]:
        try:
            believed = await pod_resources.allocatable()
        except PodResourcesError as error:
            self._failing.failed(error)
            return set()
        self._failing.worked()
        return {audited for audited in self._list_audited() if differs(audited, believed)}


def differs(audited: Audited, believed: Mapping[str, Set[str]]) -> bool:
    """Whether the kubelet believes in other healthy devices than it was told of."""
    told = audited.told_healthy()
    return told is not None and told != set(believed.get(audited.resource, ()))
