"""Keeps up with volumes, their claims and classes, where the scheduler may read them."""

import asyncio
from collections.abc import Callable, Collection
from typing import Any, Protocol, TypeVar

from accelet.kube.apiresources import VOLUME_CLAIMS, VOLUME_CLASSES, VOLUMES, ApiResource
from accelet.kube.errors import ForbiddenError, KubeError, NotFoundError
from accelet.kube.served import ListApi
from accelet.kube.watching.reflector import Reflector
from accelet.kube.watching.source import Scope, Source
from accelet.kube.watching.store import Change
from accelet.runtime.backoff import Backoff
from accelet.runtime.clock import SYSTEM_CLOCK, Clock, within
from accelet.runtime.failing import Failing
from accelet.runtime.logs import Log
from accelet.runtime.supervise import supervise
from accelet.runtime.tasks import task_group
from accelet.runtime.waiting import until_it_works
from accelet.scheduler.cluster.volumes import (
    Volume,
    VolumeClaim,
    VolumeClass,
    parse_volume,
    parse_volume_claim,
    parse_volume_class,
)
from accelet.scheduler.metrics import SchedulerMetrics
from accelet.scheduler.state import SchedulerState

T = TypeVar("T")
_log = Log(__name__)
_KINDS = (VOLUME_CLASSES, VOLUMES, VOLUME_CLAIMS)
_LOOK_AGAIN_S = 60.0
READ_WITHIN_S = 10.0
"""A new leader that cannot read the volumes for so long begins without them."""


class VolumeApi(Source, ListApi, Protocol):
    """The requests it takes; `accelet.kube.client.Client` is one."""


class VolumeWatching:
    """Without the rights to read all three kinds, volumes are left to kube-scheduler; that is said once.

    `changed` is called when something else is to be said of pods, once the state has it.
    """

    def __init__(
        self,
        api: VolumeApi,
        state: SchedulerState,
        metrics: SchedulerMetrics,
        *,
        changed: Callable[[], None],
        clock: Clock = SYSTEM_CLOCK,
        read_within_s: float = READ_WITHIN_S,
        look_again_s: float = _LOOK_AGAIN_S,
    ) -> None:
        self._api, self._state, self._metrics = api, state, metrics
        self._changed, self._clock = changed, clock
        self._read_within_s, self._look_again_s = read_within_s, look_again_s
        self._looked_for = asyncio.Event()
        self._lacking = Failing(
            _log, "volumes may not be read; they are left to kube-scheduler", "volumes are judged"
        )

    async def run(self) -> None:
        """Watches until it is cancelled; the rights may come later, and go."""
        while True:
            if await self._may_read():
                await self._watch()
            self._looked_for.set()
            await self._clock.sleep(self._look_again_s)

    async def synced(self) -> None:
        """Waits until the volumes have been read, or may not be; not for long if the API server fails."""
        try:
            await within(self._clock, self._read_within_s, self._looked_for.wait())
        except TimeoutError:
            _log.warning("cannot read the volumes yet; going on without them", within_s=self._read_within_s)

    async def _may_read(self) -> bool:
        failing = Failing(_log, "cannot tell whether volumes may be read; asking again")

        async def ask() -> bool:
            try:
                for resource in _KINDS:
                    await self._api.list_page(resource, None, {"limit": "1"})
            except (ForbiddenError, NotFoundError) as error:
                self._lacking.failed(error)
                return False
            return True

        def note(error: KubeError, _: float) -> None:
            failing.failed(error)
            self._count(error)

        return await until_it_works(
            ask, KubeError, note, backoff=Backoff(first_s=0.1, most_s=5.0), clock=self._clock
        )

    async def _watch(self) -> None:
        """Keeps the state up until a kind may not be read any more."""
        refused = asyncio.Event()

        def failed(error: KubeError) -> None:
            self._count(error)
            if isinstance(error, ForbiddenError):
                self._lacking.failed(error)
                refused.set()

        reflectors: tuple[Reflector[Any], ...] = (
            self._reflect(VOLUME_CLASSES, parse_volume_class, self._see_class, failed),
            self._reflect(VOLUMES, parse_volume, self._see_volume, failed),
            self._reflect(VOLUME_CLAIMS, parse_volume_claim, self._see_claim, failed),
        )
        try:
            async with task_group() as group:
                tasks = [
                    group.create_task(supervise(f"watch of {one.kind}s", reflector.run, self._count_fault))
                    for one, reflector in zip(_KINDS, reflectors, strict=True)
                ]
                tasks.append(group.create_task(self._begin(reflectors)))
                await refused.wait()
                for task in tasks:
                    task.cancel()
        finally:
            self._tell(self._state.forget_volumes())

    async def _begin(self, reflectors: Collection[Reflector[Any]]) -> None:
        for reflector in reflectors:
            await reflector.synced()
        self._lacking.worked()
        self._tell(self._state.begin_volumes())
        self._looked_for.set()

    def _reflect(
        self,
        resource: ApiResource,
        parse: Callable[[Any], T],
        see: Callable[[Change[T]], None],
        failed: Callable[[KubeError], None],
    ) -> Reflector[T]:
        scope = Scope(resource, page_size=100)
        return Reflector(self._api, scope, parse, changed=see, failed=failed, clock=self._clock)

    def _see_claim(self, change: Change[VolumeClaim]) -> None:
        self._tell(self._state.set_volume_claim(change.key, change.after))

    def _see_volume(self, change: Change[Volume]) -> None:
        self._tell(self._state.set_volume(change.key[1], change.after))

    def _see_class(self, change: Change[VolumeClass]) -> None:
        self._tell(self._state.set_volume_class(change.key[1], change.after))

    def _tell(self, is_news: bool) -> None:
        if is_news:
            self._changed()

    def _count_fault(self) -> None:
        self._metrics.faults.labels("Fault").inc()

    def _count(self, error: KubeError) -> None:
        self._metrics.faults.labels(type(error).__name__).inc()
