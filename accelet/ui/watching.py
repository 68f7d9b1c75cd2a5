"""Watches everything that the page shows, as far as the person may see it and the cluster has it."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol

import msgspec

from accelet.control.watches import WatchApi
from accelet.dra.names import GPU_DRIVER
from accelet.dra.preparing.claim import RESOURCE_CLAIMS, parse_held
from accelet.dra.publishing.published import parse_published
from accelet.dra.publishing.slices import RESOURCE_SLICES
from accelet.gputask.objects.task import parse_task
from accelet.kinds.gputask import GPU_TASKS
from accelet.kinds.move import MOVES, parse_move
from accelet.kinds.slicerequest import SLICE_REQUESTS
from accelet.kube.apiresources import CONFIG_MAPS, NODES, PODS, ApiResource
from accelet.kube.errors import ForbiddenError, KubeError, MalformedObjectError, NotFoundError
from accelet.kube.nodes import parse_node
from accelet.kube.objects import ObjectKey
from accelet.kube.podparser import parse_pod
from accelet.kube.watching.reflector import Reflector
from accelet.kube.watching.silence import Hearing, measure_silence
from accelet.kube.watching.source import Scope
from accelet.kube.watching.store import Change
from accelet.overview.bounds import MOST_SENTENCE, cut
from accelet.overview.seen import SeenCluster
from accelet.provisioner.record import parse_request
from accelet.runtime.backoff import Backoff
from accelet.runtime.clock import SYSTEM_CLOCK, Clock, within
from accelet.runtime.supervise import supervise
from accelet.runtime.tasks import task_group
from accelet.scheduler.gangs.workload import parse_workload
from accelet.scheduler.record import SELECTOR, parse_record
from accelet.scheduler.watching import OWNERS

LOOK_AGAIN_S: Final = 30.0
"""After how long it is asked again for what the cluster does not know, or the person may not see."""

_NOTED_S: Final = 2 * LOOK_AGAIN_S
"""How long a failure is told of that did not come again."""

_MOST_MALFORMED: Final = 16
"""Of one kind so many objects are named that cannot be read."""

PROBE_S: Final = 5.0
"""After so long without a word from the API server it is asked for its version, and answers in as long."""

_OPTIONAL: Final = frozenset((RESOURCE_CLAIMS.kind, MOVES.kind, *(one.kind for one in OWNERS)))
"""What goes without a note where it may not be seen: it matters only to those who have some of it."""


@dataclass(frozen=True, slots=True)
class _Kind:
    """What is watched of one kind of objects, and who is told."""

    scope: Scope
    parse: Callable[[msgspec.Raw], Any]
    see: Callable[[Change[Any]], None]

    @property
    def name(self) -> str:
        return self.scope.resource.kind

    @property
    def title(self) -> str:
        """What tells it from kinds of the same name: `pods`, `jobs.batch/v1`."""
        resource = self.scope.resource
        return f"{resource.plural}.{resource.api_version}" if resource.group else resource.plural


class PageApi(WatchApi, Protocol):
    """The requests it takes; `accelet.kube.client.Client` is one."""

    async def get_version(self, silence_s: float = ...) -> bytes: ...


class PageWatching:
    """The reflectors. `changed` is told whenever there may be a new picture."""

    def __init__(
        self, api: PageApi, seen: SeenCluster, *, changed: Callable[[], None], clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._api, self._seen, self._changed, self._clock = api, seen, changed, clock
        self._notes: dict[ApiResource, tuple[str, float]] = {}
        self._malformed: defaultdict[ApiResource, dict[ObjectKey, str]] = defaultdict(dict)
        self._served: set[str] = set()
        self._reflectors: dict[str, Reflector[Any]] = {}
        self._heard_s = clock.now_s()
        self._kinds = self._list_kinds()
        self._unsettled = {kind.scope.resource for kind in self._kinds}

    @property
    def notes(self) -> list[str]:
        """What is not shown, or may be old, in sentences."""
        since_s = self._clock.now_s() - _NOTED_S
        failing = [
            note
            for resource, (note, said_s) in self._notes.items()
            if said_s >= since_s and self._matters(resource)
        ]
        return [*failing, *(note for notes in self._malformed.values() for note in notes.values())]

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds that the cluster knows and the person may see."""
        return tuple(sorted(self._served))

    @property
    def hearing(self) -> Hearing:
        """How old what is known of each resource is: a watch that is up tells nothing of the API server."""
        now_s = self._clock.now_s()
        ages_s = measure_silence(self._reflectors, now_s)
        return Hearing(
            min(now_s - self._heard_s, *ages_s.values()) if ages_s else now_s - self._heard_s, ages_s
        )

    @property
    def is_whole(self) -> bool:
        """Whether all there is was seen once."""
        return not self._unsettled

    async def run(self) -> None:
        """Watches until it is cancelled."""
        async with task_group() as group:
            group.create_task(self._probe(), name="probe")
            for kind in self._kinds:
                name = f"watch of {kind.scope.resource.plural}"
                noted = partial(
                    self._note, kind.scope.resource, "cannot be taken over by a fault; see the log"
                )
                group.create_task(supervise(name, partial(self._watch, kind), noted), name=name)

    async def _probe(self) -> None:
        """Asks the API server whether it is there whenever nothing else tells."""
        while True:
            await self._clock.sleep(PROBE_S)
            if self.hearing.api_s < PROBE_S:
                continue
            try:
                await within(self._clock, PROBE_S, self._api.get_version(PROBE_S))
            except (KubeError, TimeoutError):
                continue
            self._heard_s = self._clock.now_s()

    def _list_kinds(self) -> tuple[_Kind, ...]:
        seen = self._seen
        published = Scope(RESOURCE_SLICES, field_selector=f"spec.driver={GPU_DRIVER}")
        return (
            _Kind(Scope(NODES, page_size=500), parse_node, seen.see_node),
            _Kind(Scope(PODS, page_size=500), partial(parse_pod, keeps_environment=False), self._see_pod),
            _Kind(Scope(CONFIG_MAPS, label_selector=SELECTOR), parse_record, seen.see_record),
            _Kind(published, parse_published, seen.see_slice),
            _Kind(Scope(RESOURCE_CLAIMS), partial(parse_held, driver=GPU_DRIVER), seen.see_claim),
            _Kind(Scope(SLICE_REQUESTS), parse_request, seen.see_request),
            _Kind(Scope(GPU_TASKS), parse_task, seen.see_task),
            _Kind(Scope(MOVES), parse_move, seen.see_move),
            *(
                _Kind(
                    Scope(one), partial(parse_workload, kind=one.kind), partial(seen.see_workload, one.kind)
                )
                for one in OWNERS
            ),
        )

    async def _watch(self, kind: _Kind) -> None:
        """Watches a kind from when the cluster has it, and the person may see it."""
        resource = kind.scope.resource
        backoff = Backoff(first_s=1.0, most_s=LOOK_AGAIN_S)
        while (is_served := await self._is_served(kind)) is not True:
            await self._clock.sleep(LOOK_AGAIN_S if is_served is False else backoff.wait_s)
            backoff = backoff.failed()
        reflector: Reflector[Any] = Reflector(
            self._api,
            kind.scope,
            kind.parse,
            changed=partial(self._take, kind),
            failed=partial(self._fail, resource),
            clock=self._clock,
        )
        self._reflectors[kind.title] = reflector
        async with task_group() as group:
            group.create_task(reflector.run())
            await reflector.synced()
            self._served.add(kind.name)
            self._settle(resource)

    async def _is_served(self, kind: _Kind) -> bool | None:
        """Whether the cluster has the kind and the person may see it; None where it does not answer."""
        resource = kind.scope.resource
        try:
            await self._api.list_page(resource, None, {**kind.scope.query, "limit": "1"})
        except NotFoundError:
            is_served = False
        except ForbiddenError as error:
            self._note(resource, f"are not shown: {error}")
            is_served = False
        except KubeError as error:
            self._note(resource, f"cannot be read at present: {error}")
            return None
        else:
            self._notes.pop(resource, None)
            return True
        self._settle(resource)
        return is_served

    def _matters(self, resource: ApiResource) -> bool:
        """Whether anybody misses what is not shown of this kind."""
        is_of_claims = resource == RESOURCE_CLAIMS
        return self._seen.has_slices if is_of_claims else resource.kind not in _OPTIONAL

    def _settle(self, resource: ApiResource) -> None:
        self._unsettled.discard(resource)
        self._changed()

    def _take(self, kind: _Kind, change: Change[Any]) -> None:
        self._notes.pop(kind.scope.resource, None)
        self._malformed[kind.scope.resource].pop(change.key, None)
        kind.see(change)
        self._changed()

    def _see_pod(self, change: Change[Any]) -> None:
        self._seen.see_pod(change, self._clock.now_s())

    def _fail(self, resource: ApiResource, error: KubeError) -> None:
        if isinstance(error, MalformedObjectError):
            known = self._malformed[resource]
            known[error.namespace, error.name] = f"not shown: {cut(str(error), MOST_SENTENCE)}"
            while len(known) > _MOST_MALFORMED:
                del known[next(iter(known))]
            self._changed()
        else:
            self._note(resource, f"may be old: {error}")

    def _note(self, resource: ApiResource, what: str) -> None:
        self._notes[resource] = f"{resource.plural} {cut(what, MOST_SENTENCE)}", self._clock.now_s()
        self._changed()
