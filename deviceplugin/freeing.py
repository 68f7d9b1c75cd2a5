"""Has the kubelet take devices from pods that have ended, where nothing else tells that they have."""

import time
from collections.abc import Callable
from typing import Final

from accelet.kubelet.errors import PodResourcesError
from accelet.kubelet.podresources import PodResources

FREE_S: Final = 10.0
"""How often the kubelet is asked: once more of what it does at each admission of a pod with devices."""

_LIST_S: Final = 1.0


class EndedPods:
    """For a resource without assignments, whose ledger follows the kubelet's checkpoint alone.

    The kubelet leaves devices of pods that have ended in it until it next gives devices, which it may never
    do while hardware is withheld for these very pods.
    """

    def __init__(self, connect: Callable[[], PodResources], repeat_list: Callable[[], None]) -> None:
        """`repeat_list` tells the kubelet the devices once more, upon which it writes its checkpoint."""
        self._connect, self._repeat_list = connect, repeat_list
        self._pod_resources: PodResources | None = None
        self._asked_at: float | None = None

    async def free(self) -> None:
        """Has them freed, if that was not done lately. The checkpoint tells a moment later."""
        now = time.monotonic()
        if self._asked_at is not None and now - self._asked_at < FREE_S:
            return
        self._asked_at = now
        if self._pod_resources is None:
            self._pod_resources = self._connect()
        try:
            await self._pod_resources.list_all(timeout_s=_LIST_S)
        except PodResourcesError:
            return  # it is asked again; until then the hardware stays withheld, with its reason
        self._repeat_list()
