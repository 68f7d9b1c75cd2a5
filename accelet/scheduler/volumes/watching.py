"""Keeps up with volumes, their claims and classes, where the scheduler may read them."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

from accelet.control.watches import LOOK_AGAIN_S, WatchApi, WatchedKind, Watches, WatchFaults
from accelet.kube.apiresources import VOLUME_CLAIMS, VOLUME_CLASSES, VOLUMES
from accelet.kube.errors import ForbiddenError, KubeError, NotFoundError
from accelet.kube.watching.source import Scope
from accelet.kube.watching.store import Change
from accelet.runtime.backoff import Backoff
from accelet.runtime.clock import SYSTEM_CLOCK, Clock, within
from accelet.runtime.failing import Failing
from accelet.runtime.logs import Log
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

_log = Log(__name__)
_KINDS = (VOLUME_CLASSES, VOLUMES, VOLUME_CLAIMS)
READ_WITHIN_S = 10.0
"""A new leader that cannot read the volumes for so long begins without them."""


class VolumeWatching:
    """Without the rights to read all three kinds, volumes are left to kube-scheduler; that is said once.

    `changed` is called when something else is to be said of pods, once the state has it.
    """

    def __init__(
        self,
        api: WatchApi,
        state: SchedulerState,
        metrics: SchedulerMetrics,
        *,
        changed: Callable[[], None],
        clock: Clock = SYSTEM_CLOCK,
        read_within_s: float = READ_WITHIN_S,
        look_again_s: float = LOOK_AGAIN_S,
    ) -> None:
        self._api, self._state = api, state
        self._faults = WatchFaults.counted(metrics.faults)
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
            self._faults.failed(error)

        return await until_it_works(
            ask, KubeError, note, backoff=Backoff(first_s=0.1, most_s=5.0), clock=self._clock
        )

    async def _watch(self) -> None:
        """Keeps the state up until a kind may not be read any more."""
        refused = asyncio.Event()

        def failed(error: KubeError) -> None:
            self._faults.failed(error)
            if isinstance(error, ForbiddenError):
                self._lacking.failed(error)
                refused.set()

        watches = Watches(
            self._api,
            (
                WatchedKind(Scope(VOLUME_CLASSES, page_size=100), parse_volume_class, self._see_class),
                WatchedKind(Scope(VOLUMES, page_size=100), parse_volume, self._see_volume),
                WatchedKind(Scope(VOLUME_CLAIMS, page_size=100), parse_volume_claim, self._see_claim),
            ),
            replace(self._faults, failed=failed),
            clock=self._clock,
        )
        try:
            async with task_group() as group:
                tasks = (group.create_task(watches.run()), group.create_task(self._begin(watches)))
                await refused.wait()
                for task in tasks:
                    task.cancel()
        finally:
            self._tell(self._state.forget_volumes())

    async def _begin(self, watches: Watches) -> None:
        await watches.synced()
        self._lacking.worked()
        self._tell(self._state.begin_volumes())
        self._looked_for.set()

    def _see_claim(self, change: Change[VolumeClaim]) -> None:
        self._tell(self._state.set_volume_claim(change.key, change.after))

    def _see_volume(self, change: Change[Volume]) -> None:
        self._tell(self._state.set_volume(change.key[1], change.after))

    def _see_class(self, change: Change[VolumeClass]) -> None:
        self._tell(self._state.set_volume_class(change.key[1], change.after))

    def _tell(self, is_news: bool) -> None:
        if is_news:
            self._changed()
