"""The smallest controller: an annotation tells how many entries a ConfigMap has."""

from collections.abc import Sequence
from dataclasses import dataclass

from accelet.control.process import Surface, refreshed
from accelet.control.workqueue import WorkQueue
from accelet.kube.apiresources import CONFIG_MAPS, Body
from accelet.kube.objects import ObjectKey, RawObject, WireObject, read_labels, read_object
from accelet.kube.watching.reflector import Reflector
from accelet.kube.watching.source import Scope
from accelet.runtime.probes import Check

COUNT = "example.com/entries"
COUNTED = Scope(CONFIG_MAPS, label_selector="example.com/counted")


@dataclass(frozen=True, slots=True)
class Counted:
    key: ObjectKey
    version: str
    entries: int
    told: str


class _WireConfigMap(WireObject, frozen=True):
    data: dict[str, str] | None = None


def parse(raw: RawObject) -> Counted:
    wire = read_object(raw, "ConfigMap", _WireConfigMap)
    metadata, told = wire.metadata, read_labels(wire.metadata.annotations).get(COUNT, "")
    key = metadata.namespace or "", metadata.name
    return Counted(key, metadata.resource_version or "", len(wire.data or {}), told)


def decide(seen: Counted) -> Body | None:
    if seen.told == str(seen.entries):
        return None
    return {"metadata": {"resourceVersion": seen.version, "annotations": {COUNT: str(seen.entries)}}}


class Counting:
    def __init__(self, surface: Surface) -> None:
        self._writer = surface.writer
        self._queue: WorkQueue[ObjectKey] = WorkQueue()
        self._maps = Reflector(
            surface.client, COUNTED, parse, changed=lambda change: self._queue.add(change.key)
        )

    def readiness(self) -> Sequence[Check]:
        return [Check("watch", self._maps.is_synced, "config maps have been seen once")]

    async def watch(self) -> None:
        await self._maps.run()

    async def may_stand(self) -> None:
        """At once."""

    async def lead(self) -> None:
        await refreshed(self._maps.refresh)
        for seen in self._maps.store:
            self._queue.add(seen.key)
        await self._queue.work(self._look)

    async def _look(self, key: ObjectKey) -> None:
        if (seen := self._maps.store.get(key)) is not None:
            await self._writer.patch_newest(CONFIG_MAPS, key, seen, read=parse, patch_of=decide)
