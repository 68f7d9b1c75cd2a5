"""Tables of kinds that a controller watches: each kind by itself, so that a fault in one ends no other."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar

from prometheus_client import Counter

from accelet.kube.errors import KubeError
from accelet.kube.objects import RawObject
from accelet.kube.served import ListApi, is_served
from accelet.kube.watching.reflector import Reflector
from accelet.kube.watching.silence import describe_silence, measure_silence
from accelet.kube.watching.source import Scope, Source
from accelet.kube.watching.store import Change
from accelet.runtime.clock import SYSTEM_CLOCK, Clock
from accelet.runtime.supervise import supervise
from accelet.runtime.tasks import task_group

T = TypeVar("T")
LOOK_AGAIN_S: Final = 60.0
"""How long a kind that the cluster does not have is left alone before it is asked for again."""


@dataclass(frozen=True, slots=True)
class WatchedKind(Generic[T]):
    """One row of a table: which objects, how each is read, and who is told of each change.

    `name` stands in logs and in what /readyz says of silence; without one it is the resource's plural.
    Of an object never seen before that `parse` refuses, `salvage` reads what is still to be known.
    """

    scope: Scope
    parse: Callable[[RawObject], T]
    see: Callable[[Change[T]], None]
    name: str = ""
    salvage: Callable[[RawObject], T] | None = None

    @property
    def title(self) -> str:
        return self.name or self.scope.resource.plural


@dataclass(frozen=True, slots=True)
class WatchFaults:
    """Who is told what goes wrong: `failed` requests and malformed objects, `fault` each fault of our own."""

    failed: Callable[[KubeError], None]
    fault: Callable[[], None]

    @classmethod
    def counted(cls, counter: Counter) -> "WatchFaults":
        """Counts each by the name of its error, a fault of our own as `Fault`."""

        def failed(error: KubeError) -> None:
            counter.labels(type(error).__name__).inc()

        return cls(failed, lambda: counter.labels("Fault").inc())


class WatchApi(Source, ListApi, Protocol):
    """The requests that a table takes; `accelet.kube.client.Client` is one."""


class Watches:
    """Watches every kind of a table. The order of its rows is the order in which they are read afresh."""

    def __init__(
        self,
        api: Source,
        kinds: Sequence[WatchedKind[Any]],
        faults: WatchFaults,
        *,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._faults, self._clock = faults, clock
        self._reflectors: dict[str, Reflector[Any]] = {
            kind.title: Reflector(
                api,
                kind.scope,
                kind.parse,
                changed=kind.see,
                failed=faults.failed,
                salvage=kind.salvage,
                clock=clock,
            )
            for kind in kinds
        }

    @property
    def is_synced(self) -> bool:
        """Whether every kind has been seen once."""
        return all(one.is_synced for one in self._reflectors.values())

    def silence_at(self, now_s: float) -> str:
        """Of what the API server has said nothing for too long, as a sentence; empty where it speaks."""
        return describe_silence(measure_silence(self._reflectors, now_s))

    async def run(self) -> None:
        """Watches until it is cancelled."""
        async with task_group() as group:
            for title, reflector in self._reflectors.items():
                name = f"watch of {title}"
                group.create_task(supervise(name, reflector.run, self._faults.fault), name=name)

    async def synced(self) -> None:
        """Waits until every kind has been seen once."""
        for reflector in self._reflectors.values():
            await reflector.synced()

    async def refresh(self) -> None:
        """Reads everything afresh; what a former leader wrote last is known then.

        Raises:
            KubeError: the API server did not answer.
        """
        for reflector in self._reflectors.values():
            await reflector.refresh()


class OptionalWatches:
    """Watches those kinds of a table that the cluster has, and looks for the others from time to time.

    At first the kinds are looked for one after another, and each is seen once before the next. A kind that
    may not be listed counts as one that the cluster does not have, and is logged as `unseen`.
    """

    def __init__(
        self,
        api: WatchApi,
        kinds: Sequence[WatchedKind[Any]],
        faults: WatchFaults,
        *,
        unseen: str,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._api, self._faults, self._unseen, self._clock = api, faults, unseen, clock
        self._tables = [(kind.scope.resource, Watches(api, (kind,), faults, clock=clock)) for kind in kinds]
        self._looked_for = asyncio.Event()
        self._awaited: str | None = kinds[0].scope.resource.kind

    @property
    def awaited(self) -> str | None:
        """The kind that is looked for just now, at first; None once all have been looked for."""
        return self._awaited

    async def looked_for(self) -> None:
        """Waits until every kind has been looked for, and those there are have been seen once."""
        await self._looked_for.wait()

    async def run(self) -> None:
        """Watches until it is cancelled."""
        async with task_group() as group:
            unknown = list(self._tables)
            while True:
                for resource, table in list(unknown):
                    if not self._looked_for.is_set():
                        self._awaited = resource.kind
                    if not await is_served(
                        self._api, resource, self._faults.failed, unseen=self._unseen, clock=self._clock
                    ):
                        continue
                    unknown.remove((resource, table))
                    group.create_task(table.run())
                    if not self._looked_for.is_set():
                        await table.synced()
                self._looked_for.set()
                self._awaited = None
                await self._clock.sleep(LOOK_AGAIN_S)

    async def refresh(self) -> None:
        """Reads afresh what has been seen once.

        Raises:
            KubeError: the API server did not answer.
        """
        for _, table in self._tables:
            if table.is_synced:
                await table.refresh()
